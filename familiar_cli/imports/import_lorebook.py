"""Import a lorebook: read it in any format, and plan its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from familiar_cli.base.errors import ConflictError, RefusedError, UnsafePathError
from familiar_cli.base.text import counted, fold, one_line, sha256_of, unified
from familiar_cli.imports import import_plan, lorebook, lorebook_shelf
from familiar_cli.imports.import_plan import Effects, FileToWrite, ImportPlan, ImportReport
from familiar_cli.imports.lorebook import (
    DEFAULTS,
    Lorebook,
    LoreEntry,
    book_settings,
    frame_as_world,
)
from familiar_cli.imports.lorebook_shelf import (
    BookRecord,
    BookSettings,
    EntryFiles,
    EntryRecord,
    book_id_of,
    file_names,
    find_entry_files,
    ids_of,
    match_entries,
    page_of,
    place_for,
    same_book,
)
from familiar_cli.store.memory.layout import IMPORTED_LORE_DIR
from familiar_cli.store.memory.pages.front_matter import (
    PIN,
    is_expression,
    is_pinned,
    render_lore,
    without_pin,
)
from familiar_cli.store.memory.pages.lore_settings import is_gate, is_placement, read_decorators
from familiar_cli.store.memory.store.files import MISSING, MemoryFile, parse_path
from familiar_cli.store.memory.store.store import MemoryStore

State = Literal["pinned", "found", "gone"]
"""What an entry's file is: pinned, or not, or deleted by hand."""

_SHOWN: Final = frozenset(("key", "keys", "content", "comment", "name", "disable", "enabled"))
_COUNTERS: Final = frozenset(("uid", "id", "displayindex", "addmemo"))
_TIMED: Final = frozenset(("sticky", "cooldown", "delay"))  # 0 and nothing are the same
_PINNING: Final = frozenset(("constant", "@@constant"))
_UNPINNED: Final = "constant (not pinned)"


def _plain_name(name: str) -> str:
    """Return `delayuntilrecursion` for `delayUntilRecursion` and `delay_until_recursion`."""
    return name.replace("_", "").lower()


# Defaults of World Info and of a card's book.
_BOOK_DEFAULTS: Final = {
    **{_plain_name(name): value for name, value in DEFAULTS.items()},
    "insertionorder": 100,
    "secondarykeys": [],
    "useregex": False,
    "extensions": {},
}


def effects_of(book: Lorebook, states: Mapping[int, State]) -> Effects:
    """Describe the effect of each setting of `book`.

    Args:
        states: The state of each entry's file, by position; pinned if the entry is constant.
    """
    every, counts, kept = Counter[str](), Counter[str](), Counter[str]()
    for place, entry in enumerate(book.entries):
        names = set(_kept_settings(entry))
        gates = {name for name in names if is_gate(name)}
        places = {name for name in names if is_placement(name)}
        names -= gates | places
        pinning = names & _PINNING
        if entry.enabled:
            counts.update(f"{name.removeprefix('extensions.')} may keep back" for name in gates)
            counts.update(f"{name.removeprefix('extensions.')} places" for name in places)
        match states.get(place, "gone") if entry.enabled else "disabled":
            case "pinned":
                every["constant of" if pinning else "pinned by hand:"] += 1
                names -= pinning
            case "found":
                counts["title, keys and text of"] += 1
                if pinning:
                    names = (names - pinning) | {_UNPINNED}
            case "disabled":
                kept["disabled:"] += 1
        if any(map(is_expression, entry.keys)):
            names.add("regular-expression keys outside gates")
        kept.update(f"{name} of" for name in names)
    of_gates = tuple(f"the book's {name}" for name in _of_book(book) if is_gate(name))
    of_book = tuple(f"the book's {name}" for name in _of_book(book) if not is_gate(name))
    return Effects(
        _count_notices(every),
        (*of_gates, *_count_notices(counts)),
        (*of_book, *_count_notices(kept)),
    )


