"""The server over standard input and output, until the client leaves or a signal asks to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from familiar_cli.mcp_server.opened import Opened
from familiar_cli.mcp_server.server import Manner, MemoryServer

if TYPE_CHECKING:
    from familiar_cli.config.home import FamiliarPaths


async def serve_stdio(paths: FamiliarPaths, manner: Manner) -> None:
    """Serve one client over standard input and output.

    The protocol keeps both to itself: whatever else writes to standard output meanwhile, of this
    process or a child of it, goes to standard error.
    """
    opened = Opened(paths, manner.tell)
    server = MemoryServer(opened, manner).protocol
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        await opened.aclose()
