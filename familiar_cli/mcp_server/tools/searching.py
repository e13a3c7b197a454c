"""`memory_search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.index.types import SearchOptions
from familiar_cli.mcp_server.tool import COUNT, NUMBER, TEXT, TEXTS, Answer, Item, Tool
from familiar_cli.memory.pages.privacy import visible_in

if TYPE_CHECKING:
    from familiar_cli.mcp_server.tool import Arguments, Caller

_MOST: Final = 10


def memory_search(caller: Caller, arguments: Arguments) -> Answer:
    """Return the memories that fit a query, best first."""
    asked = arguments["query"]
    query = asked if isinstance(asked, str) else "\n".join(asked)
    found = caller.familiar.search(query, SearchOptions(k=arguments.get("maxResults", _MOST)))
    items = []
    for hit in found.hits:
        text = visible_in(caller.familiar.memory.read_file(hit.rel_path), caller.channel_id)
        items.append(Item({"path": hit.rel_path, "score": hit.score}, text[:2000]))
    return Answer(items, found.notes, {"method": found.method})


TOOLS: Final = (
    Tool(
        "memory_search",
        "Find memories by words and meaning.",
        {
            "query": {"anyOf": [TEXT, {**TEXTS, "maxItems": 5}]},
            "minScore": NUMBER,
            "maxResults": COUNT,
        },
        memory_search,
        needs=("query",),
        gives={"method": TEXT},
        pages=True,
    ),
)
