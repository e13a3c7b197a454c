"""Import folders: read them without trust, plan what is written, and keep a ledger of it."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field
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
from familiar_cli.imports import staging
from familiar_cli.imports.foreign_files import MAX_TOTAL_BYTES, MIB, dump_json
from familiar_cli.imports.staging import ImportReport
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.types import MISSING
from familiar_cli.text import fold, one_line, sha256_of, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from familiar_cli.memory.store.store import MemoryStore

from familiar_cli.imports.staging import UnreadFile

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
            path = f"{directory}/~{_digest(source)}"
        taken.add(fold(path))
        made[source] = path
    return made


def is_plain(rel_path: str) -> bool:
    """Tell whether a file may stand in memory under the very path it has elsewhere."""
    parts = rel_path.split("/")
    try:
        same = paths.parse_new(rel_path) == rel_path
    except UnsafePathError:
        return False
    return same and not any(part.startswith((".", "_")) or _ODD.search(part) for part in parts)


def _portable_path(source: str) -> str:
    path = "/".join(_portable(part) for part in source.split("/"))
    return path if len(path.encode()) <= _MOST_PATH_BYTES else f"~{_digest(source)}"


def _portable(name: str) -> str:
    shown = _ODD.sub(_encoded, name)
    if shown[-1] in ". ":
        shown = shown[:-1] + _percent(shown[-1])
    if shown[0] in " ~" or _refused(shown):
        shown = _percent(shown[0]) + shown[1:]
    if len(shown.encode()) > _MOST_NAME_BYTES:
        return f"~{_digest(name)}"
    return shown


def _refused(name: str) -> bool:
    try:
        paths.parse_new(f"x/{name}")
    except UnsafePathError:
        return True
    return False


def _encoded(found: re.Match[str]) -> str:
    return _percent(found[0])


def _percent(char: str) -> str:
    try:
        raw = os.fsencode(char)
    except UnicodeEncodeError:  # half a character, which is no byte of a name either
        raw = char.encode("utf-8", errors="surrogatepass")
    return "".join(f"%{byte:02X}" for byte in raw)


def _digest(source: str) -> str:
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


@dataclass(slots=True)
class Ledger:
    """All files of one or more folders, by their path there."""

    rel_path: str
    entries: dict[str, ImportedFile] = field(default_factory=dict)

    def dump(self) -> str:
        """Return the ledger as it is stored."""
        files = {
            _as_text(source): {
                "sha256": entry.sha256,
                "wrote": dict(sorted(entry.wrote.items())),
                "original": entry.original,
            }
            for source, entry in sorted(self.entries.items())
        }
        return dump_json({"version": _VERSION, "files": files}, indent=1) + "\n"


def load(store: MemoryStore, rel_path: str) -> Ledger:
    """Return the ledger at `rel_path`; an empty one when there is none.

    Raises:
        BadInputError: It is damaged, so nobody can tell what a person has edited since.
    """
    entries = staging.load(
        store,
        rel_path,
        _entries,
        keeps="what was imported",
        hint=f"`familiar memory log {typed(rel_path)}` shows its past; or move it away, and "
        "existing files count as yours.",
    )
    return Ledger(rel_path, entries or {})


def originals(store: MemoryStore, rel_path: str) -> dict[str, bytes]:
    """Return every imported file with the bytes that are kept of it, by its path in the folder.

    A file that went into memory as it was, and was edited there since, comes back edited.
    """
    found = load(store, rel_path).entries
    return {
        source: store.read_bytes(entry.original)
        for source, entry in found.items()
        if store.exists(entry.original)
    }


def _entries(value: dict[str, Any]) -> dict[str, ImportedFile]:
    return {_from_text(name): _entry(given) for name, given in value["files"].items()}


def _entry(given: dict[str, Any]) -> ImportedFile:
    wrote = {str(path): str(digest) for path, digest in given["wrote"].items()}
    return ImportedFile(str(given["sha256"]), wrote, str(given["original"]))


def _as_text(name: str) -> str:
    """Return a name, which may hold bytes that are no text, as JSON and UTF-8 can hold it."""
    return json.dumps(name)[1:-1]


def _from_text(text: str) -> str:
    return str(json.loads(f'"{text}"'))


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction

    Merge = Callable[[bytes, bytes], bytes | None]


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
class FolderPlan:
    """What an import will do; nothing is done before `stage`.

    Args:
        report: What it does, for a person to read.
        changes: Every file to write: path, bytes, and the SHA-256 it has now or `MISSING`.
    """

    report: ImportReport
    changes: tuple[tuple[str, bytes, str], ...] = ()

    @property
    def is_noop(self) -> bool:
        """Whether everything is already as it should be."""
        return not self.changes

    def stage(self, tx: Transaction) -> None:
        """Put all changes into a transaction, which makes them together or not at all."""
        for rel_path, content, expect in self.changes:
            # What was larger elsewhere comes as it is; it can be read, and shortened later.
            tx.write(rel_path, content, expect=expect, any_size=True)


@dataclass(frozen=True, slots=True)
class FolderImportOptions:
    """How far an import may go.

    Args:
        update: Files whose source has changed may be written anew.
        force: So may files that a person edited or deleted, or that were there before.
        update_hint: What to type for `update`.
        force_hint: What to type for `force`.
    """

    update: bool = False
    force: bool = False
    update_hint: str = "Add `--update` to use the source's text; add `--dry-run` to preview."
    force_hint: str = "Add `--force` to use the source's text; add `--dry-run` to preview."


def plan_folder(
    store: MemoryStore,
    pieces: Iterable[FolderPage],
    ledger_path: str,
    wish: FolderImportOptions,
    *,
    sources: Mapping[str, bytes],
    left_out: Iterable[UnreadFile] = (),
    warnings: Iterable[str] = (),
    merge: Merge = lambda _there, _new: None,
) -> FolderPlan:
    """Return what importing `pieces` will do.

    Args:
        store: The memory.
        pieces: What the files become.
        ledger_path: Where it is noted what came from where.
        wish: How far to go.
        sources: The files.
        left_out: What could not be read of the folder.
        warnings: What was odd about it.
        merge: Returns what is there with all of the new in it, or None where that makes no sense.

    Raises:
        ConflictError: Files that are not the import's own would change, without `wish.force`.
        RefusedError: The source has changed, without `wish.update`.
        BadInputError: The ledger is damaged.
    """
    draft = _Draft(store, load(store, ledger_path), wish, merge)
    listed = list(pieces)
    for piece in listed:
        draft.take(piece, sha256_of(sources[piece.source]))
    draft.check()
    hidden = {piece.source for piece in listed if piece.is_hidden}
    shown = {piece.source for piece in listed if not piece.is_hidden}
    gone = [
        f"{source!r} is no longer in the folder; its file in memory is kept"
        for source in draft.old.entries.keys() - sources.keys()
    ]
    return draft.plan(
        kept=tuple(sorted(hidden - shown)),
        left_out=tuple(left_out),
        warnings=(*warnings, *draft.warnings, *sorted(gone)),
    )


class _Draft:
    """A plan while it is being made."""

    def __init__(
        self, store: MemoryStore, old: Ledger, wish: FolderImportOptions, merge: Merge
    ) -> None:
        self.old = old
        self._store = store
        self._wish = wish
        self._merge = merge
        self._new = dict(old.entries)
        self._wrote: dict[str, dict[str, str]] = {}
        self._changes: dict[str, tuple[bytes, str]] = {}
        self._shown: dict[str, list[str]] = {"written": [], "unchanged": [], "edited": []}
        self._overwritten: list[str] = []
        self._in_the_way: list[str] = []
        self._outdated: list[str] = []
        self.warnings: list[str] = []

    def take(self, piece: FolderPage, source_sha256: str) -> None:
        """Note what one piece means for the memory."""
        made = sha256_of(piece.content)
        wrote = self._wrote.setdefault(piece.source, {})
        wrote[piece.rel_path] = made
        known = self._new.get(piece.source)
        original = piece.rel_path if piece.is_original else (known.original if known else "")
        before = self.old.entries.get(piece.source)
        if before and piece.aside in before.wrote:
            original = piece.aside
            wrote[piece.aside] = before.wrote[piece.aside]
        self._new[piece.source] = ImportedFile(source_sha256, wrote, original)
        there = self._store.sha256(piece.rel_path)
        if there == made:
            self._note("unchanged", piece)
        elif before is None or piece.rel_path not in before.wrote:
            self._first_time(piece, there)
        else:
            self._again(piece, there, before.wrote[piece.rel_path], made)

    def _first_time(self, piece: FolderPage, there: str | None) -> None:
        if there is None:
            self._write(piece, piece.content, MISSING)
        elif not self._merged(piece, there):
            self._overwrite(piece, there)

    def _again(self, piece: FolderPage, there: str | None, was: str, made: str) -> None:
        if there == was:
            self._outdated.append(piece.rel_path)
            self._write(piece, piece.content, was)
        elif made == was and not self._wish.force:
            self._note("unchanged" if self._is_in(piece, there) else "edited", piece)
        elif there is None:
            self._deleted(piece)
        elif not self._merged(piece, there):
            self._overwrite(piece, there)

    def _deleted(self, piece: FolderPage) -> None:
        if self._wish.force:
            self._write(piece, piece.content, MISSING)
        else:
            self._note("edited", piece)
            self.warnings.append(f"{piece.rel_path}: you deleted it; it was not restored")

    def _is_in(self, piece: FolderPage, there: str | None) -> bool:
        """Tell whether what is there says all that the piece says."""
        if there is None or not piece.aside:
            return False
        now = self._store.read_bytes(piece.rel_path)
        return self._merge(now, piece.content) == now

    def _merged(self, piece: FolderPage, there: str) -> bool:
        """Put what is new into what is there, where that is possible."""
        if self._wish.force or not piece.aside:
            return False
        now = self._store.read_bytes(piece.rel_path)
        merged = self._merge(now, piece.content)
        if merged is None:
            return False
        self._keep_aside(piece)
        if merged == now:
            self._note("unchanged", piece)
        else:
            self.warnings.append(f"{piece.rel_path}: already exists; what was missing was added")
            self._write(piece, merged, there)
        return True

    def _keep_aside(self, piece: FolderPage) -> None:
        """Keep the original, since memory now holds it among other text."""
        entry = self._new[piece.source]
        wrote = self._wrote[piece.source]
        wrote[piece.aside] = entry.sha256
        self._new[piece.source] = ImportedFile(entry.sha256, wrote, piece.aside)
        there = self._store.sha256(piece.aside)
        if there != entry.sha256:
            self._changes[piece.aside] = (piece.content, there or MISSING)

    def _overwrite(self, piece: FolderPage, there: str) -> None:
        self._in_the_way.append(piece.rel_path)
        self._overwritten.append(piece.rel_path)
        self._write(piece, piece.content, there)

    def _write(self, piece: FolderPage, content: bytes, expect: str) -> None:
        self._changes[piece.rel_path] = (content, expect)
        self._note("written", piece)

    def _note(self, what: str, piece: FolderPage) -> None:
        if not piece.is_hidden:
            self._shown[what].append(piece.rel_path)

    def check(self) -> None:
        """Refuse what is not allowed. Nothing has been written yet."""
        if self._in_the_way and not self._wish.force:
            raise ConflictError(
                f"These files differ from the folder: {staging.listed(self._in_the_way)};"
                " nothing was changed",
                hint=self._wish.force_hint,
            )
        if self._outdated and not (self._wish.update or self._wish.force):
            raise RefusedError(
                f"The folder has changed since the import; {len(self._outdated)} would change: "
                f"{staging.listed(self._outdated)}; nothing was changed",
                hint=self._wish.update_hint,
            )

    def plan(
        self, *, kept: tuple[str, ...], left_out: tuple[UnreadFile, ...], warnings: tuple[str, ...]
    ) -> FolderPlan:
        """Return the finished plan."""
        after = Ledger(self.old.rel_path, self._new)
        changes = [(path, content, expect) for path, (content, expect) in self._changes.items()]
        if self._new and after.entries != self.old.entries:
            changes.append(staging.change(self._store, after.rel_path, after.dump()))
        report = ImportReport(
            written=tuple(sorted(self._shown["written"])),
            unchanged=tuple(sorted(self._shown["unchanged"])),
            overwritten=tuple(sorted(self._overwritten)),
            edited=tuple(sorted(self._shown["edited"])),
            kept_unmapped=kept,
            left_out=left_out,
            warnings=warnings,
        )
        return FolderPlan(report, tuple(changes))


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
