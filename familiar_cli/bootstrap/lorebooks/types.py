"""Values of the lorebook importer: a book, its entries, and what a title or a key is in each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping


Shape = Literal["worldinfo", "book"]
"""How settings are spelled: as SillyTavern's World Info does, or as a card's `character_book`."""

BookFormat = Literal["worldinfo", "v3", "card"]

KEYS: Final[Mapping[Shape, str]] = {"worldinfo": "key", "book": "keys"}
"""Which setting holds an entry's keys."""

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
"""What an entry of World Info has where it says nothing.

Source: docs/reference/lorebooks.md, "World Info".
"""

_SILENT: Final[Mapping[Shape, Mapping[str, Any]]] = {
    "worldinfo": DEFAULTS,
    "book": {"constant": False, "selective": False, "secondary_keys": [], "use_regex": False},
}
_UID: Final[Mapping[Shape, str]] = {"worldinfo": "uid", "book": "id"}


@dataclass(frozen=True, slots=True)
class LoreEntry:
    """One entry, with every setting its source gave it.

    Args:
        shape: How `raw` is spelled.
        raw: The entry as JSON; keys, content, title and the on/off switch have their proper types.
        slot: Its name in the source's `entries` object, or empty when that was a list.
    """

    shape: Shape
    raw: Mapping[str, Any]
    slot: str = ""

    @property
    def title(self) -> str:
        """What a person calls it; may be empty."""
        return str(self.raw.get(self.title_field) or "")

    @property
    def other_titles(self) -> tuple[str, ...]:
        """What else it is called."""
        names = (str(self.raw.get(name) or "") for name in ("name", "comment"))
        return tuple(name for name in names if name != self.title)

    @property
    def title_field(self) -> str:
        """Which setting holds the title: a book's entry may have a `name`, a `comment` or both."""
        if self.shape == "book" and str(self.raw.get("name") or "").strip():
            return "name"
        return "comment"

    @property
    def keys(self) -> tuple[str, ...]:
        """The words that call it up."""
        return tuple(self.raw.get(KEYS[self.shape], ()))

    @property
    def content(self) -> str:
        """Its text, decorators included."""
        return str(self.raw.get("content", ""))

    @property
    def enabled(self) -> bool:
        """Whether it is switched on."""
        if self.shape == "worldinfo":
            return not self.raw.get("disable", False)
        return bool(self.raw.get("enabled", True))

    @property
    def uid(self) -> str:
        """The number or name its source gave it, or an empty string."""
        found = self.raw.get(_UID[self.shape])
        return "" if found is None else str(found)

    @property
    def core(self) -> str:
        """A digest of what a reader sees of it: title, keys and content."""
        return digest([self.title, self.keys, self.content])

    @property
    def meaning(self) -> str:
        """A digest of all its settings; what is left out counts as its default."""
        return digest({**_SILENT[self.shape], **self.raw})

    def edited(self, changes: Mapping[str, Any]) -> LoreEntry:
        """Return it with new values for some of `title`, `keys`, `content` and `enabled`."""
        raw = dict(self.raw)
        if "title" in changes:
            also = ("name", "comment") if raw.get("name") == raw.get("comment") else ()
            raw.update(dict.fromkeys((self.title_field, *also), changes["title"]))
        if "keys" in changes:
            raw[KEYS[self.shape]] = list(changes["keys"])
        if "content" in changes:
            raw["content"] = changes["content"]
        if "enabled" in changes:
            on = bool(changes["enabled"])
            raw.update({"disable": not on} if self.shape == "worldinfo" else {"enabled": on})
        return replace(self, raw=raw)


@dataclass(frozen=True, slots=True)
class Lorebook:
    """One book as it was read: every shape in the wild becomes one of the two `Shape`s.

    Args:
        name: What it calls itself, else the file's stem; never a path.
        shape: How its settings are spelled.
        entries: In the order of the source.
        frame: The book's own settings: everything beside the entries.
        outer: What stood around a standalone `lorebook_v3`, beside `spec` and `data`.
        source: The format it came in, for people.
        warnings: What was odd and how it was read.
        unreadable: What stood among the entries and is none; kept, never exported.
    """

    name: str
    shape: Shape
    entries: tuple[LoreEntry, ...] = ()
    frame: Mapping[str, Any] = field(default_factory=dict)
    outer: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    warnings: tuple[str, ...] = ()
    unreadable: tuple[Any, ...] = ()

    @property
    def digest(self) -> str:
        """A digest of all its entries and settings."""
        return digest([settled(self.frame), sorted(entry.meaning for entry in self.entries)])


def settled(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return a book's own settings; no extensions are as good as empty ones."""
    return {name: value for name, value in frame.items() if name != "extensions" or value}


def digest(value: object) -> str:
    """Return the SHA-256 of `value` as JSON; the order of an object's members does not count."""
    return sha256_of(json.dumps(value, sort_keys=True, separators=(",", ":")))
