"""Import folders whose files keep their paths, with a ledger: memories by day, vaults of notes."""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from familiar_cli.base import errors
from familiar_cli.base.files import is_directory, patiently
from familiar_cli.base.text import counted, fold, one_line, sha256_of, slugify, typed
from familiar_cli.imports import import_plan
from familiar_cli.imports.foreign_files import MAX_TOTAL_BYTES, MIB, dump_json, read_foreign
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.imported import sample_lines
from familiar_cli.store.memory.pages.items import merge_bullets
from familiar_cli.store.memory.pages.links import LinkChanges, PageNames
from familiar_cli.store.memory.store.files import MISSING, parse_new_path

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore

    Merge = Callable[[bytes, bytes], bytes | None]

# Characters that are invalid in names on some system, or could hide or disguise a name.
_ODD: Final = re.compile(
    r'[\x00-\x1f\x7f-\x9f\\<>:"|?*%\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]'
)
_MOST_NAME_BYTES: Final = 180
_MOST_PATH_BYTES: Final = 700


def kept_paths(sources: Iterable[str], directory: str) -> dict[str, str]:
    """Map each source to a path below `directory`, unique on every system."""
    made: dict[str, str] = {}
    taken: set[str] = set()
    for source in sorted(sources):
        path = f"{directory}/{_portable_path(source)}"
        if fold(path) in taken:
            path = f"{directory}/~{_source_digest(source)}"
        taken.add(fold(path))
        made[source] = path
    return made


def is_plain(rel_path: str) -> bool:
    """Tell whether a file can keep its relative path in memory."""
    parts = rel_path.split("/")
    try:
        same = parse_new_path(rel_path) == rel_path
    except errors.UnsafePathError:
        return False
    return same and not any(part.startswith((".", "_")) or _ODD.search(part) for part in parts)


def _portable_path(source: str) -> str:
    path = "/".join(_portable_name(part) for part in source.split("/"))
    return path if len(path.encode()) <= _MOST_PATH_BYTES else f"~{_source_digest(source)}"


def _portable_name(name: str) -> str:
    text = _ODD.sub(lambda match: _percent_encode(match[0]), name)
    if text[-1] in ". ":
        text = text[:-1] + _percent_encode(text[-1])
    if text[0] in " ~" or _is_refused(text):
        text = _percent_encode(text[0]) + text[1:]
    if len(text.encode()) > _MOST_NAME_BYTES:
        return f"~{_source_digest(name)}"
    return text


def _is_refused(name: str) -> bool:
    try:
        parse_new_path(f"x/{name}")
    except errors.UnsafePathError:
        return True
    return False


def _percent_encode(char: str) -> str:
    try:
        raw = os.fsencode(char)
    except UnicodeEncodeError:  # a lone surrogate that does not stand for a byte either
        raw = char.encode("utf-8", errors="surrogatepass")
    return "".join(f"%{byte:02X}" for byte in raw)


def _source_digest(source: str) -> str:
    return sha256_of(source)[:32]


_VERSION: Final = 1


class ImportedFile(Struct, frozen=True, omit_defaults=True):
    """A file of the imported folder.

    Args:
        sha256: The SHA-256 of its contents.
        wrote: The files made from it: path -> SHA-256 of the intended contents.
        original: The one of these paths that holds the original bytes.
        lines: A sample of a page's lines; see `sample_lines`.
    """

    sha256: str
    wrote: dict[str, str]
    original: str
    lines: tuple[str, ...] = ()


def load_folder_ledger(store: MemoryStore, rel_path: str) -> dict[str, ImportedFile]:
    """Load the imported files by source path from the ledger at `rel_path`.

    Raises:
        BadInputError: It is damaged, so later edits cannot be detected.
    """
    entries = import_plan.load_ledger(
        store,
        rel_path,
        lambda value: convert(value["files"], dict[str, ImportedFile]),
        keeps="what was imported",
        hint=f"`familiar memory log {typed(rel_path)}` shows its past; or move it away, and "
        "existing files count as yours.",
    )
    return entries or {}


def dump_folder_ledger(entries: Mapping[str, ImportedFile]) -> str:
    """Serialise the ledger."""
    files = dict(sorted(to_builtins(entries).items()))
    return dump_json({"version": _VERSION, "files": files}, indent=1) + "\n"


