"""A server on loopback that speaks the OpenAI chat API by a script, for everyone's tests.

    with ChatServer([Say("Hello there."), Fail(429, retry_after="0")]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        ...
    assert server.requests[0].json()["messages"][-1]["content"] == "Hi"

Each request takes the next step of the script; the last step answers all further ones. The bytes
and headers that arrived are kept as they came.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MODEL = "scripted-1"


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Say:
    """A whole reply: streamed word by word if the request asks for a stream, else in one piece."""

    text: str = "Hello."
    finish_reason: str | None = "stop"
    usage: Mapping[str, object] | None = field(
        default_factory=lambda: {"prompt_tokens": 11, "completion_tokens": 3}
    )
    done: bool = True  # end the stream with [DONE]
    pause_s: float = 0.0  # before each piece
    hold: threading.Event | None = None  # stop half way until it is set
    linger_s: float = 0.0  # keep the connection open after the last piece, saying nothing


@dataclass(frozen=True)
class Fail:
    """An HTTP error with the JSON body that such servers send."""

    status: int
    message: str = "scripted failure"
    error_code: str | None = None
    retry_after: str | None = None
    body: bytes | None = None  # instead of that JSON
    content_type: str = "application/json"


@dataclass(frozen=True)
class CutOff:
    """The beginning of a reply, and then the connection is gone."""

    text: str = "Once upon a"
    politely: bool = False  # the stream ends as if it were whole, without [DONE] or finish_reason


@dataclass(frozen=True)
class Stall:
    """The beginning of a reply (perhaps nothing), and then silence."""

    text: str = ""
    seconds: float = 30.0
    comments: bool = False  # keep the connection warm with comments, as OpenRouter does


@dataclass(frozen=True)
class Raw:
    """These bytes, whatever they are."""

    body: bytes
    content_type: str = "text/event-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Drop:
    """The connection is reset, without an end."""


@dataclass(frozen=True)
class Script:
    """Bytes as they are, with pauses in seconds between them, and perhaps a `Drop`."""

    steps: Sequence[bytes | float | Drop]
    content_type: str | None = "text/event-stream"
    status: int = 200


@dataclass(frozen=True)
class Garbage:
    """A status line that is no HTTP."""


Step = Say | Fail | CutOff | Stall | Raw | Script | Garbage | str


def bad_key() -> Fail:
    return Fail(401, "Incorrect API key provided", "invalid_api_key")


def unknown_model(name: str = "no-such-model") -> Fail:
    return Fail(404, f"The model `{name}` does not exist", "model_not_found")


def too_long() -> Fail:
    return Fail(
        400,
        "This model's maximum context length is 4096 tokens. However, your messages resulted in "
        "9001 tokens.",
        "context_length_exceeded",
    )


def rate_limit(retry_after: str | None = "0") -> Fail:
    return Fail(429, "Rate limit reached", "rate_limit_exceeded", retry_after)


def chunk(content: str | None = None, **more: object) -> dict[str, Any]:
    """Return one piece of a streamed reply as servers send it."""
    delta = {} if content is None else {"content": content}
    choice = {"index": 0, "delta": delta, "finish_reason": None} | more
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
    }


def sse(*events: object) -> bytes:
    """Return `events` as a stream of server-sent events; a str goes in as it is."""
    lines = (e if isinstance(e, str) else json.dumps(e, ensure_ascii=False) for e in events)
    return "".join(f"data: {line}\n\n" for line in lines).encode()


class ChatServer:
    """A context manager: runs the server in a thread while the block lasts.

    Attributes:
        base_url: What to set as `llm.base_url`, ending in /v1.
        requests: Every POST to /chat/completions, oldest first.
        pages: What other paths answer, as JSON.
    """

    def __init__(
        self,
        script: Sequence[Step] | Step = ("Hello.",),
        *,
        models: Sequence[str] = (MODEL,),
        pages: Mapping[str, object] | None = None,
    ):
        steps = [script] if isinstance(script, Step) else list(script)
        self._steps = [Say(step) if isinstance(step, str) else step for step in steps]
        self.models = list(models)
        self.pages = pages or {}
        self.posts: dict[str, bytes] = {}  # whole answers to other paths
        self.requests: list[Received] = []
        self.other_requests: list[Received] = []
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.chat = self
        self.base_url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def last(self) -> Received:
        """The newest request."""
        return self.requests[-1]

    def take(self, received: Received) -> Step:
        with self._lock:
            self.requests.append(received)
            return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]


def closed_port() -> int:
    """Return a port of loopback where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # as many may connect in one moment; the usual 5 turn others away
    chat: ChatServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: a client that goes away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self.server.chat.other_requests.append(self._received(b""))
        pages = self.server.chat.pages
        if pages:
            page = pages.get(self.path)
            self._whole(200 if page is not None else 404, json.dumps(page).encode())
            return
        models = [{"id": name, "object": "model"} for name in self.server.chat.models]
        self._whole(200, json.dumps({"object": "list", "data": models}).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        received = self._received(body)
        if not self.path.endswith("/chat/completions"):
            self.server.chat.other_requests.append(received)
            known = self.server.chat.posts.get(self.path)
            self._whole(
                404 if known is None else 200, known or b'{"error":{"message":"Not Found"}}'
            )
            return
        self.close_connection = True
        step = self.server.chat.take(received)
        with suppress(BrokenPipeError, ConnectionError):
            self._answer(step, streamed=_wants_stream(body))

    def _answer(self, step: Step, *, streamed: bool) -> None:
        match step:
            case Say() if streamed:
                self._stream(step)
            case Say():
                self._whole(200, _whole_reply(step))
            case Fail():
                error = {"message": step.message, "type": "scripted", "code": step.error_code}
                body = json.dumps({"error": error}).encode() if step.body is None else step.body
                extra = {} if step.retry_after is None else {"Retry-After": step.retry_after}
                self._whole(step.status, body, step.content_type, extra)
            case CutOff():
                self._begin("text/event-stream")
                self._pieces(step.text)
                if step.politely:
                    self.wfile.write(b"0\r\n\r\n")
            case Stall():
                self._stall(step)
            case Raw():
                self._whole(step.status, step.body, step.content_type, step.headers)
            case Script():
                self._play(step)
            case Garbage():
                self.wfile.write(b"\x00\x01 this is no HTTP\r\n\r\n")

    def _play(self, script: Script) -> None:
        self.send_response(script.status)
        if script.content_type:
            self.send_header("Content-Type", script.content_type)
        self.send_header("Connection", "close")
        self.end_headers()
        for step in script.steps:
            match step:
                case bytes():
                    self.wfile.write(step)
                    self.wfile.flush()
                case Drop():
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.connection.close()
                    return
                case _:
                    self.server.chat.closed.wait(step)

    def _stream(self, step: Say) -> None:
        self._begin("text/event-stream")
        start = chunk("", delta={"role": "assistant", "content": ""})
        end = [chunk(finish_reason=step.finish_reason)] if step.finish_reason else []
        if step.usage is not None:
            end.append({**chunk(), "choices": [], "usage": step.usage})
        if step.hold or step.pause_s:
            self._event(start)
            self._pieces(step.text, step.pause_s, step.hold)
            self._event(*end)
        else:  # one packet, as a fast server's
            self._event(start, *map(chunk, _words(step.text)), *end)
        self.server.chat.closed.wait(step.linger_s)
        last = self._chunks("[DONE]") if step.done else b""
        self.wfile.write(last + b"0\r\n\r\n")

    def _stall(self, step: Stall) -> None:
        if step.text or step.comments:
            self._begin("text/event-stream")
            self._pieces(step.text)
        until = time.monotonic() + step.seconds
        while time.monotonic() < until and not self.server.chat.closed.wait(0.05):
            if step.comments:
                self._write(b": still working\n\n")

    def _pieces(self, text: str, pause_s: float = 0.0, hold: threading.Event | None = None) -> None:
        words = _words(text)
        for number, word in enumerate(words):
            if hold and number == len(words) // 2:
                hold.wait(60)
            time.sleep(pause_s)
            self._event(chunk(word))

    def _event(self, *events: object) -> None:
        self.wfile.write(self._chunks(*events))

    def _chunks(self, *events: object) -> bytes:
        """Return a chunk of HTTP for each event."""
        sent = map(sse, events)
        return b"".join(b"%x\r\n%s\r\n" % (len(data), data) for data in sent)

    def _begin(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _whole(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        headers = {"Content-Type": content_type, "Content-Length": str(len(body))} | dict(
            extra or {}
        )
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _received(self, body: bytes) -> Received:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Received(self.command, self.path, headers, body)


def _wants_stream(body: bytes) -> bool:
    with suppress(ValueError, AttributeError):
        return bool(json.loads(body).get("stream"))
    return False


def _words(text: str) -> list[str]:
    return re.findall(r"[^ ]* |[^ ]+$", text)


def _whole_reply(step: Say) -> bytes:
    message = {"role": "assistant", "content": step.text}
    choice = {"index": 0, "message": message, "finish_reason": step.finish_reason}
    reply = {"id": "1", "model": MODEL, "choices": [choice]}
    if step.usage is not None:
        reply["usage"] = dict(step.usage)
    return json.dumps(reply).encode()
