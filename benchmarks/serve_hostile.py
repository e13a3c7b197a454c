"""What bodies up to the limit cost the server: seconds, megabytes, and others' patience.

Each case is sent by itself while another client asks `/health` all the time. Linux only.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ANSWER_S: Final = 10.0
ADDED_MB: Final = 400.0
HEALTH_MS: Final = 250.0
IDLE_AFTER_S: Final = 5.0
_IDLE_SHARE: Final = 0.1  # of one core
_PAUSE_S: Final = 0.02
_MOST: Final = 32 * 1024 * 1024 - 1024
_WORDS: Final = "Anna keeps bees near the old mill, and Robin sells their honey at noon. "


@dataclass(frozen=True, slots=True)
class HostileCase:
    """A request, and how it is sent.

    Args:
        name: What it tries.
        path: Where it goes.
        body: Makes the body.
        leaves: The client hangs up as soon as all is sent.
    """

    name: str
    path: str
    body: Callable[[], bytes]
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class HostileOutcome:
    """What a case led to; `status` is 0 where the client did not wait for one."""

    name: str
    status: int
    seconds: float
    added_mb: float
    health_ms: float
    is_idle: bool

    @property
    def is_within_limits(self) -> bool:
        """Whether the server kept all of its limits."""
        return (
            self.seconds <= ANSWER_S
            and self.added_mb <= ADDED_MB
            and self.health_ms <= HEALTH_MS
            and self.is_idle
        )


def _said(text: str, *, count: int = 1, end: str = "") -> Callable[[], bytes]:
    """Return what makes a conversation: `count` messages, or one of `text` repeated to size."""

    def make() -> bytes:
        roles = ("user", "assistant")
        lines = [{"role": roles[n % 2], "content": f"{text} {n}"} for n in range(count)]
        if end:
            lines.append({"role": "user", "content": end})
        return json.dumps({"model": "ada", "messages": lines}, ensure_ascii=False).encode()

    return make


def _filled(unit: str, size_bytes: int) -> Callable[[], bytes]:
    def make() -> bytes:
        return _said(unit * (size_bytes // len(unit.encode())))()

    return make


def _embedded(text_bytes: int, count: int) -> Callable[[], bytes]:
    def make() -> bytes:
        text = (_WORDS * (text_bytes // len(_WORDS) + 1))[:text_bytes]
        return json.dumps(
            {"model": "auto", "input": [f"{n} {text}" for n in range(count)]}
        ).encode()

    return make


def _raw(unit: bytes, head: bytes = b'{"model":"ada","messages":[', end: bytes = b"]}") -> bytes:
    return head + unit * ((_MOST - len(head) - len(end)) // len(unit)) + end


def _called(tool: str, **arguments: str) -> Callable[[], bytes]:
    params = {"name": tool, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return lambda: json.dumps(call).encode()


_MB: Final = 1_000_000
_CONTEXT, _CHAT, _TURNS = "/familiar/context", "/v1/chat/completions", "/familiar/turns"
CASES: Final = (
    HostileCase("a message of 2 MB", _CONTEXT, _filled(_WORDS, 2 * _MB)),
    HostileCase("2 MB without a space", _CONTEXT, _filled("abcdefgh", 2 * _MB)),
    HostileCase("2 MB of Chinese", _CONTEXT, _filled("城里的蜜蜂", 2 * _MB)),
    HostileCase("2 MB of marks", _CONTEXT, _filled("?! \u0301", 2 * _MB)),
    HostileCase("2 MB of names", _CONTEXT, _filled("Bo Al Cy ", 2 * _MB)),
    HostileCase("2 MB of dates", _CONTEXT, _filled("yesterday, 3 days ago, ", 2 * _MB)),
    HostileCase("2 MB of lines", _CONTEXT, _filled("a\n", 2 * _MB)),
    HostileCase("a message of 31 MB", _CONTEXT, _filled(_WORDS, _MOST - 100)),
    HostileCase("31 MB of emoji", _CONTEXT, _filled("🐝", _MOST - 100)),
    HostileCase("31 MB of numbers", _CONTEXT, lambda: _raw(b"0.1,", end=b"0]}")),
    HostileCase("31 MB of objects", _CONTEXT, lambda: _raw(b"{},", end=b"{}]}")),
    HostileCase("31 MB of brackets", _CONTEXT, lambda: _raw(b"[")),
    HostileCase("31 MB of escapes", _CONTEXT, lambda: _raw(b"\\n", b'{"model":"', b'"}')),
    HostileCase("20,000 messages to context", _CONTEXT, _said("Hello", count=19_998, end="Bees?")),
    HostileCase("20,000 messages to keep", _TURNS, _said("Hello", count=19_998)),
    HostileCase("the same 20,000 again", _TURNS, _said("Hello", count=19_998)),
    HostileCase("20,000 messages, one new", _CHAT, _said("Hello", count=19_998, end="Bees?")),
    HostileCase("20,000 equal messages", _CHAT, _said("", count=19_998, end="Bees?")),
    HostileCase("a chat message of 2 MB", _CHAT, _filled(_WORDS, 2 * _MB)),
    HostileCase("a chat message of 31 MB", _CHAT, _filled(_WORDS, _MOST - 100)),
    HostileCase("a model name of 31 MB", _CHAT, lambda: _raw(b"x", b'{"model":"', b'"}')),
    HostileCase("a text of 31 MB to embed", "/v1/embeddings", _embedded(_MOST - 200, 1)),
    HostileCase("2,048 texts of 15 kB to embed", "/v1/embeddings", _embedded(15_000, 2_048)),
    HostileCase("MCP: a query of 1 MB", "/mcp", _called("memory_search", query=_WORDS * 14_000)),
    HostileCase("MCP: a path of 31 MB", "/mcp", _called("memory_read", path="x" * (_MOST - 500))),
    HostileCase("a person of 1 MB", "/distill/context?person=", lambda: b"x" * _MB),
    HostileCase("2 MB, and gone", _CONTEXT, _filled(_WORDS, 2 * _MB), leaves=True),
    HostileCase("2 MB to embed, and gone", "/v1/embeddings", _embedded(1_000, 2_000), leaves=True),
)


def measure(url: str, pid: int) -> list[HostileOutcome]:
    """Return what each case led to, and what many unfinished bodies at once did."""
    address = urlsplit(url)
    where = (address.hostname or "", address.port or 80)
    for first in (_CONTEXT, _CHAT):  # what is imported at its first use takes long, once
        _send(where, HostileCase("warm up", first, _said("Hello")))
    _send(where, HostileCase("warm up", "/mcp", _called("memory_search", query="bees")))
    found = [_measured(where, pid, case.name, lambda c=case: _send(where, c)) for case in CASES]
    found.append(_measured(where, pid, "30 unfinished bodies of 31 MB", lambda: _unfinished(where)))
    return found


def _measured(
    where: tuple[str, int], pid: int, name: str, act: Callable[[], int]
) -> HostileOutcome:
    before = _resident_mb(pid)
    with _watched(where, pid) as seen:
        begun = time.monotonic()
        status = act()
        seconds = time.monotonic() - begun
        time.sleep(_PAUSE_S)
    is_idle = _is_idle(pid)
    added, health = seen["most_mb"] - before, seen["health_ms"]
    return HostileOutcome(name, status, seconds, added, health, is_idle)


def _send(where: tuple[str, int], case: HostileCase) -> int:
    body = case.body()
    connection = http.client.HTTPConnection(*where, timeout=120)
    try:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        connection.request("POST", case.path, body, headers)
        if case.leaves:
            return 0
        reply = connection.getresponse()
        reply.read()
    except (BrokenPipeError, ConnectionResetError):
        return -1  # refused before all of it was sent
    finally:
        connection.close()
    return reply.status


def _unfinished(where: tuple[str, int]) -> int:
    """Send 30 bodies but for their last byte, and let go of them."""
    head = f"POST {_CONTEXT} HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {_MOST}\r\n\r\n"
    body = b" " * (_MOST - 1)
    held = [socket.create_connection(where, timeout=20) for _ in range(30)]

    def fill(client: socket.socket) -> None:
        with suppress(OSError):  # it was refused
            client.sendall(head.encode() + body)

    threads = [threading.Thread(target=fill, args=(client,)) for client in held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S / 2)
    for client in held:
        client.close()
    return 0


@contextmanager
def _watched(where: tuple[str, int], pid: int) -> Iterator[dict[str, float]]:
    """Note the most memory, and the slowest answer of `/health`, while the block lasts."""
    seen, is_over = {"most_mb": 0.0, "health_ms": 0.0}, threading.Event()

    def measure_memory() -> None:
        while not is_over.wait(_PAUSE_S / 2):
            seen["most_mb"] = max(seen["most_mb"], _resident_mb(pid))

    def ask_health() -> None:
        while not is_over.wait(_PAUSE_S):
            begun = time.monotonic()
            try:
                connection = http.client.HTTPConnection(*where, timeout=120)
                connection.request("GET", "/health")
                connection.getresponse().read()
                connection.close()
            except OSError:
                seen["health_ms"] = float("inf")
            seen["health_ms"] = max(seen["health_ms"], 1_000 * (time.monotonic() - begun))

    threads = [threading.Thread(target=work) for work in (measure_memory, ask_health)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _is_idle(pid: int) -> bool:
    """Tell whether the server does nothing any more within the time that it has for that."""
    until = time.monotonic() + IDLE_AFTER_S
    while time.monotonic() < until:
        before = _worked_s(pid)
        time.sleep(0.5)
        if _worked_s(pid) - before <= _IDLE_SHARE * 0.5:
            return True
    return False


def _worked_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def show(found: list[HostileOutcome]) -> None:
    """Print a table."""
    print(f"{'case':32} {'status':>6} {'s':>7} {'MB':>7} {'health ms':>9}  idle")
    for one in found:
        print(
            f"{one.name:32} {one.status:6} {one.seconds:7.2f} {one.added_mb:7.1f}"
            f" {one.health_ms:9.0f}  {'yes' if one.is_idle else 'NO'}"
            f"{'' if one.is_within_limits else '  <- over the limit'}"
        )


def as_data(found: list[HostileOutcome]) -> list[dict[str, Any]]:
    """Return outcomes for `--json`."""
    return [asdict(one) | {"is_within_limits": one.is_within_limits} for one in found]
