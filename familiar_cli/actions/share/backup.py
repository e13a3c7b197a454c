"""Back up familiars to a directory, or to any address that fsspec opens, and restore them.

A backup is a manifest in `<target>/<familiar>/`, written last, and packs with the pieces of files
that no earlier manifest has; docs/how-to/back-up.md describes both.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from sqlite3 import Error
from tempfile import gettempdir
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Struct, field, to_builtins

from familiar_cli.base import errors
from familiar_cli.base.config.environment import install_command
from familiar_cli.base.config.home import (
    IS_MOVING,
    ME_FILE,
    FamiliarPaths,
    check_here,
    list_familiars,
    moved_to,
)
from familiar_cli.base.files import (
    inflate,
    is_plain,
    locked,
    read_plain,
    remove,
    temp_in,
    write_own,
)
from familiar_cli.base.sqlite import connect, is_unwritable
from familiar_cli.base.text import counted, one_line, shorten_list, size_words, typed
from familiar_cli.base.times.clock import now
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.schema import open_to_read, translate_errors
from familiar_cli.store.journal.repository import Repository
from familiar_cli.store.memory.store.store import hold_lock
from familiar_cli.sync.forget_orders import ORDERS_FILE, carry_out_known_orders

if TYPE_CHECKING:
    from familiar_cli.sync.sealing import FileCipher

    Progress = Callable[[str, int, int], None]

_CHOOSE_ANOTHER: Final = (
    "`familiar backup verify DIR` shows the intact ones; choose one with `--backup NAME`."
)
FORMAT: Final = 1
MANIFEST: Final = ".manifest"
SEALED: Final = ".age"
PIECE_BYTES: Final = 1 << 20
PACK_BYTES: Final = 1 << 24
_LOCK_S: Final = 60.0
_MOST_NAMED: Final = 5  # damaged files
_SPARED: Final = timedelta(days=1)  # packs of a backup that another machine may be writing
_SKEW: Final = timedelta(minutes=1)  # between the clocks of machines that share a target
_STAMP: Final = "%Y%m%dT%H%M%S%fZ"
_HISTORY: Final = "history.db"
# Derived files, and files without meaning on another machine.
_SKIPPED_DIRS: Final = frozenset({"memory/.index", "recall", "replying", "runs/locks"})
_SKIPPED: Final = re.compile(
    r"(.*/)?([^/]*\.lock(\.next|\.holder)?|\.lock\.(next|holder)|\.tmp-familiar-[^/]*)"
    r"|moved\.txt|\.forgetting\.json|instance\.place|history\.cursor|history\.db-(wal|shm|journal)"
    r"|served\.sqlite.*|\.backups/.*"
)


# Its length bounds how many pieces a manifest of a given size can name.
Sha256 = Annotated[str, msgspec.Meta(min_length=64, max_length=64)]


class Piece(Struct, frozen=True):
    """Location of a piece of a file: pack, offset, length, and hash."""

    pack: str
    start: int
    length: int
    sha256: Sha256


class BackedUpFile(Struct, frozen=True):
    """A file in a backup; `path` is POSIX, relative to the familiar, or `../me.toml`."""

    path: str
    size: int
    sha256: Sha256
    pieces: tuple[Piece, ...]


class Manifest(Struct, frozen=True):
    """The contents of one backup; `is_moved`: the original does not answer any more."""

    familiar: str
    at: str
    files: tuple[BackedUpFile, ...]
    format: int = FORMAT
    is_moved: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names of files and directories in the target that it mentions."""
        return self.packs | {self.familiar}

    @property
    def packs(self) -> frozenset[str]:
        """The packs that it uses."""
        return frozenset(piece.pack for file in self.files for piece in file.pieces)

    def to_bytes(self) -> bytes:
        """Encode it."""
        return zlib.compress(json.dumps(to_builtins(self), ensure_ascii=False).encode())

    @classmethod
    def from_bytes(cls, raw: bytes) -> Manifest:
        """Decode a manifest.

        Raises:
            RemoteDamagedError: It is damaged, or written by a later version.
        """
        try:
            text = inflate(raw, MOST_MANIFEST_BYTES)
            told = msgspec.json.decode(text, type=_Format).format
            if told != FORMAT:
                raise errors.RemoteDamagedError(
                    f"The backup has format {told}, but this version reads {FORMAT}",
                    hint="Install a newer version of the program.",
                )
            return _with_plain_names(msgspec.json.decode(text, type=cls))
        except (ValueError, EOFError, zlib.error, RecursionError) as error:
            why = one_line(str(error), 200)
            raise errors.RemoteDamagedError(
                f"The manifest is damaged: {why}", hint=_CHOOSE_ANOTHER
            ) from error


