"""The door, the frame and the refusals, over a real connection."""

from __future__ import annotations

import re

import pytest

from familiar_cli.base.times import clock
from familiar_cli.servers.web.asking import NAVIGATION
from familiar_cli.servers.web.site import PAGES, Door
from tests.support.browsing import looking
from tests.support.cases import each
from tests.support.serving import serving
from tests.support.world import live, run

READ = [page.path for page in PAGES if page.method == "GET" and "{" not in page.path]
DRAWN = sorted({*READ} - {"/find", "/distill/status", "/sessions/search"})


@pytest.fixture
def client():
    live("ada")
    with looking() as found:
        yield found


@pytest.fixture
def stranger():
    live("ada")
    with serving(api=False) as server:
        yield server.client


@each("path", READ)
def test_without_the_cookie_every_page_is_locked(stranger, path) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 403
    assert "familiar web" in answer.text


@each("path", DRAWN)
def test_a_fresh_familiar_has_every_page(client, path) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.text.count("<h1>") == 1
    assert answer.text.endswith("</html>")


@each("path", DRAWN)
def test_five_entries_lead_everywhere_and_one_says_where_a_page_is(client, path) -> None:
    navigation = client.get(path).text.partition("<nav")[2].partition("</nav>")[0]
    rooms = re.findall(r'href="[^"]*" (aria-current="\w+")?>(\w+)</a>\n', navigation)
    assert [name for _, name in rooms] == list(NAVIGATION)
    assert sum(bool(mark) for mark, _ in rooms) == 1
    assert navigation.count('aria-current="page"') == 1


def test_the_link_opens_the_pages_once() -> None:
    live("ada")
    door = Door()
    with serving(api=False, door=door) as server:
        first = server.client.get(door.link)
        cookie = first.headers["set-cookie"]
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert server.client.get("/").status_code == 200
        server.client.cookies.clear()
        again = server.client.get(door.link)
        assert again.status_code == 403
        assert "already used" in again.text
        assert "set-cookie" not in again.headers


def test_a_look_ahead_does_not_use_the_link_up() -> None:
    live("ada")
    door = Door()
    with serving(api=False, door=door) as server:
        assert server.client.head(door.link).status_code == 403
        ahead = server.client.get(door.link, headers={"Sec-Purpose": "prefetch;prerender"})
        assert ahead.status_code == 403
        assert server.client.get(door.link).status_code == 303


def test_the_link_works_for_ten_minutes(monkeypatch) -> None:
    door = Door()
    token = door.link.partition("=")[2]
    made_at_s = clock.stopwatch_s()
    monkeypatch.setattr("familiar_cli.servers.web.site.stopwatch_s", lambda: made_at_s + 601)
    assert not door.take(token)
    monkeypatch.undo()
    assert not door.take(token)


@pytest.mark.parametrize(
    ("host", "told"), [("127.0.0.1", "on this machine only"), ("0.0.0.0", "listens on 0.0.0.0")]
)
def test_the_foot_of_a_page_tells_where_the_server_listens(host, told) -> None:
    live("ada")
    door, token = Door(), "a-token-that-nobody-guesses-0123456789"
    with serving(host=host, door=door, tokens=(token,), hosts=("127.0.0.1",)) as server:
        port = server.url.rpartition(":")[2]
        base = f"http://127.0.0.1:{port}"
        server.client.get(base + door.link, headers={"Host": f"127.0.0.1:{port}"})
        assert told in server.client.get(base + "/").text


@pytest.mark.parametrize("token", ["", "x", "é", "a" * 5000])
def test_a_wrong_token_opens_nothing(stranger, token) -> None:
    answer = stranger.get("/", params={"token": token})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_a_stale_cookie_opens_nothing(stranger) -> None:
    port = stranger.base_url.port
    stale = {"cookie": f"familiar-{port}=guess; x={{"}
    assert stranger.get("/", headers=stale).status_code == 403


def test_a_page_may_load_nothing_from_elsewhere(client) -> None:
    headers = client.get("/").headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


