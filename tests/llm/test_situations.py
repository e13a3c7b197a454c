"""Replies of model servers as they are: each situation, with what is read of it."""

from __future__ import annotations

import json

import pytest

from familiar_cli.base.errors import BadReplyError, CutOffError, ModelError
from tests.llm.test_client import ask, client
from tests.support.cases import each
from tests.support.server import ChatServer, Drop, Script, chunk, sse

DONE = b"data: [DONE]\n\n"
STOP = sse(chunk(finish_reason="stop"))
GOOD = sse(chunk("", delta={"role": "assistant"}), chunk("Good "), chunk("evening."))
STREAM = GOOD + STOP + DONE


def whole(text: str, reason: str | None = "stop", **message: object) -> bytes:
    """Return a reply that is not streamed."""
    said = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "message": said, "finish_reason": reason}
    body = {"object": "chat.completion", "model": "m", "choices": [choice], "usage": None}
    return json.dumps(body).encode()


def spelt(*deltas: dict[str, object]) -> bytes:
    return sse(*(chunk(delta=delta) for delta in deltas)) + STOP + DONE


def pieces(text: str, size: int = 3) -> bytes:
    return spelt(*({"content": text[at : at + size]} for at in range(0, len(text), size)))


OLLAMA = [
    {"model": "m", "message": {"role": "assistant", "content": "Good "}, "done": False},
    {"message": {"content": "evening.", "thinking": "hm"}, "done": True, "done_reason": "stop"},
]
LINES = b"".join(json.dumps(line).encode() + b"\n" for line in OLLAMA)
TWO = {
    "choices": [
        {"index": 1, "delta": {"content": "Bad night."}},
        {"index": "0", "delta": {"content": "Good evening."}, "finish_reason": "stop"},
    ]
}
READ = {
    "plain text": Script([STREAM], "text/plain; charset=utf-8"),
    "json": Script([STREAM], "application/json"),
    "bytes": Script([STREAM], "application/octet-stream"),
    "no type": Script([STREAM], None),
    "byte by byte": Script([bytes([one]) for one in STREAM]),
    "crlf": Script([STREAM.replace(b"\n", b"\r\n")]),
    "cr": Script([STREAM.replace(b"\n", b"\r")]),
    "byte order mark": Script([b"\xef\xbb\xbf" + STREAM]),
    "no space": Script([STREAM.replace(b"data: ", b"data:")]),
    "no empty lines": Script([STREAM.replace(b"\n\n", b"\n")]),
    "names and comments": Script([b": hi\n\nevent: x\nid: 1\nretry: 9\n" + STREAM]),
    "no last line end": Script([GOOD + STOP.rstrip()]),
    "whole object": Script([whole("Good evening.")], "text/html"),
    "whole object over lines": Script(
        [json.dumps(json.loads(whole("Good evening.")), indent=1).encode()]
    ),
    "whole object, then a stream's end": Script([whole("Good evening.") + b"\n\n" + DONE]),
    "whole object, then silence": Script([whole("Good evening."), 30.0]),
    "whole object, then a reset": Script([whole("Good evening."), Drop()]),
    "whole object without a reason": Script([whole("Good evening.", None)], "application/json"),
    "whole object in an event": Script([b"data: " + whole("Good evening.") + b"\n\n" + DONE]),
    "message after pieces": Script([GOOD + b"data: " + whole("Good evening.") + b"\n\n" + DONE]),
    "json lines": Script([LINES], "application/x-ndjson"),
    "two choices": Script([sse(TWO) + DONE]),
    "words behind the reason": Script(
        [sse(chunk("Good "), chunk("even", finish_reason="stop"), chunk("ing.")) + DONE]
    ),
    "empty reasons and a pause": Script(
        [sse(chunk("Good ", finish_reason="")), 0.5, sse(chunk("evening.", finish_reason="")), STOP]
    ),
    "null as a word": Script(
        [sse(chunk("Good ", finish_reason="null")), sse(chunk("evening.")), STOP]
    ),
    "reason of another name": Script([GOOD, sse(chunk(finish_reason="eos_token")), Drop()]),
    "no choices at the end": Script([GOOD + STOP + sse({"choices": [], "usage": None}) + DONE]),
    "numbers as words": Script(
        [GOOD + STOP + sse({"choices": [], "usage": {"prompt_tokens": "3"}}) + DONE]
    ),
    "think": Script([pieces("<think>\nx</think>\n\nGood evening.")]),
    "lone end": Script([pieces("x\n</think>\n\nGood evening.", 5)]),
    "other tag": Script([pieces("<Thinking>x</Thinking>Good evening.")]),
    "brackets": Script([pieces("[THINK]x[/THINK]Good evening.")]),
    "channels": Script(
        [
            pieces(
                "<|channel|>analysis<|message|>x<|end|>"
                "<|start|>assistant<|channel|>final<|message|>Good evening."
            )
        ]
    ),
    "in between": Script([pieces("Good <think>x</think>evening.")]),
    "fields": Script(
        [spelt({"reasoning_content": "x"}, {"reasoning": "x"}, {"content": "Good evening."})]
    ),
    "parts": Script(
        [
            spelt(
                {
                    "content": [
                        {"type": "thinking", "thinking": [{"text": "x"}]},
                        {"type": "text", "text": "Good evening."},
                    ]
                }
            )
        ]
    ),
}


