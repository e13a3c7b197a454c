"""Model servers that mean harm, over raw sockets on loopback, for tests and the hostile runner.

    with HostileServer(MODES["endless line"]) as server:
        ...  # ask the model at server.base_url

A mode is what the server sends to whoever asks, for as long as the other side stays.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, cycle, repeat
from typing import Self

BLOCK = 64 * 1024
PATIENCE_S = 120.0  # no attack goes on for longer, whoever forgets to leave


@dataclass(frozen=True)
class Mode:
    """One way to do harm.

    Args:
        attack: Makes what is sent, anew for each connection.
        pause_s: Waited between two blocks; above 0 the attack is one on the other side's time.
        asks: Which command meets it: `ask`, or `doctor`, which asks for `/models`.
        may_answer: The other side may also make a reply of it.
    """

    attack: Callable[[], Iterable[bytes]]
    pause_s: float = 0.0
    asks: str = "ask"
    may_answer: bool = False


class HostileServer:
    """A context manager: serves a mode in threads while the block lasts."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._ends = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._ends.is_set():
            with suppress(TimeoutError):
                peer = self._socket.accept()[0]
                threading.Thread(target=self._attack, args=(peer,), daemon=True).start()

    def _attack(self, peer: socket.socket) -> None:
        until_s = time.monotonic() + PATIENCE_S
        with suppress(OSError), peer:
            peer.settimeout(5)
            peer.recv(BLOCK)
            for block in self._mode.attack():
                peer.sendall(block)
                if self._ends.wait(self._mode.pause_s) or time.monotonic() > until_s:
                    break
            else:
                peer.shutdown(socket.SHUT_WR)
                with suppress(TimeoutError):
                    peer.recv(BLOCK)


