"""SillyTavern's World Info: `{"entries": {"0": {…}}}`."""

from __future__ import annotations

from typing import Any

from familiar_cli.bootstrap.lorebooks.repair import Mending, Notes
from familiar_cli.bootstrap.lorebooks.types import LoreEntry


def mend(raw: dict[str, Any], label: str, notes: Notes, slot: str = "") -> LoreEntry:
    """Return one entry with its main settings in their proper types; all others as they are."""
    entry = dict(raw)
    mending = Mending(entry, label, notes)
    mending.keys("key", "keys")
    if {"secondary_keys", "keysecondary"} & entry.keys():
        mending.keys("keysecondary", "secondary_keys")
    mending.rename("order", "insertion_order")
    mending.rename("disable", "enabled", lambda on: on is not None and not on)
    mending.text("content")
    mending.text("comment")
    mending.flag("disable")
    return LoreEntry("worldinfo", entry, slot)
