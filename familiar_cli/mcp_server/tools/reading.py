"""`memory_read` and `memory_list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.mcp_server.tool import TEXT, Answer, Item, Tool
from familiar_cli.memory.pages.privacy import visible_in

if TYPE_CHECKING:
    from familiar_cli.mcp_server.tool import Arguments, Caller


def memory_read(caller: Caller, arguments: Arguments) -> Answer:
    """Return a file's text."""
    file = caller.familiar.memory.read(arguments["path"])
    text = visible_in(file.text, caller.channel_id)
    return Answer([Item({"path": file.rel_path}, text)], stamp=file.sha256[:12])


TOOLS: Final = (
    Tool(
        "memory_read",
        "Read a memory file.",
        {"path": TEXT},
        memory_read,
        needs=("path",),
        pages=True,
    ),
)
