"""Agnai's memory books: `kind: "memory"`, and entries with `keywords entry weight`."""

from __future__ import annotations

from typing import Any, Final

from familiar_cli.bootstrap.lorebooks.foreign import convert, rest_of
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry

TOOL: Final = "agnai"
_KNOWN: Final = {
    "name": "name",
    "entry": "content",
    "keywords": "keys",
    "enabled": "enabled",
    "priority": "priority",
    "weight": "insertion_order",
    "id": "id",
}


def matches(data: dict[str, Any]) -> bool:
    """Say whether `data` is an Agnai memory book."""
    return data.get("kind") == "memory"


def read(data: dict[str, Any]) -> Lorebook:
    """Return it with its entries as a `character_book` has them."""
    given = data.get("entries")
    items = given if isinstance(given, list) else []
    names: dict[str, Any] = {n: data[n] for n in ("name", "description") if n in data}
    return Lorebook(
        name=str(data.get("name") or ""),
        shape="book",
        entries=tuple(_entry(item) for item in items if isinstance(item, dict)),
        frame={**names, **rest_of(data, ("entries", *names), TOOL)},
        source="Agnai",
        unreadable=tuple(item for item in items if not isinstance(item, dict)),
    )


def _entry(item: dict[str, Any]) -> LoreEntry:
    blank: dict[str, Any] = {"keys": [], "content": "", "enabled": True, "use_regex": False}
    return LoreEntry("book", convert(item, _KNOWN, TOOL, blank | {"insertion_order": 0}))
