"""A token opens the familiars and people it names, and sees nothing else, on whatever address."""

from __future__ import annotations

import json
import stat
from functools import partial

import pytest
from starlette.routing import Route

from familiar_cli.base.config.serving import Grant, GrantFile, RequestRates
from familiar_cli.servers import application, limits
from familiar_cli.servers.web.site import PAGES
from tests.support.server import Drop, Fail
from tests.support.serving import assistant, serving, user
from tests.support.world import data, home, live, run

ANNA = {"X-Familiar-User": "discord:anna"}
SECRET = "zanzibar"
KEY = "a-token-that-nobody-guesses-0123456789"


@pytest.fixture
def tenant(serve):
    """A server with two familiars, and the headers of a token for one and for Discord."""
    live("ada")
    live("bo-secret", notes=f"- The word is {SECRET}.\n")
    serve("Hello.")

    def headers(**most: int) -> dict[str, str]:
        token = GrantFile(home()).add(Grant("", "", ("ada",), ("discord:*",), **most))[1]
        return {"Authorization": f"Bearer {token}"}

    return headers


def requests_of(path: str) -> list[tuple[str, str, object]]:
    """Return requests for an address that try to reach the other familiar."""
    body = {"model": "bo-secret", "messages": [user("Hello"), assistant("Hi")]}
    chat = {**body, "chat": "x", "directory": "y", "lines": [{}], "input": "x"}
    path = path.replace("{model:path}", "bo-secret").replace("{familiar}", "bo-secret")
    return [
        ("GET", f"{path}?model=bo-secret&channel=x&persona=bo-secret&familiar=bo-secret&q=x", None),
        ("POST", f"{path}?persona=bo-secret&familiar=bo-secret", chat),
        ("POST", path, {**body, "messages": [user("Hello")]}),
    ]


def test_no_address_shows_another_familiar(tenant, monkeypatch) -> None:
    known = []
    monkeypatch.setattr(application, "Route", lambda *a, **k: known.append(a[0]) or Route(*a, **k))
    with serving() as server:
        paths = {*known, *(page.path for page in PAGES), "/f/bo-secret/", "/f/bo-secret/memory"}
        headers = {**tenant(), **ANNA}
        assert {"/v1/chat/completions", "/familiar/events", "/mcp/{familiar}"} <= paths
        for path in sorted(paths):
            for method, asked, body in requests_of(path):
                reply = server.client.request(method, asked, json=body, headers=headers)
                shown = reply.text.replace("bo-secret+memory", "").replace(asked, "")
                assert SECRET not in shown, asked
                assert str(home()) not in shown, asked
                if reply.status_code < 400:
                    assert "bo-secret" not in shown, asked
                else:
                    assert "Familiars here: 'bo-secret'" not in shown
                    assert "ada, bo-secret" not in shown
    assert run("history", "show", "--familiar", "bo-secret").exit_code == 4  # it has no turns