def _head(content_type: str = "text/event-stream", *more: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _sent(first: bytes, *parts: Iterable[bytes]) -> Callable[[], Iterator[bytes]]:
    return lambda: chain([first], *parts)


def _stream(*parts: Iterable[bytes]) -> Callable[[], Iterator[bytes]]:
    return _sent(_head(), *parts)


def _body(
    content_type: str, blocks: Iterable[bytes], *more: str, status: str = "200 OK"
) -> Callable[[], Iterator[bytes]]:
    return _sent(_head(content_type, *more, status=status), blocks)


def _event(delta: object = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": None}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


def _often(block: bytes) -> bytes:
    return block * max(1, BLOCK // len(block))


def _for_ever(block: bytes) -> Iterable[bytes]:
    return repeat(_often(block))


def _bytes_of(text: bytes) -> Iterable[bytes]:
    """Return the bytes of `text` one at a time, again and again."""
    return cycle([bytes([byte]) for byte in text])


def _bomb(wbits: int) -> Callable[[], Iterator[bytes]]:
    """Yield eight gigabytes of zeros, a thousand times smaller."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    begin = packer.compress(bytes(1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)
    more = packer.compress(bytes(1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)
    return lambda: chain([begin], repeat(more, 8 * 1024))


def _packed(content_type: str, encoding: str, wbits: int, status: str = "200 OK"):
    head = _head(content_type, f"Content-Encoding: {encoding}", status=status)
    return lambda: chain([head], _bomb(wbits)())


def _chunked(*parts: Iterable[bytes]) -> Callable[[], Iterator[bytes]]:
    return _sent(_head("text/event-stream", "Transfer-Encoding: chunked"), *parts)


def _answered(body: bytes, *, models: bool = False) -> Mode:
    return Mode(
        _body("application/json", [body], f"Content-Length: {len(body)}"),
        asks="doctor" if models else "ask",
    )


def _redirect(to: str) -> Callable[[], Iterator[bytes]]:
    return _body("text/plain", [], f"Location: {to}", "Content-Length: 0", status="307 Moved")


_GZIP, _ZLIB = 31, 15
_SLOW_S = 0.05
_FINISHED = b'data: {"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\n\n'
_DEEP = b"[" * 4_000_000
_TINY = b'{"choices":[' + b"[]," * 2_500_000 + b"[]]}"
_TEXT = _event({"content": "word "})
_THOUGHT = _event({"reasoning_content": "hm"})
_EMPTY = _event({"content": ""})
_TOOL = b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"'
_TIMES = "Retry-After: "
_DEEP_ERROR = b'{"error":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}"
_WIDE_ERROR = b'data: {"error":{"message":"' + b"model " * 1_200_000 + b'"}}\n\n'
_IDS = b'{"data":[' + b'{"id":"m"},' * 700_000 + b'{"id":"n"}]}'

MODES: dict[str, Mode] = {
    # What a reply may hold.
    "endless line": Mode(_stream([b"data: "], _for_ever(b"x"))),
    "endless comment": Mode(_stream([b": "], _for_ever(b"x"))),
    "endless event id": Mode(_stream([b"id: "], _for_ever(b"7"))),
    "event of endless lines": Mode(_stream(_for_ever(b"data: x\n"))),
    "event of empty lines": Mode(_stream(_for_ever(b"data:\n"))),
    "comments without end": Mode(_stream(_for_ever(b":\n\n"))),
    "lone carriage returns": Mode(_stream(_for_ever(b"\r"))),
    "empty objects without end": Mode(_stream(_for_ever(b"data: {}\n\n"))),
    "empty pieces without end": Mode(_stream(_for_ever(_EMPTY))),
    "thoughts without end": Mode(_stream(_for_ever(_THOUGHT))),
    "text without end": Mode(_stream(_for_ever(_TEXT))),
    "text without end in pieces of a megabyte": Mode(
        _stream(repeat(_event({"content": "x" * 1_000_000})))
    ),
    "a tool call without end": Mode(_stream([_TOOL], _for_ever(b"x"))),
    "tool calls without end": Mode(_stream(_for_ever(_TOOL + b'x"}}]}}]}\n\n'))),
    "comments after the last word": Mode(
        _stream([_FINISHED], _for_ever(b":\n\n")), may_answer=True
    ),
    "deep event": Mode(_stream([b"data: " + _DEEP + b"\n\n"])),
    "event of a million lists": Mode(_stream([b"data: " + _TINY + b"\n\n"])),
    "an error of seven megabytes": Mode(_stream([_WIDE_ERROR])),
    "a deep error": Mode(_stream([b"data: " + _DEEP_ERROR + b"\n\n"])),
    "a model name of one megabyte": Mode(
        _stream([_event({"content": "Hi."}, model="m" * 1_000_000), _FINISHED]), may_answer=True
    ),
    "counts no computer holds": Mode(
        _stream([_event(usage={"prompt_tokens": 10**4000, "cost": 10**4000}), _FINISHED]),
        may_answer=True,
    ),
    "half of a character": Mode(
        _stream([b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n', _FINISHED]),
        may_answer=True,
    ),
    "a charset that unpacks": Mode(
        lambda: chain([_head("text/event-stream; charset=zlib")], _bomb(_ZLIB)())
    ),
    # Bodies that are no stream.
    "endless body": Mode(_body("application/json", _for_ever(b"[0,"))),
    "endless spaces": Mode(_body("application/json", _for_ever(b" "))),
    "endless web page": Mode(_body("text/html", _for_ever(b"<p>"))),
    "body that ends with the connection": Mode(
        _sent(b"HTTP/1.0 200 OK\r\nContent-Type: text/json\r\n\r\n", _for_ever(b"1"))
    ),
    "deep body": _answered(_DEEP),
    "body of a million lists": _answered(_TINY),
    "endless error": Mode(_body("text/plain", _for_ever(b"no "), status="500 No")),
    "an error of words that are searched": Mode(
        _body("text/plain", _for_ever(b"model "), status="404 No")
    ),
    "deep error body": Mode(_body("application/json", [_DEEP], status="400 No")),
    # Encodings that nobody asked for.
    "packed stream": Mode(_packed("text/event-stream", "gzip", _GZIP)),
    "packed body": Mode(_packed("application/json", "deflate", _ZLIB)),
    "packed error": Mode(_packed("application/json", "gzip", _GZIP, status="500 No")),
    "packed twice": Mode(_packed("text/event-stream", "gzip, gzip", _GZIP)),
    "an encoding nobody knows": Mode(
        _body("application/json", _for_ever(b"x"), "Content-Encoding: x")
    ),
    # HTTP itself.
    "endless headers": Mode(_sent(b"HTTP/1.1 200 OK\r\n", _for_ever(b"X-A: b\r\n"))),
    "endless header": Mode(_sent(b"HTTP/1.1 200 OK\r\nX: ", _for_ever(b"b"))),
    "endless status line": Mode(_sent(b"HTTP/1.1 200 ", _for_ever(b"O"))),
    "cookies without end": Mode(
        lambda: [b"HTTP/1.1 200 OK\r\n" + b"Set-Cookie: a=b; expires=1\r\n" * 3000 + b"\r\n"]
    ),
    "a flood of 1xx": Mode(lambda: _for_ever(b"HTTP/1.1 103 Wait\r\nA: b\r\n\r\n"), pause_s=1e-4),
    "another protocol": Mode(
        lambda: [b"HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"]
    ),
    "endless trailers": Mode(_chunked([b"0\r\n"], _for_ever(b"X-A: b\r\n"))),
    "endless chunk extension": Mode(_chunked([b"5;"], _for_ever(b"a=b;"))),
    "a chunk of no size": Mode(_chunked([b"f" * 50 + b"\r\n"])),
    "chunks of one byte": Mode(_chunked(_for_ever(b"1\r\n:\r\n")), pause_s=1e-4),
    "a length no computer holds": Mode(
        _body("application/json", [b"x"], "Content-Length: " + "9" * 5000)
    ),
    "a length below nothing": Mode(_body("application/json", [b"x"], "Content-Length: -1")),
    "a redirect to itself": Mode(_redirect("/v1/chat/completions")),
    "a redirect to nowhere": Mode(_redirect("http://[::::/\x7f")),
    "a redirect to another scheme": Mode(_redirect("file:///etc/passwd")),
    "busy for ever": Mode(
        _body("text/plain", [b"later"], _TIMES + "0", "Content-Length: 5", status="503 Busy")
    ),
    "busy until the end of time": Mode(
        _body("text/plain", [b"later"], _TIMES + "1e308", "Content-Length: 5", status="429 Busy")
    ),
    "gone at once": Mode(list),
    "noise": Mode(lambda: [bytes(range(256)) * 256]),
    # Time: something comes, again and again, and nothing is said.
    "silence": Mode(lambda: repeat(b""), pause_s=_SLOW_S),
    "slow status line": Mode(lambda: _bytes_of(b"HTTP/1.1 200 OK"), pause_s=_SLOW_S),
    "slow headers": Mode(_sent(b"HTTP/1.1 200 OK\r\n", _bytes_of(b"X-A: b\r\n")), pause_s=_SLOW_S),
    "slow 1xx": Mode(lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), pause_s=_SLOW_S),
    "one byte at a time": Mode(_stream(_bytes_of(b":\n\n")), pause_s=_SLOW_S),
    "slow line": Mode(_stream([b"data: "], _bytes_of(b"x")), pause_s=_SLOW_S),
    "slow empty pieces": Mode(_stream(repeat(_EMPTY)), pause_s=_SLOW_S),
    "slow thoughts": Mode(_stream(repeat(_THOUGHT)), pause_s=_SLOW_S),
    "slow text without end": Mode(_stream(repeat(_TEXT)), pause_s=_SLOW_S),
    "slow body": Mode(_body("application/json", repeat(b" ")), pause_s=_SLOW_S),
    "slow error": Mode(_body("text/plain", repeat(b"no "), status="500 No"), pause_s=_SLOW_S),
    "slow trailers": Mode(_chunked([b"0\r\n"], _bytes_of(b"X-A: b\r\n")), pause_s=_SLOW_S),
    "a length that never comes": Mode(
        _sent(_head("application/json", "Content-Length: 9"), [b"{"], repeat(b"")), pause_s=_SLOW_S
    ),
    # The list of models.
    "models: endless body": Mode(_body("application/json", _for_ever(b"[0,")), asks="doctor"),
    "models: packed": Mode(_packed("application/json", "gzip", _GZIP), asks="doctor"),
    "models: deep": _answered(_DEEP, models=True),
    "models: a million lists": _answered(_TINY, models=True),
    "models: a million names": _answered(_IDS, models=True),
    "models: endless headers": Mode(
        _sent(b"HTTP/1.1 200 OK\r\n", _for_ever(b"X-A: b\r\n")), asks="doctor"
    ),
    "models: a redirect to itself": Mode(_redirect("/v1/models"), asks="doctor"),
    "models: slow headers": Mode(
        _sent(b"HTTP/1.1 200 OK\r\n", _bytes_of(b"X-A: b\r\n")),
        pause_s=_SLOW_S,
        asks="doctor",
    ),
    "models: slow body": Mode(
        _body("application/json", repeat(b" ")), pause_s=_SLOW_S, asks="doctor"
    ),
    "models: silence": Mode(lambda: repeat(b""), pause_s=_SLOW_S, asks="doctor"),
}
