"""Where each book stands, its `.lorebook.json`, the ids of entries and how they look on a page."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeVar

from familiar_cli.errors import BadInputError, NotFoundError
from familiar_cli.imports import import_plan
from familiar_cli.imports.foreign_files import to_storable
from familiar_cli.imports.lorebook import KEYS, LoreEntry, Shape, json_digest
from familiar_cli.memory.layout import IMPORTED_LORE_DIR, LORE_DIR
from familiar_cli.memory.pages.front_matter import LorePage, is_expression, parse_lore
from familiar_cli.text import fold, one_line, slugify

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from familiar_cli.imports.lorebook import Lorebook
    from familiar_cli.memory.store.store import MemoryStore

_ID_CHARS: Final = 12


_SUFFIX_CHARS: Final = 6


_MAX_STEM_CHARS: Final = 60


_MAX_STEM_BYTES: Final = 200  # 255 is what file systems hold; a suffix and `.md` follow


_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)\d)")


def book_id_of(name: str) -> str:
    """Return the id of the book that calls itself `name`."""
    return json_digest(["book", fold(name.strip())])[:_ID_CHARS]


def ids_of(book_id: str, entries: Sequence[LoreEntry], taken: set[str]) -> list[str]:
    """Return an id for each of `entries`, which together does not depend on their order.

    Entries that say the very same are told apart by their settings, and by number where even those
    are equal. Nothing in `taken` is used.
    """
    keyed = sorted((entry.core, json_digest(entry.raw), n) for n, entry in enumerate(entries))
    found = [""] * len(entries)
    used = set(taken)
    for core, raw, n in keyed:
        twin = 0
        new = json_digest([book_id, core])[:_ID_CHARS]
        while new in used:
            twin += 1
            new = json_digest([book_id, core, raw, twin])[:_ID_CHARS]
        used.add(new)
        found[n] = new
    return found


def stem_of(entry: LoreEntry) -> str:
    """Return a file name without suffix for `entry`: its title, else a key, else its number.

    Regular expressions come after other keys.
    """
    names = sorted((entry.title, *entry.keys), key=is_expression)
    stems = (safe_stem(name, "entry") for name in (*names, f"entry {entry.uid}"))
    return next(filter(None, stems), "entry")


def safe_stem(name: str, kind: str) -> str:
    """Return `name` as every file system can hold it, or an empty string.

    Args:
        name: What a person or another program calls it.
        kind: Stands behind the name of a device.
    """
    stem = _fit_name(slugify(name, max_chars=_MAX_STEM_CHARS))
    return f"{stem}-{kind}" if _DEVICE.fullmatch(stem) else stem


def file_names(entries: Sequence[LoreEntry], ids: Sequence[str], taken: set[str]) -> list[str]:
    """Return a file name for each of `entries`.

    Entries that would have the same name all get the beginning of their id behind it, and so does
    one whose name is in `taken` (folded names).
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


def _fit_name(stem: str) -> str:
    return stem.encode()[:_MAX_STEM_BYTES].decode(errors="ignore").strip("-")


def match_entries(new: Sequence[LoreEntry], old: Mapping[str, LoreEntry]) -> list[str | None]:
    """Return for each entry of `new` the id of the old entry that it is, or None.

    The surest criterion decides first: the same text and number, the same text, the same number and
    title, the same title, and the same number with a key or the content in common. A criterion
    counts only between one new and one old entry; equal twins are paired in their order.
    """
    found: list[str | None] = [None] * len(new)
    free = dict(old)
    _pair_entries(new, found, free, lambda entry: (entry.core, entry.uid), twins=True)
    _pair_entries(new, found, free, lambda entry: entry.core, twins=True)
    _pair_entries(new, found, free, lambda entry: (entry.uid, entry.title) if entry.uid else None)
    _pair_entries(new, found, free, lambda entry: entry.title or None)
    _pair_entries(new, found, free, lambda entry: entry.uid or None, also=_are_alike)
    return found


def _pair_entries(
    new: Sequence[LoreEntry],
    found: list[str | None],
    free: dict[str, LoreEntry],
    criterion: Callable[[LoreEntry], Hashable],
    *,
    twins: bool = False,
    also: Callable[[LoreEntry, LoreEntry], bool] = lambda _new, _old: True,
) -> None:
    """Pair what is left over on both sides and has the same `criterion`; None equals nothing."""
    olds: dict[Hashable, list[str]] = defaultdict(list)
    for key, entry in free.items():
        olds[criterion(entry)].append(key)
    news: dict[Hashable, list[int]] = defaultdict(list)
    for n, entry in enumerate(new):
        if found[n] is None:
            news[criterion(entry)].append(n)
    for like, places in news.items():
        keys = olds.get(like, []) if like is not None else []
        if not twins and (len(places) > 1 or len(keys) > 1):
            continue
        for n, key in zip(places, keys, strict=False):
            if also(new[n], free[key]):
                found[n] = key
                del free[key]


def _are_alike(new: LoreEntry, old: LoreEntry) -> bool:
    return new.content == old.content or bool(set(new.keys) & set(old.keys))