def _with_plain_names(manifest: Manifest) -> Manifest:
    if odd := next((n for n in manifest.names if not _PLAIN_NAME.fullmatch(n)), ""):
        raise ValueError(f"{odd[:60]!r} is not the name of a file in a backup")
    return manifest


class _Format(Struct, frozen=True):
    format: int


_PLAIN_NAME: Final = re.compile(r"(?!\.)[^/\\:\0]{1,200}")
MOST_MANIFEST_BYTES: Final = 32 * 1024 * 1024
"""Of a backup of about 150 GB; unpacked, it takes several times as much memory."""

_MOST_FILE_BYTES: Final = PACK_BYTES + 2 * PIECE_BYTES  # of a pack, and of a manifest


class BackupTarget:
    """A place for backups.

    Args:
        address: A directory, or an address that fsspec opens, such as `s3://bucket/familiars`.
        sealing: Encrypts and decrypts files.

    Raises:
        UsageError: fsspec does not support the address, or needs a package for it.
    """

    def __init__(self, address: str, sealing: FileCipher) -> None:
        self.address = address
        self._sealing = sealing
        try:
            from fsspec.core import url_to_fs  # loads asyncio

            self._files, self._root = url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise errors.UsageError(
                f"{address!r} cannot be opened: {one_line(str(error), 200)}",
                hint="Give a directory, or install what is missing: "
                f"`{install_command('backup')}`, and the package that fsspec names for it.",
            ) from error
        self.is_local = "file" in self._files.protocol
        if self.is_local:
            root = Path(self._root)
            nearest = next(path for path in (root, *root.parents) if path.exists())
            if not nearest.is_dir():
                raise errors.UsageError(
                    f"{str(nearest)!r} is not a directory; nothing was read or written",
                    hint="Name the directory that holds the backups.",
                )

    def names(self, familiar_id: str) -> list[str]:
        """List the files of a familiar, oldest first."""
        return self._list(f"{self._root}/{familiar_id}")

    def familiars(self) -> list[str]:
        """List the familiars with backups."""
        return [name for name in self._list(self._root) if manifest_names(self.names(name))]

    def _list(self, path: str) -> list[str]:
        with self._storage_errors("listed"):
            self._files.invalidate_cache()
            try:
                there = self._files.ls(path, detail=False)
            except FileNotFoundError:
                return []
        return sorted(name.rstrip("/").rpartition("/")[2] for name in there)

    def size(self, familiar_id: str, name: str) -> int:
        """Return the size of a file; 0 if it is missing."""
        with self._storage_errors("read"), suppress(FileNotFoundError):
            return self._files.size(f"{self._root}/{familiar_id}/{name}") or 0
        return 0

    def read(self, familiar_id: str, name: str) -> bytes:
        """Read and decrypt a file."""
        path = f"{self._root}/{familiar_id}/{name}"
        with self._storage_errors("read"):
            try:
                if (size := self._files.size(path) or 0) > _MOST_FILE_BYTES:
                    raise errors.RemoteDamagedError(
                        f"{familiar_id}/{name} has {size:,} bytes, more than any file of a backup"
                    )
                raw: bytes = self._files.cat_file(path)
            except FileNotFoundError as error:
                raise errors.RemoteDamagedError(
                    f"{self.address!r} lacks {familiar_id}/{name}",
                    hint=f"Run `familiar backup verify {self.address}`.",
                ) from error
        if not name.endswith(SEALED):
            return raw
        plain = io.BytesIO()
        self._sealing.open(io.BytesIO(raw), plain)
        return plain.getvalue()

    def write(self, familiar_id: str, name: str, content: bytes) -> str:
        """Write a file atomically; return its name."""
        if self._sealing.seals:
            sealed = io.BytesIO()
            self._sealing.seal(io.BytesIO(content), sealed)
            name, content = f"{name}{SEALED}", sealed.getvalue()
        path = f"{self._root}/{familiar_id}/{name}"
        with self._storage_errors("written"):
            if self.is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                write_own(path, content)
            else:
                self._files.pipe_file(path, content)
        return name

    def remove(self, familiar_id: str, name: str) -> None:
        """Remove a file."""
        with self._storage_errors("removed"):
            self._files.rm_file(f"{self._root}/{familiar_id}/{name}")

    @contextmanager
    def _storage_errors(self, done: str) -> Iterator[None]:
        """Convert errors of a storage library to ours."""
        try:
            yield
        except errors.FamiliarError:
            raise
        except Exception as error:  # each library has its own error classes
            raise errors.FamiliarError(
                f"{self.address!r} could not be {done}: {one_line(str(error), 200)}; "
                "no backup was finished or changed",
                hint="Check the address, its credentials and the free space, then try again.",
            ) from error


