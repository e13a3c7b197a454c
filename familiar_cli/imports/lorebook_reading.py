"""Read every lorebook format as one `Lorebook`, and repair settings of the wrong type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, LimitError
from familiar_cli.base.text import one_line, shorten_list
from familiar_cli.imports.foreign_files import json_line, object_list
from familiar_cli.imports.lorebook import Lorebook, LoreEntry, Shape

# A comma inside `/…/flags` belongs to the regular expression.
_KEY: Final = re.compile(r"\s*(/(?:\\.|[^/\\])+/[a-z]*\s*(?=,|\Z)|[^,]*)(?:,|\Z)", re.DOTALL)
_NO: Final = frozenset(("", "0", "false", "no", "off", "null"))


class Notes(Struct):
    """Oddities in the entries of one book: each kind once, with a count."""

    seen: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, label: str) -> None:
        """Record the oddity `what` of the entry called `label`."""
        self.seen.setdefault(what, []).append(label)

    def lines(self) -> tuple[str, ...]:
        """Return one line per kind of oddity."""
        return tuple(f"{what} ({_which_entries(labels)})" for what, labels in self.seen.items())


class EntryRepair(Struct, frozen=True):
    """An entry under repair.

    Args:
        entry: The settings, modified in place.
        label: The entry's name in notes.
        notes: Receives oddities.
    """

    entry: dict[str, Any]
    label: str
    notes: Notes

    def note(self, what: str) -> None:
        """Record an oddity of this entry."""
        self.notes.add(what, self.label)

    def rename(self, name: str, alias: str, change: Callable[[Any], Any] | None = None) -> None:
        """Rename the setting `alias`, another format's spelling, to `name` unless that exists."""
        if alias in self.entry and name not in self.entry:
            value = self.entry.pop(alias)
            self.entry[name] = change(value) if change else value
            self.note(f"{alias!r} is another format's name for {name!r} and is read as that")

    def keys(self, name: str, alias: str) -> None:
        """Convert `name` to a list of strings, merging in the setting `alias`."""
        if alias in self.entry:
            extra = self._strings(alias, self.entry.pop(alias))
            self.note(f"{alias!r} is another format's name for {name!r} and is read as that")
        else:
            extra = []
        if name not in self.entry and not extra:
            self.note(f"no {name!r}: read as none")
        own = self._strings(name, self.entry.get(name, []))
        self.entry[name] = own + [key for key in extra if key not in own]

    def text(self, name: str) -> None:
        """Convert `name` to a string."""
        value = self.entry.get(name)
        if isinstance(value, str):
            return
        if value is not None:
            self.note(f"{name!r} is not text: its JSON is used")
        self.entry[name] = "" if value is None else _as_text(value)

    def flag(self, name: str) -> None:
        """Convert `name`, if present, to a boolean."""
        value = self.entry.get(name, False)
        if isinstance(value, bool):
            return
        meant = value.strip().lower() not in _NO if isinstance(value, str) else bool(value)
        self.note(f"{name!r} is neither true nor false: read as {str(meant).lower()}")
        self.entry[name] = meant

    def extensions(self) -> None:
        """Convert `extensions` to an object, wrapping any other value in one."""
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
    """Split a comma-separated list of keys."""
    return [key for match in _KEY.finditer(text) if (key := match[1].strip())]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json_line(value)


def _which_entries(labels: list[str]) -> str:
    first = one_line(labels[0], 40)
    return f"entry {first!r}" if len(labels) == 1 else f"{len(labels)} entries, first {first!r}"


def mend_world(raw: dict[str, Any], label: str, notes: Notes, slot: str = "") -> LoreEntry:
    """Repair the types of an entry's main settings, leaving all others as they are."""
    entry = dict(raw)
    mending = EntryRepair(entry, label, notes)
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
    """Repair the types of an entry's main settings, leaving all others as they are."""
    entry = dict(raw)
    mending = EntryRepair(entry, label, notes)
    mending.keys("keys", "key")
    if {"secondary_keys", "keysecondary"} & entry.keys():
        mending.keys("secondary_keys", "keysecondary")
    elif entry.get("selective"):
        mending.note("no 'secondary_keys' although 'selective' is set")
    mending.text("content")
    mending.rename("insertion_order", "order")
    mending.rename("id", "uid")
    mending.rename("enabled", "disable", lambda off: not off)
    if entry.get("enabled") is None:
        mending.note("no 'enabled': read as enabled")
        entry["enabled"] = True
    if entry.get("insertion_order") is None:
        mending.note("no 'insertion_order': 100 is used")
        entry["insertion_order"] = 100
    mending.flag("enabled")
    mending.extensions()
    for name in ("name", "comment"):
        if entry.get(name) is not None:
            mending.text(name)
    return LoreEntry("book", entry, slot)


BARE_BOOK: Final = "a character_book"
"""The source of a book that stood alone in a file, in the spelling of cards."""

