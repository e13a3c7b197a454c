"""Where each book stands: one directory a book, and the same book is known again wherever it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.lorebooks import book_settings, entry_ids
from familiar_cli.errors import BadInputError, NotFoundError
from familiar_cli.memory.layout import IMPORTED_LORE_DIR, LORE_DIR
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.bootstrap.lorebooks.book_settings import BookRecord, BookSettings
    from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry
    from familiar_cli.memory.store.store import MemoryStore

_NAMELESS: Final = "book"


@dataclass(frozen=True, slots=True)
class ShelvedBook:
    """A book that was imported before.

    Args:
        directory: Where its entries are.
        book_id: What it is known by there.
        record: Its settings.
        is_alone: No other book is in that directory.
    """

    directory: str
    book_id: str
    record: BookRecord
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Place:
    """The directory for a book.

    Args:
        directory: The directory.
        notes: Why it is that one, where a person could expect another.
    """

    directory: str
    notes: tuple[str, ...] = ()


def directories(store: MemoryStore) -> list[str]:
    """Return every directory below `lore/` that has books, sorted."""
    return sorted(
        str(PurePosixPath(path).parent)
        for path in _paths(store, LORE_DIR)
        if PurePosixPath(path).name == book_settings.FILE_NAME
    )


def books(store: MemoryStore) -> list[ShelvedBook]:
    """Return every book below `lore/`, by name.

    Raises:
        BadInputError: There is none that can be read, and the settings of one are damaged.
    """
    found: list[ShelvedBook] = []
    damaged: list[BadInputError] = []
    for directory in directories(store):
        try:
            settings = book_settings.load(store, directory)
        except BadInputError as error:
            damaged.append(error)
            continue
        alone = len(settings.books) == 1
        found += (ShelvedBook(directory, key, rec, alone) for key, rec in settings.books.items())
    if damaged and not found:
        raise damaged[0]
    return sorted(found, key=lambda book: (fold(book.record.name), book.directory, book.book_id))


def find_book(store: MemoryStore, name: str) -> list[ShelvedBook]:
    """Return the books that `name` means: their own name, or that of their directory.

    Raises:
        NotFoundError: None is called that; the message lists them.
    """
    every, wanted = books(store), fold(name.strip())
    called = [book for book in every if fold(book.record.name.strip()) == wanted] or [
        book
        for book in every
        if wanted in (fold(book.directory), fold(PurePosixPath(book.directory).name))
    ]
    if not called:
        known = ", ".join(repr(book.record.name) for book in every) or "none"
        raise NotFoundError(
            f"No imported lorebook is called {name!r}", hint=f"Imported are: {known}."
        )
    return called


def place_for(book: Lorebook, store: MemoryStore) -> Place:
    """Return the directory that `book` belongs in: where it is already, else one of its own.

    Raises:
        BadInputError: The settings of a directory are damaged: the book could be in it.
    """
    shelves = {place: book_settings.load(store, place) for place in directories(store)}
    for directory, settings in shelves.items():
        if _bears_its_name(settings, book):
            return Place(directory)
    for directory, settings in shelves.items():
        known = same_book(settings, book)
        if known and known != entry_ids.book_id_of(book.name):
            name = settings.books[known].name
            note = f"{book.name!r} is the book {name!r} in {directory}, imported before"
            return Place(directory, (note,))
    return _new_place(book, store, shelves)


def same_book(settings: BookSettings, book: Lorebook) -> str | None:
    """Return the id of the book in a directory that `book` is, or None.

    It is the one of its name, else one of the same content, else one with which it has more than
    half of the entries of either in common: title, keys and text, in whichever format.
    """
    by_name = entry_ids.book_id_of(book.name)
    if by_name in settings.books:
        return by_name
    whole = book.digest
    by_content = (key for key, record in settings.books.items() if record.digest == whole)
    alike = (key for key in settings.books if _is_alike(book.entries, _entries(settings, key)))
    return next(by_content, None) or next(alike, None)


def directory_name(name: str) -> str:
    """Return the directory for a book called `name`: a slug, never a path."""
    return entry_ids.safe_stem(name, "book") or _NAMELESS


def _bears_its_name(settings: BookSettings, book: Lorebook) -> bool:
    """Tell whether the book of that name in a directory is `book`, rather than a namesake.

    Half of the entries of the shorter one have to be in the other, at least by title.
    """
    key = entry_ids.book_id_of(book.name)
    if key not in settings.books:
        return False
    olds = {name: settings.entry(name) for name in settings.of_book(key)}
    paired = sum(found is not None for found in entry_ids.match(book.entries, olds))
    return 2 * paired >= min(len(olds), len(book.entries))


def _is_alike(new: Sequence[LoreEntry], old: Sequence[LoreEntry]) -> bool:
    common = (Counter(e.core for e in new) & Counter(e.core for e in old)).total()
    return 2 * common > max(len(new), len(old))


def _entries(settings: BookSettings, book_id: str) -> list[LoreEntry]:
    return [settings.entry(key) for key in settings.of_book(book_id)]


def _new_place(book: Lorebook, store: MemoryStore, shelves: dict[str, BookSettings]) -> Place:
    name, depth = directory_name(book.name), len(PurePosixPath(IMPORTED_LORE_DIR).parts)
    taken = {fold(PurePosixPath(p).parts[depth]) for p in _paths(store, IMPORTED_LORE_DIR)}
    names = (name if n == 1 else f"{name}-{n}" for n in count(1))
    directory = f"{IMPORTED_LORE_DIR}/{next(n for n in names if fold(n) not in taken)}"
    key = entry_ids.book_id_of(book.name)
    other = next((place for place, settings in shelves.items() if key in settings.books), None)
    if other is None:
        return Place(directory)
    note = (
        f"another book called {book.name!r} is in {other}, and they have hardly any entry in "
        f"common, so this one is kept apart; `--into {other}` imports it there"
    )
    return Place(directory, (note,))


def _paths(store: MemoryStore, directory: str) -> list[str]:
    try:
        walk = store.walk(directory, hidden=True)
    except NotFoundError:
        return []
    return [entry.rel_path for entry in walk.files if not entry.is_dir]