def manifest_names(names: Iterable[str]) -> list[str]:
    """Select the manifests among names, oldest first.

    Those from the future come before all others: the clock was wrong, and they retire none.
    """
    items = [name for name in names if name.removesuffix(SEALED).endswith(MANIFEST)]
    present = f"{now() + _SKEW:{_STAMP}}"
    return sorted(items, key=lambda name: (name <= present, name))


class BackupReport(Struct, frozen=True):
    """The result of a backup.

    Args:
        name: Name of the backup, for `familiar restore --backup`.
        files: Number of files in it.
        bytes: Their total size.
        written_bytes: The part of it that was new to the target.
        removed: Backups removed by retention.
    """

    familiar: str
    name: str
    files: int
    bytes: int
    written_bytes: int
    removed: tuple[str, ...] = ()


class _PackWriter:
    """Collects pieces into packs, skipping those that an earlier backup has."""

    def __init__(self, target: BackupTarget, familiar_id: str, stamp: str) -> None:
        self._target = target
        self._familiar_id = familiar_id
        self._stamp = stamp
        self._pack = bytearray()
        self._waiting: list[tuple[str, int, int]] = []
        self.known: dict[str, Piece] = {}
        self.written_bytes = 0

    def add(self, content: bytes) -> str:
        """Add a piece, and return its hash."""
        digest = sha256(content).hexdigest()
        if digest not in self.known and all(digest != one[0] for one in self._waiting):
            packed = zlib.compress(content, 6)
            self._waiting.append((digest, len(self._pack), len(packed)))
            self._pack += packed
            if len(self._pack) >= PACK_BYTES:
                self.flush()
        return digest

    def flush(self) -> None:
        """Write the current pack."""
        if not self._waiting:
            return
        name = f"{self._stamp}-{token_hex(4)}.pack"
        name = self._target.write(self._familiar_id, name, bytes(self._pack))
        for digest, start, length in self._waiting:
            self.known[digest] = Piece(name, start, length, digest)
        self.written_bytes += len(self._pack)
        self._pack, self._waiting = bytearray(), []