@each("path", DRAWN)
def test_nothing_is_inline(client, path) -> None:
    text = client.get(path).text
    assert "<style" not in text
    assert " style=" not in text
    assert "javascript:" not in text
    scripts = re.findall(r'<script src="/static/[a-z0-9-]+\.js" defer></script>', text)
    assert text.count("<script") == len(scripts) > 0


@pytest.mark.parametrize(
    "name", ["page.css", "page.js", "talk.js", "relations.js", "d3-force.js", "icon.svg"]
)
def test_what_pages_load_is_there_and_not_sent_twice(stranger, name) -> None:
    first = stranger.get(f"/static/{name}")
    assert first.status_code == 200
    tag = {"if-none-match": first.headers["etag"]}
    assert stranger.get(f"/static/{name}", headers=tag).status_code == 304


@pytest.mark.parametrize("path", ["/static/nothing", "/static/..%2fsite.py", "/turns/x/y"])
def test_there_is_a_page_that_says_that_there_is_none(client, path) -> None:
    assert client.get(path).status_code == 404


def test_a_page_from_elsewhere_reads_nothing(client) -> None:
    headers = {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "same-site"}],
)
def test_a_form_from_elsewhere_changes_nothing(client, headers) -> None:
    assert client.post("/journal/HEAD/undo", headers=headers).status_code == 403


def test_several_familiars_have_a_page_each() -> None:
    live("ada", notes="Ada's note\n")
    live("bo", notes="Bo's note\n")
    with looking() as client:
        first = client.get("/")
        assert first.status_code == 200
        assert 'href="/f/bo/"' in first.text
        assert "Ada" not in first.text
        page = client.get("/f/bo/turns").text
        assert 'href="/f/bo/memory"' in page
        assert client.get("/f/cy/turns").status_code == 404


def test_the_chosen_familiar_is_the_one_without_a_name() -> None:
    live("ada")
    live("bo")
    assert run("use", "bo").exit_code == 0
    with looking() as client:
        assert "<h1>bo</h1>" in client.get("/").text
    with looking(familiar_id="ada") as client:
        assert "<h1>ada</h1>" in client.get("/").text


def test_a_home_without_familiars_says_how_to_make_one() -> None:
    with looking() as client:
        answer = client.get("/")
    assert answer.status_code == 200
    assert "familiar init" in answer.text


def test_the_server_for_chat_programs_has_the_page_too() -> None:
    live("ada")
    door, token = Door(), "a-token-that-nobody-guesses-0123456789"
    with serving(door=door, tokens=(token,)) as server:
        assert "needed" in server.client.get("/v1/models").json()["error"]["message"]
        wrong = {"authorization": "Bearer wrong"}
        told = server.client.get("/v1/models", headers=wrong).json()["error"]["message"]
        assert "Unknown token" in told
        assert server.client.get("/").status_code == 403
        assert server.client.get("/distill/status").status_code == 401
        server.client.get(door.link)
        assert server.client.get("/distill/status").status_code == 200
        assert server.client.get("/").status_code == 200
        assert server.client.get("/v1/models").status_code == 401


@pytest.mark.parametrize("path", ["/nope", "/v1/nope", "/v1/chat/completions", "/turns/x/y/z"])
def test_a_browser_is_shown_a_page_for_an_error_with_a_way_back(path) -> None:
    live("ada")
    with looking(api=True) as client:
        answer = client.get(path, headers={"accept": "text/html,*/*;q=0.8"})
        assert answer.status_code in {404, 405}
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert 'href="/"' in answer.text


def test_a_browser_under_a_foreign_name_is_shown_a_page_and_a_program_json() -> None:
    live("ada")
    with serving() as server:
        page = server.client.get("/", headers={"host": "<i>.example", "accept": "text/html"})
        told = server.client.get("/", headers={"host": "evil.example"})
    assert page.status_code == told.status_code == 421
    assert "host name" in page.text
    assert "host name" in told.json()["error"]["message"]
