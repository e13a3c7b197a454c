"""Tell the lorebook formats apart, and read each as one `Lorebook`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final

from familiar_cli.bootstrap.json_text import check_depth
from familiar_cli.bootstrap.lorebooks.foreign import FORMATS
from familiar_cli.bootstrap.lorebooks.repair import Notes, mend_book, mend_world
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry, Shape
from familiar_cli.errors import BadInputError, LimitError
from familiar_cli.text import one_line, typed

MAX_ENTRIES: Final = 20_000
_CARD_FIELDS: Final = frozenset(("char_name", "char_persona", "first_mes", "mes_example"))
_BOOK_FIELDS: Final = frozenset(("keys", "secondary_keys", "insertion_order", "enabled", "id"))
_WORLD_FIELDS: Final = frozenset(("key", "keysecondary", "order", "disable", "uid"))
_LORE_FIELDS: Final = frozenset(("key", "keys", "content"))
_FRAME_FIELDS: Final = frozenset(
    ("name", "description", "scan_depth", "token_budget", "recursive_scanning", "extensions")
)
_BOOK_ONLY: Final = frozenset(("scan_depth", "token_budget", "recursive_scanning"))
# Files that people pick by mistake: a field that only they have -> what they are.
_MISTAKEN: Final = (
    ("chat_metadata", "a chat"),
    ("temperature", "a preset of sampling settings"),
    ("prompt_order", "a preset of prompts"),
    ("story_string", "a context template"),
    ("input_sequence", "an instruct template"),
    ("theme", "a theme"),
)
_SHOWN_NAMES: Final = 4


def read_book(data: object, *, origin: str) -> Lorebook:
    """Return the lorebook that the JSON value `data` holds, in whichever format it is.

    Args:
        data: A whole file's value, or a card's `character_book`.
        origin: Where it came from, for messages and, by its stem, for a book without a name.

    Raises:
        BadInputError: It is no lorebook; the message says what it is instead.
        LimitError: It has more than `MAX_ENTRIES` entries.
    """
    check_depth(data, origin=origin)
    book = _read(data, origin)
    if len(book.entries) > MAX_ENTRIES:
        raise LimitError(
            f"{origin!r} has {len(book.entries)} entries, more than {MAX_ENTRIES}; "
            "nothing was imported",
            hint="Split it into several books.",
        )
    return book if book.name.strip() else replace(book, name=PurePath(origin).stem)


def _read(data: object, origin: str) -> Lorebook:
    if isinstance(data, list) and any(_has_lore(item) for item in data):
        book = _entries_of({"entries": data}, origin, "a bare list of entries")
        return replace(book, warnings=("the file is a bare list of entries", *book.warnings))
    if not isinstance(data, dict):
        raise _not_a_lorebook(data, origin)
    if data.get("spec") == "lorebook_v3":
        outer = {name: value for name, value in data.items() if name not in ("spec", "data")}
        return replace(_embedded(data.get("data"), origin, "lorebook_v3"), outer=outer)
    if _is_card(data):
        return _of_card(data, origin)
    for other in FORMATS:
        if other.matches(data):
            return _converted(data, other.read(data), origin)
    return _entries_of(data, origin, "")


def _is_card(data: dict[str, Any]) -> bool:
    inner = data.get("data")
    return (
        str(data.get("spec", "")).startswith("chara_card")
        or "character_book" in data
        or (isinstance(inner, dict) and bool({"character_book", *_CARD_FIELDS} & inner.keys()))
        or bool(_CARD_FIELDS & data.keys())
    )


def _of_card(card: dict[str, Any], origin: str) -> Lorebook:
    inner = card.get("data")
    for place in (inner, card):
        if isinstance(place, dict) and "character_book" in place:
            return _embedded(place["character_book"], origin, "a card's character_book")
    raise BadInputError(
        f"{origin!r} is a character card without a lorebook; nothing was imported",
        hint=f"For the character itself: `familiar init --from-card {typed(origin)}`.",
    )


def _embedded(data: object, origin: str, source: str) -> Lorebook:
    """Read what stands where a card or a `lorebook_v3` keeps its book."""
    if data is None:
        return Lorebook(
            "", "book", source=source, warnings=("the book is null: it has no entries",)
        )
    if isinstance(data, dict) and data.get("spec") == "lorebook_v3":
        return _read(data, origin)
    if not isinstance(data, dict):
        raise _not_a_lorebook(data, origin)
    return _entries_of(data, origin, source)


def _entries_of(data: dict[str, Any], origin: str, source: str) -> Lorebook:
    """Read an object with `entries`, whichever of the two spellings they have."""
    notes = Notes()
    slots = _slots_of(data, origin, notes, expected=bool(source))
    found = [(slot, item) for slot, item in slots if isinstance(item, dict)]
    if slots and not any(_has_lore(item) for _, item in found):
        raise _not_a_lorebook(data, origin)
    items = [item for _, item in found]
    shape = _shape_of(data, items, is_object=isinstance(data.get("entries"), dict))
    mend = mend_world if shape == "worldinfo" else mend_book
    entries = tuple(
        mend(item, _label(item, n), notes, slot) for n, (slot, item) in enumerate(found)
    )
    _note_optional(shape, entries, notes)
    return Lorebook(
        name=_name(data),
        shape=shape,
        entries=entries,
        frame={name: value for name, value in data.items() if name != "entries"},
        source=source or ("World Info" if shape == "worldinfo" else "a character_book"),
        warnings=(*_left_out(len(slots) - len(found)), *notes.lines()),
        unreadable=tuple(item for _, item in slots if not isinstance(item, dict)),
    )


def _slots_of(
    data: dict[str, Any], origin: str, notes: Notes, *, expected: bool
) -> list[tuple[str, Any]]:
    """Return what stands in `entries`, each with its name there, or an empty one in a list.

    Args:
        data: What may be a book.
        origin: Where it came from.
        notes: Told when there are no entries at all.
        expected: It stands where only a book can stand.
    """
    given = data.get("entries")
    if isinstance(given, dict):
        return list(given.items())
    if isinstance(given, list):
        return [("", item) for item in given]
    if given is not None or not ("entries" in data or expected or _is_frame(data)):
        raise _not_a_lorebook(data, origin)
    notes.add("no 'entries': the book is empty", origin)
    return []


def _converted(data: dict[str, Any], book: Lorebook, origin: str) -> Lorebook:
    """Mend what one of the other formats was turned into."""
    if data.get("entries", data.get("data")) and not book.entries:
        raise _not_a_lorebook(data, origin)
    notes = Notes()
    entries = tuple(
        mend_book(dict(entry.raw), _label(entry.raw, n), notes)
        for n, entry in enumerate(book.entries)
    )
    warnings = (*_left_out(len(book.unreadable)), *book.warnings, *notes.lines())
    return replace(book, entries=entries, warnings=warnings)


def _shape_of(data: dict[str, Any], found: list[dict[str, Any]], *, is_object: bool) -> Shape:
    """Count which spelling prevails; without entries the book's own settings tell."""
    book = sum(len(_BOOK_FIELDS & item.keys()) for item in found)
    world = sum(len(_WORLD_FIELDS & item.keys()) for item in found)
    if book != world:
        return "book" if book > world else "worldinfo"
    return "worldinfo" if is_object and not (data.keys() & (_FRAME_FIELDS - {"name"})) else "book"


