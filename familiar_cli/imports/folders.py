"""Folders from elsewhere: read without trust, planned with a ledger; and trees of memories."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import (
    BadInputError,
    ConflictError,
    LimitError,
    NotFoundError,
    RefusedError,
    UnsafePathError,
)
from familiar_cli.files import is_directory, patiently
from familiar_cli.imports.foreign_files import MAX_TOTAL_BYTES, MIB, dump_json
from familiar_cli.imports.import_plan import (
    FileToWrite,
    ImportPlan,
    ImportReport,
    UnreadFile,
    change_ledger,
    list_paths,
    load_ledger,
)
from familiar_cli.memory.layout import (
    DAILY_DIR,
    MONTHLY_DIR,
    SIGNIFICANT_DIR,
    WEEKLY_DIR,
    YEARLY_DIR,
    new_run_id,
    pass_trailers,
)
from familiar_cli.memory.pages.items import merge_bullets
from familiar_cli.memory.store.files import MISSING, parse_new_path
from familiar_cli.text import counted, fold, one_line, sha256_of, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from familiar_cli.memory.store.store import MemoryStore

    Merge = Callable[[bytes, bytes], bytes | None]
    from familiar_cli.memory.store.files import MemoryEntry

# What some system cannot hold in a name, or what would hide or disguise it.
_ODD: Final = re.compile(
    r'[\x00-\x1f\x7f-\x9f\\<>:"|?*%\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]'
)
_MOST_NAME_BYTES: Final = 180
_MOST_PATH_BYTES: Final = 700


def kept_paths(sources: Iterable[str], directory: str) -> dict[str, str]:
    """Return a path below `directory` for each source; no two are one file on any system."""
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
    """Tell whether a file may stand in memory under the very path it has elsewhere."""
    parts = rel_path.split("/")
    try:
        same = parse_new_path(rel_path) == rel_path
    except UnsafePathError:
        return False
    return same and not any(part.startswith((".", "_")) or _ODD.search(part) for part in parts)


def _portable_path(source: str) -> str:
    path = "/".join(_portable_name(part) for part in source.split("/"))
    return path if len(path.encode()) <= _MOST_PATH_BYTES else f"~{_source_digest(source)}"


def _portable_name(name: str) -> str:
    shown = _ODD.sub(lambda found: _percent_encode(found[0]), name)
    if shown[-1] in ". ":
        shown = shown[:-1] + _percent_encode(shown[-1])
    if shown[0] in " ~" or _is_refused(shown):
        shown = _percent_encode(shown[0]) + shown[1:]
    if len(shown.encode()) > _MOST_NAME_BYTES:
        return f"~{_source_digest(name)}"
    return shown


def _is_refused(name: str) -> bool:
    try:
        parse_new_path(f"x/{name}")
    except UnsafePathError:
        return True
    return False


def _percent_encode(char: str) -> str:
    try:
        raw = os.fsencode(char)
    except UnicodeEncodeError:  # half a character, which is no byte of a name either
        raw = char.encode("utf-8", errors="surrogatepass")
    return "".join(f"%{byte:02X}" for byte in raw)


def _source_digest(source: str) -> str:
    return sha256_of(source)[:32]


_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """One file of the folder.

    Args:
        sha256: Of its bytes.
        wrote: What it became: path -> SHA-256 of what was meant to stand there.
        original: The path of those that holds its bytes as they came.
    """

    sha256: str
    wrote: Mapping[str, str]
    original: str


def load_folder_ledger(store: MemoryStore, rel_path: str) -> dict[str, ImportedFile]:
    """Load all files of one or more folders, by their path there, from the ledger at `rel_path`.

    Raises:
        BadInputError: It is damaged, so nobody can tell what a person has edited since.
    """
    entries = load_ledger(
        store,
        rel_path,
        _read_entries,
        keeps="what was imported",
        hint=f"`familiar memory log {typed(rel_path)}` shows its past; or move it away, and "
        "existing files count as yours.",
    )
    return entries or {}


def dump_folder_ledger(entries: Mapping[str, ImportedFile]) -> str:
    """Return the ledger as it is stored."""
    files = {
        # A name may hold bytes that are no text: so JSON and UTF-8 can hold it.
        json.dumps(source)[1:-1]: {
            "sha256": entry.sha256,
            "wrote": dict(sorted(entry.wrote.items())),
            "original": entry.original,
        }
        for source, entry in sorted(entries.items())
    }
    return dump_json({"version": _VERSION, "files": files}, indent=1) + "\n"


def _read_entries(value: dict[str, Any]) -> dict[str, ImportedFile]:
    return {
        str(json.loads(f'"{name}"')): _read_entry(given) for name, given in value["files"].items()
    }


def _read_entry(given: dict[str, Any]) -> ImportedFile:
    wrote = {str(path): str(digest) for path, digest in given["wrote"].items()}
    return ImportedFile(str(given["sha256"]), wrote, str(given["original"]))


@dataclass(frozen=True, slots=True)
class FolderPage:
    """What one file of the folder becomes in memory; it may become several.

    Args:
        source: The file.
        rel_path: Where it goes.
        content: What stands there.
        is_original: It is the file's own bytes.
        is_hidden: No person and no prompt looks there; it is kept, not shown.
        aside: Where the original is kept if it has to be merged into what is there already.
    """

    source: str
    rel_path: str
    content: bytes
    is_original: bool
    is_hidden: bool = False
    aside: str = ""


@dataclass(frozen=True, slots=True)
class FolderImportOptions:
    """How far an import may go.

    Args:
        update: Files whose source has changed may be written anew.
        force: So may files that a person edited or deleted, or that were there before.
        force_hint: What to type for `force`.
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
) -> ImportPlan:
    """Plan what importing `pages` will do.

    Args:
        store: The memory.
        pages: What the files become.
        ledger_path: Where it is noted what came from where.
        wish: How far to go.
        folder: The files.
        warnings: What was odd about them.
        merge: Returns what is there with all of the new in it, or None where that makes no sense.
        is_whole: Files of the ledger that are not in the folder are gone from there.

    Raises:
        ConflictError: Files that are not the import's own would change, without `wish.force`.
        RefusedError: The source has changed, without `wish.update`.
        BadInputError: The ledger is damaged.
    """
    draft = _FolderDraft(store, load_folder_ledger(store, ledger_path), wish, merge)
    for page in pages:
        draft.take(page, sha256_of(folder.files[page.source]))
    draft.check_allowed()
    changes = [FileToWrite(path, *change) for path, change in draft.changes.items()]
    if draft.new and draft.new != draft.old:
        changes.append(change_ledger(store, ledger_path, dump_folder_ledger(draft.new)))
    hidden = {page.source for page in pages if page.is_hidden}
    shown = {page.source for page in pages if not page.is_hidden}
    gone = [
        f"{source!r} is no longer in the folder; its file in memory is kept"
        for source in (draft.old.keys() - folder.files.keys() if is_whole else ())
    ]
    report = ImportReport(
        written=tuple(sorted(draft.shown["written"])),
        unchanged=tuple(sorted(draft.shown["unchanged"])),
        overwritten=tuple(sorted(draft.overwritten)),
        edited=tuple(sorted(draft.shown["edited"])),
        kept_unmapped=tuple(sorted(hidden - shown)),
        left_out=tuple(folder.left_out),
        warnings=(*folder.notes, *warnings, *draft.warnings, *sorted(gone)),
    )
    return ImportPlan(report, tuple(changes))