def back_up(
    paths: FamiliarPaths, target: BackupTarget, *, keep: int = 0, progress: Progress | None = None
) -> BackupReport:
    """Back up a familiar while it is in use.

    Memory is locked meanwhile; conversations continue, and the backup has them up to one moment.

    Args:
        paths: The familiar.
        keep: Number of its backups to keep there; 0 for all.
        progress: Called with the kind of work, the number of files done, and the total.

    Raises:
        LockedError: Another process is backing it up, or keeps writing memory.
        FamiliarError: The familiar cannot be read, or the target cannot be written.
    """
    state = paths.root / ".backups" / sha256(target.address.encode()).hexdigest()[:16]
    if target.is_local and Path(target.address).resolve().is_relative_to(paths.root.resolve()):
        raise errors.UsageError(
            f"{target.address!r} is inside the familiar itself; nothing was backed up",
            hint="Choose a directory elsewhere, preferably on another disk.",
        )
    with _backing_up(state):
        stamp = f"{now():{_STAMP}}-{token_hex(4)}"
        packs = _PackWriter(target, paths.id, stamp)
        packs.known = _known_pieces(state, frozenset(target.names(paths.id)))
        with _unchanged_memory(paths):
            items = list(_read_files(paths, packs, progress))
        packs.flush()
        files = tuple(
            BackedUpFile(path, size, whole, tuple(packs.known[one] for one in digests))
            for path, size, whole, digests in items
        )
        at, is_moved = now().isoformat(timespec="seconds"), paths.moved.exists()
        if is_moved:  # the manifest decides: from here on, a crash no longer undoes the move
            write_own(paths.moved, f"{moved_to(paths)}\n".encode())
        manifest = Manifest(paths.id, at, files, is_moved=is_moved)
        name = target.write(paths.id, f"{stamp}{MANIFEST}", manifest.to_bytes())
        with suppress(OSError):  # on a full disk, the next backup writes more than it has to
            write_own(state, manifest.to_bytes())
        removed = _retire(target, paths.id, keep) if keep else ()
    return BackupReport(
        paths.id,
        name.partition(".")[0],
        len(files),
        sum(file.size for file in files),
        packs.written_bytes,
        removed,
    )


@contextmanager
def _backing_up(state: Path) -> Iterator[None]:
    """Let no other process back up to the same target, unless the disk cannot be written."""
    with ExitStack() as stack:
        with suppress(OSError):
            state.parent.mkdir(exist_ok=True)
            stack.enter_context(locked(state.with_suffix(".lock"), 0, what="a backup"))
        yield