def _note_optional(shape: Shape, entries: tuple[LoreEntry, ...], notes: Notes) -> None:
    for entry in entries:
        if shape == "book" and entry.raw.get("id") is None:
            notes.add("no 'id'", entry.title or (entry.keys or ("",))[0])


def _left_out(count: int) -> tuple[str, ...]:
    return (
        (f"{count} of the entries are not objects: kept separately, not imported",) if count else ()
    )


def _has_lore(item: object) -> bool:
    return isinstance(item, dict) and bool(_LORE_FIELDS & item.keys())


def _is_frame(data: dict[str, Any]) -> bool:
    """Say whether an object without entries can still be nothing but a book."""
    return data.keys() <= _FRAME_FIELDS and bool(data.keys() & _BOOK_ONLY)


def _label(entry: Any, n: int) -> str:  # noqa: ANN401  # any mapping, before its types are known
    for name in ("name", "comment", "displayName", "keys", "key"):
        value = entry.get(name)
        if value and isinstance(value, str | list):
            return str(value[0] if isinstance(value, list) else value)
    return f"number {n + 1}"


def _name(data: dict[str, Any]) -> str:
    return data["name"] if isinstance(data.get("name"), str) else ""


def _not_a_lorebook(data: object, origin: str) -> BadInputError:
    return BadInputError(
        f"{origin!r} is not a lorebook but {_what_is(data)}; nothing was imported",
        hint="Supported: World Info, character_book, lorebook_v3, NovelAI, Agnai and RisuAI "
        "files, and cards that contain a book.",
    )


def _what_is(value: object) -> str:
    """Return a few words that tell a person what `value` is."""
    if isinstance(value, dict):
        for field, kind in _MISTAKEN:
            if field in value:
                return kind
        return _object(value)
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return "a text" if isinstance(value, str) else "a number"


def _object(value: dict[str, object]) -> str:
    if not value:
        return "an empty object"
    names = ", ".join(repr(one_line(str(name), 30)) for name in list(value)[:_SHOWN_NAMES])
    more = "" if len(value) <= _SHOWN_NAMES else f" and {len(value) - _SHOWN_NAMES} more"
    return f"an object with {names}{more}"
