"""The tools, a table in each module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.mcp_server.tools import prompting, reading, syncing, writing

if TYPE_CHECKING:
    from familiar_cli.mcp_server.tool import Tool

TOOLS: Final[tuple[Tool, ...]] = (
    *reading.SEARCH_TOOLS,
    *reading.TOOLS,
    *reading.PAST_TOOLS,
    *reading.PEOPLE_TOOLS,
    *prompting.TOOLS,
    *writing.TOOLS,
    *syncing.TOOLS,
)
"""All tools, in the order in which clients list them."""
