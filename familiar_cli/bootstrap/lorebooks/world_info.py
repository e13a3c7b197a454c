"""SillyTavern's World Info: `{"entries": {"0": {…}}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks.repair import Mending, Notes
from familiar_cli.bootstrap.lorebooks.types import LoreEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULTS: Final[Mapping[str, Any]] = {
    "key": [],
    "keysecondary": [],
    "comment": "",
    "content": "",
    "constant": False,
    "vectorized": False,
    "selective": True,
    "selectiveLogic": 0,
    "addMemo": False,
    "order": 100,
    "position": 0,
    "disable": False,
    "ignoreBudget": False,
    "excludeRecursion": False,
    "preventRecursion": False,
    "matchPersonaDescription": False,
    "matchCharacterDescription": False,
    "matchCharacterPersonality": False,
    "matchCharacterDepthPrompt": False,
    "matchScenario": False,
    "matchCreatorNotes": False,
    "delayUntilRecursion": 0,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "outletName": "",
    "group": "",
    "groupOverride": False,
    "groupWeight": 100,
    "scanDepth": None,
    "caseSensitive": None,
    "matchWholeWords": None,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": None,
    "cooldown": None,
    "delay": None,
    "triggers": [],
    "characterFilter": {"isExclude": False, "names": [], "tags": []},
}
"""What an entry has where it says nothing. Source: docs/reference/lorebooks.md, "World Info"."""


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
