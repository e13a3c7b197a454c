"""The lorebook of a V2 or V3 card, `character_book`, alone or as a standalone `lorebook_v3`."""

from __future__ import annotations

from typing import Any

from familiar_cli.bootstrap.lorebooks.repair import Mending, Notes
from familiar_cli.bootstrap.lorebooks.types import LoreEntry


def mend(raw: dict[str, Any], label: str, notes: Notes, slot: str = "") -> LoreEntry:
    """Return one entry with its main settings in their proper types; all others as they are."""
    entry = dict(raw)
    mending = Mending(entry, label, notes)
    mending.keys("keys", "key")
    _secondary(mending)
    mending.text("content")
    mending.rename("insertion_order", "order")
    mending.rename("id", "uid")
    mending.rename("enabled", "disable", lambda off: not off)
    _required(mending)
    mending.flag("enabled")
    mending.extensions()
    for name in ("name", "comment"):
        if entry.get(name) is not None:
            mending.text(name)
    return LoreEntry("book", entry, slot)


def _secondary(mending: Mending) -> None:
    if {"secondary_keys", "keysecondary"} & mending.entry.keys():
        mending.keys("secondary_keys", "keysecondary")
    elif mending.entry.get("selective"):
        mending.note("no 'secondary_keys' although 'selective' is set")


def _required(mending: Mending) -> None:
    if mending.entry.get("enabled") is None:
        mending.note("no 'enabled': read as switched on")
        mending.entry["enabled"] = True
    if mending.entry.get("insertion_order") is None:
        mending.note("no 'insertion_order': 100 is used")
        mending.entry["insertion_order"] = 100