class _FolderDraft:
    """A plan while it is being made."""

    def __init__(
        self,
        store: MemoryStore,
        old: Mapping[str, ImportedFile],
        wish: FolderImportOptions,
        merge: Merge,
    ) -> None:
        self.old = old
        self.new = dict(old)
        self.changes: dict[str, tuple[bytes, str]] = {}
        self.shown: dict[str, list[str]] = {"written": [], "unchanged": [], "edited": []}
        self.overwritten: list[str] = []
        self.warnings: list[str] = []
        self._store = store
        self._wish = wish
        self._merge = merge
        self._wrote: dict[str, dict[str, str]] = {}
        self._outdated: list[str] = []

    def take(self, page: FolderPage, source_sha256: str) -> None:
        """Note what one page means for the memory."""
        made = sha256_of(page.content)
        was = self._note_source(page, source_sha256, made)
        there = self._store.sha256(page.rel_path)
        if there == made:
            self._note("unchanged", page)
        elif there is not None and there == was:
            self._outdated.append(page.rel_path)
            self._write(page, page.content, was)
        elif made == was and not self._wish.force:
            self._note("unchanged" if self._is_in(page, there) else "edited", page)
        elif there is None and (was is None or self._wish.force):
            self._write(page, page.content, MISSING)
        elif there is None:
            self._note("edited", page)
            self.warnings.append(f"{page.rel_path}: you deleted it; it was not restored")
        elif not self._merged(page, there):
            self.overwritten.append(page.rel_path)
            self._write(page, page.content, there)

    def _note_source(self, page: FolderPage, source_sha256: str, made: str) -> str | None:
        """Note in the ledger what a file becomes; return the SHA-256 of what it became before."""
        wrote = self._wrote.setdefault(page.source, {})
        wrote[page.rel_path] = made
        known, before = self.new.get(page.source), self.old.get(page.source)
        original = page.rel_path if page.is_original else (known.original if known else "")
        if before and page.aside in before.wrote:
            original = page.aside
            wrote[page.aside] = before.wrote[page.aside]
        self.new[page.source] = ImportedFile(source_sha256, wrote, original)
        return before.wrote.get(page.rel_path) if before else None

    def _is_in(self, page: FolderPage, there: str | None) -> bool:
        """Tell whether what is there says all that the page says."""
        if there is None or not page.aside:
            return False
        now = self._store.read_bytes(page.rel_path)
        return self._merge(now, page.content) == now

    def _merged(self, page: FolderPage, there: str) -> bool:
        """Put what is new into what is there, where that is possible."""
        if self._wish.force or not page.aside:
            return False
        now = self._store.read_bytes(page.rel_path)
        merged = self._merge(now, page.content)
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
        """Keep the original, since memory now holds it among other text."""
        sha256, wrote = self.new[page.source].sha256, self._wrote[page.source]
        wrote[page.aside] = sha256
        self.new[page.source] = ImportedFile(sha256, wrote, page.aside)
        there = self._store.sha256(page.aside)
        if there != sha256:
            self.changes[page.aside] = (page.content, there or MISSING)

    def _write(self, page: FolderPage, content: bytes, expect: str) -> None:
        self.changes[page.rel_path] = (content, expect)
        self._note("written", page)

    def _note(self, what: str, page: FolderPage) -> None:
        if not page.is_hidden:
            self.shown[what].append(page.rel_path)

    def check_allowed(self) -> None:
        """Refuse what is not allowed. Nothing has been written yet."""
        if self.overwritten and not self._wish.force:
            raise ConflictError(
                f"These files differ from the folder: {list_paths(self.overwritten)};"
                " nothing was changed",
                hint=self._wish.force_hint,
            )
        if self._outdated and not (self._wish.update or self._wish.force):
            raise RefusedError(
                f"The folder has changed since the import; {len(self._outdated)} would change: "
                f"{list_paths(self._outdated)}; nothing was changed",
                hint="Add `--update` to use the source's text; add `--dry-run` to preview.",
            )