def test_nobody_enters_a_room_of_the_owners_own(tenant) -> None:
    run("hear", "Hello", "--channel", "den", "--familiar", "ada")
    run("hear", "Hello", "--as", "discord:bo", "--channel", "town", "--familiar", "ada")
    with serving() as server:
        for channel, code in (("cli", 403), ("den", 403), ("town", 200)):
            headers = {**tenant(), **ANNA, "X-Familiar-Channel": channel}
            assert server.post(messages=[user("Hello")], headers=headers).status_code == code
        run("hear", "Hello", "--as", "discord:anna", "--channel", "den", "--familiar", "ada")
        headers = {**tenant(), **ANNA, "X-Familiar-Channel": "den"}
        assert server.post(messages=[user("Hello")], headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/familiar/context", "/v1/responses"])
def test_a_bot_adds_people_to_a_group_by_its_kind_and_nobody_adds_themselves(tenant, path) -> None:
    kind, room = {"X-Familiar-Kind": "group_dm"}, {"X-Familiar-Channel": "squad"}
    anna, bo = ({"X-Familiar-User": f"discord:{name}", **room} for name in ("anna", "bo"))
    alone = GrantFile(home()).add(Grant("", "", ("ada",), ("discord:bo",)))[1]
    with serving() as server:

        def status(headers: dict[str, str], path: str = path) -> int:
            body = {"model": "ada", "messages": [user("Hello")], "input": "Hello"}
            return server.client.post(path, json=body, headers={**tenant(), **headers}).status_code

        assert status({**anna, **kind}, "/v1/chat/completions") == 200
        assert status(bo) == 403
        assert status({**bo, "X-Familiar-Kind": "private"}) == 403
        assert status({**bo, **kind, "Authorization": f"Bearer {alone}"}) == 403
        body = {"model": "ada", "input": "Hello", "previous_response_id": "resp_1"}
        headers = {**bo, **kind, "Authorization": f"Bearer {alone}"}
        assert server.client.post("/v1/responses", json=body, headers=headers).status_code == 404
        assert status({**bo, **kind}) == 200


def test_lists_and_errors_name_only_what_the_token_opens(tenant) -> None:
    with serving() as server:
        headers = tenant()
        models = server.client.get("/v1/models", headers=headers).json()["data"]
        assert [one["id"] for one in models] == ["ada", "ada+memory"]
        missing = server.post(model="bo-secret", messages=[user("Hello")], headers=headers)
        unknown = server.post(model="nobody", messages=[user("Hello")], headers=headers)
    assert missing.status_code == unknown.status_code == 404
    assert (
        missing.json()["error"]["message"].replace("bo-secret", "nobody")
        == (unknown.json()["error"]["message"])
    )


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (ANNA, 200),
        ({}, 403),
        ({"X-Familiar-User": "irc:anna"}, 403),
        ({"X-Familiar-User": "discordx:anna"}, 403),
        ({"X-OpenWebUI-User-Id": "anna"}, 403),
    ],
)
def test_a_token_speaks_for_its_people_alone(tenant, sent, status) -> None:
    with serving() as server:
        headers = {**tenant(), **sent}
        reply = server.post(messages=[user("Hello")], headers=headers)
        assert reply.status_code == status
        if status == 403:
            assert reply.json()["error"]["type"] == "permission_error"
            assert reply.json()["error"]["code"] == "not_covered"
            asked = server.client.get("/familiar/events?model=ada&channel=x", headers=headers)
            assert asked.status_code == 403
    kept = run("history", "show", "--familiar", "ada")
    assert kept.exit_code == (0 if status == 200 else 4)  # not found: there are no turns


@pytest.mark.parametrize(
    ("where", "table"),
    [("me.toml", ""), ("me.toml", "[owners.scott]"), ("ada/character.toml", "[me]")],
)
@pytest.mark.parametrize(
    ("users", "status"),
    [
        (("discord:*",), 403),
        (("*:*", "discord:o[w]ner", "discord:Owner"), 403),
        (("discord:*", "discord:owner"), 200),
        (("*",), 200),
    ],
)
def test_no_pattern_covers_an_account_of_an_owner(serve, where, table, users, status) -> None:
    live("ada")
    serve("Hello.")
    with (home() / where).open("a", encoding="utf-8") as file:
        file.write(f'\n{table}\nalso = ["discord:owner"]\n')
    token = GrantFile(home()).add(Grant("", "", ("ada",), users))[1]
    headers = {"Authorization": f"Bearer {token}", "X-Familiar-User": "discord:owner"}
    with serving() as server:
        assert server.post(messages=[user("Hello")], headers=headers).status_code == status
        asked = server.client.get("/familiar/events?model=ada&channel=x", headers=headers)
        assert asked.status_code == status
        other = {**headers, "X-Familiar-User": "discord:anna"}
        assert server.post(messages=[user("Hello")], headers=other).status_code == 200
        days = server.client.get("/sessions/search?q=Hello", headers=other)  # what all have said
        assert days.status_code == (200 if users == ("*",) else 403)


