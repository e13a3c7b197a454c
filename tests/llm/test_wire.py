"""A model server can neither fill the memory nor keep anyone waiting for ever."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.errors import BadReplyError, ModelError, ModelTimeoutError
from familiar_cli.llm import wire
from tests.hostile.servers import MODES, HostileServer
from tests.llm.test_client import ask, client
from tests.support.cases import each
from tests.support.server import ChatServer, Fail, Raw, Say, chunk, sse

FINISHED = (chunk("Hi."), chunk(finish_reason="stop"))
SLOW = [name for name, mode in MODES.items() if mode.pause_s and mode.asks == "ask"]
FAST = [name for name, mode in MODES.items() if not mode.pause_s and mode.asks == "ask"]


@pytest.fixture
def small(monkeypatch):
    """Bounds that are met in a moment."""
    monkeypatch.setattr(wire, "MAX_OBJECT_BYTES", 64 * 1024)
    monkeypatch.setattr(wire, "MAX_STREAM_BYTES", 256 * 1024)
    monkeypatch.setattr(wire, "MAX_EVENTS", 2000)


async def outcome(name: str, **limits: float) -> tuple[str, object]:
    """Return what meeting a mode ends in; whatever is no error of ours is raised."""
    with HostileServer(MODES[name]) as server:
        try:
            return name, await ask(client(server, retries=1, **limits))
        except ModelError as error:
            return name, error


@each("name", FAST)
async def test_a_hostile_server_ends_in_an_error_of_the_model(name, small) -> None:
    begun = time.monotonic()
    _, ended = await outcome(name, timeout_s=20)
    assert isinstance(ended, ModelError) or MODES[name].may_answer
    assert time.monotonic() - begun < 15
    assert len(str(ended)) < 1000


async def test_a_server_that_says_nothing_for_ever_is_left(small) -> None:
    ended = dict(await asyncio.gather(*(outcome(n, timeout_s=0.4, deadline_s=0.8) for n in SLOW)))
    answers = {name: end for name, end in ended.items() if not isinstance(end, ModelError)}
    assert (len(ended), answers) == (len(SLOW), {})


def test_the_limits_of_time_are_finite_without_being_set() -> None:
    usual = LLMSettings()
    assert math.isfinite(usual.timeout_s)
    assert usual.timeout_s < usual.deadline_s <= 3600


@each("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
@each("content_type", ["text/event-stream", "application/json"])
async def test_an_encoding_that_was_not_asked_for_is_refused(encoding, content_type) -> None:
    step = Raw(sse(*FINISHED), content_type, headers={"Content-Encoding": encoding})
    with ChatServer(step) as server, pytest.raises(BadReplyError, match="not requested"):
        await ask(client(server))


@each("encoding", ["identity", "Identity", ""])
async def test_an_encoding_that_changes_nothing_is_read(encoding) -> None:
    with ChatServer(Raw(sse(*FINISHED), headers={"Content-Encoding": encoding})) as server:
        assert (await ask(client(server))).text == "Hi."


async def test_of_a_packed_error_the_status_is_told() -> None:
    step = Raw(b"\x1f\x8b", status=418, headers={"Content-Encoding": "gzip"})
    with ChatServer(step) as server, pytest.raises(ModelError, match="418"):
        await ask(client(server))


async def test_a_charset_of_the_servers_choice_is_not_believed() -> None:
    step = Raw(sse(chunk("Zoë"), chunk(finish_reason="stop")), "text/event-stream; charset=utf-16")
    with ChatServer(step) as server:
        assert (await ask(client(server))).text == "Zoë"


async def test_a_reply_that_goes_on_and_on_is_left_with_what_had_come() -> None:
    with (
        ChatServer(Say("word " * 100, pause_s=0.05)) as server,
        pytest.raises(ModelTimeoutError, match=r"not complete after 0\.6 s") as caught,
    ):
        await ask(client(server, timeout_s=0.4, deadline_s=0.6))
    assert "deadline_s" in caught.value.hint
    assert caught.value.partial.startswith("word word")


async def test_the_whole_time_covers_asking_again() -> None:
    with ChatServer(Fail(503, retry_after="0.4")) as server:
        begun = time.monotonic()
        with pytest.raises(ModelError, match="503"):
            await ask(client(server, retries=50, deadline_s=1))
    assert time.monotonic() - begun < 5
    assert 1 < len(server.requests) <= 4


async def test_thinking_is_no_word_of_the_reply() -> None:
    thoughts = [chunk(delta={"reasoning_content": "hm"})] * 3
    with ChatServer(Raw(sse(*thoughts, *FINISHED))) as server:
        assert (await ask(client(server))).text == "Hi."
    with (
        HostileServer(MODES["slow thoughts"]) as server,
        pytest.raises(ModelTimeoutError, match="sent nothing") as caught,
    ):
        await ask(client(server, timeout_s=0.3))
    assert "reasoning model" in caught.value.hint


async def test_many_events_that_say_nothing_are_too_many(small) -> None:
    stream = sse(*[chunk("")] * 100, *FINISHED)
    with ChatServer(Raw(stream)) as server:
        assert (await ask(client(server))).text == "Hi."
    with (
        ChatServer(Raw(b"data: {}\n\n" * 2001 + stream)) as server,
        pytest.raises(BadReplyError, match="2,000 events"),
    ):
        await ask(client(server))


async def test_what_has_come_is_not_copied_for_each_piece() -> None:
    """A reply of 10,000 pieces: at the square of them it would take many seconds."""
    pieces = sse(chunk("word ")) * 10_000 + sse(chunk(finish_reason="stop"))
    with ChatServer(Raw(pieces)) as server:
        begun = time.thread_time()
        assert len((await ask(client(server))).text) == 50_000
    assert time.thread_time() - begun < 2


async def test_an_error_of_time_that_the_listener_raises_is_its_own() -> None:
    def late(_: str) -> None:
        raise TimeoutError("mine")

    with ChatServer("a b c") as server, pytest.raises(TimeoutError, match="mine"):
        await ask(client(server), late)
