"""How clients reach the server: over standard input and output, or over HTTP.

Over HTTP, requests are independent, so nothing is lost with a connection. Writes are recorded under
the client's session, so that it can undo only its own. Session ids are made here and held by the
client alone, so they outlive this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final, Self, cast

from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from msgspec.structs import replace
from starlette.types import Message, Receive, Scope, Send

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.familiar import Familiar
from familiar_cli.servers.familiar_pool import FamiliarPool
from familiar_cli.servers.mcp.server import SESSION, MemoryServer, ServerOptions
from familiar_cli.store.passes import stopped_by_signals, until_stopped

_STDIN: Final = 0
_LISTEN: Final = "subscriptions/listen"  # is never answered
_READ_BYTES: Final = 64 * 1024
_MOST_LINE_BYTES: Final = 32 * 1024 * 1024
_ANSWERING_S: Final = 30  # for requests sent before the client closed its end


async def serve_stdio(paths: FamiliarPaths, manner: ServerOptions) -> None:
    """Serve one client over standard input and output; only in the main thread.

    The protocol has both to itself: other output to stdout, by this process or its children, goes
    to stderr, and other readers of stdin find its end.
    """
    stop = asyncio.Event()
    with stopped_by_signals(stop):
        pool = FamiliarPool(paths.root.parent, lambda paths: Familiar(paths, manner.tell))
        server = MemoryServer(paths, pool, manner)
        try:
            await until_stopped(_serve(server), stop)
        finally:
            await server.aclose()
            await pool.aclose()


async def _serve(server: MemoryServer) -> None:
    requests = _OpenRequests()
    protocol = server.protocol
    with _claimed_stdin() as descriptor:
        lines = cast("Any", _lines(descriptor, requests))  # it is used with `async for` only
        try:
            async with stdio_server(stdin=lines) as (read, write):
                requests.refuse = write.send
                options = protocol.create_initialization_options()
                await protocol.run(read, cast("Any", _Answers(write, requests)), options)
        except* BrokenPipeError:
            pass  # the client has disconnected


class _OpenRequests:
    """Requests without an answer yet.

    The SDK's loop cancels what is under way as soon as its input ends. A client that sends all its
    requests and closes its end must still be answered. The SDK skips what it cannot read, so that
    is answered here.
    """

    def __init__(self) -> None:
        self.refuse: Callable[[SessionMessage], Awaitable[None]] | None = None
        self._open: set[int | str] = set()
        self._changed = asyncio.Event()

    async def sent(self, line: str) -> None:
        """Note a message from the client."""
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if self.refuse and (error := _error_of(line)):
                await self.refuse(SessionMessage(error))
            return
        if isinstance(message, types.JSONRPCNotification):
            if message.method == "notifications/cancelled":
                self.answered((message.params or {}).get("requestId"))
        elif isinstance(message, types.JSONRPCRequest) and message.method != _LISTEN:
            self._open.add(message.id)

    def answered(self, asked: object) -> None:
        """Record that a request was answered, or needs no answer any more."""
        if isinstance(asked, int | str):
            self._open.discard(asked)
        self._changed.set()

    async def all_answered(self) -> None:
        """Wait until every request is answered, without a time limit."""
        try:
            async with asyncio.timeout(_ANSWERING_S):
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return


def _error_of(line: str) -> types.JSONRPCError | None:
    """Return the error for a line that is not a message; None for a damaged answer."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        error = types.ErrorData(code=types.PARSE_ERROR, message="The line is not JSON")
        return types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
    fields = message if isinstance(message, dict) else {}
    if fields.keys() & {"result", "error"}:
        return None
    asked = fields.get("id") if type(fields.get("id")) in {int, str} else None
    error = types.ErrorData(
        code=types.INVALID_REQUEST, message="The line is not a JSON-RPC message"
    )
    return types.JSONRPCError(jsonrpc="2.0", id=asked, error=error)