@pytest.mark.parametrize(("users", "status"), [("cli:*", 403), ("s*", 403), ("cli:scott", 200)])
def test_a_header_names_another_owner(serve, users, status) -> None:
    live("ada")
    server_of_model = serve("Hello.")
    run("me", "--as", "scott", "--name", "Scott", "--description", "-", stdin="A baker.")
    token = GrantFile(home()).add(Grant("", "", ("ada",), (users,)))[1]
    headers = {"Authorization": f"Bearer {token}", "X-Familiar-User": "scott"}
    with serving() as server:
        assert server.post(messages=[user("Hello")], headers=headers).status_code == status
        nobody = {**headers, "X-Familiar-User": "brian"}
        refused = server.post(messages=[user("Hello")], headers=nobody)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-Familiar-User")
    if status == 200:
        assert "A baker." in server_of_model.requests[0].body.decode()
        turn = data("history", "show", "--familiar", "ada")["turns"][-2]
        assert (turn["author"]["user_id"], turn["author"]["display_name"]) == ("scott", "Scott")


@pytest.mark.parametrize(("users", "status"), [("cli:*", 403), ("cli:user", 200)])
def test_a_request_that_names_nobody_needs_the_owner_by_name(serve, users, status) -> None:
    live("ada")
    serve("Hello.")
    token = GrantFile(home()).add(Grant("", "", ("ada",), (users,)))[1]
    with serving() as server:
        headers = {"Authorization": f"Bearer {token}"}
        assert server.post(messages=[user("Hello")], headers=headers).status_code == status


@pytest.mark.parametrize("step", [Fail(503, "gpu at /srv/a"), Fail(400, "no sk-abc"), Drop()])
def test_only_the_owner_is_told_which_server_failed(serve, step) -> None:
    live("ada")
    chat, owner = serve(*[step] * 20), f"{KEY}-owner"
    limited = GrantFile(home()).add(Grant("", "", ("ada",), ("discord:*",)))[1]
    data("config", "set", "llm.retries", "0")
    with serving(tokens=(KEY, owner), owner_tokens=frozenset({owner})) as server:
        for token in (limited, KEY, owner):
            headers = {"Authorization": f"Bearer {token}", **ANNA}
            for stream in (False, True):
                reply = server.post(messages=[user("Hello")], headers=headers, stream=stream)
                told = reply.json()["error"]["message"]
                names = [word for word in (chat.base_url, "/srv/a", "sk-abc") if word in told]
                assert bool(names) == (token == owner)
                assert "server" in told or "reply" in told


def test_a_name_in_a_message_is_no_way_around(tenant) -> None:
    with serving() as server:
        messages = [{**user("I am the owner"), "name": "Zelda"}]
        headers = {**tenant(), **ANNA, "X-Familiar-User-Name": "Anna"}
        assert server.post(messages=messages, headers=headers).status_code == 403


def test_limits_are_by_token_and_by_person(tenant) -> None:
    with serving() as server:
        per_token, per_person = tenant(per_minute=2), tenant(person_per_minute=1)
        replies = [
            server.post(messages=[user(f"Hello {n}")], headers={**per_token, **ANNA})
            for n in range(3)
        ]
        assert [one.status_code for one in replies] == [200, 200, 429]
        assert 0 < int(replies[-1].headers["retry-after"]) <= 60
        assert replies[-1].json()["error"]["code"] == "rate_limit_exceeded"
        found = [
            server.post(messages=[user("Hi")], headers={**per_person, "X-Familiar-User": who})
            for who in ("discord:a", "discord:a", "discord:b")
        ]
    assert [one.status_code for one in found] == [200, 429, 200]
    assert found[1].headers["retry-after"]


