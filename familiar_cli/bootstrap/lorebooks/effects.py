"""What becomes of each setting of a book: in every prompt, found when it fits, or only kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.bootstrap.import_report import Effects
from familiar_cli.bootstrap.lorebooks.pages import decorators_of
from familiar_cli.bootstrap.lorebooks.types import DEFAULTS
from familiar_cli.memory.pages.lore_page import is_expression
from familiar_cli.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry

State = Literal["pinned", "found", "gone"]
"""What an entry's file is: pinned, or not, or deleted by hand."""

_SHOWN: Final = frozenset(("key", "keys", "content", "comment", "name", "disable", "enabled"))
_COUNTERS: Final = frozenset(("uid", "id", "displayIndex", "addMemo"))
_PINNING: Final = frozenset(("constant", "@@constant"))
_UNPINNED: Final = "constant (not pinned)"
# What a card's book has where it says nothing.
_BOOK_DEFAULTS: Final = {
    **DEFAULTS,
    "insertion_order": 100,
    "secondary_keys": [],
    "use_regex": False,
    "extensions": {},
}


def effects_of(book: Lorebook, states: Mapping[int, State]) -> Effects:
    """Return what becomes of the settings of `book`.

    Args:
        book: The book.
        states: What the file of each entry is, by its place; pinned where it is constant.
    """
    every, found, kept = Counter[str](), Counter[str](), Counter[str]()
    for place, entry in enumerate(book.entries):
        names = set(_kept(entry))
        pinning = names & _PINNING
        match states.get(place, "gone") if entry.enabled else "disabled":
            case "pinned":
                every["constant of" if pinning else "pinned by hand:"] += 1
                names -= pinning
            case "found":
                found["title, keys and text of"] += 1
                if pinning:
                    names = (names - pinning) | {_UNPINNED}
            case "disabled":
                kept["disabled:"] += 1
            case _:
                pass
        if any(map(is_expression, entry.keys)):
            names.add("regular-expression keys")
        kept.update(f"{name} of" for name in names)
    of_book = tuple(f"the book's {name}" for name in _of_book(book))
    return Effects(_told(every), _told(found), (*of_book, *_told(kept)))


def _told(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{what} {counted(n, 'entry', 'entries')}" for what, n in sorted(counts.items()))


def _of_book(book: Lorebook) -> Iterator[str]:
    """Yield each setting of the book itself."""
    for name, value in book.frame.items():
        if name != "name" and value not in ({}, None):
            yield name


def _kept(entry: LoreEntry) -> Iterator[str]:
    """Yield each setting that differs from its default and is not on the entry's page."""
    for name, value in entry.raw.items():
        if name == "extensions" and isinstance(value, dict):
            yield from (f"extensions.{inner}" for inner in value)
        elif name not in _SHOWN | _COUNTERS and not _is_default(name, value):
            yield name
    yield from {f"@@{name}" for name in decorators_of(entry.content)}


def _is_default(name: str, value: Any) -> bool:  # noqa: ANN401
    return value is None or (name in _BOOK_DEFAULTS and bool(_BOOK_DEFAULTS[name] == value))
