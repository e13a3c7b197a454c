"""`memory_search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.search_memories import MOST_RESULTS, search_memories
from familiar_cli.mcp_server.tool import COUNT, NUMBER, TEXT, TEXTS, Answer, Item, Tool
from familiar_cli.memory.pages.evidence import spans

if TYPE_CHECKING:
    from familiar_cli.actions.search_memories import FoundMemory
    from familiar_cli.mcp_server.tool import Arguments, Caller

_MOST: Final = 10


def memory_search(caller: Caller, arguments: Arguments) -> Answer:
    """Return the memories that fit a query, or any of up to five, best first."""
    found = search_memories(
        caller.familiar,
        arguments["query"],
        max_results=arguments.get("maxResults", _MOST),
        min_score=arguments.get("minScore", 0.0),
        instance=arguments.get("instanceId", ""),
        viewer=caller.viewer,
    )
    items = [Item(_about(memory), memory.text) for memory in found.memories]
    notes = found.notes if items else ("No memory matches; memory_list lists all.", *found.notes)
    return Answer(items, notes, {"method": found.method})


def _about(memory: FoundMemory) -> dict[str, Any]:
    about = {
        "path": memory.rel_path,
        "line": memory.line,
        "date": memory.date,
        "turns": spans(memory.turns),
        "granularity": memory.granularity,
        "heading": memory.heading,
    }
    return {name: value for name, value in about.items() if value} | {"score": memory.score}


TOOLS: Final = (
    Tool(
        "memory_search",
        "Find memories by words and meaning.",
        {
            "query": {"anyOf": [TEXT, {**TEXTS, "minItems": 1, "maxItems": 5}]},
            "minScore": NUMBER,
            "maxResults": {**COUNT, "maximum": MOST_RESULTS},
            "instanceId": TEXT,
        },
        memory_search,
        needs=("query",),
        gives={"method": TEXT},
        pages=True,
        searches=True,
    ),
)