MAX_ENTRIES: Final = 20_000
_BOOK_FIELDS: Final = frozenset(("keys", "secondary_keys", "insertion_order", "enabled", "id"))
_WORLD_FIELDS: Final = frozenset(("key", "keysecondary", "order", "disable", "uid"))
_LORE_FIELDS: Final = frozenset(("key", "keys", "content"))
_FRAME_FIELDS: Final = frozenset(
    ("name", "description", "scan_depth", "token_budget", "recursive_scanning", "extensions")
)
_BOOK_ONLY: Final = frozenset(("scan_depth", "token_budget", "recursive_scanning"))
_SHOWN_NAMES: Final = 4


def check_size(book: Lorebook, origin: str) -> Lorebook:
    """Return a book that is not too large, named after its source if it has no name.

    Raises:
        LimitError: It has more than `MAX_ENTRIES` entries.
    """
    if len(book.entries) > MAX_ENTRIES:
        raise LimitError(
            f"{origin!r} has {len(book.entries)} entries, more than {MAX_ENTRIES}; "
            "nothing was imported",
            hint="Split it into several books.",
        )
    return book if book.name.strip() else replace(book, name=PurePath(origin).stem)


def is_entry_list(data: object) -> bool:
    """Tell whether a value is a bare list of entries."""
    return isinstance(data, list) and any(_has_lore(item) for item in data)


def is_book(data: object) -> bool:
    """Tell whether a value is an object with entries of lore, or with a book's own settings."""
    if not isinstance(data, dict):
        return False
    entries = data.get("entries")
    items = list(entries.values()) if isinstance(entries, dict) else entries
    if isinstance(items, list):
        return not items or any(_has_lore(item) for item in items)
    return entries is None and ("entries" in data or _is_frame(data))


def is_of_card(data: object) -> bool:
    """Tell whether a value has a list of entries that are all spelled as in cards."""
    entries = data.get("entries") if isinstance(data, dict) else None
    spelled = {"keys", "content", "enabled"}
    return (
        isinstance(entries, list)
        and entries != []
        and all(isinstance(one, dict) and one.keys() >= spelled for one in entries)
    )


def read_entries(data: dict[str, Any], origin: str, source: str) -> Lorebook:
    """Read an object with `entries`, in either spelling.

    Raises:
        BadInputError: It is not a lorebook.
    """
    notes = Notes()
    slots = _slots_of(data, origin, notes, expected=bool(source))
    matches = [(slot, item) for slot, item in slots if isinstance(item, dict)]
    if slots and not any(_has_lore(item) for _, item in matches):
        raise not_a_lorebook(data, origin)
    items = [item for _, item in matches]
    shape = _shape_of(data, items, is_object=isinstance(data.get("entries"), dict))
    mend = mend_world if shape == "worldinfo" else mend_book
    entries = tuple(
        mend(item, _entry_label(item, n), notes, slot) for n, (slot, item) in enumerate(matches)
    )
    return Lorebook(
        name=data["name"] if isinstance(data.get("name"), str) else "",
        shape=shape,
        entries=entries,
        frame={name: value for name, value in data.items() if name != "entries"},
        source=source or ("World Info" if shape == "worldinfo" else BARE_BOOK),
        warnings=(*_left_out(len(slots) - len(matches)), *notes.lines()),
        unreadable=tuple(item for _, item in slots if not isinstance(item, dict)),
    )


def _slots_of(
    data: dict[str, Any], origin: str, notes: Notes, *, expected: bool
) -> list[tuple[str, Any]]:
    """List the values of `entries` with their keys, which are empty in a list.

    Args:
        data: A possible book.
        origin: Its source.
        notes: Receives a note if there are no entries at all.
        expected: Whether only a book is valid at this position.
    """
    entries = data.get("entries")
    if isinstance(entries, dict):
        return list(entries.items())
    if isinstance(entries, list):
        return [("", item) for item in entries]
    if entries is not None or not ("entries" in data or expected or _is_frame(data)):
        raise not_a_lorebook(data, origin)
    notes.add("no 'entries': the book is empty", origin)
    return []


def mend_converted(book: Lorebook) -> Lorebook:
    """Repair a book converted from another format."""
    notes = Notes()
    entries = tuple(
        mend_book(dict(entry.raw), _entry_label(entry.raw, n), notes)
        for n, entry in enumerate(book.entries)
    )
    warnings = (*_left_out(len(book.unreadable)), *book.warnings, *notes.lines())
    return replace(book, entries=entries, warnings=warnings)


def _shape_of(data: dict[str, Any], items: list[dict[str, Any]], *, is_object: bool) -> Shape:
    """Return the prevailing spelling; without entries, that of the book's own settings."""
    book = sum(len(_BOOK_FIELDS & item.keys()) for item in items)
    world = sum(len(_WORLD_FIELDS & item.keys()) for item in items)
    if book != world:
        return "book" if book > world else "worldinfo"
    return "worldinfo" if is_object and not (data.keys() & (_FRAME_FIELDS - {"name"})) else "book"


def _left_out(count: int) -> tuple[str, ...]:
    return (
        (f"{count} of the entries are not objects: kept separately, not imported",) if count else ()
    )