class FolderPage(Struct, frozen=True):
    """A page of memory made from a file of the folder, possibly one of several.

    Args:
        source: The source file.
        rel_path: Target path.
        is_original: Whether it is a copy of the file, verbatim but for links to moved notes.
        is_hidden: Whether it is only stored, hidden from people and prompts.
        aside: Where to keep the original if it must be merged into an existing page.
    """

    source: str
    rel_path: str
    content: bytes
    is_original: bool
    is_hidden: bool = False
    aside: str = ""


class FolderImportOptions(Struct, frozen=True):
    """What an import may overwrite.

    Args:
        update: Allow rewriting files whose source has changed.
        force: Also allow overwriting files that a person edited or deleted, or that existed before.
        force_hint: Command line that sets `force`.
    """

    update: bool = False
    force: bool = False
    force_hint: str = "Add `--force` to use the source's text; add `--dry-run` to preview."


def plan_folder(
    store: MemoryStore,
    pages: Sequence[FolderPage],
    ledger_path: str,
    wish: FolderImportOptions,
    *,
    folder: FolderContents,
    warnings: Iterable[str] = (),
    merge: Merge = lambda _there, _new: None,
    is_whole: bool = True,
) -> import_plan.ImportPlan:
    """Plan the import of `pages`.

    Args:
        pages: The pages to write.
        ledger_path: Path of the ledger of sources.
        wish: Import options.
        folder: The source files.
        warnings: Oddities of the files.
        merge: Merges a new page into an existing one; returns None if it cannot.
        is_whole: Whether ledger entries missing from the folder count as deleted there.

    Raises:
        ConflictError: Files from elsewhere would change, without `wish.force`.
        RefusedError: The source has changed, without `wish.update`.
        BadInputError: The ledger is damaged.
    """
    draft = _FolderDraft(store, load_folder_ledger(store, ledger_path), wish, merge)
    for page in pages:
        draft.take(page, sha256_of(folder.files[page.source]))
    draft.check_allowed()
    changes = [import_plan.FileToWrite(path, *change) for path, change in draft.changes.items()]
    if draft.new and draft.new != draft.old:
        changes.append(import_plan.change_ledger(store, ledger_path, dump_folder_ledger(draft.new)))
    hidden = {page.source for page in pages if page.is_hidden}
    sources = {page.source for page in pages if not page.is_hidden}
    gone = [
        f"{source!r} is no longer in the folder; its file in memory is kept{draft.moved_to(source)}"
        for source in (draft.old.keys() - folder.files.keys() if is_whole else ())
    ]
    report = import_plan.ImportReport(
        written=tuple(sorted(draft.shown["written"])),
        unchanged=tuple(sorted(draft.shown["unchanged"])),
        overwritten=tuple(sorted(draft.overwritten)),
        edited=tuple(sorted(draft.shown["edited"])),
        deleted=tuple(path for path in sorted(draft.shown["edited"]) if not store.exists(path)),
        kept_unmapped=tuple(sorted(hidden - sources)),
        left_out=tuple(folder.left_out),
        warnings=(*folder.notes, *warnings, *draft.warnings, *sorted(gone)),
    )
    return import_plan.ImportPlan(report, tuple(changes))