@contextmanager
def _unchanged_memory(paths: FamiliarPaths) -> Iterator[None]:
    """Lock memory, unless its disk is read-only or too full for anyone to lock it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(paths.lock, _LOCK_S))
        except errors.FamiliarError as error:
            if getattr(error.__cause__, "errno", 0) not in {errno.EROFS, errno.ENOSPC}:
                raise
        yield


@contextmanager
def moving_away(paths: FamiliarPaths, where: str) -> Iterator[None]:
    """Let a familiar answer no more once replies under way are complete, unless the block fails.

    Args:
        paths: The familiar.
        where: Where it goes, in words for whoever talks to it here.

    Raises:
        RefusedError: It was moved away before.
        LockedError: A reply takes too long; the familiar goes on answering.
    """
    check_here(paths)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(paths.moving_lock, 1, what="where the familiar is"))
            write_own(paths.moved, f"{one_line(where)}\n{IS_MOVING}\n".encode())
        except OSError as error:
            raise errors.FamiliarError(
                f"{str(paths.root)!r} cannot be written to: {error.strerror or error}; nothing was"
                " moved or backed up",
                hint="Back it up without `--move`: that works even if its disk cannot be written.",
            ) from error
        try:
            for lock in sorted(paths.channel_lock("").parent.glob("channel-*.lock")):
                with hold_lock(lock, _LOCK_S):
                    pass
            yield
        except BaseException:
            remove(paths.moved)
            raise


def _known_pieces(state: Path, there: frozenset[str]) -> dict[str, Piece]:
    """Return the pieces of the last backup whose packs still exist."""
    try:
        last = Manifest.from_bytes(state.read_bytes())
    except (OSError, errors.RemoteDamagedError):
        return {}  # everything is written again
    pieces = (piece for file in last.files for piece in file.pieces)
    return {piece.sha256: piece for piece in pieces if piece.pack in there}


def _read_files(
    paths: FamiliarPaths, packs: _PackWriter, progress: Progress | None
) -> Iterator[tuple[str, int, str, list[str]]]:
    """Read all files into packs; yield each path with its size, its hash and its pieces."""
    # The history first: pictures of turns that come meanwhile do no harm.
    files = sorted(_files_in(paths.root), key=lambda path: (path != _HISTORY, path))
    for done, rel_path in enumerate(files):
        if progress:
            progress("Reading", done, len(files))
        if rel_path == _HISTORY:
            with _copied_history(paths) as copy, copy.open("rb") as file:
                yield (rel_path, *_add_file(file, packs))
            continue
        try:
            with (paths.root / rel_path).open("rb") as file:
                yield (rel_path, *_add_file(file, packs))
        except FileNotFoundError:
            continue  # a trace or a record that retention removed just now
        except OSError as error:
            raise errors.FamiliarError(
                f"{rel_path!r} cannot be read: {error.strerror or error}; nothing was backed up"
            ) from error
    if is_plain(paths.me):
        with paths.me.open("rb") as file:
            yield (f"../{ME_FILE}", *_add_file(file, packs))


def _files_in(root: Path) -> Iterator[str]:
    for directory, below, names in os.walk(root):
        rel = Path(directory).relative_to(root).as_posix()
        prefix = "" if rel == "." else f"{rel}/"
        below[:] = [name for name in below if f"{prefix}{name}" not in _SKIPPED_DIRS]
        for name in names:
            rel_path = f"{prefix}{name}"
            if not _SKIPPED.fullmatch(rel_path) and is_plain(root / rel_path):
                yield rel_path


def _add_file(file: IO[bytes], packs: _PackWriter) -> tuple[int, str, list[str]]:
    whole, size, digests = sha256(), 0, []
    while piece := file.read(PIECE_BYTES):
        whole.update(piece)
        size += len(piece)
        digests.append(packs.add(piece))
    return size, whole.hexdigest(), digests


@contextmanager
def _copied_history(paths: FamiliarPaths) -> Iterator[Path]:
    """Copy the history as of one moment, by SQLite's backup API.

    The copy is beside it, or among the temporary files if its disk is read-only or full.
    """
    is_roomy = shutil.disk_usage(paths.root).free > 2 * paths.history.stat().st_size
    place = str(paths.root) if is_roomy and os.access(paths.root, os.W_OK) else gettempdir()
    copy = Path(temp_in(place, ".db"))
    try:
        with translate_errors(paths.history), closing(connect(copy, 10.0)) as connection:
            try:
                with closing(connect(paths.history, 10.0)) as source:
                    source.backup(connection, pages=4096)
            except Error as error:
                if not is_unwritable(error):
                    raise
                with closing(open_to_read(paths.history, 10.0)) as source:
                    source.backup(connection, pages=4096)
        yield copy
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            remove(copy.with_name(copy.name + suffix))


def _retire(target: BackupTarget, familiar_id: str, keep: int) -> tuple[str, ...]:
    """Remove all but the newest backups, and the packs that only they use."""
    names = target.names(familiar_id)
    manifests = manifest_names(names)
    old = manifests[: max(len(manifests) - keep, 0)]
    if not old:
        return ()
    needed: set[str] = set()
    for name in manifests[len(old) :]:
        needed |= Manifest.from_bytes(target.read(familiar_id, name)).packs
    for name in old:
        target.remove(familiar_id, name)
    oldest = f"{now() - _SPARED:{_STAMP}}"
    for name in names:
        if ".pack" in name and name not in needed and name < oldest:
            target.remove(familiar_id, name)
    return tuple(name.partition(".")[0] for name in old)


class BackupCheck(Struct, frozen=True):
    """The result of verifying backups.

    Args:
        whole: The intact backups.
        problems: What is wrong with each of the others.
        files: The damaged files of each of those, unless its list of files is damaged.
    """

    whole: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)


def verify_backups(target: BackupTarget, familiar_ids: Sequence[str] = ()) -> BackupCheck:
    """Read every piece of every backup, and verify its hash.

    Args:
        familiar_ids: Only these familiars; empty for all.

    Raises:
        NotFoundError: There are no backups.
        RemoteKeyError: They are encrypted for another key.
    """
    ids = list(familiar_ids) or target.familiars()
    check = BackupCheck()
    for familiar_id in ids:
        checked: dict[Piece, int | str] = {}
        for name in manifest_names(target.names(familiar_id)):
            backup = f"{familiar_id}/{name.partition('.')[0]}"
            try:
                manifest = Manifest.from_bytes(target.read(familiar_id, name))
                _check_pieces(target, manifest, checked)
                bad = {f.path: why for f in manifest.files if (why := _problem_of(f, checked))}
            except errors.RemoteDamagedError as error:
                check.problems[backup] = str(error)
                continue
            if bad:
                told = f"{len(bad)} of {counted(len(manifest.files), 'file')}"
                why = "; ".join(dict.fromkeys(bad.values()))
                check.problems[backup] = f"{told} ({shorten_list(bad, _MOST_NAMED)}): {why}"
                check.files[backup] = list(bad)
            else:
                check.whole.append(backup)
    if not (check.whole or check.problems):
        raise _no_backup(target, ids)
    return check


def _check_pieces(
    target: BackupTarget, manifest: Manifest, checked: dict[Piece, int | str]
) -> None:
    """Note the unpacked size of each piece of a backup, or what is wrong with it.

    Args:
        checked: The results so far, filled in.
    """
    by_pack: dict[str, set[Piece]] = {}
    for piece in (piece for file in manifest.files for piece in file.pieces):
        if piece not in checked:
            by_pack.setdefault(piece.pack, set()).add(piece)
    for name, pieces in by_pack.items():
        try:
            pack = target.read(manifest.familiar, name)
        except errors.RemoteDamagedError as error:
            checked |= dict.fromkeys(pieces, str(error))
            continue
        within = {p for p in pieces if 0 <= p.start <= p.start + p.length <= len(pack)}
        is_sound = sum(piece.length for piece in within) <= len(pack)  # pieces never overlap
        for piece in pieces:
            content = _unpack(pack, piece) if is_sound and piece in within else None
            checked[piece] = f"{name} is damaged" if content is None else len(content)


def _problem_of(file: BackedUpFile, checked: Mapping[Piece, int | str]) -> str:
    """Return why a file cannot be restored from its checked pieces; empty if it can."""
    results = [checked[piece] for piece in file.pieces]
    if problem := next((result for result in results if isinstance(result, str)), ""):
        return problem
    is_same = len(file.pieces) != 1 or file.pieces[0].sha256 == file.sha256
    if not is_same or sum(map(int, results)) != file.size:
        return "its pieces are not those of the file"
    if file.path != f"../{ME_FILE}":
        _is_ours(file.path)
    return ""


def _unpack(pack: bytes, piece: Piece) -> bytes | None:
    """Return the content of a piece; None if it is damaged."""
    try:
        content = inflate(pack[piece.start : piece.start + piece.length], PIECE_BYTES)
    except (ValueError, EOFError, zlib.error):
        return None
    return content if sha256(content).hexdigest() == piece.sha256 else None


class RestoreResult(Struct, frozen=True):
    """A restored familiar: its id, the backup's name, the number of files, and its home.

    Args:
        left_out_me: The backup's `me.toml` was not restored.
    """

    familiar: str
    backup: str
    files: int
    home: str
    left_out_me: bool = False


def restore(
    target: BackupTarget,
    home: Path,
    familiar_id: str,
    *,
    backup: str = "",
    with_me: bool = False,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> RestoreResult:
    """Restore a familiar that does not exist; it appears only once it is complete.

    It is an instance of its own, unless the original was moved away. People who were forgotten in
    this home are forgotten again.

    Args:
        home: The directory for it.
        backup: Name of the backup; empty for the newest.
        with_me: Whether to restore `me.toml`, which says who the owner of the home is.
        progress: Called with the kind of work, the number of files done, and the total.
        tell: Callback for user-facing messages.

    Raises:
        ConflictError: The familiar exists; nothing was changed.
        NotFoundError: No such backup.
        RemoteDamagedError: The backup is damaged; nothing was restored.
    """
    paths = FamiliarPaths(home / familiar_id)
    if not familiar_id:
        raise _no_backup(target, [])
    if paths.root.exists():
        raise errors.ConflictError(
            f"There is a familiar {familiar_id!r} in {str(home)!r} already; nothing was restored",
            hint="Restore into another home: `--home DIR`.",
        )
    manifests = manifest_names(target.names(familiar_id))
    items = [name for name in manifests if not backup or name.partition(".")[0] == backup]
    if not items:
        raise _no_backup(target, [f"{familiar_id}/{backup}" if backup else familiar_id])
    manifest = Manifest.from_bytes(target.read(familiar_id, items[-1]))
    home.mkdir(parents=True, exist_ok=True)
    from familiar_cli.imports.import_plan import remove_abandoned

    remove_abandoned(home)
    making = Path(temp_in(str(home), ".restoring"))
    try:
        made = FamiliarPaths(making / familiar_id)
        me = _write_files(target, manifest, made.root, progress)
        for name in (ME_FILE, ORDERS_FILE):
            if is_plain(home / name):
                write_own(making / name, read_plain(home / name))
        _settle(made, tell, is_moved=manifest.is_moved)
        made.root.replace(paths.root)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    has_me = me is not None and not paths.me.exists()
    if me is not None and has_me and with_me:
        write_own(paths.me, me)
    name = items[-1].partition(".")[0]
    left_out = has_me and not with_me
    return RestoreResult(familiar_id, name, len(manifest.files), str(home), left_out)


def _settle(paths: FamiliarPaths, tell: Callable[[str], None], *, is_moved: bool) -> None:
    """Make restored files an instance of their own, and carry out the home's forget orders."""
    journal = Repository(str(paths.journal))
    if journal.exists:
        journal.write_settings()
    with Familiar(paths, tell) as familiar:
        familiar.settle_instance(is_restored=not is_moved)
        carry_out_known_orders(familiar.forget_place)


