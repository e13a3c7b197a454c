"""Export a directory of lore files as a lorebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import count
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec.structs import replace

from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.imports import lorebook, lorebook_shelf
from familiar_cli.imports.lorebook import DEFAULTS, BookFormat, Lorebook, LoreEntry, Shape
from familiar_cli.imports.lorebook_reading import BARE_BOOK
from familiar_cli.imports.lorebook_shelf import (
    BookSettings,
    EntryFiles,
    ShelvedBook,
    find_entry_files,
    page_of,
)
from familiar_cli.store.memory.layout import IMPORTED_LORE_DIR
from familiar_cli.store.memory.pages.front_matter import parse_lore
from familiar_cli.store.memory.pages.lore_settings import split_decorators
from familiar_cli.store.memory.store.files import MemoryFile, parse_path
from familiar_cli.store.memory.store.store import MemoryStore

FROM_CARD: Final = ("a character_book", "a card's character_book")
"""The `source` of books that came with a card."""


def collect_lore(
    store: MemoryStore, directory: str, *, book_id: str = "", only: tuple[str, ...] = ()
) -> Lorebook:
    """Collect the lore of `directory` as one book; its warnings list a person's edits.

    Args:
        directory: A directory of imported or hand-written lore.
        book_id: Export only this one of several books, without files that belong to none.
        only: Of several books, prefer those with one of these sources.

    Raises:
        NotFoundError: There is no lore.
        BadInputError: Its stored settings are damaged.
    """
    directory = parse_path(directory)
    settings = lorebook_shelf.load_settings(store, directory)
    files = find_entry_files(store, directory, settings)
    if not settings.entries and not settings.books and not files.strays:
        raise NotFoundError(
            f"There is no lore in {directory!r}",
            hint="Import some with `familiar import-lorebook FILE`, or give its directory with "
            "`--from`.",
        )
    if book_id and settings.books.keys() - {book_id}:
        notes = tuple(f"{file.rel_path}: not part of any book, left out" for file in files.strays)
        one = _gather_entries(settings, replace(files, strays=()), [book_id], directory)
        return replace(one, warnings=(*one.warnings, *notes))
    return _gather_entries(settings, files, _chosen_books(settings, only), directory)


def _chosen_books(settings: BookSettings, only: tuple[str, ...]) -> list[str]:
    """Return the ids of the books to export, by name."""
    ordered = sorted(settings.books, key=lambda key: (settings.books[key].name, key))
    return [key for key in ordered if settings.books[key].source in only] or ordered


def _gather_entries(
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
                entries.append(
                    _edited_entry(settings.entry(key), key, found.files[key], record.sha256)
                )
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


def _edited_entry(entry: LoreEntry, key: str, file: MemoryFile, sha256: str) -> LoreEntry:
    """Apply a person's edits of its file to an entry."""
    if file.sha256 == sha256:
        return entry
    return entry.edited(_edits_of(file.text, entry, key))


def _edits_of(text: str, entry: LoreEntry, entry_id: str) -> dict[str, Any]:
    """Compare the page of `entry` with its source: changed title, keys, enabled, content.

    Changes of line endings only, which an editor may make, are not edits.
    """
    now, then = parse_lore(text), page_of(entry, entry_id)
    edits: dict[str, Any] = {}
    if now.title not in (None, then.title):
        edits["title"] = now.title
    if now.keys != then.keys:
        edits["keys"] = now.keys
    if now.enabled != then.enabled:
        edits["enabled"] = now.enabled
    if _unix_newlines(_with_newline(now.body)) != _unix_newlines(_with_newline(then.body)):
        edits["content"] = split_decorators(entry.content)[0] + _as_before(now.body, then.body)
    return edits


def _as_before(body: str, before: str) -> str:
    """Restore the original line endings and trailing end in the edited `body`."""
    if "\r\n" not in before:
        body = _unix_newlines(body)
    return body if before.endswith("\n") else body.removesuffix("\n").removesuffix("\r")


def _with_newline(body: str) -> str:
    return body if not body or body.endswith("\n") else body + "\n"


def _unix_newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _begun_by_hand(
    file: MemoryFile, shape: Shape, settings: BookSettings, notes: list[str]
) -> LoreEntry:
    """Build the entry for a file without settings of its own."""
    page = parse_lore(file.text)
    says = {
        "title": page.title or PurePosixPath(file.rel_path).stem,
        "keys": page.keys,
        "enabled": page.enabled,
        "content": page.body.removesuffix("\n").removesuffix("\r"),
    }
    if page.entry_id in settings.entries:
        notes.append(f"{file.rel_path}: a copy of another entry, exported with that one's settings")
        return _without_number(settings.entry(page.entry_id)).edited(says)
    notes.append(f"{file.rel_path}: created by hand, exported with default settings")
    blank: dict[str, Any] = {"comment": ""}
    if shape == "book":
        blank |= {"insertion_order": 100, "extensions": {}}
    return LoreEntry(shape, blank).edited(says)


def _without_number(entry: LoreEntry) -> LoreEntry:
    raw = {name: value for name, value in entry.raw.items() if name not in ("uid", "id")}
    return LoreEntry(entry.shape, raw)


