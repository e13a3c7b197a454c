"""Storage of lorebooks: directories, `.lorebook.json`, entry ids, files and pages."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct, convert, field, to_builtins

from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError
from familiar_cli.base.text import fold, one_line, slugify
from familiar_cli.imports import import_plan
from familiar_cli.imports.foreign_files import to_storable
from familiar_cli.imports.lorebook import KEYS, Lorebook, LoreEntry, Shape, json_digest
from familiar_cli.store.memory.layout import IMPORTED_LORE_DIR, LORE_DIR
from familiar_cli.store.memory.pages.front_matter import LorePage, is_expression, parse_lore
from familiar_cli.store.memory.pages.lore_settings import (
    LORE_SETTINGS,
    read_decorators,
    split_decorators,
)
from familiar_cli.store.memory.store.files import MemoryFile
from familiar_cli.store.memory.store.store import MemoryStore

_ID_CHARS: Final = 12


_SUFFIX_CHARS: Final = 6


_MAX_STEM_CHARS: Final = 60


_MAX_STEM_BYTES: Final = 200  # file systems allow 255; a suffix and `.md` follow


_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)\d)")


def book_id_of(name: str) -> str:
    """Return the id of a book with this name."""
    return json_digest(["book", fold(name.strip())])[:_ID_CHARS]


def ids_of(book_id: str, entries: Sequence[LoreEntry], taken: set[str]) -> list[str]:
    """Return an id for each of `entries`, independent of their order.

    Entries with equal text are distinguished by their settings, and by number if even those are
    equal. Ids in `taken` are not used.
    """
    keyed = sorted((entry.core, json_digest(entry.raw), n) for n, entry in enumerate(entries))
    ids = [""] * len(entries)
    used = set(taken)
    for core, raw, n in keyed:
        twin = 0
        new = json_digest([book_id, core])[:_ID_CHARS]
        while new in used:
            twin += 1
            new = json_digest([book_id, core, raw, twin])[:_ID_CHARS]
        used.add(new)
        ids[n] = new
    return ids


def stem_of(entry: LoreEntry) -> str:
    """Return a file stem for `entry`: its title, else a key, else its number.

    Keys that are regular expressions are the last choice.
    """
    names = sorted((entry.title, *entry.keys), key=is_expression)
    stems = (safe_stem(name, "entry") for name in (*names, f"entry {entry.uid}"))
    return next(filter(None, stems), "entry")


def safe_stem(name: str, kind: str) -> str:
    """Make `name` valid on every file system; empty if nothing is left.

    Args:
        name: A name from a person or another program.
        kind: Appended to reserved device names.
    """
    slug = slugify(name, max_chars=_MAX_STEM_CHARS)
    stem = slug.encode()[:_MAX_STEM_BYTES].decode(errors="ignore").strip("-")
    return f"{stem}-{kind}" if _DEVICE.fullmatch(stem) else stem


def file_names(entries: Sequence[LoreEntry], ids: Sequence[str], taken: set[str]) -> list[str]:
    """Return a file name for each of `entries`.

    Entries with the same name all get the beginning of their id as a suffix, and so does one whose
    name is in `taken` (case-folded names).
    """
    stems = [stem_of(entry) for entry in entries]
    shared = Counter(fold(stem) for stem in stems)
    used = set(taken)
    names = []
    for stem, entry_id in zip(stems, ids, strict=True):
        alone = shared[fold(stem)] == 1 and fold(f"{stem}.md") not in used
        name = f"{stem}.md" if alone else _with_suffix(stem, entry_id, used)
        used.add(fold(name))
        names.append(name)
    return names


def _with_suffix(stem: str, entry_id: str, used: set[str]) -> str:
    name = f"{stem}-{entry_id[:_SUFFIX_CHARS]}.md"
    return name if fold(name) not in used else f"{stem}-{entry_id}.md"


def match_entries(new: Sequence[LoreEntry], old: Mapping[str, LoreEntry]) -> list[str | None]:
    """Return the id of the matching old entry for each of `new`, or None.

    Criteria are tried in order of certainty: same text and number, same text, same number and
    title, same title, same number with a shared key or equal content. A criterion counts only
    between one new and one old entry; identical twins are paired in order.
    """
    keys: list[str | None] = [None] * len(new)
    free = dict(old)
    _pair_entries(new, keys, free, lambda entry: (entry.core, entry.uid), twins=True)
    _pair_entries(new, keys, free, lambda entry: entry.core, twins=True)
    _pair_entries(new, keys, free, lambda entry: (entry.uid, entry.title) if entry.uid else None)
    _pair_entries(new, keys, free, lambda entry: entry.title or None)
    _pair_entries(new, keys, free, lambda entry: entry.uid or None, also=_are_alike)
    return keys


def _pair_entries(
    new: Sequence[LoreEntry],
    matches: list[str | None],
    free: dict[str, LoreEntry],
    criterion: Callable[[LoreEntry], Hashable],
    *,
    twins: bool = False,
    also: Callable[[LoreEntry, LoreEntry], bool] = lambda _new, _old: True,
) -> None:
    """Pair unmatched entries on both sides with equal `criterion`; None never matches."""
    olds: dict[Hashable, list[str]] = defaultdict(list)
    for key, entry in free.items():
        olds[criterion(entry)].append(key)
    news: dict[Hashable, list[int]] = defaultdict(list)
    for n, entry in enumerate(new):
        if matches[n] is None:
            news[criterion(entry)].append(n)
    for like, places in news.items():
        keys = olds.get(like, []) if like is not None else []
        if not twins and (len(places) > 1 or len(keys) > 1):
            continue
        for n, key in zip(places, keys, strict=False):
            if also(new[n], free[key]):
                matches[n] = key
                del free[key]


def _are_alike(new: LoreEntry, old: LoreEntry) -> bool:
    return new.content == old.content or bool(set(new.keys) & set(old.keys))


VERSION: Final = 1


class BookRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A book in the directory. See `Lorebook` for the fields of the same name.

    Args:
        digest: Digest of the original entries and settings; recognises a renamed book.
    """

    name: str
    shape: Shape
    source: str
    digest: str
    frame: Mapping[str, Any]
    outer: Mapping[str, Any]
    unreadable: tuple[Any, ...] = ()


class EntryRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry in the directory.

    Args:
        book: Its book's id.
        place: Its position among the source's entries.
        slot: See `LoreEntry`.
        shape: The spelling of `raw`.
        path: The last known path of its file, below the memory root.
        sha256: The SHA-256 of the file as written.
        raw: Its settings.
    """

    book: str
    shape: Shape
    place: int
    slot: str
    path: str
    sha256: str
    raw: Mapping[str, Any]


class BookSettings(Struct, frozen=True):
    """All books and entries of one directory, by id."""

    books: dict[str, BookRecord] = field(default_factory=dict)
    entries: dict[str, EntryRecord] = field(default_factory=dict)

    def entry(self, entry_id: str) -> LoreEntry:
        """Return an entry as imported."""
        record = self.entries[entry_id]
        return LoreEntry(record.shape, record.raw, record.slot)

    def of_book(self, book_id: str) -> dict[str, EntryRecord]:
        """Return the entries of one book."""
        return {name: record for name, record in self.entries.items() if record.book == book_id}


def path_in(directory: str) -> str:
    """Return the path of the settings of the books in `directory`."""
    return f"{directory}/{LORE_SETTINGS}" if directory else LORE_SETTINGS


def load_settings(store: MemoryStore, directory: str) -> BookSettings:
    """Load the settings of the books in `directory`; empty if it has none.

    Raises:
        BadInputError: The file is damaged.
    """
    settings = import_plan.load_ledger(
        store,
        path_in(directory),
        _parse_settings,
        keeps="the settings of the lorebooks there",
        hint="Restore an older copy of it, or import into another directory with `--into`.",
    )
    return settings or BookSettings()


def dump_settings(settings: BookSettings) -> str:
    """Serialise the settings: ASCII, one line per book and entry, in a fixed order."""
    books, entries = _rows("books", settings.books), _rows("entries", settings.entries)
    return f'{{"familiar_lorebook": {VERSION},\n{books},\n{entries}}}\n'


def _rows(name: str, records: Mapping[str, BookRecord | EntryRecord]) -> str:
    rows = [f'"{key}": {json.dumps(to_builtins(records[key]))}' for key in sorted(records)]
    return f'"{name}": {{' + ",".join(f"\n{row}" for row in rows) + "}"


def _parse_settings(data: dict[str, Any]) -> BookSettings:
    if data["familiar_lorebook"] != VERSION:
        raise ValueError("written by another version")
    settings = convert({name: data[name] for name in ("books", "entries")}, BookSettings)
    for record in settings.entries.values():
        keys = record.raw.get(KEYS[record.shape], [])
        if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
            raise TypeError("the keys are not text")
    return settings


_NAMELESS: Final = "book"


class ShelvedBook(Struct, frozen=True):
    """A previously imported book.

    Args:
        directory: Where its entries are.
        book_id: Its id there.
        record: Its settings.
    """

    directory: str
    book_id: str
    record: BookRecord


def book_directories(store: MemoryStore) -> list[str]:
    """Return every directory below `lore/` that contains books, sorted."""
    return sorted(
        str(PurePosixPath(path).parent)
        for path in walk_paths(store, LORE_DIR, hidden=True)
        if PurePosixPath(path).name == LORE_SETTINGS
    )


def shelved_books(store: MemoryStore) -> list[ShelvedBook]:
    """Return every book below `lore/`, by name.

    Raises:
        BadInputError: No book is readable, and some settings are damaged.
    """
    found: list[ShelvedBook] = []
    damaged: list[BadInputError] = []
    for directory in book_directories(store):
        try:
            settings = load_settings(store, directory)
        except BadInputError as error:
            damaged.append(error)
            continue
        found += (ShelvedBook(directory, key, rec) for key, rec in settings.books.items())
    if damaged and not found:
        raise damaged[0]
    return sorted(found, key=lambda book: (fold(book.record.name), book.directory, book.book_id))


def find_book(store: MemoryStore, name: str) -> list[ShelvedBook]:
    """Return the books named `name`, or in a directory of that name.

    Raises:
        NotFoundError: There is none; the message lists the books.
    """
    every, target = shelved_books(store), fold(name.strip())
    called = [book for book in every if fold(book.record.name.strip()) == target] or [
        book
        for book in every
        if target in (fold(book.directory), fold(PurePosixPath(book.directory).name))
    ]
    if not called:
        known = ", ".join(repr(book.record.name) for book in every) or "none"
        raise NotFoundError(f"No imported lorebook is called {name!r}", hint=f"Imported: {known}.")
    return called


def place_for(book: Lorebook, store: MemoryStore) -> tuple[str, tuple[str, ...]]:
    """Return the directory for `book`: its existing one, else a new one.

    Raises:
        BadInputError: The settings of a directory are damaged, so the book could be in it.
    """
    shelves = {place: load_settings(store, place) for place in book_directories(store)}
    for directory, settings in shelves.items():
        if _bears_its_name(settings, book):
            return directory, ()
    for directory, settings in shelves.items():
        known = same_book(settings, book)
        if known and known != book_id_of(book.name):
            name = settings.books[known].name
            note = f"{book.name!r} is the book {name!r} in {directory}, imported before"
            return directory, (note,)
    return _new_place(book, store, shelves)


def same_book(settings: BookSettings, book: Lorebook) -> str | None:
    """Return the id under which a directory already contains `book`, or None.

    That is the book of the same name, else of the same content, else one that shares more than half
    of the entries of either: title, keys and text, in any format.
    """
    by_name = book_id_of(book.name)
    if by_name in settings.books:
        return by_name
    whole = book.digest
    by_content = (key for key, record in settings.books.items() if record.digest == whole)
    alike = (key for key in settings.books if _is_alike(book.entries, _lore_entries(settings, key)))
    return next(by_content, None) or next(alike, None)


def directory_name(name: str) -> str:
    """Return the directory name for a book: a slug, never a path."""
    return safe_stem(name, "book") or _NAMELESS


def _bears_its_name(settings: BookSettings, book: Lorebook) -> bool:
    """Tell whether the directory's book of the same name is `book`, not a namesake.

    Half of the entries of the shorter one must be in the other, at least by title.
    """
    key = book_id_of(book.name)
    if key not in settings.books:
        return False
    olds = {name: settings.entry(name) for name in settings.of_book(key)}
    paired = sum(match is not None for match in match_entries(book.entries, olds))
    return 2 * paired >= min(len(olds), len(book.entries))


def _is_alike(new: Sequence[LoreEntry], old: Sequence[LoreEntry]) -> bool:
    common = (Counter(e.core for e in new) & Counter(e.core for e in old)).total()
    return 2 * common > max(len(new), len(old))


def _lore_entries(settings: BookSettings, book_id: str) -> list[LoreEntry]:
    return [settings.entry(key) for key in settings.of_book(book_id)]


def _new_place(
    book: Lorebook, store: MemoryStore, shelves: dict[str, BookSettings]
) -> tuple[str, tuple[str, ...]]:
    name, depth = directory_name(book.name), len(PurePosixPath(IMPORTED_LORE_DIR).parts)
    taken = {
        fold(PurePosixPath(p).parts[depth])
        for p in walk_paths(store, IMPORTED_LORE_DIR, hidden=True)
    }
    names = (name if n == 1 else f"{name}-{n}" for n in count(1))
    directory = f"{IMPORTED_LORE_DIR}/{next(n for n in names if fold(n) not in taken)}"
    key = book_id_of(book.name)
    other = next((place for place, settings in shelves.items() if key in settings.books), None)
    if other is None:
        return directory, ()
    note = (
        f"another book called {book.name!r} is in {other}, and they have hardly any entry in "
        f"common, so this one is kept apart; `--into {other}` imports it there"
    )
    return directory, (note,)


def walk_paths(
    store: MemoryStore, directory: str, *, hidden: bool = False, skipped: list[str] | None = None
) -> list[str]:
    """Return every file below a directory; none if it does not exist.

    Args:
        hidden: Include hidden files.
        skipped: Receives unreadable files: path and reason.
    """
    walk = store.walk(directory, hidden=hidden, missing_ok=True)
    if skipped is not None:
        skipped += [f"{item.rel_path}: {item.reason}" for item in walk.skipped]
    return [entry.rel_path for entry in walk.files if not entry.is_dir]


class EntryFiles(Struct, frozen=True):
    """The files in a directory, matched with its entries.

    Args:
        files: Entry id -> its file.
        strays: Files in the directory that belong to no entry.
        skipped: Unreadable files: path and reason.
        names: Every path in the directory, Markdown or not.
    """

    files: dict[str, MemoryFile]
    strays: tuple[MemoryFile, ...]
    skipped: tuple[str, ...]
    names: frozenset[str]


def find_entry_files(store: MemoryStore, directory: str, settings: BookSettings) -> EntryFiles:
    """Find the files of the entries in `settings`, and other files in their `directory`.

    A file belongs to the entry whose id it contains; the file at an entry's last known path takes
    precedence, even without the id. Only if one is missing is the whole memory searched, except
    other books' directories. Subdirectories with books of their own belong to those.
    """
    skipped: list[str] = []
    paths = _own_files(
        walk_paths(store, directory, skipped=skipped),
        directory,
        _other_directories(store, directory),
    )
    here = _read_files(store, [path for path in paths if path.endswith(".md")], skipped)
    wanted = {record.path: key for key, record in settings.entries.items()}
    away = [path for path in wanted if path not in here and store.exists(path)]
    seen = here | _read_files(store, [path for path in away if path not in paths], skipped)
    files = _claim_files(seen, settings, wanted)
    if len(files) < len(settings.entries):
        known = seen.keys() | _recorded_directories(store, directory)
        others = [
            p
            for p in walk_paths(store, "", skipped=skipped)
            if p.endswith(".md") and p not in known
        ]
        marked = _read_files(store, others, skipped)
        files = _claim_files(seen | marked, settings, wanted)
    claimed = {file.rel_path for file in files.values()}
    strays = tuple(file for path, file in here.items() if path not in claimed)
    return EntryFiles(files, strays, tuple(dict.fromkeys(skipped)), frozenset(paths))


def _claim_files(
    seen: dict[str, MemoryFile], settings: BookSettings, wanted: dict[str, str]
) -> dict[str, MemoryFile]:
    """Assign files to entries: by path with id, then by id, then by path alone."""
    marks = {path: parse_lore(file.text).entry_id for path, file in seen.items()}
    files = {key: seen[path] for path, key in wanted.items() if marks.get(path, "") == key}
    for path in sorted(seen):
        key = marks[path]
        if key in settings.entries and key not in files:
            files[key] = seen[path]
    for path, key in wanted.items():
        if key not in files and path in seen and marks[path] is None:
            files[key] = seen[path]
    return files


def _other_directories(store: MemoryStore, directory: str) -> list[str]:
    """Return the other directories that contain books."""
    return [other for other in book_directories(store) if other != directory]


def _own_files(items: list[str], directory: str, others: list[str]) -> list[str]:
    """Filter out paths in subdirectories that have books of their own."""
    below = tuple(f"{other}/" for other in others if other.startswith(f"{directory}/"))
    return [path for path in items if not path.startswith(below)]


def _recorded_directories(store: MemoryStore, directory: str) -> set[str]:
    """Return the last known directories of other directories' entries."""
    items: set[str] = set()
    for other in _other_directories(store, directory):
        with suppress(BadInputError):  # reported when that directory itself is requested
            settings = load_settings(store, other)
            items |= {record.path for record in settings.entries.values()}
    return items


