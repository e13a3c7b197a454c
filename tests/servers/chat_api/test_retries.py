"""A message with an id is answered once, however often and from wherever it is sent again."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from familiar_cli.actions.talk.talk import LiveTurn
from familiar_cli.servers.chat_api import replying, turns
from tests.support.server import Fail, Say
from tests.support.serving import serving, user
from tests.support.world import data, live

MESSAGE = {"X-Familiar-Channel": "harbour", "X-Familiar-Message": "7"}
REPLY = "The red boat lies in Risor."


@pytest.fixture
def held(serve):
    """A server whose model stops half way through its reply until the event is set."""
    live("ada")
    hold = threading.Event()
    scripted = serve(Say(REPLY, hold=hold), Say("Another reply."))
    with serving() as server:
        yield server, scripted, hold
        hold.set()


def text_of(reply) -> str:
    """Return the words of a reply, streamed or not."""
    if "event-stream" not in reply.headers["content-type"]:
        return reply.json()["choices"][0]["message"]["content"]

    lines = [line for line in reply.text.splitlines() if line.startswith("data: {")]
    choices = [choice for line in lines for choice in json.loads(line[6:])["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def wait_until(is_so) -> None:
    for _ in range(400):
        if is_so():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("model", ["ada", "ada+memory"])
@pytest.mark.parametrize("stream", [False, True])
def test_retries_join_the_reply_that_is_under_way(held, model, stream, monkeypatch) -> None:
    server, scripted, hold = held
    monkeypatch.setattr(replying, "_BEGIN_S", 30.0)  # a stream that begins at once names no turn

    def ask(_: int):
        sent = {"messages": [user("Where is it?")], "stream": stream}
        return server.post(model=model, headers=MESSAGE, **sent)

    with ThreadPoolExecutor(16) as clients:
        asked = [clients.submit(ask, n) for n in range(16)]
        wait_until(lambda: scripted.requests)
        hold.set()
        replies = [one.result(30) for one in asked]
    assert {(one.status_code, text_of(one)) for one in replies} == {(200, REPLY)}
    assert len(scripted.requests) == 1
    assert len({one.headers["x-familiar-turn"] for one in replies}) == 1
    assert len(data("history", "show", "--channel", "harbour")["turns"]) == 2


class Connecting(LiveTurn):
    key, followers = ("ada", "harbour"), 0

    async def _take(self) -> None:
        self.task.cancel()  # as `anyio` does once one of two addresses has answered
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()


async def test_a_turn_is_joined_while_it_connects_but_not_when_it_is_ended() -> None:
    table, turn = turns.TurnTable(), Connecting()
    table._by_key[turn.key] = turn
    for _ in range(3):
        await asyncio.sleep(0)
    assert turn.task.cancelling()
    assert table.join(turn.key) is turn
    await turn.cancel()
    assert table.join(turn.key) is None


def test_a_stream_and_a_whole_reply_are_one_turn(held) -> None:
    server, scripted, hold = held
    with ThreadPoolExecutor(2) as clients:
        asked = [
            clients.submit(
                server.post, messages=[user("Where is it?")], headers=MESSAGE, stream=stream
            )
            for stream in (True, False)
        ]
        wait_until(lambda: scripted.requests)
        hold.set()
        assert {text_of(one.result(30)) for one in asked} == {REPLY}
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_retry_after_the_client_went_away_gets_the_reply_it_paid_for(held, stream) -> None:
    server, scripted, hold = held
    body = {"model": "ada", "stream": stream, "messages": [user("Where is it?")]}
    asked = server.client.build_request(
        "POST", "/v1/chat/completions", json=body, headers=MESSAGE, timeout=1.0
    )
    with pytest.raises(Exception, match="timed out"):
        server.client.send(asked)
    wait_until(lambda: scripted.requests)
    hold.set()
    reply = server.post(headers=MESSAGE, **{k: v for k, v in body.items() if k != "model"})
    assert text_of(reply) == REPLY
    assert len(scripted.requests) == 1


def test_a_late_retry_gets_the_whole_reply_and_a_swipe_another(held) -> None:
    server, scripted, hold = held
    hold.set()
    first, late = (server.post(messages=[user("Hello")], headers=MESSAGE) for _ in range(2))
    assert text_of(first) == text_of(late) == REPLY
    swiped = {**MESSAGE, "X-Familiar-Type": "swipe"}
    assert text_of(server.post(messages=[user("Hello")], headers=swiped)) == "Another reply."
    assert len(scripted.requests) == 2


def test_other_words_or_another_person_under_the_id_join_nothing(held) -> None:
    server, scripted, hold = held
    hold.set()
    al = MESSAGE | {"X-Familiar-User": "irc:al"}
    server.post(messages=[user("Hello")], headers=al)
    other = server.post(messages=[user("Bye")], headers=al)
    assert other.status_code == 409
    bo = server.post(messages=[user("Hello")], headers={**MESSAGE, "X-Familiar-User": "irc:bo"})
    assert text_of(bo) == "Another reply."
    assert len(scripted.requests) == 2


def test_a_failure_is_no_reply_to_join(serve) -> None:
    live("ada")
    scripted = serve(Fail(400), Say(REPLY))
    with serving() as server:
        assert server.post(messages=[user("Hello")], headers=MESSAGE).status_code == 400
        assert text_of(server.post(messages=[user("Hello")], headers=MESSAGE)) == REPLY
    assert len(scripted.requests) == 2


@pytest.mark.parametrize("headers", [{}, {"X-Familiar-Channel": "harbour"}])
def test_without_an_id_a_failed_message_is_asked_again(headers, serve) -> None:
    live("ada")
    scripted = serve(Fail(400), Fail(400), Say(REPLY))
    hello = user("Hello?")
    with serving() as server:
        for messages in ([hello], [hello], [hello, hello]):  # some programs keep what failed
            reply = server.post(messages=messages, headers=headers)
    assert text_of(reply) == REPLY
    asked = [one["content"] for one in scripted.last.json()["messages"] if one["role"] == "user"]
    assert sum("Hello?" in text for text in asked) == 1


def test_a_reply_that_nobody_comes_back_for_is_ended(held, monkeypatch) -> None:
    monkeypatch.setattr(turns, "_LINGER_S", 0.05)
    server, scripted, _ = held
    body = {"model": "ada", "stream": True, "messages": [user("Where is it?")]}
    sent = {"json": body, "headers": MESSAGE}
    with server.client.stream("POST", "/v1/chat/completions", **sent) as reply:
        next(reply.iter_raw())
    wait_until(lambda: len(data("history", "show", "--channel", "harbour")["turns"]) == 2)
    assert data("history", "show", "--channel", "harbour")["turns"][-1]["partial"]
    assert len(scripted.requests) == 1
