"""Gather a directory's lore files, with their settings and a person's edits, into one book."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks import book_settings
from familiar_cli.bootstrap.lorebooks.files import EntryFiles, LoreFile, find
from familiar_cli.bootstrap.lorebooks.pages import edits_of
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry, Shape
from familiar_cli.errors import NotFoundError
from familiar_cli.memory.pages.lore_page import parse
from familiar_cli.memory.store import paths

if TYPE_CHECKING:
    from familiar_cli.bootstrap.lorebooks.book_settings import BookSettings
    from familiar_cli.memory.store.store import MemoryStore

FROM_CARD: Final = ("a character_book", "a card's character_book")
"""The `source` of books that came with a card."""


def collect(
    store: MemoryStore, directory: str, *, book_id: str = "", only: tuple[str, ...] = ()
) -> Lorebook:
    """Return all lore of `directory` as one book; its warnings tell what a person changed.

    Args:
        store: The memory.
        directory: Where the lore was imported, or begun by hand.
        book_id: Of several books, take this one alone; files that are no book's are left out.
        only: Of several books, take those with one of these sources, if there are any.

    Raises:
        NotFoundError: Nothing there is lore.
        BadInputError: The settings kept there are damaged.
    """
    directory = paths.parse(directory)
    settings = book_settings.load(store, directory)
    found = find(store, directory, settings)
    if not settings.entries and not settings.books and not found.strays:
        raise NotFoundError(
            f"There is no lore in {directory!r}",
            hint="Import some with `familiar import-lorebook FILE`, or give its directory with "
            "`--from`.",
        )
    if book_id and settings.books.keys() - {book_id}:
        notes = tuple(f"{file.path}: not part of any book, left out" for file in found.strays)
        one = _gather(settings, replace(found, strays=()), [book_id], directory)
        return replace(one, warnings=(*one.warnings, *notes))
    return _gather(settings, found, _chosen(settings, only), directory)


def _chosen(settings: BookSettings, only: tuple[str, ...]) -> list[str]:
    """Return the ids of the books to take, by name."""
    ordered = sorted(settings.books, key=lambda key: (settings.books[key].name, key))
    return [key for key in ordered if settings.books[key].source in only] or ordered


def _gather(
    settings: BookSettings, found: EntryFiles, book_ids: list[str], directory: str
) -> Lorebook:
    notes = [f"{line}: left out" for line in found.skipped]
    if len(book_ids) > 1:
        names = ", ".join(repr(settings.books[key].name) for key in book_ids)
        notes.append(
            f"{len(book_ids)} books are merged: {names}; the settings of the first are used"
        )
    entries: list[LoreEntry] = []
    for book_id in book_ids:
        records = sorted(
            settings.of_book(book_id).items(), key=lambda item: (item[1].place, item[0])
        )
        for key, record in records:
            if key in found.files:
                entries.append(_edited(settings.entry(key), key, found.files[key], record.sha256))
            else:
                notes.append(f"{record.path}: its file no longer exists, so the entry is left out")
    first = settings.books[book_ids[0]] if book_ids else None
    shape: Shape = first.shape if first else "worldinfo"
    entries += [_begun_by_hand(file, shape, settings, notes) for file in found.strays]
    return Lorebook(
        name=first.name if first else PurePosixPath(directory).name,
        shape=shape,
        entries=tuple(entries),
        frame=first.frame if first else {"name": PurePosixPath(directory).name},
        outer=first.outer if first else {},
        source=first.source if first else "",
        warnings=tuple(notes),
    )


def _edited(entry: LoreEntry, key: str, file: LoreFile, sha256: str) -> LoreEntry:
    """Return the entry with what a person changed in its file."""
    if file.sha256 == sha256:
        return entry
    return entry.edited(edits_of(file.text, entry, key))


def _begun_by_hand(
    file: LoreFile, shape: Shape, settings: BookSettings, notes: list[str]
) -> LoreEntry:
    """Return the entry that a file without settings of its own is."""
    page = parse(file.text)
    says = {
        "title": page.title or PurePosixPath(file.path).stem,
        "keys": page.keys,
        "enabled": page.enabled,
        "content": page.body.removesuffix("\n").removesuffix("\r"),
    }
    if page.entry_id in settings.entries:
        notes.append(f"{file.path}: a copy of another entry, exported with that one's settings")
        return _without_number(settings.entry(page.entry_id)).edited(says)
    notes.append(f"{file.path}: created by hand, exported with default settings")
    blank: dict[str, Any] = {"comment": ""}
    if shape == "book":
        blank |= {"insertion_order": 100, "extensions": {}}
    return LoreEntry(shape, blank).edited(says)


def _without_number(entry: LoreEntry) -> LoreEntry:
    raw = {name: value for name, value in entry.raw.items() if name not in ("uid", "id")}
    return LoreEntry(entry.shape, raw)