def to_json(book: Lorebook, book_format: BookFormat) -> dict[str, Any]:
    """Convert `book` to JSON in `book_format`, sharing nothing with `book`."""
    if book_format == "worldinfo":
        return deepcopy(_world_info(book))
    inner = deepcopy(_character_book(book))
    if book_format == "card":
        return inner
    return {"spec": "lorebook_v3", "data": inner, **deepcopy(dict(book.outer))}


def _world_info(book: Lorebook) -> dict[str, Any]:
    frame = book.frame if book.shape == "worldinfo" else lorebook.frame_as_world(book.frame)
    entries = [lorebook.as_world(entry, n) for n, entry in enumerate(book.entries)]
    _number_entries(entries, "uid", unique=True)
    slots = _entry_slots(
        [entry.slot for entry in book.entries], [str(entry["uid"]) for entry in entries]
    )
    filled = [{**_required_fields(), **entry} for entry in entries]
    return {**frame, "entries": dict(zip(slots, filled, strict=True))}


def _number_entries(entries: list[dict[str, Any]], name: str, *, unique: bool) -> None:
    """Number the entries without a number and, if `unique`, those with a duplicate one."""
    numbers = _free_numbers({str(entry.get(name)) for entry in entries})
    used: set[str] = set()
    for entry in entries:
        if entry.get(name) is None or (unique and str(entry[name]) in used):
            entry[name] = next(numbers)
        used.add(str(entry[name]))


def _required_fields() -> dict[str, Any]:
    """Return defaults for the settings that every World Info reader requires."""
    needed = ("key", "keysecondary", "comment", "content", "order", "position", "disable")
    return {name: deepcopy(DEFAULTS[name]) for name in needed}


def _entry_slots(targets: list[str], uids: list[str]) -> list[str]:
    """Return each entry's key in the `entries` object: its own, its number, or a free one."""
    numbers = _free_numbers({*targets, *uids})
    used: set[str] = set()
    own = {slot for slot in targets if slot}
    slots: list[str] = []
    for slot, uid in zip(targets, uids, strict=True):
        number = "" if uid in own else uid
        name = next((n for n in (slot, number) if n and n not in used), None) or str(next(numbers))
        used.add(name)
        slots.append(name)
    return slots


def _character_book(book: Lorebook) -> dict[str, Any]:
    frame = book.frame if book.shape == "book" else lorebook.frame_as_book(book.frame)
    entries = [{"use_regex": False, **lorebook.as_book(entry)} for entry in book.entries]
    if any(entry.shape == "worldinfo" for entry in book.entries):
        _number_entries(entries, "id", unique=False)
    return {"extensions": {}, **frame, "entries": entries}


def _free_numbers(taken: set[str]) -> Iterator[int]:
    """Yield the numbers from 0 on that are not in `taken`."""
    return (number for number in count() if str(number) not in taken)


def choose_book(store: MemoryStore, *, name: str = "", directory: str | None = None) -> Lorebook:
    """Return the requested imported book, or the only one, with a person's edits.

    Args:
        name: Its name; empty: any.
        directory: Its directory; None: anywhere below `lore/`. Without a name, several books there
            are merged, with a warning.

    Raises:
        NotFoundError: There is no lore, or no book of that name.
        UsageError: The choice is ambiguous; the candidates are listed.
    """
    if directory is not None and not name:
        return collect_lore(store, directory)
    books = lorebook_shelf.find_book(store, name) if name else lorebook_shelf.shelved_books(store)
    if directory is not None:
        books = [book for book in books if book.directory == parse_path(directory)]
        if not books:
            raise NotFoundError(f"No lorebook in {directory!r} is called {name!r}")
    if len(books) > 1:
        raise _refuse_several(books, name)
    if not books:
        return collect_lore(store, IMPORTED_LORE_DIR)
    return collect_lore(store, books[0].directory, book_id=books[0].book_id)


def _refuse_several(books: Sequence[ShelvedBook], name: str) -> UsageError:
    listed = ", ".join(f"{book.record.name!r} ({book.directory})" for book in books)
    called = f" called {name!r}" if name else ""
    return UsageError(
        f"{len(books)} lorebooks{called} are imported: {listed}; nothing was exported",
        hint="Choose one with `--from DIR`." if name else "Choose one with `--book NAME`.",
    )


def export_book(
    store: MemoryStore, *, directory: str | None = None, book_format: BookFormat, book_id: str = ""
) -> dict[str, Any]:
    """Export the lore in `directory`, a person's edits included, as a lorebook.

    Args:
        directory: Its directory below the memory root; None: that of the only book.
        book_format: `worldinfo`, `v3` (a standalone lorebook), or `card` for a `character_book`;
            for a card only the book that came with one is taken, if there is such a book.
        book_id: Export only this one of several books there.

    Raises:
        NotFoundError: There is no lore in `directory`.
        UsageError: No directory is given, and there are several books.
    """
    if directory is None:
        return to_json(choose_book(store), book_format)
    only = FROM_CARD if book_format == "card" else ()
    return to_json(collect_lore(store, directory, book_id=book_id, only=only), book_format)


def own_format(book: Lorebook) -> BookFormat:
    """Return the original format of a book's settings."""
    if book.shape == "worldinfo":
        return "worldinfo"
    return "card" if book.source == BARE_BOOK else "v3"