@each("name", sorted(READ))
async def test_a_reply_is_read_whatever_its_form(name) -> None:
    heard: list[str] = []
    with ChatServer(READ[name]) as server:
        reply = await ask(client(server, timeout_s=5), heard.append)
    assert reply.text == "Good evening."
    assert reply.finish_reason in {"stop", None}
    assert "x" not in "".join(heard) or name == "lone end"


PARTIAL = {
    "dropped": Script([GOOD, Drop()]),
    "ended": Script([GOOD]),
    "empty reasons": Script(
        [sse(chunk("Good ", finish_reason="")), sse(chunk("evening.")), Drop()]
    ),
    "unknown reason": Script([GOOD, sse(chunk(finish_reason="weird"))]),
    "text of a proxy": Script([GOOD, b"upstream connect error\n"]),
}


@each("name", sorted(PARTIAL))
async def test_a_reply_without_a_real_end_is_partial(name) -> None:
    with ChatServer(PARTIAL[name]) as server, pytest.raises(CutOffError) as caught:
        await ask(client(server, timeout_s=5))
    assert caught.value.partial == "Good evening."


ERRORS = {
    "error": sse({"error": {"message": "CUDA out of memory"}}),
    "error as text": sse({"error": "CUDA out of memory"}),
    "named event": b'event: error\ndata: {"message": "CUDA out of memory"}\n\n',
    "named event without json": b"event: error\ndata: CUDA out of memory\n\n",
    "object": sse({"object": "error", "message": "CUDA out of memory", "code": 500}),
    "type": sse({"type": "error", "error": {"type": "x", "message": "CUDA out of memory"}}),
    "detail": sse({"detail": "CUDA out of memory"}),
    "choice": sse({"choices": [{"error": {"message": "CUDA out of memory"}}]}),
    "bare object": b'{"error": {"message": "CUDA out of memory"}}\n',
    "after the end": STOP + sse({"error": {"message": "CUDA out of memory"}}),
    "refusal": sse(chunk(delta={"refusal": "CUDA out "}), chunk(delta={"refusal": "of memory"}))
    + STOP
    + DONE,
}


@each("name", sorted(ERRORS))
async def test_an_error_inside_a_stream_is_an_error_in_the_servers_words(name) -> None:
    with (
        ChatServer(Script([GOOD, ERRORS[name]])) as server,
        pytest.raises(ModelError, match="CUDA out of memory") as caught,
    ):
        await ask(client(server, timeout_s=5))
    assert caught.value.partial == "Good evening."


@each("reason", ["error", "abort", "network_error"])
async def test_a_reason_that_is_a_failure_is_an_error(reason) -> None:
    script = Script([GOOD, sse(chunk(finish_reason=reason)), DONE])
    with ChatServer(script) as server, pytest.raises(ModelError, match=reason) as caught:
        await ask(client(server))
    assert caught.value.partial == "Good evening."


async def test_something_else_is_quoted_with_its_status() -> None:
    script = Script([b"<html>\nIt works!"], "text/event-stream", 200)
    with (
        ChatServer(script) as server,
        pytest.raises(BadReplyError, match="'<html>' with status 200"),
    ):
        await ask(client(server))


async def test_reasoning_is_kept_apart() -> None:
    script = Script([pieces("<think>secret</think>Hello <b>you</b> a < b")])
    with ChatServer(script) as server:
        reply = await ask(client(server))
    assert (reply.text, reply.thinking) == ("Hello <b>you</b> a < b", "secret")


async def test_a_model_that_ends_its_thinking_only_is_known_from_then_on() -> None:
    heard: list[str] = []
    with ChatServer(Script([pieces("secret</think>Hello")])) as server:
        await ask(client(server))
        await ask(client(server), heard.append)
    assert "".join(heard) == "Hello"


async def test_a_model_that_thinks_gets_a_larger_limit_by_default() -> None:
    with ChatServer(Script([pieces("<think>hm</think>Hello")])) as server:
        before = client(server).max_tokens
        await ask(client(server))
        assert client(server).max_tokens > before
        assert client(server, max_tokens=99).max_tokens == 99