class _FolderDraft(Struct, dict=True):
    """A plan under construction."""

    store: MemoryStore
    old: Mapping[str, ImportedFile]
    wish: FolderImportOptions
    merge: Merge
    new: dict[str, ImportedFile] = field(default_factory=dict)
    changes: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    shown: dict[str, list[str]] = field(
        default_factory=lambda: {"written": [], "unchanged": [], "edited": []}
    )
    overwritten: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _wrote: dict[str, dict[str, str]] = field(default_factory=dict)
    _outdated: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.new = dict(self.old)

    def take(self, page: FolderPage, source_sha256: str) -> None:
        """Plan one page."""
        digest = sha256_of(page.content)
        was = self._note_source(page, source_sha256, digest)
        there = self.store.sha256(page.rel_path)
        if there == digest:
            self._note("unchanged", page)
        elif there is not None and there == was:
            self._outdated.append(page.rel_path)
            self._write(page, page.content, was)
        elif digest == was and not self.wish.force:
            self._note("unchanged" if self._is_in(page, there) else "edited", page)
        elif there is None and (was is None or self.wish.force):
            self._write(page, page.content, MISSING)
        elif there is None:
            self._note("edited", page)
            self.warnings.append(f"{page.rel_path}: you deleted it; it was not restored")
        elif not self._merge_page(page, there):
            self.overwritten.append(page.rel_path)
            self._write(page, page.content, there)

    def _note_source(self, page: FolderPage, source_sha256: str, digest: str) -> str | None:
        """Record a page in the ledger; return the SHA-256 of what it was before."""
        wrote = self._wrote.setdefault(page.source, {})
        wrote[page.rel_path] = digest
        file, before = self.new.get(page.source), self.old.get(page.source)
        original = page.rel_path if page.is_original else (file.original if file else "")
        if before and page.aside in before.wrote:
            original = page.aside
            wrote[page.aside] = before.wrote[page.aside]
        lines = file.lines if file else ()
        if page.is_original and not page.is_hidden:
            lines = sample_lines(page.content.decode("utf-8", "replace"))
        self.new[page.source] = ImportedFile(source_sha256, wrote, original, lines)
        return before.wrote.get(page.rel_path) if before else None

    def _is_in(self, page: FolderPage, there: str | None) -> bool:
        """Tell whether the existing text already contains the page."""
        if there is None or not page.aside:
            return False
        now = self.store.read_bytes(page.rel_path)
        return self.merge(now, page.content) == now

    def _merge_page(self, page: FolderPage, there: str) -> bool:
        """Merge the page into the existing text, if possible."""
        if self.wish.force or not page.aside:
            return False
        now = self.store.read_bytes(page.rel_path)
        merged = self.merge(now, page.content)
        if merged is None:
            return False
        self._keep_aside(page)
        if merged == now:
            self._note("unchanged", page)
        else:
            self.warnings.append(f"{page.rel_path}: already exists; what was missing was added")
            self._write(page, merged, there)
        return True

    def _keep_aside(self, page: FolderPage) -> None:
        """Keep the original, since memory now holds it merged with other text."""
        digest = self._wrote[page.source][page.aside] = sha256_of(page.content)
        self.new[page.source] = replace(self.new[page.source], original=page.aside)
        there = self.store.sha256(page.aside)
        if there != digest:
            self.changes[page.aside] = (page.content, there or MISSING)

    def _write(self, page: FolderPage, content: bytes, expect: str) -> None:
        self.changes[page.rel_path] = (content, expect)
        self._note("written", page)

    def _note(self, what: str, page: FolderPage) -> None:
        if not page.is_hidden:
            self.shown[what].append(page.rel_path)

    def moved_to(self, source: str) -> str:
        """Name the one new file of the folder that a missing one may have become."""
        was, name = self.old[source], source.rpartition("/")[2]
        found = self._added[name] | self._added[was.sha256]
        if len(found) != 1 or not self.store.exists(was.original):
            return ""
        command = f"familiar memory rm {typed(was.original)}"
        return f" (is it now {min(found)!r}? `{command}` removes the old one)"

    @cached_property
    def _added(self) -> defaultdict[str, set[str]]:
        """The new files of the folder, by name and by content."""
        items = defaultdict[str, set[str]](set)
        for source in self.new.keys() - self.old.keys():
            for key in (source.rpartition("/")[2], self.new[source].sha256):
                items[key].add(source)
        return items

    def check_allowed(self) -> None:
        """Refuse changes that are not allowed. Nothing has been written yet."""
        if self.overwritten and not self.wish.force:
            raise errors.ConflictError(
                f"These files differ from the folder: {import_plan.list_paths(self.overwritten)};"
                " nothing was changed",
                hint=self.wish.force_hint,
            )
        if self._outdated and not (self.wish.update or self.wish.force):
            raise errors.RefusedError(
                f"The folder has changed since the import; {len(self._outdated)} would change: "
                f"{import_plan.list_paths(self._outdated)}; nothing was changed",
                hint="Add `--update` to use the source's text; add `--dry-run` to preview.",
            )