def _count_notices(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{what} {counted(n, 'entry', 'entries')}" for what, n in sorted(counts.items()))


def _of_book(book: Lorebook) -> Iterator[str]:
    """Yield each setting of the book itself."""
    for name, value in book.frame.items():
        if name != "name" and value not in ({}, None):
            yield name


def _kept_settings(entry: LoreEntry) -> Iterator[str]:
    """Yield each setting that differs from its default and is not on the entry's page."""
    for name, value in entry.raw.items():
        if name == "extensions" and isinstance(value, dict):
            yield from (
                f"extensions.{key}" for key, one in value.items() if not _is_default(key, one)
            )
        elif name not in _SHOWN and not _is_default(name, value):
            yield name
    yield from {f"@@{name}" for name in read_decorators(entry.content)}


def _is_default(name: str, value: Any) -> bool:  # noqa: ANN401
    """Tell whether a setting has no effect, by its name in World Info or in a card's book."""
    plain = _plain_name(name)
    if value is None or plain in _COUNTERS or (plain in _TIMED and value == 0):
        return True
    return plain in _BOOK_DEFAULTS and bool(_BOOK_DEFAULTS[plain] == value)


_SHOWN_DIFF_LINES: Final = 200


class LorebookPlan(ImportPlan, frozen=True):
    """Plan for importing a lorebook.

    Args:
        directory: The directory of the book, existing or new.
    """

    directory: str = ""


def plan_import(
    book: Lorebook,
    store: MemoryStore,
    *,
    into: str | None = None,
    update: bool = False,
    force: bool = False,
    is_copy: bool = False,
) -> LorebookPlan:
    """Plan the import of `book`.

    A book imported before is recognised by its name or content, its entries by text, title and
    number. Files that a person moved are found by the id in them. SillyTavern edits World Info, and
    a card's own book is a copy of it from the day of the export: World Info replaces the text of
    such a copy, and a copy replaces World Info only with `update`.

    Args:
        book: The book as returned by `read_book`.
        into: A directory below the memory root; None: the book's existing one, else a new one.
        update: Allow rewriting entries whose source changed.
        force: Also allow rewriting entries that a person edited or deleted.
        is_copy: It comes with a card, so that `update` is not about World Info.

    Raises:
        UnsafePathError: `into` is not a visible directory below the memory root.
        RefusedError: Files would change and neither `update` nor `force` is given.
        ConflictError: Files that a person edited would change and `force` is not given.
        BadInputError: The settings stored in `into` are damaged.
    """
    directory, notes = (check_directory(into), ()) if into is not None else place_for(book, store)
    settings = lorebook_shelf.load_settings(store, directory)
    files = find_entry_files(store, directory, settings)
    draft = _Draft(directory, settings, files, update=update or force, force=force)
    draft.keeps_world_info = not draft.update or (is_copy and not force)
    draft.warnings += notes
    draft.take(book)
    draft.check()
    return draft.plan(store, book)


def check_directory(into: str) -> str:
    """Normalise and check `into`.

    Raises:
        UnsafePathError: It leads outside the memory, is the memory itself, or is hidden.
    """
    directory = parse_path(into)
    if not directory or any(part.startswith(".") for part in directory.split("/")):
        raise UnsafePathError(
            f"{into!r} cannot be used as a lore directory; nothing was changed",
            hint=f"Choose one below the memory directory, e.g. `{IMPORTED_LORE_DIR}`.",
        )
    return directory


class _Draft(Struct):
    """A plan under construction."""

    directory: str
    settings: BookSettings
    found: EntryFiles
    update: bool
    force: bool
    books: dict[str, BookRecord] = field(default_factory=dict)
    records: dict[str, EntryRecord] = field(default_factory=dict)
    changes: list[FileToWrite] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    states: dict[int, State] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)  # only written with `update`
    keeps_world_info: bool = True
    kept: list[str] = field(default_factory=list)  # whose text a card's copy has otherwise
    # A person's file, and its proposed new text.
    edited: list[tuple[MemoryFile, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.books = dict(self.settings.books)
        self.records = dict(self.settings.entries)
        self.warnings += [f"{line}: not changed" for line in self.found.skipped]

    def take(self, book: Lorebook) -> None:
        """Plan what each entry of `book` changes in the directory."""
        book_id = self._book(book)
        olds = {key: self.settings.entry(key) for key in self.settings.of_book(book_id)}
        ids = match_entries(book.entries, olds)
        for place, (entry, key) in enumerate(zip(book.entries, ids, strict=True)):
            if key is not None:
                self._known(key, entry, place)
        new = [place for place, key in enumerate(ids) if key is None]
        self._add(book_id, [book.entries[place] for place in new], new)
        for key in olds.keys() - {key for key in ids if key}:
            if key in self.found.files and olds[key].shape == book.shape:
                path = self.found.files[key].rel_path
                self.warnings.append(f"{path}: no longer in the source; it is kept")

    def check(self) -> None:
        """Refuse changes that are not allowed. Nothing has been written yet."""
        if self.edited and not self.force:
            raise ConflictError(_edits_message(self.edited), hint=_EDITS_HINT)
        if self.changed and not self.update:
            raise RefusedError(
                f"The source has changed since it was imported; {len(self.changed)} "
                f"would change: {import_plan.list_paths(self.changed)}; nothing was changed",
                hint="Add `--update` to use the source's text; add `--dry-run` to preview. "
                "If this is another book, give it a directory with `--into DIR`.",
            )

    def plan(self, store: MemoryStore, book: Lorebook) -> LorebookPlan:
        """Return the finished plan."""
        paths = sorted(change.path for change in self.changes)
        if self.kept:
            remedy = "" if self.update else "; `--update` uses this one"
            self.warnings.append(
                f"{import_plan.list_paths(self.kept)}: World Info has a different text, "
                f"which is kept{remedy}"
            )
        after = BookSettings(self.books, self.records)
        if after != self.settings:
            path = lorebook_shelf.path_in(self.directory)
            text = lorebook_shelf.dump_settings(after)
            self.changes.append(import_plan.change_ledger(store, path, text))
            paths = paths or [path]
        report = ImportReport(
            written=tuple(paths),
            unchanged=tuple(sorted(self.unchanged)),
            warnings=(*book.warnings, *sorted(self.warnings)),
            **asdict(effects_of(book, self.states)),
        )
        return LorebookPlan(report, tuple(self.changes), self.directory)

    def _book(self, book: Lorebook) -> str:
        """Record the book's own settings, and return its id."""
        book_id = same_book(self.settings, book) or book_id_of(book.name)
        record = self.books.get(book_id)
        if record and record.shape != book.shape and self.keeps_world_info:
            return book_id  # each format spells the book's own settings differently
        whole = book.digest
        if record and record.digest == whole and record.outer == book.outer:
            return book_id
        frame = book.frame
        if record and (record.shape, book.shape) == ("book", "worldinfo"):  # which has fewer
            frame = {**frame_as_world(record.frame), **frame}
        if record and (book_settings(record.frame), record.outer) != (
            book_settings(frame),
            book.outer,
        ):
            self.changed.append("the book's own settings")
        self.books[book_id] = BookRecord(
            name=record.name if record else book.name,
            shape=book.shape,
            source=book.source,
            digest=whole,
            frame=frame,
            outer=book.outer,
            unreadable=book.unreadable,
        )
        return book_id

    def _known(self, key: str, entry: LoreEntry, place: int) -> None:
        """Plan the changes for an entry that was imported before."""
        record, file = self.records[key], self.found.files.get(key)
        was = LoreEntry(record.shape, record.raw, record.slot)
        same = _is_same(entry, was)
        if file is None and not self.force:
            self.warnings.append(f"{record.path}: deleted by hand; `--force` restores it")
            return
        text = render_lore(page_of(entry, key))
        after = EntryRecord(
            record.book, entry.shape, place, entry.slot, record.path, sha256_of(text), entry.raw
        )
        if file is None:
            self._write(after, key, text, MISSING)
            return
        after = replace(after, path=file.rel_path)
        if (record.shape, entry.shape) == ("worldinfo", "book") and self.keeps_world_info:
            self._stays(place, file)
            if not same:
                self.kept.append(file.rel_path)
            return
        is_untouched = file.sha256 == record.sha256
        own = _with_own_pin(text, file, record)
        # An unedited page is also rewritten if an earlier version rendered it differently.
        if self.update and is_untouched and text != file.text:
            self._rewrite(after, key, text, file)
        elif same:
            self._stays(place, file)
        elif own == file.text or render_lore(page_of(was, key)) == text:
            self._stays(place, file)
            self.changed.append(f"the settings of {file.rel_path}")
            self.records[key] = after
        else:
            if not (is_untouched or _is_repinned(file, record)):
                self.edited.append((file, own))
                self.warnings.append(f"{file.rel_path}: edited by hand; the edit was replaced")
            self._rewrite(after, key, own, file)
            if (record.shape, entry.shape) == ("book", "worldinfo"):
                self.changed.remove(file.rel_path)

    def _stays(self, place: int, file: MemoryFile) -> None:
        self.unchanged.append(file.rel_path)
        self.states[place] = "pinned" if is_pinned(file.text) else "found"

    def _rewrite(self, record: EntryRecord, key: str, text: str, file: MemoryFile) -> None:
        self.changed.append(file.rel_path)
        self._write(record, key, text, file.sha256)

    def _add(self, book_id: str, entries: list[LoreEntry], places: list[int]) -> None:
        """Plan the new entries."""
        ids = ids_of(book_id, entries, set(self.records))
        recorded = {record.path for record in self.records.values()}
        places_of = (path.rpartition("/") for path in self.found.names | recorded)
        taken = {fold(name) for folder, _, name in places_of if folder == self.directory}
        names = file_names(entries, ids, taken)
        for key, entry, place, name in zip(ids, entries, places, names, strict=True):
            path = f"{self.directory}/{name}"
            text = render_lore(page_of(entry, key))
            record = EntryRecord(
                book_id, entry.shape, place, entry.slot, path, sha256_of(text), entry.raw
            )
            self._write(record, key, text, MISSING)

    def _write(self, record: EntryRecord, key: str, text: str, expect: str) -> None:
        self.records[key] = record
        change = FileToWrite(record.path, text.encode(), expect, any_size=False)
        self.changes.append(change)
        self.states[record.place] = "pinned" if is_pinned(text) else "found"


def _is_same(entry: LoreEntry, was: LoreEntry) -> bool:
    """Tell whether an entry is unchanged; across formats, in what both can express."""
    if entry.shape != was.shape:
        return lorebook.in_common(entry) == lorebook.in_common(was)
    return (entry.meaning, entry.slot) == (was.meaning, was.slot)


def _is_repinned(file: MemoryFile, record: EntryRecord) -> bool:
    """Tell whether a person's only edit of a page was to pin or unpin it."""
    before = without_pin(file.text) if is_pinned(file.text) else PIN + file.text
    return sha256_of(before) == record.sha256


def _with_own_pin(text: str, file: MemoryFile, record: EntryRecord) -> str:
    """Apply a person's pinning or unpinning to the text of a page."""
    if not _is_repinned(file, record) or is_pinned(text) == is_pinned(file.text):
        return text
    return without_pin(text) if is_pinned(text) else PIN + text


_EDITS_HINT: Final = (
    "Add `--force` to replace your edits with the source's text; add `--dry-run` to preview."
)


def _edits_message(edited: list[tuple[MemoryFile, str]]) -> str:
    """Describe a person's conflicting files, and how the source differs from them."""
    diffs = (
        unified(file.text, text, file.rel_path, f"{file.rel_path} (from the source)")
        for file, text in edited
    )
    lines = "".join(diffs).split("\n")[:-1]
    shown = lines[:_SHOWN_DIFF_LINES]
    if len(lines) > len(shown):
        shown.append(f"… {len(lines) - len(shown)} more lines")
    listed = import_plan.list_paths(file.rel_path for file, _ in edited)
    return f"Edited by hand since the import: {listed}; nothing was changed\n" + "\n".join(shown)


SOURCE: Final = "import-lorebook"


class ImportedLorebook(ImportReport, frozen=True, kw_only=True):
    """Result of an import, actual or planned.

    Args:
        book: The book's name.
        directory: Its directory in memory.
        source: Its original format.
        entries: Number of entries.
    """

    book: str
    directory: str
    source: str
    entries: int

    def headline(self, *, dry_run: bool) -> str:
        """Return which book was imported."""
        deed = "Would import" if dry_run else "Imported"
        count = counted(self.entries, "entry", "entries")
        what = f"{one_line(self.book)} ({self.source}, {count})"
        return f"{deed if self.written else 'Nothing to change for'} {what}"


def import_lorebook(
    store: MemoryStore,
    book: Lorebook,
    *,
    into: str | None = None,
    update: bool = False,
    force: bool = False,
    dry_run: bool = False,
) -> ImportedLorebook:
    """Import `book` in one transaction, into a directory of its own unless `into` names another.

    Arguments and errors are as for `plan_import`.
    """
    plan = plan_import(book, store, into=into, update=update, force=force)
    plan.carry_out(store, SOURCE, f"import {book.name!r}", dry_run=dry_run)
    return ImportedLorebook(
        book=book.name,
        directory=plan.directory,
        source=book.source,
        entries=len(book.entries),
        **plan.report.values(),
    )
