"""The server over HTTP: each request for itself, so nothing is lost when a connection is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from familiar_cli.mcp_server.server import MemoryServer

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from familiar_cli.actions.familiar_pool import FamiliarPool
    from familiar_cli.config.home import FamiliarPaths
    from familiar_cli.familiar import Familiar
    from familiar_cli.mcp_server.server import Manner


class Endpoint:
    """One familiar's memory as an ASGI application. Hosts, origins and tokens are checked before.

    Args:
        paths: The familiar's files.
        pool: Opens it.
        manner: How callers are treated.
    """

    def __init__(self, paths: FamiliarPaths, pool: FamiliarPool[Familiar], manner: Manner) -> None:
        self._server = MemoryServer(paths, pool, replace(manner, lasts=False))
        self._manager = StreamableHTTPSessionManager(
            self._server.protocol, json_response=True, stateless=True
        )
        self._is_open = asyncio.Event()
        self._is_ending = asyncio.Event()
        self._holding = asyncio.create_task(self._hold())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._is_open.wait()
        await self._manager.handle_request(scope, receive, send)

    async def aclose(self) -> None:
        """End what is under way, and let go of the familiar's files."""
        self._is_ending.set()
        await asyncio.wait({self._holding})
        await self._server.aclose()

    async def _hold(self) -> None:
        async with self._manager.run():
            self._is_open.set()
            await self._is_ending.wait()