def _read_files(store: MemoryStore, paths: list[str], skipped: list[str]) -> dict[str, MemoryFile]:
    read: dict[str, MemoryFile] = {}
    for path in paths:
        try:
            read[path] = store.read(path)
        except BadInputError:
            skipped.append(f"{path}: not UTF-8 text")
        except FamiliarError as error:
            skipped.append(f"{path}: {error}")
    return read


_MAX_TITLE_CHARS: Final = 200


def page_of(entry: LoreEntry, entry_id: str) -> LorePage:
    """Build the page of `entry`: its text without decorators, and always with a title."""
    _, body = split_decorators(entry.content)
    return LorePage(
        title=entry_heading(entry),
        keys=entry.keys,
        enabled=entry.enabled,
        entry_id=entry_id,
        body=to_storable(body),
        pinned=is_constant(entry),
    )


def is_constant(entry: LoreEntry) -> bool:
    """Tell whether an entry belongs in every prompt: it is constant and has text."""
    _, body = split_decorators(entry.content)
    is_said = "constant" in read_decorators(entry.content)
    says_so = entry.raw.get("constant") in (True, "true") or is_said
    return says_so and entry.enabled and bool(body.strip())


def entry_heading(entry: LoreEntry) -> str:
    """Return the title on one line; without one, a key or the number.

    Regular expressions are not used as titles, since they are hard to read.
    """
    keys = [key for key in entry.keys if not is_expression(key)]
    names = (entry.title, *keys[:1], *entry.other_titles, f"Entry {entry.uid}")
    lines = (one_line(name, _MAX_TITLE_CHARS) for name in names)
    return next((line for line in lines if line and not is_expression(line)), "Entry")
