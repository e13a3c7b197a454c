from __future__ import annotations

import asyncio
import email.utils
import json
import logging
import os
import re
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import pytest
from msgspec.structs import replace

from familiar_cli.base.config import environment
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.errors import (
    BadReplyError,
    ConfigError,
    CutOffError,
    ModelError,
    ModelKeyError,
    ModelTimeoutError,
    ModelUnknownError,
    ModelUnreachableError,
    PromptTooLongError,
    RateLimitError,
    RequestRefusedError,
)
from familiar_cli.llm import wire
from familiar_cli.llm.client import LLMClient
from familiar_cli.llm.open import open_model
from familiar_cli.llm.slots import resolve_slot
from familiar_cli.llm.types import Usage
from tests.support.cases import each
from tests.support.server import (
    ChatServer,
    CutOff,
    Fail,
    Garbage,
    Raw,
    Say,
    Stall,
    bad_key,
    chunk,
    closed_port,
    rate_limit,
    sse,
    too_long,
    unknown_model,
)

HELLO = [{"role": "user", "content": "Hi, Zoë 日本"}]
KEY = "sk-very-secret-0123456789"


def client(server_or_url, **settings) -> LLMClient:
    url = getattr(server_or_url, "base_url", server_or_url)
    on_wait = settings.pop("on_wait", None)
    slot = resolve_slot(LLMSettings(preset="custom", base_url=url, model="m", **settings))
    return LLMClient(slot, on_wait=on_wait)


async def until(true) -> None:
    while not true():  # noqa: ASYNC110  # the other side is a thread
        await asyncio.sleep(0.01)


async def ask(model, on_text=None, *, stream=True):
    return await model.complete(model.prepare(HELLO, stream=stream), on_text)


async def test_the_reply_comes_piece_by_piece_and_whole() -> None:
    pieces: list[str] = []
    with ChatServer("Well met, traveller.") as server:
        reply = await ask(client(server), pieces.append)
    assert reply.text == "".join(pieces) == "Well met, traveller."
    assert len(pieces) == 3
    assert (reply.finish_reason, reply.model) == ("stop", "scripted-1")
    assert reply.usage == Usage(11, 3, None)


async def test_what_was_prepared_is_what_arrives_byte_for_byte() -> None:
    with ChatServer() as server:
        model = client(server)
        request = model.prepare(HELLO)
        await model.complete(request)
    assert server.last.body == request.body
    assert request.url == server.base_url + "/chat/completions"
    assert server.last.path == "/v1/chat/completions"


async def test_a_reply_can_be_had_without_a_stream() -> None:
    pieces: list[str] = []
    with ChatServer("All at once.") as server:
        reply = await ask(client(server), pieces.append, stream=False)
    assert (reply.text, pieces) == ("All at once.", ["All at once."])
    assert server.last.json()["stream"] is False


async def test_a_server_that_ignores_the_wish_for_a_stream_is_understood() -> None:
    body = json.dumps({"choices": [{"message": {"content": "Hm."}, "finish_reason": "stop"}]})
    with ChatServer(Raw(body.encode(), "application/json")) as server:
        assert (await ask(client(server))).text == "Hm."


async def test_the_model_that_was_asked_is_named_when_the_server_names_none() -> None:
    body = b'{"choices":[{"message":{"content":"x"}}]}'
    with ChatServer(Raw(body, "application/json")) as server:
        assert (await ask(client(server))).model == "m"


async def test_a_reply_cut_at_the_token_limit_says_so() -> None:
    with ChatServer(Say("Once upon", finish_reason="length")) as server:
        assert (await ask(client(server))).finish_reason == "length"