def _write_files(
    target: BackupTarget, manifest: Manifest, root: Path, progress: Progress | None
) -> bytes | None:
    """Write the files of a backup to a new directory; return the content of `me.toml`, if any.

    Each pack is read once per run of files whose pieces it holds.
    """
    root.mkdir(mode=0o700, parents=True)
    me, last, pack = None, "", b""
    for done, file in enumerate(manifest.files):
        if progress:
            progress("Writing", done, len(manifest.files))
        content = bytearray()
        if len(file.pieces) * PIECE_BYTES < file.size:
            raise _damaged_error(file)
        for piece in file.pieces:
            if piece.pack != last:
                last, pack = piece.pack, target.read(manifest.familiar, piece.pack)
            part = _unpack(pack, piece)
            if part is None or len(content) + len(part) > file.size:
                raise _damaged_error(file)
            content += part
        if len(content) != file.size or sha256(content).hexdigest() != file.sha256:
            raise _damaged_error(file)
        if file.path == f"../{ME_FILE}":
            me = bytes(content)
            continue
        path = root / file.path
        if not _is_ours(file.path):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_own(path, bytes(content), durable=file.path in {_HISTORY, "character.toml"})
    return me


def _damaged_error(file: BackedUpFile) -> errors.RemoteDamagedError:
    return errors.RemoteDamagedError(
        f"{file.path!r} is damaged in the backup; nothing was restored", hint=_CHOOSE_ANOTHER
    )