MAX_FILES: Final = 100_000  # a file a day for two hundred and fifty years
MAX_ONE_BYTES: Final = 64 * MIB
MAX_DEPTH: Final = 32
# Git keeps the past of the files there, not files of the folder.
_NOT_ITS_OWN: Final = {".git": "git's own files"}
_SHOWN_CHARS: Final = 120
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(slots=True)
class FolderContents:
    """What a folder holds.

    Args:
        files: The bytes of each file, by its path below the folder, `/` between the parts.
        left_out: What could not be read; the folder is not wholly taken in.
        notes: What was passed by on purpose.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[UnreadFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    total_bytes: int = 0


def read_folder(directory: Path) -> FolderContents:
    """Return everything below `directory`. Links are not followed, and nothing is executed.

    Raises:
        NotFoundError: There is no such directory.
        BadInputError: It is a file.
        LimitError: It holds more than `MAX_FILES` files or `MAX_TOTAL_BYTES`.
    """
    require_there(directory)
    folder = FolderContents()
    _read_into(folder, str(directory), "", 0)
    return folder


def require_there(directory: Path) -> None:
    """Make sure that a directory is there.

    Raises:
        NotFoundError: There is nothing.
        BadInputError: It is a file.
    """
    if is_directory(directory):
        return
    if not os.path.lexists(directory):
        raise NotFoundError(f"No such directory: {str(directory)!r}", hint="Check the path.")
    raise BadInputError(
        f"{str(directory)!r} is not a directory; nothing was imported",
        hint="Give the directory that contains it.",
    )


def _read_into(folder: FolderContents, directory: str, below: str, depth: int) -> None:
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
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
        raise LimitError(
            f"The folder holds more than {MAX_FILES:,} files or {MAX_TOTAL_BYTES // MIB} MiB;"
            " nothing was imported",
            hint="Is it the right folder? Import a folder inside it.",
        )


def _leave_out(folder: FolderContents, rel_path: str, reason: str) -> None:
    folder.left_out.append(UnreadFile(one_line(rel_path, _SHOWN_CHARS), reason))


SOURCE: Final = "import-memories"
KEPT_DIR: Final = ".imported/memories"
LEDGER: Final = f"{KEPT_DIR}/.ledger.json"
_DAY: Final = r"(\d{4}-\d{2}-\d{2})"
_FORMS: Final = {
    DAILY_DIR: re.compile(rf"{DAILY_DIR}/{_DAY}(?:_[^/]+)?\.md"),
    WEEKLY_DIR: re.compile(rf"{WEEKLY_DIR}/(\d{{4}}-W\d{{2}})\.md"),
    MONTHLY_DIR: re.compile(rf"{MONTHLY_DIR}/(\d{{4}}-\d{{2}})\.md"),
    YEARLY_DIR: re.compile(rf"{YEARLY_DIR}/(\d{{4}})\.md"),
    SIGNIFICANT_DIR: re.compile(rf"{SIGNIFICANT_DIR}/{_DAY}_[^/]+\.md"),
}
TIERS: Final = tuple(_FORMS)
_COMPLETE: Final = {
    DAILY_DIR: "",
    SIGNIFICANT_DIR: "",
    WEEKLY_DIR: "-1",
    MONTHLY_DIR: "-01",
    YEARLY_DIR: "-01-01",
}
_MERGED: Final = (DAILY_DIR, SIGNIFICANT_DIR)
# Where the tree stands, seen from a folder above it.
_BELOW: Final = ("", "memories", "data/memories")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMemories(ImportReport):
    """What an import did, or would do.

    Args:
        tiers: How many files of each kind the tree holds.
        notes: How many notes a vault holds.
    """

    tiers: dict[str, int]
    notes: int = 0


def import_memories(
    store: MemoryStore, folder: FolderContents, wish: FolderImportOptions, *, dry_run: bool = False
) -> ImportedMemories:
    """Take a tree of memories into `store`, in one transaction.

    A day that is there already is added to, bullet by bullet; anything else that is there with
    other text is a conflict.

    Args:
        store: The memory.
        folder: The tree's files; see `read_tree`.
        wish: How far to go.
        dry_run: Check everything, and change nothing.

    Raises:
        ConflictError: Files that are not the import's own would change.
        RefusedError: The tree has changed.
        FamiliarError: The disk refused; everything is as it was.
    """
    warnings: list[str] = []
    there = [file.rel_path for tier in TIERS for file in _files_in(store, tier)]
    pieces = map_tree(folder.files, there, warnings)
    plan = plan_folder(
        store,
        pieces,
        LEDGER,
        wish,
        folder=folder,
        warnings=warnings,
        merge=merge_pages,
    )
    with store.transaction(
        SOURCE,
        f"import {counted(len(folder.files), 'file')}",
        dry_run=dry_run,
        trailers=pass_trailers(new_run_id()),
    ) as tx:
        plan.stage(tx)
    tiers = [tier_of(source) for source in folder.files]
    counts = {tier: tiers.count(tier) for tier in TIERS}
    return ImportedMemories(tiers=counts, **plan.report.values())


def read_tree(directory: Path) -> FolderContents:
    """Return the files of a tree of memories at `directory`, or just below it.

    Raises:
        NotFoundError: There is no such directory.
        BadInputError: It is a file, or no such tree is there.
    """
    require_there(directory)
    for below in _BELOW:
        root = directory / below
        if any(is_directory(root / tier) for tier in TIERS):
            return read_folder(root)
    raise BadInputError(
        f"{str(directory)!r} contains no memories: none of {', '.join(TIERS)} exists; "
        "nothing was imported",
        hint="Give the directory that contains them.",
    )


def map_tree(
    files: Mapping[str, bytes],
    there: Iterable[str],
    warnings: list[str],
    *,
    keeps_place: Callable[[str], bool] = lambda source: bool(tier_of(source)),
    kept_dir: str = KEPT_DIR,
) -> list[FolderPage]:
    """Map files to pages: those of a tier keep their path, others are kept aside.

    Args:
        files: The bytes of each, by its path in the tree.
        there: The files of the tiers that memory has already.
        warnings: Gets what is odd.
        keeps_place: Tells which files keep their path.
        kept_dir: Where others are kept.
    """
    kept = kept_paths(files, kept_dir)
    pieces: list[FolderPage] = []
    taken = {fold(path): path for path in there}
    for source, content in sorted(files.items()):
        tier, is_placed = tier_of(source), keeps_place(source)
        problem = _content_problem(source, content) if is_placed else ""
        if is_placed and not problem and taken.setdefault(fold(source), source) != source:
            problem = f"and {one_line(taken[fold(source)])} are the same file on some systems"
        if problem:
            warnings.append(f"{one_line(source)} {problem}; it is kept unchanged")
        if is_placed and not problem:
            aside = kept[source] if tier in _MERGED else ""
            pieces.append(FolderPage(source, source, content, is_original=True, aside=aside))
        else:
            pieces.append(
                FolderPage(source, kept[source], content, is_original=True, is_hidden=True)
            )
    return pieces


def _files_in(store: MemoryStore, directory: str) -> Sequence[MemoryEntry]:
    try:
        return store.walk(directory).files
    except NotFoundError:
        return ()


def tier_of(source: str) -> str:
    """Return which tier a file of the tree belongs to, or an empty string."""
    for tier, form in _FORMS.items():
        found = form.fullmatch(source)
        if found and _is_period(found[1] + _COMPLETE[tier]):
            return tier
    return ""


def _is_period(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _content_problem(source: str, content: bytes) -> str:
    """Return why a file cannot stand in memory as it is, or an empty string."""
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
