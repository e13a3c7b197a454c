"""RisuAI's lorebooks: `type: "risu"`, and `data[]` whose keys are one text with commas."""

from __future__ import annotations

from typing import Any, Final

from familiar_cli.bootstrap.lorebooks.foreign import convert, rest_of
from familiar_cli.bootstrap.lorebooks.repair import comma_list
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry

TOOL: Final = "risuai"
_KNOWN: Final = {
    "comment": "comment",
    "content": "content",
    "key": "keys",
    "secondkey": "secondary_keys",
    "insertorder": "insertion_order",
    "alwaysActive": "constant",
    "selective": "selective",
    "useRegex": "use_regex",
    "id": "id",
}


def matches(data: dict[str, Any]) -> bool:
    """Say whether `data` is a RisuAI lorebook."""
    return data.get("type") == "risu" and isinstance(data.get("data"), list)


def read(data: dict[str, Any]) -> Lorebook:
    """Return it with its entries as a `character_book` has them."""
    items = data["data"]
    return Lorebook(
        name=str(data.get("name") or ""),
        shape="book",
        entries=tuple(_entry(item) for item in items if isinstance(item, dict)),
        frame=rest_of(data, ("data",), TOOL),
        source="RisuAI",
        unreadable=tuple(item for item in items if not isinstance(item, dict)),
    )


def _entry(item: dict[str, Any]) -> LoreEntry:
    lists = {
        name: comma_list(item[name])
        for name in ("key", "secondkey")
        if isinstance(item.get(name), str)
    }
    blank: dict[str, Any] = {"keys": [], "content": "", "enabled": True, "use_regex": False}
    return LoreEntry(
        "book", convert({**item, **lists}, _KNOWN, TOOL, blank | {"insertion_order": 100})
    )