def _has_lore(item: object) -> bool:
    return isinstance(item, dict) and bool(_LORE_FIELDS & item.keys())


def _is_frame(data: dict[str, Any]) -> bool:
    """Tell whether an object without entries can only be a book."""
    return data.keys() <= _FRAME_FIELDS and bool(data.keys() & _BOOK_ONLY)


def _entry_label(entry: Any, n: int) -> str:  # noqa: ANN401  # any mapping, before its types are known
    for name in ("name", "comment", "displayName", "keys", "key"):
        value = entry.get(name)
        if value and isinstance(value, str | list):
            return str(value[0] if isinstance(value, list) else value)
    return f"number {n + 1}"


def not_a_lorebook(data: object, origin: str) -> BadInputError:
    """Return the error for a value that is not a lorebook."""
    return BadInputError(
        f"{origin!r} is not a lorebook but {_what_is(data)}; nothing was imported",
        hint="Supported: World Info, character_book, lorebook_v3, NovelAI, Agnai, RisuAI and "
        "KoboldAI Lite files, and cards that contain a book.",
    )


def _what_is(value: object) -> str:
    """Describe `value` in a few words for people."""
    if isinstance(value, dict):
        names = (repr(one_line(str(name), 30)) for name in value)
        return f"an object with {shorten_list(names, _SHOWN_NAMES)}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return "a text" if isinstance(value, str) else "a number"


class BookMapping(Struct, frozen=True):
    """A lorebook format of another program.

    Args:
        source: The program, for people.
        tool: The key in `extensions` for settings that a `character_book` lacks.
        known: Its name for an entry's setting -> ours.
        order: The default `insertion_order` of an entry.
        off: Values with which a setting switches off its entry, or the parent it stands in.
        entries: Its name for the list of entries.
        named: Settings of the book with the same names as ours.
        comma_lists: Settings of an entry whose list may be one comma-separated string.
        parents: Its name for the list of parents, their ids, and an entry's setting for its parent.
        is_parent: Tells whether one of the entries is only a parent of others.
    """

    source: str
    tool: str
    known: Mapping[str, str]
    order: Callable[[Mapping[str, Any]], Any]
    off: Mapping[str, tuple[object, ...]]
    entries: str = "entries"
    named: tuple[str, ...] = ()
    comma_lists: tuple[str, ...] = ()
    parents: tuple[str, str, str] = ("", "", "")
    is_parent: Callable[[Mapping[str, Any]], bool] = field(default=lambda _: False)

    def read(self, data: Mapping[str, Any], origin: str) -> Lorebook:
        """Convert a book of this format to a `character_book`.

        Raises:
            BadInputError: None of its entries is one.
        """
        value = data.get(self.entries)
        items = value if isinstance(value, list) else []
        if value and not object_list(value):
            raise not_a_lorebook(data, origin)
        names = {name: data[name] for name in self.named if name in data}
        listed, key, _ = self.parents
        parents = [*object_list(data.get(listed)), *filter(self.is_parent, object_list(items))]
        off = {str(parent.get(key) or "") for parent in parents if self._is_off(parent)}
        lore = [item for item in object_list(items) if not self.is_parent(item)]
        book = Lorebook(
            name=str(data.get("name") or ""),
            shape="book",
            entries=tuple(self._entry(item, off) for item in lore),
            frame={**names, **self._rest(data, (self.entries, *names))},
            source=self.source,
            unreadable=tuple(item for item in items if not isinstance(item, dict)),
        )
        return mend_converted(book)

    def _entry(self, item: Mapping[str, Any], off: set[str]) -> LoreEntry:
        raw = dict(item)
        for name in self.comma_lists:
            if isinstance(raw.get(name), str):
                raw[name] = comma_list(raw[name])
        blank = {"keys": [], "content": "", "enabled": True, "use_regex": False}
        mapped = {
            ours: raw[theirs] for theirs, ours in self.known.items() if raw.get(theirs) is not None
        }
        used = [name for name in raw if self.known.get(name) in mapped]
        order = {"insertion_order": self.order(raw)}
        above = str(raw.get(self.parents[2]) or "") if self.parents[2] else ""
        if self._is_off(raw) or (above and above in off):
            mapped["enabled"] = False
        return LoreEntry("book", {**blank, **order, **mapped, **self._rest(raw, used)})

    def _is_off(self, item: Mapping[str, Any]) -> bool:
        return any(
            name in item and (item[name] in values or str(item[name]).lower() in values)
            for name, values in self.off.items()
        )

    def _rest(self, data: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
        """Keep the unused settings of `data` under the program's name in `extensions`."""
        rest = {name: value for name, value in data.items() if name not in used}
        return {"extensions": {self.tool: rest} if rest else {}}


OFF: dict[str, tuple[object, ...]] = {
    "enabled": (False, "false", "0"),
    "disable": (True, "true", "1"),
    "disabled": (True, "true", "1"),
}
"""The switches that several programs share."""
