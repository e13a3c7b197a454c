"""`/metrics` counts what the server does, and names nobody."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from prometheus_client.parser import text_string_to_metric_families

from familiar_cli.base.config.serving import Grant, GrantFile
from tests.support.server import Say
from tests.support.serving import serving, user
from tests.support.world import home, live

KEY = "a-token-that-nobody-guesses-0123456789"
CHAT = "/v1/chat/completions"


def samples(reply) -> dict[tuple[str, ...], float]:
    """Return each sample by its name and the values of its labels."""
    assert reply.status_code == 200
    families = text_string_to_metric_families(reply.text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_requests_are_counted_by_route_and_status(serve) -> None:
    live("ada")
    serve("Hello.")
    with serving() as server:
        before = samples(server.client.get("/metrics"))
        assert before["familiar_open_familiars",] == before["familiar_turns_under_way",] == 0
        assert server.post(messages=[user("Hello")]).status_code == 200
        assert server.post(model="zoe", messages=[user("Hello")]).status_code == 404
        server.client.get("/v1/models/ada")
        server.client.get("/nowhere/zoe")
        reply = server.client.get("/metrics")
    found = samples(reply)
    assert reply.headers["content-type"].startswith("text/plain; version=")
    assert found["familiar_requests_total", CHAT, "200"] == 1
    assert found["familiar_requests_total", CHAT, "404"] == 1
    assert found["familiar_requests_total", "/v1/models/{model:path}", "200"] == 1
    assert found["familiar_requests_total", "none", "404"] == 1
    assert found["familiar_requests_total", "/metrics", "200"] == 1
    assert found["familiar_request_duration_seconds_count", CHAT] == 2
    assert found["familiar_open_familiars",] == 1
    assert "ada" not in reply.text
    assert "zoe" not in reply.text


def test_a_reply_that_is_being_made_is_counted(serve) -> None:
    live("ada")
    hold = threading.Event()
    scripted = serve(Say("The red boat lies in the harbour.", hold=hold))
    with serving() as server, ThreadPoolExecutor(1) as client:
        asked = client.submit(server.post, messages=[user("Hello")])
        try:
            while not scripted.requests:
                hold.wait(0.02)
            assert samples(server.client.get("/metrics"))["familiar_turns_under_way",] == 1
        finally:
            hold.set()
        assert asked.result().status_code == 200


def test_only_a_token_that_opens_everything_opens_it() -> None:
    live("ada")
    tenant = GrantFile(home()).add(Grant("", "", ("ada",), ("*",)))[1]
    with serving(tokens=(KEY,)) as server:

        def ask(token: str):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return server.client.get("/metrics", headers=headers)

        assert [ask(token).status_code for token in ("", "wrong", tenant, KEY)] == [
            401,
            401,
            403,
            200,
        ]
        assert ask(tenant).json()["error"]["code"] == "not_covered"
        assert samples(ask(KEY))["familiar_requests_total", "none", "401"] == 2


def test_a_server_of_pages_has_none() -> None:
    live("ada")
    with serving(api=False) as server:
        assert server.client.get("/metrics").status_code == 404