MAX_FILES: Final = 100_000  # a file a day for two hundred and fifty years
MAX_ONE_BYTES: Final = 64 * MIB
MAX_DEPTH: Final = 32
# Git's history, not files of the folder.
_NOT_ITS_OWN: Final = {".git": "git's own files"}
_SHOWN_CHARS: Final = 120
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class FolderContents(Struct):
    """The contents of a folder.

    Args:
        files: The bytes of each file, by its path below the folder, separated by `/`.
        left_out: Unreadable files, which make the import incomplete.
        notes: What was skipped on purpose.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[import_plan.UnreadFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    total_bytes: int = 0


def read_folder(directory: Path) -> FolderContents:
    """Read all files below `directory`, without following links.

    Raises:
        NotFoundError: The directory does not exist.
        BadInputError: It is a file.
        LimitError: It holds more than `MAX_FILES` files or `MAX_TOTAL_BYTES`.
    """
    require_there(directory)
    folder = FolderContents()
    _read_into(folder, str(directory), "", 0)
    return folder


def require_there(directory: Path) -> None:
    """Check that a directory exists.

    Raises:
        NotFoundError: It does not exist.
        BadInputError: It is a file.
    """
    if is_directory(directory):
        return
    if not os.path.lexists(directory):
        raise errors.NotFoundError(f"No such directory: {str(directory)!r}", hint="Check the path.")
    raise errors.BadInputError(
        f"{str(directory)!r} is not a directory; nothing was imported",
        hint="Give the directory that contains it.",
    )


def _read_into(folder: FolderContents, directory: str, below: str, depth: int) -> None:
    try:
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        _leave_out(folder, below or ".", error.strerror or str(error))
        return
    for entry in entries:
        rel_path = f"{below}{entry.name}"
        if entry.name in _NOT_ITS_OWN:
            folder.notes.append(f"{rel_path}: {_NOT_ITS_OWN[entry.name]}; not imported")
        elif entry.is_symlink():
            _leave_out(folder, rel_path, "it is a symbolic link, and links are not followed")
        elif entry.is_dir(follow_symlinks=False):
            if depth < MAX_DEPTH:
                _read_into(folder, entry.path, f"{rel_path}/", depth + 1)
            else:
                _leave_out(folder, rel_path, f"it is nested deeper than {MAX_DEPTH} directories")
        else:
            _read_file(folder, entry.path, rel_path)


def _read_file(folder: FolderContents, path: str, rel_path: str) -> None:
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            _leave_out(folder, rel_path, "it is not a regular file")
            return
        if status.st_size > MAX_ONE_BYTES:
            _leave_out(folder, rel_path, f"it is larger than {MAX_ONE_BYTES // MIB} MiB")
            return
        with open(patiently(os.open, path, _OPEN), "rb") as stream:  # noqa: PTH123
            content = stream.read(MAX_ONE_BYTES + 1)
    except OSError as error:
        _leave_out(folder, rel_path, error.strerror or str(error))
        return
    folder.files[rel_path] = content
    folder.total_bytes += len(content)
    if len(folder.files) > MAX_FILES or folder.total_bytes > MAX_TOTAL_BYTES:
        raise errors.LimitError(
            f"The folder holds more than {MAX_FILES:,} files or {MAX_TOTAL_BYTES // MIB} MiB;"
            " nothing was imported",
            hint="Is it the right folder? Import a folder inside it.",
        )


def _leave_out(folder: FolderContents, rel_path: str, reason: str) -> None:
    folder.left_out.append(import_plan.UnreadFile(one_line(rel_path, _SHOWN_CHARS), reason))


_VAULTS_DIR: Final = ".imported/vaults"
_NOTES_DIR: Final = ".imported/notes"
# Where notes go whose own path would make a standard name unusable; the first that is free.
_MOVED_DIRS: Final = ("notes", *(f"notes-{number}" for number in range(2, 100)))
_MERGED: Final = (layout.DAILY_DIR, layout.SIGNIFICANT_DIR)
# Where the tree is, relative to a folder above it.
_BELOW: Final = ("", "memories", "data/memories")


class ImportedMemories(import_plan.ImportReport, frozen=True, kw_only=True):
    """Result of an import.

    Args:
        tiers: Number of files per tier.
        notes: Number of notes in a vault.
    """

    tiers: dict[str, int]
    notes: int = 0

    def headline(self, *, dry_run: bool) -> str:
        """Return what was imported, or that nothing was new in it."""
        deed = "Would import" if dry_run else "Imported"
        held = ", ".join(f"{count:,} {tier}" for tier, count in self.tiers.items() if count)
        held = held or (counted(self.notes, "note") if self.notes else "no tier files")
        return f"{deed if self.written else 'Nothing to import from'} {held}"


class FolderTree(Struct, frozen=True):
    """A kind of folder whose files keep their paths in memory.

    Args:
        source: Where its changes come from, for the journal.
        kept_dir: Where its other files are kept, with the ledger of all.
        keeps_place: Tells which files keep their path.
        is_vault: Whether it is counted in notes, not in files of tiers.
        is_whole: Whether a file that it lacks was deleted there.
    """

    source: str
    kept_dir: str
    keeps_place: Callable[[str], bool]
    is_vault: bool = False
    is_whole: bool = True

    @property
    def ledger(self) -> str:
        """The path of its ledger."""
        return f"{self.kept_dir}/.ledger.json"


def vault_tree(name: str) -> FolderTree:
    """Return the tree of a vault; without a name, of a single note."""
    directory = f"{_VAULTS_DIR}/{slugify(name) or 'vault'}" if name else _NOTES_DIR
    return FolderTree("import", directory, _is_note, is_vault=True, is_whole=bool(name))


def _is_note(source: str) -> bool:
    return source.lower().endswith(".md")


MEMORIES: Final = FolderTree(
    "import-memories", ".imported/memories", lambda source: bool(tier_of(source))
)
"""The tree of memories by day, week, month and year, and of significant moments."""


def import_tree(
    store: MemoryStore,
    folder: FolderContents,
    wish: FolderImportOptions,
    tree: FolderTree = MEMORIES,
    *,
    dry_run: bool = False,
) -> ImportedMemories:
    """Import a folder into `store` in one transaction, its files under their own paths.

    New bullets are added to an existing day; any other existing file with different text is a
    conflict.

    Args:
        folder: The files; see `read_tree` and `read_vault`.
        wish: Import options.
        tree: The kind of folder.
        dry_run: Check everything, changing nothing.

    Raises:
        ConflictError: Files from elsewhere would change.
        RefusedError: The folder has changed.
        FamiliarError: A file cannot be written; everything is as before.
    """
    warnings: list[str] = []
    there = [file.rel_path for file in store.walk().files]
    plan = plan_folder(
        store,
        map_tree(folder.files, there, load_folder_ledger(store, tree.ledger), warnings, tree),
        tree.ledger,
        wish,
        folder=folder,
        warnings=warnings,
        merge=merge_pages,
        is_whole=tree.is_whole,
    )
    made = {*plan.report.written, *plan.report.unchanged, *plan.report.edited}
    notes = len(made) if tree.is_vault else 0
    what = counted(notes, "note") if tree.is_vault else counted(len(folder.files), "file")
    plan.carry_out(store, tree.source, f"import {what}", dry_run=dry_run)
    tiers = [] if tree.is_vault else [tier_of(source) for source in folder.files]
    counts = {} if tree.is_vault else {tier: tiers.count(tier) for tier in layout.TIERS}
    return ImportedMemories(tiers=counts, notes=notes, **plan.report.values())


def read_vault(path: Path) -> FolderContents:
    """Read the files of a vault without Obsidian's own; a single note becomes a topic.

    Raises:
        FamiliarError: It is unreadable or too large.
    """
    if not path.is_dir():
        return FolderContents({f"{layout.TOPICS_DIR}/{path.name}": read_foreign(path)})
    folder = read_folder(path)
    own = {source.split("/")[0] for source in folder.files if _is_programs_own(source)}
    folder.files = {s: raw for s, raw in folder.files.items() if not _is_programs_own(s)}
    folder.notes += [f"{name} belongs to a program; not imported" for name in sorted(own)]
    return folder


def _is_programs_own(source: str) -> bool:
    return not set(layout.PRIVATE_DIRS).isdisjoint(source.split("/"))


def read_tree(directory: Path) -> FolderContents:
    """Read the files of a tree of memories at `directory` or one level below.

    Raises:
        NotFoundError: The directory does not exist.
        BadInputError: It is a file, or contains no such tree.
    """
    require_there(directory)
    for below in _BELOW:
        root = directory / below
        if any(is_directory(root / tier) for tier in layout.TIERS):
            return read_folder(root)
    raise errors.BadInputError(
        f"{str(directory)!r} contains no memories: none of {', '.join(layout.TIERS)} exists; "
        "nothing was imported",
        hint="Give the directory that contains them.",
    )


def map_tree(
    files: Mapping[str, bytes],
    there: Iterable[str],
    old: Mapping[str, ImportedFile],
    warnings: list[str],
    tree: FolderTree = MEMORIES,
) -> list[FolderPage]:
    """Map files to pages; those that do not keep their path are kept aside.

    Args:
        files: The bytes of each, by its path in the tree.
        there: Existing files in memory.
        old: Files of an earlier import, by source; each keeps its place.
        warnings: Receives oddities.
        tree: The kind of folder.
    """
    kept = kept_paths(files, tree.kept_dir)
    pieces: list[FolderPage] = []
    taken = {fold(part): part for path in there for part in _path_prefixes(path)}
    moves = _moves_from_standard_names(files, set(taken.values()), old, tree)
    warnings += _move_warnings(moves)
    relinked = _relinked_contents(files, moves)
    for source, raw in sorted(files.items()):
        content, target = relinked.get(source, raw), moves.get(source, source)
        tier, is_placed = tier_of(source), tree.keeps_place(source)
        problem = _content_problem(source, content) if is_placed else ""
        parts = _path_prefixes(target) if is_placed and not problem else ()
        twins = [there for part in parts if (there := taken.setdefault(fold(part), part)) != part]
        if twins:
            problem = f"and {one_line(twins[0])} are the same file on some systems"
        if problem:
            warnings.append(f"{one_line(source)} {problem}; it is kept unchanged")
        if is_placed and not problem:
            aside = kept[source] if tier in _MERGED else ""
            pieces.append(FolderPage(source, target, content, is_original=True, aside=aside))
        else:
            pieces.append(FolderPage(source, kept[source], raw, is_original=True, is_hidden=True))
    return pieces


def _path_prefixes(path: str) -> Iterator[str]:
    """Yield the folders of a path, outermost first, and the path."""
    return accumulate(path.split("/"), "{}/{}".format)


def _moves_from_standard_names(
    files: Mapping[str, bytes],
    there: Collection[str],
    old: Mapping[str, ImportedFile],
    tree: FolderTree,
) -> dict[str, str]:
    """Map notes whose path would make a standard name unusable to a path in a folder of notes."""
    tops = {path.partition("/")[0] for path in (*files, *there)}
    folder = next(
        name for name in _MOVED_DIRS if all(fold(top) != name or top == name for top in tops)
    )
    places = {
        source: file.original for source, file in old.items() if not layout.is_hidden(file.original)
    }
    moves = {
        source: places.get(source, f"{folder}/{source}")
        for source, raw in files.items()
        if layout.standard_name_blocked_by(source)
        and tree.keeps_place(source)
        and source not in there
        and not _content_problem(source, raw)
    }
    return {source: new for source, new in moves.items() if new != source}


def _move_warnings(moves: Mapping[str, str]) -> Iterator[str]:
    """Say which folders or notes were moved, and why."""
    tops = {source.partition("/")[0]: new.partition("/")[0] for source, new in moves.items()}
    for top, folder in sorted(tops.items()):
        standard = layout.standard_name_blocked_by(top)
        yield (
            f"{top} is imported as {folder}/{top}, with the links to it updated: on some systems "
            f"it is the same as {standard}, which the memory needs"
        )


def _relinked_contents(files: Mapping[str, bytes], moves: Mapping[str, str]) -> dict[str, bytes]:
    """Return the notes in which links change because of `moves`."""
    if not moves:
        return {}
    texts = {source: _text_of(raw) for source, raw in files.items() if _is_note(source)}
    before = PageNames(files.keys(), texts)
    after = PageNames(
        {moves.get(source, source) for source in files},
        {moves.get(source, source): text for source, text in texts.items()},
    )
    change = LinkChanges(before, after, moves)
    made = {source: change.text(text, source, moves.get(source)) for source, text in texts.items()}
    return {source: text.encode() for source, text in made.items() if text != texts[source]}


def _text_of(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""  # kept aside


def tier_of(source: str) -> str:
    """Return the tier of a file in the tree, or an empty string."""
    found = layout.dated_name(source)
    return found[0] if found else ""


def _content_problem(source: str, content: bytes) -> str:
    """Return why a file cannot be stored unchanged, or an empty string."""
    if not is_plain(source):
        return "has a name that is not valid on every system"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"is not UTF-8 ({error.reason})"
    return ""


def merge_pages(there: bytes, new: bytes) -> bytes | None:
    """Add missing bullets to an existing page, or return None if either is not text."""
    try:
        return merge_bullets(there.decode("utf-8"), new.decode("utf-8")).encode()
    except UnicodeDecodeError:
        return None