_OF_JOURNAL: Final = re.compile(
    r"objects/(?:[0-9a-f]{2}/[0-9a-f]{38}|pack/[\w-]+\.(?:pack|idx))|refs/.+|packed-refs|HEAD",
    re.ASCII | re.DOTALL,
)


def _is_ours(rel_path: str) -> bool:
    """Tell whether a file may be restored: of the journal, objects and refs alone.

    Git runs programs that `config`, hooks and `info/` name: those are written anew.

    Raises:
        RemoteDamagedError: It would be outside the familiar.
    """
    is_drive = re.match("[A-Za-z]:", rel_path)
    if is_drive or {"", ".", ".."}.intersection(re.split(r"[/\\]", rel_path)):
        raise errors.RemoteDamagedError(
            f"The backup names a file outside the familiar: {rel_path!r}"
        )
    directory, _, rest = rel_path.partition("/")
    return directory.casefold() != "journal.git" or bool(_OF_JOURNAL.fullmatch(rest))


def _no_backup(target: BackupTarget, targets: Sequence[str]) -> errors.NotFoundError:
    there = target.familiars()
    if there:
        name = ", ".join(targets) or "any familiar"
        text = f"{target.address!r} has no backup of {name}"
        return errors.NotFoundError(text, hint=f"It has backups of {', '.join(there)}.")
    if target.is_local and not Path(target.address).exists():
        return errors.NotFoundError(
            f"There is no directory {target.address!r}; nothing was read or written",
            hint="Check its name, and whether its disk is mounted.",
        )
    return errors.NotFoundError(
        f"There are no backups in {target.address!r}",
        hint=f"Make one: `familiar backup {typed(target.address)}`.",
    )


