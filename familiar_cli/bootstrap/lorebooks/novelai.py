"""NovelAI's `.lorebook` files: `lorebookVersion`, and entries with `displayName text keys`."""

from __future__ import annotations

from typing import Any, Final

from familiar_cli.bootstrap.lorebooks.foreign import convert, rest_of
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry

TOOL: Final = "novelai"
_PRIORITY: Final = 400  # NovelAI's own default
_KNOWN: Final = {
    "displayName": "name",
    "text": "content",
    "keys": "keys",
    "enabled": "enabled",
    "forceActivation": "constant",
    "id": "id",
}


def matches(data: dict[str, Any]) -> bool:
    """Say whether `data` is a NovelAI lorebook."""
    return "lorebookVersion" in data


def read(data: dict[str, Any]) -> Lorebook:
    """Return it with its entries as a `character_book` has them."""
    given = data.get("entries")
    items = given if isinstance(given, list) else []
    return Lorebook(
        name=str(data.get("name") or ""),
        shape="book",
        entries=tuple(_entry(item) for item in items if isinstance(item, dict)),
        frame=rest_of(data, ("entries",), TOOL),
        source="NovelAI",
        unreadable=tuple(item for item in items if not isinstance(item, dict)),
    )


def _entry(item: dict[str, Any]) -> LoreEntry:
    config = item.get("contextConfig")
    order = config.get("budgetPriority", _PRIORITY) if isinstance(config, dict) else _PRIORITY
    blank: dict[str, Any] = {"keys": [], "content": "", "enabled": True, "use_regex": False}
    return LoreEntry("book", convert(item, _KNOWN, TOOL, blank | {"insertion_order": order}))
