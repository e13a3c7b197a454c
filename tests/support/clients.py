"""A client of the memory by the Model Context Protocol, in this process, for everyone's tests.

async with asking() as client:
    found = await client.call_tool("memory_search", {"query": "tea"})
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client

from familiar_cli.base.config.home import find_familiar
from familiar_cli.familiar import Familiar
from familiar_cli.servers.familiar_pool import FamiliarPool
from familiar_cli.servers.mcp.server import MemoryServer, ServerOptions
from tests.support.world import home


@asynccontextmanager
async def asking(familiar: str = "ada", **manner: Any) -> AsyncIterator[Client]:
    """Ask a familiar's memory, for its owner by default; `manner` are fields of `ServerOptions`."""
    pool = FamiliarPool(home(), Familiar)
    manner = {"owner": True} | manner
    server = MemoryServer(find_familiar(home(), familiar), pool, ServerOptions(**manner))
    try:
        async with Client(server.protocol) as client:
            yield client
    finally:
        await server.aclose()
        await pool.aclose()


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that works, and return its structured result."""
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    return found.structured_content
