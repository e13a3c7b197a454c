"""MCP over HTTP: independent requests, so nothing is lost with a connection.

Writes are recorded under the client's session, so that it can undo only its own. Session ids are
made here and held by the client alone, so they outlive this process.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import TYPE_CHECKING, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from msgspec.structs import replace

from familiar_cli.servers.mcp.server import SESSION, MemoryServer, ServerOptions

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from familiar_cli.base.config.home import FamiliarPaths
    from familiar_cli.familiar import Familiar
    from familiar_cli.servers.familiar_pool import FamiliarPool

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
