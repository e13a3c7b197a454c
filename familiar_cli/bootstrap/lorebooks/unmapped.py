"""List the settings of a book that its Markdown does not show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks import decorators
from familiar_cli.bootstrap.lorebooks.defaults import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry

_SHOWN: Final = frozenset(("key", "keys", "content", "comment", "name", "disable", "enabled"))
_COUNTERS: Final = frozenset(("uid", "id", "displayIndex", "addMemo"))
# What a card's book has where it says nothing.
_BOOK_DEFAULTS: Final = {
    **DEFAULTS,
    "insertion_order": 100,
    "secondary_keys": [],
    "use_regex": False,
    "extensions": {},
}


def unmapped(book: Lorebook) -> tuple[str, ...]:
    """Return each setting that differs from its default, with how many entries have it."""
    settings = [
        name for name in book.frame if name != "name" and book.frame[name] not in ({}, None)
    ]
    of_book = [f"the book's {name}" for name in settings]
    counts = Counter(name for entry in book.entries for name in _kept(entry))
    return (
        *of_book,
        *(
            f"{name} of {n} {'entry' if n == 1 else 'entries'}"
            for name, n in sorted(counts.items())
        ),
    )


def _kept(entry: LoreEntry) -> Iterator[str]:
    for name, value in entry.raw.items():
        if name == "extensions" and isinstance(value, dict):
            yield from (f"extensions.{inner}" for inner in value)
        elif name not in _SHOWN | _COUNTERS and not _is_default(name, value):
            yield name
    yield from {f"@@{name}" for name in decorators.names(entry.content)}


def _is_default(name: str, value: Any) -> bool:  # noqa: ANN401
    return value is None or (name in _BOOK_DEFAULTS and bool(_BOOK_DEFAULTS[name] == value))