def list_backups(target: BackupTarget, *, read: bool = True) -> list[dict[str, Any]]:
    """List all backups: familiar, name, time, and the problem of its manifest, oldest first.

    Args:
        read: Whether manifests are read, except encrypted ones.

    Raises:
        NotFoundError: There are no backups.
    """
    ids = target.familiars()
    if not ids:
        raise _no_backup(target, ids)
    return [
        {
            "familiar": familiar_id,
            "backup": name.partition(".")[0],
            "at": _time_of(name),
            "problem": _manifest_problem(target, familiar_id, name) if read else "",
        }
        for familiar_id in ids
        for name in manifest_names(target.names(familiar_id))
    ]


def _manifest_problem(target: BackupTarget, familiar_id: str, name: str) -> str:
    """Return why a manifest cannot be read, or an empty string.

    An encrypted one is checked only for being empty.
    """
    try:
        if name.endswith(SEALED):
            return "" if target.size(familiar_id, name) else "The manifest is empty"
        Manifest.from_bytes(target.read(familiar_id, name))
    except errors.RemoteDamagedError as error:
        return str(error)
    return ""


def _time_of(name: str) -> str:
    stamp = name.partition("-")[0]
    return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).isoformat(timespec="seconds")


def words_of(report: BackupReport) -> str:
    """Describe the result of a backup in one line."""
    text = f"{size_words(report.written_bytes)} of {size_words(report.bytes)} written"
    removed = f"; {counted(len(report.removed), 'older backup')} removed" if report.removed else ""
    return f"{report.familiar}: {report.name}, {counted(report.files, 'file')}, {text}{removed}"


def familiars_to_back_up(home: Path, value: str | None) -> list[FamiliarPaths]:
    """List the selected familiar, or all of a home.

    Raises:
        NotFoundError: There is none.
    """
    ids = [value] if value else list_familiars(home)
    missing = [one for one in ids if one not in list_familiars(home)]
    if missing or not ids:
        name = f"no familiar {missing[0]!r}" if missing else "no familiar"
        raise errors.NotFoundError(f"There is {name} in {str(home)!r}; nothing was backed up")
    return [FamiliarPaths(home / one) for one in ids]