class _Answers:
    """A stream that notes the answers sent through it.

    Args:
        stream: The transport's own stream.
        asked: Where they are noted.
    """

    def __init__(self, stream: Any, asked: _OpenRequests) -> None:  # noqa: ANN401  # the SDK's own
        self._stream = stream
        self._asked = asked

    async def send(self, message: Any, /) -> None:  # noqa: ANN401
        """Send a message."""
        await self._stream.send(message)
        if not hasattr(message.message, "method"):
            self._asked.answered(getattr(message.message, "id", None))

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _lines(descriptor: int, requests: _OpenRequests) -> AsyncIterator[str]:
    """Yield incoming lines until the end.

    A daemon thread reads them: nothing can interrupt the read, and a signal must end the program
    even while a client is silent.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(1)

    def read() -> None:
        rest = b""
        try:
            while got := os.read(descriptor, _READ_BYTES):
                *whole, rest = (rest + got).split(b"\n")
                for line in whole:
                    asyncio.run_coroutine_threadsafe(waiting.put(line), loop).result()
                if len(rest) > _MOST_LINE_BYTES:
                    break
        except (OSError, RuntimeError):  # closed by the other side, or the loop has ended
            pass
        if not loop.is_closed():
            asyncio.run_coroutine_threadsafe(waiting.put(None), loop)

    Thread(target=read, daemon=True, name="familiar-mcp-stdin").start()
    while (line := await waiting.get()) is not None:
        text = line.decode("utf-8", "replace")
        if text.strip():
            text = _whole(text)
            await requests.sent(text)
            yield text
    await requests.all_answered()


def _whole(line: str) -> str:
    """Replace lone surrogates in a message.

    JSON can escape one half of a pair alone. The SDK cannot parse such a line, and would leave the
    request unanswered.
    """
    if "\\ud" not in line.lower():
        return line
    try:
        message = json.loads(line)
    except ValueError:
        return line
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace").decode()


@contextmanager
def _claimed_stdin() -> Iterator[int]:
    """Move standard input to another descriptor; readers of the original find its end."""
    descriptor = os.dup(_STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, _STDIN)
        yield descriptor
    finally:
        os.dup2(descriptor, _STDIN)
        os.close(nothing)


_HEADER: Final = b"mcp-session-id"
_FORWARDED: Final = frozenset({b"forwarded", b"x-forwarded-for", b"via"})
_SESSION_ID: Final = re.compile(r"[0-9a-f]{32}")


class Endpoint:
    """One familiar's memory as an ASGI application. Access was checked before.

    Args:
        paths: The familiar's files.
        pool: Opens it.
        manner: How callers are treated.
    """

    def __init__(
        self, paths: FamiliarPaths, pool: FamiliarPool[Familiar], manner: ServerOptions
    ) -> None:
        # Over standard input, the server starts without it.
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        self._server = MemoryServer(paths, pool, replace(manner, lasts=False))
        self._manager = StreamableHTTPSessionManager(
            self._server.protocol, json_response=True, stateless=True
        )
        self._is_open = asyncio.Event()
        self._is_ending = asyncio.Event()
        self._holding = asyncio.create_task(self._hold())

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, connection: str = ""
    ) -> None:
        """Handle one request; `connection` identifies its connection, if known."""
        await self._is_open.wait()
        session, is_new = _session_of(scope, connection)
        scope["state"] = {**scope.get("state", {}), SESSION: session}

        async def send_with_session(message: Message) -> None:
            if is_new and message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (_HEADER, session.encode())]
                message = {**message, "headers": headers}
            await send(message)

        await self._manager.handle_request(scope, receive, send_with_session)

    async def aclose(self) -> None:
        """Cancel requests under way and close the familiar's files."""
        self._is_ending.set()
        await asyncio.wait({self._holding})
        await self._server.aclose()

    async def _hold(self) -> None:
        async with self._manager.run():
            self._is_open.set()
            await self._is_ending.wait()


def _session_of(scope: Scope, connection: str) -> tuple[str, bool]:
    """Return the session of a request, and whether it is new to the client.

    A client of a protocol without sessions is identified by its connection. Behind a proxy, which
    may share connections, each of its requests is a session.
    """
    headers = dict(scope["headers"])
    named = headers.get(_HEADER, b"").decode("latin-1")
    if _SESSION_ID.fullmatch(named):
        return named, False
    is_own = connection and not _FORWARDED & headers.keys()
    return connection if is_own else secrets.token_hex(16), True
