"""Write a book in the formats that other programs read."""

from __future__ import annotations

from copy import deepcopy
from itertools import count
from typing import TYPE_CHECKING, Any

from familiar_cli.bootstrap.lorebooks import mapping
from familiar_cli.bootstrap.lorebooks.types import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.bootstrap.lorebooks.types import BookFormat, Lorebook


def written(book: Lorebook, book_format: BookFormat) -> dict[str, Any]:
    """Return `book` as the JSON of `book_format`; what is written is never shared with `book`."""
    if book_format == "worldinfo":
        return deepcopy(_world_info(book))
    inner = deepcopy(_character_book(book))
    if book_format == "card":
        return inner
    return {"spec": "lorebook_v3", "data": inner, **deepcopy(dict(book.outer))}


def _world_info(book: Lorebook) -> dict[str, Any]:
    frame = book.frame if book.shape == "worldinfo" else mapping.frame_as_world(book.frame)
    entries = [mapping.as_world(entry, n) for n, entry in enumerate(book.entries)]
    _number(entries, "uid", unique=True)
    slots = _slots([entry.slot for entry in book.entries], [str(entry["uid"]) for entry in entries])
    filled = [{**_required(), **entry} for entry in entries]
    return {**frame, "entries": dict(zip(slots, filled, strict=True))}


def _number(entries: list[dict[str, Any]], name: str, *, unique: bool) -> None:
    """Give a number to each entry without one, and if `unique` to each that repeats another's."""
    numbers = _free_numbers({str(entry.get(name)) for entry in entries})
    used: set[str] = set()
    for entry in entries:
        if entry.get(name) is None or (unique and str(entry[name]) in used):
            entry[name] = next(numbers)
        used.add(str(entry[name]))


def _required() -> dict[str, Any]:
    """Return what no reader of World Info does without."""
    needed = ("key", "keysecondary", "comment", "content", "order", "position", "disable")
    return {name: deepcopy(DEFAULTS[name]) for name in needed}


def _slots(wanted: list[str], uids: list[str]) -> list[str]:
    """Return the name of each entry in the `entries` object: its own, its number, or a free one."""
    numbers = _free_numbers({*wanted, *uids})
    used: set[str] = set()
    own = {slot for slot in wanted if slot}
    slots: list[str] = []
    for slot, uid in zip(wanted, uids, strict=True):
        number = "" if uid in own else uid
        name = next((n for n in (slot, number) if n and n not in used), None) or str(next(numbers))
        used.add(name)
        slots.append(name)
    return slots


def _character_book(book: Lorebook) -> dict[str, Any]:
    frame = book.frame if book.shape == "book" else mapping.frame_as_book(book.frame)
    entries = [{"use_regex": False, **mapping.as_book(entry)} for entry in book.entries]
    if any(entry.shape == "worldinfo" for entry in book.entries):
        _number(entries, "id", unique=False)
    return {"extensions": {}, **frame, "entries": entries}


def _free_numbers(taken: set[str]) -> Iterator[int]:
    """Yield numbers from 0 on that are not in `taken`."""
    return (number for number in count() if str(number) not in taken)
