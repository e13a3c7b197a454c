"""Read settings of the wrong type as what was meant, and remember what was odd."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.json_text import dump_json
from familiar_cli.bootstrap.lorebooks.types import LoreEntry
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable


# A comma inside `/…/flags` belongs to the regular expression.
_KEY: Final = re.compile(r"\s*(/(?:\\.|[^/\\])+/[a-z]*\s*(?=,|\Z)|[^,]*)(?:,|\Z)", re.DOTALL)
_NO: Final = frozenset(("", "0", "false", "no", "off", "null"))


@dataclass(slots=True)
class Notes:
    """Odd things about the entries of one book: each kind once, with how often it was seen."""

    seen: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, label: str) -> None:
        """Remember that the entry called `label` has the oddity `what`."""
        self.seen.setdefault(what, []).append(label)

    def lines(self) -> tuple[str, ...]:
        """Return one line for each kind of oddity."""
        return tuple(f"{what} ({_which(labels)})" for what, labels in self.seen.items())


@dataclass(frozen=True, slots=True)
class Mending:
    """One entry under repair.

    Args:
        entry: The settings; changed in place.
        label: What to call the entry in a note.
        notes: Where oddities go.
    """

    entry: dict[str, Any]
    label: str
    notes: Notes

    def note(self, what: str) -> None:
        """Remember an oddity of this entry."""
        self.notes.add(what, self.label)

    def rename(self, name: str, alias: str, change: Callable[[Any], Any] | None = None) -> None:
        """Move the setting `alias`, another format's spelling, to `name` unless that is there."""
        if alias in self.entry and name not in self.entry:
            value = self.entry.pop(alias)
            self.entry[name] = change(value) if change else value
            self.note(f"{alias!r} is another format's spelling: read as {name!r}")

    def keys(self, name: str, alias: str) -> None:
        """Make `name` a list of strings; what stands under `alias` joins it."""
        if alias in self.entry:
            extra = self._strings(alias, self.entry.pop(alias))
            self.note(f"{alias!r} is another format's spelling: read as {name!r}")
        else:
            extra = []
        if name not in self.entry and not extra:
            self.note(f"no {name!r}: read as none")
        own = self._strings(name, self.entry.get(name, []))
        self.entry[name] = own + [key for key in extra if key not in own]

    def text(self, name: str) -> None:
        """Make `name` a string."""
        value = self.entry.get(name)
        if isinstance(value, str):
            return
        if value is not None:
            self.note(f"{name!r} is not text: its JSON is used")
        self.entry[name] = "" if value is None else _as_text(value)

    def flag(self, name: str) -> None:
        """Make `name`, where it is there, true or false."""
        value = self.entry.get(name, False)
        if isinstance(value, bool):
            return
        meant = value.strip().lower() not in _NO if isinstance(value, str) else bool(value)
        self.note(f"{name!r} is neither true nor false: read as {str(meant).lower()}")
        self.entry[name] = meant

    def extensions(self) -> None:
        """Make `extensions` an object; anything else in its place is kept inside one."""
        value = self.entry.get("extensions")
        if isinstance(value, dict):
            return
        self.note(
            "no 'extensions'" if value is None else "'extensions' is not an object: wrapped in one"
        )
        self.entry["extensions"] = {} if value is None else {"original": value}

    def _strings(self, name: str, value: object) -> list[str]:
        if isinstance(value, str):
            self.note(f"{name!r} is a single text: split at its commas")
            return comma_list(value)
        if not isinstance(value, list):
            self.note(
                f"{name!r} is not a list: its JSON is used"
                if value is not None
                else f"{name!r} is null"
            )
            return [] if value is None else [_as_text(value)]
        if not all(isinstance(item, str) for item in value):
            self.note(f"{name!r} contains something that is not text: its JSON is used")
        return [_as_text(item) for item in value if item is not None]


def comma_list(text: str) -> list[str]:
    """Return the keys in a text that lists them with commas."""
    return [key for found in _KEY.finditer(text) if (key := found[1].strip())]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else dump_json(value, indent=None)


def _which(labels: list[str]) -> str:
    first = one_line(labels[0], 40)
    return f"entry {first!r}" if len(labels) == 1 else f"{len(labels)} entries, first {first!r}"


def mend_world(raw: dict[str, Any], label: str, notes: Notes, slot: str = "") -> LoreEntry:
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


def mend_book(raw: dict[str, Any], label: str, notes: Notes, slot: str = "") -> LoreEntry:
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
        mending.note("no 'enabled': read as enabled")
        mending.entry["enabled"] = True
    if mending.entry.get("insertion_order") is None:
        mending.note("no 'insertion_order': 100 is used")
        mending.entry["insertion_order"] = 100