R = TypeVar("R", "BookRecord", "EntryRecord")

FILE_NAME: Final = ".lorebook.json"
VERSION: Final = 1
_KINDS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("name", "source", "digest", "book", "slot", "path", "sha256"), str),
    **dict.fromkeys(("frame", "outer", "raw"), dict),
    "place": int,
}


@dataclass(frozen=True, slots=True)
class BookRecord:
    """One book in the directory. See `Lorebook` for the fields of the same name.

    Args:
        digest: Of all entries and settings as they came; finds the book again under another name.
    """

    name: str
    shape: Shape
    source: str
    digest: str
    frame: Mapping[str, Any]
    outer: Mapping[str, Any]
    unreadable: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """One entry in the directory.

    Args:
        book: The id of its book.
        place: Where it stood among the entries of its source.
        slot: See `LoreEntry`.
        shape: How `raw` is spelled.
        path: Where its file was last seen, below the memory root.
        sha256: Of the file as it was written.
        raw: Its settings.
    """

    book: str
    shape: Shape
    place: int
    slot: str
    path: str
    sha256: str
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BookSettings:
    """All books and entries of one directory, by their ids."""

    books: dict[str, BookRecord] = field(default_factory=dict)
    entries: dict[str, EntryRecord] = field(default_factory=dict)

    def entry(self, entry_id: str) -> LoreEntry:
        """Return an entry as it came."""
        record = self.entries[entry_id]
        return LoreEntry(record.shape, record.raw, record.slot)

    def of_book(self, book_id: str) -> dict[str, EntryRecord]:
        """Return the entries of one book."""
        return {name: record for name, record in self.entries.items() if record.book == book_id}


def path_in(directory: str) -> str:
    """Return where the settings of the books in `directory` are kept."""
    return f"{directory}/{FILE_NAME}" if directory else FILE_NAME


def load_settings(store: MemoryStore, directory: str) -> BookSettings:
    """Return the settings of the books in `directory`, empty when it has none.

    Raises:
        BadInputError: The file is damaged; nothing is changed.
    """
    found = import_plan.load_ledger(
        store,
        path_in(directory),
        _parse_settings,
        keeps="the settings of the lorebooks there",
        hint="Restore an older copy of it, or import into another directory with `--into`.",
    )
    return found or BookSettings()


def dump_settings(settings: BookSettings) -> str:
    """Return the text of the file: ASCII, one line for each book and entry, in a fixed order."""
    books, entries = _rows("books", settings.books), _rows("entries", settings.entries)
    return f'{{"familiar_lorebook": {VERSION},\n{books},\n{entries}}}\n'


def _rows(name: str, records: Mapping[str, BookRecord | EntryRecord]) -> str:
    rows = [f'"{key}": {json.dumps(asdict(records[key]))}' for key in sorted(records)]
    return f'"{name}": {{' + ",".join(f"\n{row}" for row in rows) + "}"


def _parse_settings(data: dict[str, Any]) -> BookSettings:
    if data["familiar_lorebook"] != VERSION:
        raise ValueError("written by another version")
    return BookSettings(
        {
            key: _check_record(BookRecord(**{**value, "unreadable": tuple(value["unreadable"])}))
            for key, value in data["books"].items()
        },
        {key: _check_record(EntryRecord(**value)) for key, value in data["entries"].items()},
    )


def _check_record(record: R) -> R:
    """Return `record` when what it holds is of the kinds that it promises.

    Raises:
        TypeError: It is not.
    """
    for name, kind in _KINDS.items():
        if not isinstance(getattr(record, name, kind()), kind):
            raise TypeError(f"{name} is not a {kind.__name__}")
    if record.shape not in KEYS:
        raise ValueError("unexpected structure")
    keys = getattr(record, "raw", {}).get(KEYS[record.shape], [])
    if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise TypeError("the keys are not text")
    return record


_NAMELESS: Final = "book"


@dataclass(frozen=True, slots=True)
class ShelvedBook:
    """A book that was imported before.

    Args:
        directory: Where its entries are.
        book_id: What it is known by there.
        record: Its settings.
    """

    directory: str
    book_id: str
    record: BookRecord


def book_directories(store: MemoryStore) -> list[str]:
    """Return every directory below `lore/` that has books, sorted."""
    return sorted(
        str(PurePosixPath(path).parent)
        for path in walk_paths(store, LORE_DIR, hidden=True)
        if PurePosixPath(path).name == FILE_NAME
    )


def shelved_books(store: MemoryStore) -> list[ShelvedBook]:
    """Return every book below `lore/`, by name.

    Raises:
        BadInputError: There is none that can be read, and the settings of one are damaged.
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
    """Return the books that `name` means: their own name, or that of their directory.

    Raises:
        NotFoundError: None is called that; the message lists them.
    """
    every, wanted = shelved_books(store), fold(name.strip())
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


def place_for(book: Lorebook, store: MemoryStore) -> tuple[str, tuple[str, ...]]:
    """Return the directory that `book` belongs in: where it is already, else one of its own.

    Raises:
        BadInputError: The settings of a directory are damaged: the book could be in it.
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
    """Return the id of the book in a directory that `book` is, or None.

    It is the one of its name, else one of the same content, else one with which it has more than
    half of the entries of either in common: title, keys and text, in whichever format.
    """
    by_name = book_id_of(book.name)
    if by_name in settings.books:
        return by_name
    whole = book.digest
    by_content = (key for key, record in settings.books.items() if record.digest == whole)
    alike = (key for key in settings.books if _is_alike(book.entries, _lore_entries(settings, key)))
    return next(by_content, None) or next(alike, None)