def test_reading_and_streams_and_long_chats_count(tenant, monkeypatch) -> None:
    monkeypatch.setitem(limits.MOST_STREAMS, "person", 1)
    where = "/familiar/events?model=ada&channel=x&user=a"
    with serving() as server:
        get = partial(server.client.get, headers={**tenant(per_minute=2), **ANNA})
        assert [get("/v1/models").status_code for _ in range(3)] == [200, 200, 429]
        person = {**tenant(person_per_minute=1), **ANNA}
        assert [server.client.get(where, headers=person).status_code for _ in range(2)] == [
            200,
            429,
        ]
        stream = {**tenant(), **ANNA, "accept": "text/event-stream"}
        with server.client.stream("GET", where, headers=stream) as first:
            assert first.status_code == 200
            refused = server.client.get(where, headers=stream)
            assert (refused.status_code, refused.json()["error"]["code"]) == (
                429,
                "too_many_streams",
            )
            assert refused.json()["error"]["type"] == "rate_limit_error"
        chat = [user(f"Line {n}") for n in range(10_000)]
        body = {"model": "ada", "messages": chat}
        for limit in ("per_minute", "person_per_day"):
            headers = {**tenant(**{limit: 9_999}), **ANNA}
            sent = server.client.post("/familiar/turns", json=body, headers=headers)
            assert (sent.status_code, "9,999 messages" in sent.text) == (413, True)
        headers = {**tenant(per_day=10_000, person_per_day=10_000), **ANNA}
        assert server.client.get("/v1/models", headers=headers).status_code == 200
        assert server.client.post("/familiar/turns", json=body, headers=headers).status_code == 429
        few = {**body, "messages": chat[:1]}  # what was refused does not count for Anna
        assert server.client.post("/familiar/turns", json=few, headers=headers).status_code == 200
        headers = {**tenant(person_per_day=10_000), **ANNA}
        sent = [server.client.post("/familiar/turns", json=body, headers=headers) for _ in "ab"]
        assert [one.status_code for one in sent] == [200, 429]


def test_a_window_moves(monkeypatch) -> None:
    at = [0.0]
    monkeypatch.setattr("familiar_cli.base.config.serving.stopwatch_s", lambda: at[0])
    rates = RequestRates()
    assert [rates.count(("a",), 2, 3) for _ in range(3)] == [0.0, 0.0, 60.0]
    at[0] = 61.0
    assert rates.count(("a",), 2, 3) == 0.0
    assert rates.count(("a",), 2, 3) == 86_400.0 - 61.0
    assert [rates.count(("b",), 5, 0, many) for many in (3, 2, 1, 6)] == [0.0, 0.0, 60.0, 60.0]


def test_the_usual_token_still_opens_everything(tenant) -> None:
    tenant()
    with serving(tokens=(KEY,)) as server:
        assert server.client.get("/v1/models").status_code == 401
        headers = {"Authorization": f"Bearer {KEY}"}
        models = server.client.get("/v1/models", headers=headers).json()["data"]
        assert {one["id"] for one in models} >= {"ada", "bo-secret"}
        assert server.post(messages=[user("Hello")], headers=headers).status_code == 200


def test_a_token_is_kept_as_a_hash_and_removed_at_once() -> None:
    live("ada")
    made = data("serve", "token", "add", "--familiar", "ada", "--user", "*", "--per-minute", "20")
    file = home() / "serve-tokens.json"
    assert made["token"] not in file.read_text("utf-8")
    assert json.loads(file.read_text("utf-8"))["tokens"][0]["per_minute"] == 20
    assert data("serve", "token", "list")["tokens"] == [
        {key: value for key, value in made.items() if key != "token"}
    ]
    headers = {"Authorization": f"Bearer {made['token']}"}
    with serving() as server:
        assert server.client.get("/v1/models", headers=headers).status_code == 200
        run("serve", "token", "remove", "ada-1")
        run("serve", "token", "add", "--familiar", "ada", "--user", "*")
        assert server.client.get("/v1/models", headers=headers).status_code == 401
    assert run("serve", "token", "remove", "nobody").exit_code == 4


@pytest.mark.posix
def test_the_file_of_tokens_is_its_owners() -> None:
    live("ada")
    run("serve", "token", "add", "--familiar", "ada", "--user", "*")
    assert stat.S_IMODE((home() / "serve-tokens.json").stat().st_mode) == 0o600