async def test_the_key_goes_out_in_the_header_and_nowhere_else(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_API_KEY", KEY)
    with ChatServer() as server:
        model = client(server)
        request = model.prepare(HELLO)
        await model.complete(request)
    assert server.last.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(model) + repr(request)


async def test_without_a_key_no_key_is_sent() -> None:
    with ChatServer() as server:
        await ask(client(server))
    assert "authorization" not in server.last.headers


@pytest.mark.parametrize(
    "step", [Fail(401, f"Incorrect API key provided: {KEY}"), Fail(500, KEY), Fail(400, KEY)]
)
async def test_a_key_that_the_server_repeats_shows_in_no_error_and_no_log(
    step, monkeypatch, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FAMILIAR_LLM_API_KEY", KEY)
    said: list[str] = []
    with ChatServer(step) as server, pytest.raises(ModelError) as caught:
        await ask(client(server, retries=1, on_wait=said.append))
    assert KEY not in f"{caught.value} {caught.value.hint} {caught.value!r} {said}"
    assert "[key]" in str(caught.value)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("familiar")]
    assert KEY not in "".join(ours)


async def test_openrouter_is_asked_for_the_cost_and_tells_it(monkeypatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.00014}
    with ChatServer(Say("x", usage=usage)) as server:
        slot = resolve_slot(LLMSettings(preset="openrouter", base_url=server.base_url, model="m"))
        reply = await ask(LLMClient(slot))
    assert server.last.json()["usage"] == {"include": True}
    assert reply.usage == Usage(5, 2, 0.00014)


async def test_openai_is_told_the_limit_under_its_new_name(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    slot = resolve_slot(LLMSettings(preset="openai", model="m", max_tokens=9))
    assert json.loads(LLMClient(slot).prepare(HELLO).body)["max_completion_tokens"] == 9


@each(
    ("step", "kind", "words"),
    [
        (bad_key(), ModelKeyError, "Incorrect API key provided"),
        (Fail(403, "Country not supported"), ModelKeyError, "Country not supported"),
        (Fail(402, "Insufficient credits"), ModelKeyError, "credit"),
        (unknown_model(), ModelUnknownError, "no-such-model"),
        (Fail(400, "gpt-x is not a valid model ID"), ModelUnknownError, "gpt-x"),
        (
            Fail(404, body=b"404 page not found", content_type="text/plain"),
            ModelUnknownError,
            "404",
        ),
        (too_long(), PromptTooLongError, "4096 tokens"),
        (Fail(413, ""), PromptTooLongError, "413"),
        (
            Fail(400, "request (6031 tokens) exceeds the available context size (4096 tokens)"),
            PromptTooLongError,
            "6031",
        ),
        (rate_limit(), RateLimitError, "Rate limit"),
        (Fail(400, "Unsupported value: 'temperature'"), RequestRefusedError, "temperature"),
        (Fail(500, "boom"), ModelError, "boom"),
        (Fail(418, body=b"<html>no</html>", content_type="text/html"), ModelError, "418"),
        (Fail(500, body=b"\xff\xfe\x00", content_type="text/plain"), ModelError, "500"),
        (Fail(500, body=b"[" * 100_000), ModelError, "500"),
        (Fail(500, body=b'{"detail":[{"msg":"odd"}]}'), ModelError, "odd"),
        (Fail(500, body=b'{"error":"plain words"}'), ModelError, "plain words"),
        (Raw(b"", "text/plain", 307, {"Location": "http://x/v1"}), ModelError, "http://x/v1"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:40],
)
async def test_a_failing_status_becomes_an_error_one_can_act_on(step, kind, words) -> None:
    with ChatServer(step) as server, pytest.raises(ModelError, match=words) as caught:
        await ask(client(server, retries=0))
    assert type(caught.value) is kind
    assert caught.value.exit_code == 6
    assert caught.value.hint
    assert server.base_url in str(caught.value) or "'m'" in str(caught.value)


async def test_what_a_provider_behind_openrouter_said_is_shown() -> None:
    body = {"error": {"message": "Provider returned error", "metadata": {"raw": "overloaded"}}}
    with (
        ChatServer(Fail(502, body=json.dumps(body).encode())) as server,
        pytest.raises(ModelError, match=r"Provider returned error .*overloaded"),
    ):
        await ask(client(server, retries=0))


async def test_escape_sequences_of_a_server_do_not_reach_the_message() -> None:
    with (
        ChatServer(Fail(500, "\x1b[31mred\x07\n\nlines")) as server,
        pytest.raises(ModelError) as caught,
    ):
        await ask(client(server, retries=0))
    assert str(caught.value).endswith("[31mred lines")


async def test_a_busy_server_is_asked_again_and_the_wait_is_told() -> None:
    said: list[str] = []
    with ChatServer([rate_limit("0"), Fail(503, retry_after="0"), Say("At last.")]) as server:
        reply = await ask(client(server, retries=2, on_wait=said.append))
    assert reply.text == "At last."
    assert len(server.requests) == 3
    assert len({request.body for request in server.requests}) == 1
    assert "retrying in 0.0 s" in said[0]


async def test_a_server_is_asked_only_as_often_as_the_settings_say() -> None:
    with ChatServer(Fail(503, retry_after="0")) as server, pytest.raises(ModelError):
        await ask(client(server, retries=1))
    assert len(server.requests) == 2


@each("status", [400, 401, 403, 404, 413])
async def test_an_error_that_stays_is_not_asked_again(status) -> None:
    with ChatServer(Fail(status)) as server, pytest.raises(ModelError):
        await ask(client(server, retries=3))
    assert len(server.requests) == 1


async def test_an_account_without_quota_is_not_asked_again() -> None:
    with (
        ChatServer(Fail(429, "You exceeded your quota", "insufficient_quota")) as server,
        pytest.raises(RateLimitError),
    ):
        await ask(client(server, retries=3))
    assert len(server.requests) == 1


async def test_retry_after_in_seconds_is_waited_for() -> None:
    with ChatServer([rate_limit("0.3"), Say("ok")]) as server:
        began = time.monotonic()
        await ask(client(server))
    assert time.monotonic() - began >= 0.3


async def test_retry_after_as_a_date_is_waited_for() -> None:
    moment = datetime.now(UTC) + timedelta(seconds=2)
    header = email.utils.format_datetime(moment, usegmt=True)
    with ChatServer([rate_limit(header), Say("ok")]) as server:
        began = time.monotonic()
        await ask(client(server))
    assert 0.5 < time.monotonic() - began < 5


async def test_a_longer_wait_than_is_bearable_ends_at_once() -> None:
    with ChatServer(rate_limit("3600")) as server:
        began = time.monotonic()
        with pytest.raises(RateLimitError):
            await ask(client(server, retries=5))
    assert time.monotonic() - began < 2
    assert len(server.requests) == 1


@each("header", ["soon", "", "nan", "-5", "Wed, 99 Foo 2026", "inf"])
async def test_a_retry_after_that_makes_no_sense_is_passed_over(header) -> None:
    with ChatServer([rate_limit(header), Say("ok")]) as server:
        assert (await ask(client(server))).text == "ok"


async def test_nothing_is_asked_again_once_text_has_come() -> None:
    pieces: list[str] = []
    body = sse(chunk("Once "), {"error": {"code": 503, "message": "overloaded"}})
    with ChatServer(Raw(body)) as server, pytest.raises(ModelError, match="overloaded") as caught:
        await ask(client(server, retries=3), pieces.append)
    assert (caught.value.partial, pieces) == ("Once ", ["Once "])
    assert len(server.requests) == 1


async def test_an_error_inside_a_stream_before_any_text_is_asked_again() -> None:
    body = sse({"error": {"code": 502, "message": "upstream"}, "choices": []})
    with ChatServer([Raw(body), Say("ok")]) as server:
        assert (await ask(client(server))).text == "ok"


async def test_an_error_object_inside_a_whole_reply_is_an_error() -> None:
    body = b'{"error":{"code":"weird","message":"no luck"}}'
    with (
        ChatServer(Raw(body, "application/json")) as server,
        pytest.raises(ModelError, match="no luck"),
    ):
        await ask(client(server))


@pytest.mark.parametrize("politely", [True, False])
async def test_a_reply_that_breaks_off_is_an_error_with_what_had_come(politely) -> None:
    with (
        ChatServer(CutOff("Once upon a", politely=politely)) as server,
        pytest.raises(CutOffError) as caught,
    ):
        await ask(client(server))
    assert caught.value.partial == "Once upon a"
    assert len(server.requests) == 1


async def test_a_stream_without_done_is_whole_when_it_gave_a_reason_to_stop() -> None:
    with ChatServer(Say("Fine.", done=False)) as server:
        assert (await ask(client(server))).text == "Fine."


async def test_a_server_that_has_said_all_but_does_not_hang_up_is_not_waited_for() -> None:
    with ChatServer(Say("Fine.", done=False, linger_s=20)) as server:
        began = time.monotonic()
        reply = await ask(client(server, timeout_s=0.4))
    assert (reply.text, reply.usage.prompt_tokens) == ("Fine.", 11)
    assert time.monotonic() - began < 5


async def test_a_connection_that_breaks_after_the_last_word_loses_nothing() -> None:
    stream = sse(chunk("Fine."), chunk(finish_reason="stop"))
    with ChatServer(Raw(stream, headers={"Content-Length": "9999"})) as server:
        assert (await ask(client(server))).text == "Fine."


async def test_a_stream_without_a_reason_is_whole_when_it_says_done() -> None:
    with ChatServer(Say("Fine.", finish_reason=None)) as server:
        assert (await ask(client(server))).finish_reason is None


@pytest.mark.parametrize("comments", [True, False])
async def test_a_silent_server_is_left_with_what_had_come(comments) -> None:
    with ChatServer(Stall("Once upon ", comments=comments)) as server:
        began = time.monotonic()
        with pytest.raises(ModelTimeoutError, match=r"0\.4 s") as caught:
            await ask(client(server, timeout_s=0.4))
    assert caught.value.partial == "Once upon "
    assert time.monotonic() - began < 5


async def test_a_server_that_never_answers_is_left() -> None:
    with ChatServer(Stall()) as server, pytest.raises(ModelTimeoutError) as caught:
        await ask(client(server, timeout_s=0.3))
    assert caught.value.partial == ""


async def test_a_slow_reply_is_not_a_silent_one() -> None:
    with ChatServer(Say("a b c d e f", pause_s=0.3)) as server:
        assert (await ask(client(server, timeout_s=1.5))).text == "a b c d e f"


async def test_a_slow_listener_is_not_a_silent_server() -> None:
    with ChatServer("a b c") as server:
        reply = await ask(client(server, timeout_s=0.3), lambda _: time.sleep(0.4))
    assert reply.text == "a b c"


async def test_an_error_of_the_listener_is_not_an_error_of_the_server() -> None:
    def closed(_: str) -> None:
        raise BrokenPipeError

    with ChatServer("a b c") as server, pytest.raises(BrokenPipeError):
        await ask(client(server), closed)


@each(
    "body",
    [
        b"data: {not json\n\n",
        b"data: [1, 2]\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: null\n\n",
        b"data: \xff\xfe\n\n",
    ],
    ids=["cut json", "list", "deep", "null", "no utf-8"],
)
async def test_an_event_that_is_no_object_is_a_bad_reply(body) -> None:
    with (
        ChatServer(Raw(sse(chunk("Well, ")) + body)) as server,
        pytest.raises(BadReplyError) as caught,
    ):
        await ask(client(server))
    assert caught.value.partial == "Well, "


@each(
    "step",
    [
        Raw(b"<html>It works!</html>", "text/html"),
        Raw(b"", "text/plain"),
        Raw(b"{}", "application/json"),
        Raw(b'{"ok": true}', "application/json"),
        Raw(b"no json", "application/json"),
    ],
    ids=["html", "nothing", "empty", "other", "no json"],
)
async def test_a_server_of_another_kind_is_a_bad_reply(step) -> None:
    with ChatServer(step) as server, pytest.raises(BadReplyError):
        await ask(client(server))


async def test_an_empty_response_says_so() -> None:
    with ChatServer(Raw(b"")) as server, pytest.raises(BadReplyError, match="sent nothing"):
        await ask(client(server))


async def test_bytes_that_are_no_http_are_an_error() -> None:
    with ChatServer(Garbage()) as server, pytest.raises(CutOffError):
        await ask(client(server))


async def test_nothing_listening_is_an_error_that_says_how_to_start_it() -> None:
    slot = resolve_slot(
        LLMSettings(
            preset="ollama", base_url=f"http://127.0.0.1:{closed_port()}/v1", model="m", retries=1
        )
    )
    with pytest.raises(ModelUnreachableError, match="No answer from") as caught:
        await ask(LLMClient(slot))
    assert "ollama serve" in caught.value.hint


async def test_a_host_without_an_address_is_an_error(monkeypatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.delenv("FAMILIAR_OFFLINE")
    with pytest.raises(ModelUnreachableError, match=r"nowhere\.invalid"):
        await ask(client("http://nowhere.invalid/v1", retries=0))


async def test_a_server_without_tls_behind_an_https_address_is_an_error() -> None:
    with ChatServer() as server:
        url = server.base_url.replace("http:", "https:")
        with pytest.raises(ModelUnreachableError, match="not secure"):
            await ask(client(url, retries=0))


def test_certificates_are_read_again_once_their_file_is_another(monkeypatch, tmp_path) -> None:
    file = tmp_path / "company.pem"
    file.write_bytes(Path(certifi.where()).read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(file))

    def used() -> object:
        return wire._tls_context(True, environment.certificates())

    first = used()
    assert used() is first
    os.utime(file, (1, 1))
    assert used() is not first
    file.unlink()
    with pytest.raises(OSError, match=r"company\.pem|No such file"):
        used()


async def test_a_broken_proxy_in_the_environment_is_an_error(monkeypatch) -> None:
    monkeypatch.delenv("FAMILIAR_OFFLINE")
    monkeypatch.setenv("HTTP_PROXY", "gopher://x")
    with pytest.raises(ModelError, match="could not be sent") as caught:
        await ask(client("http://example.invalid/v1", retries=0))
    assert "proxy" in caught.value.hint


async def test_a_proxy_never_stands_before_this_machine(monkeypatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    with ChatServer("direct") as server:
        assert (await ask(client(server))).text == "direct"


async def test_offline_no_server_on_the_network_is_asked() -> None:
    with pytest.raises(ModelUnreachableError, match="FAMILIAR_OFFLINE"):
        await ask(client("https://example.org/v1"))


async def test_a_missing_key_is_found_before_anything_is_sent() -> None:
    with ChatServer() as server:
        slot = resolve_slot(LLMSettings(preset="openai", base_url=server.base_url, model="m"))
        with pytest.raises(ConfigError):
            await ask(LLMClient(slot))
    assert server.requests == []


async def test_cancelling_closes_the_stream_and_keeps_what_had_come() -> None:
    pieces: list[str] = []
    with ChatServer(Say("one two three four five six", pause_s=0.1)) as server:
        task = asyncio.create_task(ask(client(server), pieces.append))
        await until(lambda: len(pieces) >= 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert pieces[:2] == ["one ", "two "]
    assert len(pieces) < 6


async def test_cancelling_ends_the_wait_before_asking_again() -> None:
    with ChatServer(rate_limit("20")) as server:
        task = asyncio.create_task(ask(client(server)))
        await until(lambda: server.requests)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_one_client_serves_several_event_loops() -> None:
    with ChatServer("again") as server:
        model = client(server)
        assert [asyncio.run(ask(model)).text for _ in range(3)] == ["again"] * 3


async def test_calls_at_the_same_time_do_not_mix() -> None:
    with ChatServer([Say("a b c", pause_s=0.05), Say("x y z", pause_s=0.05)]) as server:
        model = client(server)
        replies = await asyncio.gather(ask(model), ask(model))
    assert sorted(reply.text for reply in replies) == ["a b c", "x y z"]


def test_opening_connects_to_nothing(tmp_path) -> None:
    slot = resolve_slot(LLMSettings(preset="ollama", model="m"))
    model = open_model(slot, cache_dir=tmp_path)
    assert (model.name, model.context_tokens, model.max_tokens) == ("m", 4096, 512)


async def test_a_reply_without_end_is_cut(monkeypatch) -> None:
    monkeypatch.setattr("familiar_cli.llm.reply.MAX_REPLY_CHARS", 1000)
    with (
        ChatServer(Say("blah " * 500)) as server,
        pytest.raises(BadReplyError, match="longer than 1,000") as caught,
    ):
        await ask(client(server))
    assert len(caught.value.partial) >= 1000


def test_two_settings_differ_in_the_bytes_they_send() -> None:
    cold = client("http://127.0.0.1:1/v1", temperature=0.0)
    slot = replace(cold._slot, temperature=1.0)
    assert cold.prepare(HELLO).body != LLMClient(slot).prepare(HELLO).body


class Keeper:
    """A server that counts its connections, and keeps each for `most` requests."""

    def __init__(self, most: int) -> None:
        self.most, self.connections, self.heads = most, [], []

    async def serve(self, reader, writer) -> None:
        self.connections.append(asyncio.current_task())
        for _ in range(self.most):
            try:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            except asyncio.IncompleteReadError:
                break
            length = re.search(rb"(?i)content-length: (\d+)", self.heads[-1])
            await reader.readexactly(int(length[1]))
            body = sse(chunk("Hello."), chunk(finish_reason="stop"), "[DONE]") + b"\n"
            head = b"HTTP/1.1 200 OK\r\nSet-Cookie: who=you\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
        if self.most > 1:  # the last request gets no answer
            await reader.read(1)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@pytest.mark.parametrize("most", [1, 2, 100])
async def test_a_connection_is_used_again_while_the_server_keeps_it(most) -> None:
    keeper = Keeper(most)
    server = await asyncio.start_server(keeper.serve, "127.0.0.1", 0)
    async with server:
        asked = client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        replies = [(await ask(asked)).text for _ in range(3)]
        await asked.aclose()
        await asyncio.gather(*keeper.connections)
    assert replies == ["Hello."] * 3
    assert len(keeper.connections) == -(-3 // most)
    assert not any(b"cookie" in head.lower() for head in keeper.heads)


@pytest.mark.parametrize("end", [b"", b"Oops\r\n\r\n"])
async def test_a_request_that_may_have_been_read_is_not_repeated(monkeypatch, end) -> None:
    heads = []

    async def serve(reader, writer) -> None:
        for answer in (b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n", end):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            length = re.search(rb"(?i)content-length: (\d+)", heads[-1])
            await reader.readexactly(int(length[1]))
            writer.write(answer)
        writer.close()

    if not end:  # the server takes its time
        monkeypatch.setattr(wire, "_CLOSING_S", 0.0)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        asked = client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        for kind in (RequestRefusedError, CutOffError):
            with pytest.raises(kind):
                await ask(asked)
        await asked.aclose()
    assert len(heads) == 2


def test_connections_end_with_their_event_loop() -> None:
    with ChatServer("Hello.") as server:
        asked = client(server)
        assert [asyncio.run(ask(asked)).text for _ in range(2)] == ["Hello."] * 2