def directory_name(name: str) -> str:
    """Return the directory for a book called `name`: a slug, never a path."""
    return safe_stem(name, "book") or _NAMELESS


def _bears_its_name(settings: BookSettings, book: Lorebook) -> bool:
    """Tell whether the book of that name in a directory is `book`, rather than a namesake.

    Half of the entries of the shorter one have to be in the other, at least by title.
    """
    key = book_id_of(book.name)
    if key not in settings.books:
        return False
    olds = {name: settings.entry(name) for name in settings.of_book(key)}
    paired = sum(found is not None for found in match_entries(book.entries, olds))
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
    """Return every file below a directory, none where there is no such directory.

    Args:
        store: The memory.
        directory: The directory.
        hidden: Hidden files count, too.
        skipped: Gets what could not be read: path and reason.
    """
    try:
        walk = store.walk(directory, hidden=hidden)
    except NotFoundError:
        return []
    if skipped is not None:
        skipped += [f"{item.rel_path}: {item.reason}" for item in walk.skipped]
    return [entry.rel_path for entry in walk.files if not entry.is_dir]


_MAX_TITLE_CHARS: Final = 200


def page_of(entry: LoreEntry, entry_id: str) -> LorePage:
    """Return the page of `entry`: its text without decorators, and a title in any case."""
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
    """Tell whether an entry is meant for every prompt: it is constant, and says something."""
    head, body = split_decorators(entry.content)
    says_so = entry.raw.get("constant") in (True, "true") or "constant" in _names_in(head)
    return says_so and entry.enabled and bool(body.strip())


def entry_heading(entry: LoreEntry) -> str:
    """Return the title in one line; where it says nothing a key or the number stands in.

    A regular expression is not used as a title: it reads like noise.
    """
    keys = [key for key in entry.keys if not is_expression(key)]
    return _first_line(entry, (entry.title, *keys[:1], *entry.other_titles), is_expression)


def _former_heading(entry: LoreEntry) -> str:
    """Return the title as files have it that were imported when expressions were titles."""
    return _first_line(entry, (entry.title, *entry.keys[:1]), lambda _: False)


def _first_line(entry: LoreEntry, names: Iterable[str], is_bad: Callable[[str], bool]) -> str:
    lines = (one_line(name, _MAX_TITLE_CHARS) for name in (*names, f"Entry {entry.uid}"))
    return next((line for line in lines if line and not is_bad(line)), "Entry")


def edits_of(text: str, entry: LoreEntry, entry_id: str) -> dict[str, Any]:
    """Compare the page of `entry` with its source: changed title, keys, enabled, content.

    Line ends alone, which an editor may change, are no edit.
    """
    now, then = parse_lore(text), page_of(entry, entry_id)
    edits: dict[str, Any] = {}
    if now.title not in (None, then.title, _former_heading(entry)):
        edits["title"] = now.title
    if now.keys != then.keys:
        edits["keys"] = now.keys
    if now.enabled != then.enabled:
        edits["enabled"] = now.enabled
    if _unix_newlines(_with_newline(now.body)) != _unix_newlines(_with_newline(then.body)):
        edits["content"] = split_decorators(entry.content)[0] + _as_before(now.body, then.body)
    return edits


def _as_before(body: str, before: str) -> str:
    """Return the edited `body` with the line ends and the end that the entry had before."""
    if "\r\n" not in before:
        body = _unix_newlines(body)
    return body if before.endswith("\n") else body.removesuffix("\n").removesuffix("\r")


def _with_newline(body: str) -> str:
    return body if not body or body.endswith("\n") else body + "\n"


def _unix_newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


# `@@@` is a fallback: it counts where the one before it is not understood.
_LINE: Final = re.compile(r"@@@?([A-Za-z_]\w*)(?:[ \t][^\r\n]*)?(?:\r?\n|\Z)")
_BLANK: Final = re.compile(r"(?:[ \t]*\r?\n)+")


def split_decorators(content: str) -> tuple[str, str]:
    """Return the decorators that `content` begins with, as they stand, and the text below them.

    The two joined are `content`. Blank lines between decorators and text go with the decorators.
    """
    end = 0
    while line := _LINE.match(content, end):
        end = line.end()
    if end and (blank := _BLANK.match(content, end)):
        end = blank.end()
    return content[:end], content[end:]


def decorators_of(content: str) -> tuple[str, ...]:
    """Return the names of the decorators that `content` begins with."""
    return _names_in(split_decorators(content)[0])


def _names_in(head: str) -> tuple[str, ...]:
    return tuple(line[1] for line in _LINE.finditer(head))
