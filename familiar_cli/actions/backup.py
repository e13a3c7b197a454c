"""Back up familiars to a directory, or any address that fsspec opens, and restore them.

A backup is a manifest below `<target>/<familiar>/`, written last, and packs with the pieces of
files that no earlier manifest has; docs/how-to/back-up.md describes both.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import zlib
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.forget import carry_out_known_orders
from familiar_cli.clock import now
from familiar_cli.config.environment import install_command
from familiar_cli.config.home import ME_FILE, FamiliarPaths, list_familiars
from familiar_cli.errors import (
    ConflictError,
    FamiliarError,
    NotFoundError,
    RemoteDamagedError,
    UsageError,
)
from familiar_cli.familiar import Familiar
from familiar_cli.files import is_plain, locked, remove, temp_in, write_own
from familiar_cli.memory.store.store import hold_lock
from familiar_cli.sqlite import connect
from familiar_cli.text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO

    from familiar_cli.sync.sealing import Sealing

    Progress = Callable[[str, int, int], None]

FORMAT: Final = 1
MANIFEST: Final = ".manifest"
SEALED: Final = ".age"
PIECE_BYTES: Final = 1 << 20
PACK_BYTES: Final = 1 << 24
_LOCK_S: Final = 60.0
_SPARED: Final = timedelta(days=1)  # packs of a backup that another machine may be writing
_STAMP: Final = "%Y%m%dT%H%M%S%fZ"
_HISTORY: Final = "history.db"
# What comes back by itself, or means nothing on another machine.
_SKIPPED_DIRS: Final = frozenset({"memory/.index", "recall", "replying", "runs/locks"})
_SKIPPED: Final = re.compile(
    r"(.*/)?([^/]*\.lock(\.next|\.holder)?|\.lock\.(next|holder)|\.tmp-familiar-[^/]*)"
    r"|history\.db(-wal|-shm|-journal|\.before-.*)|served\.sqlite.*|\.backups/.*"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a piece of a file is: in which pack, from which byte, how many, and its hash."""

    pack: str
    start: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """One file of a backup; `path` is POSIX below the familiar, or `../me.toml`."""

    path: str
    size: int
    sha256: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that one backup holds."""

    familiar: str
    at: str
    files: tuple[BackedUpFile, ...]
    format: int = FORMAT

    @property
    def packs(self) -> frozenset[str]:
        """The packs that it needs."""
        return frozenset(piece.pack for file in self.files for piece in file.pieces)

    def to_bytes(self) -> bytes:
        """Encode it."""
        return zlib.compress(json.dumps(asdict(self), ensure_ascii=False).encode())

    @classmethod
    def from_bytes(cls, raw: bytes) -> Manifest:
        """Decode a manifest.

        Raises:
            RemoteDamagedError: It is damaged, or of a later version.
        """
        try:
            told = json.loads(zlib.decompress(raw))
            if told["format"] != FORMAT:
                raise RemoteDamagedError(
                    f"The backup has format {told['format']}, and this version reads {FORMAT}",
                    hint="Install a newer version of the program.",
                )
            files = tuple(
                BackedUpFile(
                    one["path"],
                    one["size"],
                    one["sha256"],
                    tuple(Piece(**piece) for piece in one["pieces"]),
                )
                for one in told["files"]
            )
            return cls(told["familiar"], told["at"], files)
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise RemoteDamagedError(f"The manifest is damaged: {error}") from error


class BackupTarget:
    """A place for backups.

    Args:
        address: A directory, or an address that fsspec opens, such as `s3://bucket/familiars`.
        sealing: Encrypts what is written and decrypts what is read.

    Raises:
        UsageError: fsspec does not know such an address, or needs a package for it.
    """

    def __init__(self, address: str, sealing: Sealing) -> None:
        self.address = address
        self._sealing = sealing
        try:
            from fsspec.core import url_to_fs  # loads asyncio

            self._files, self._root = url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise UsageError(
                f"{address!r} cannot be opened: {one_line(str(error), 200)}",
                hint="Give a directory, or install what is missing: "
                f"`{install_command('backup')}`, and the package that fsspec names for it.",
            ) from error
        self.is_local = "file" in self._files.protocol

    def names(self, familiar_id: str) -> list[str]:
        """List what is there of a familiar, sorted: oldest first."""
        with self._told("listed"):
            self._files.invalidate_cache()
            try:
                there = self._files.ls(f"{self._root}/{familiar_id}", detail=False)
            except FileNotFoundError:
                return []
        return sorted(name.rstrip("/").rpartition("/")[2] for name in there)

    def familiars(self) -> list[str]:
        """List the familiars that have a backup there."""
        with self._told("listed"):
            try:
                there = self._files.ls(self._root, detail=False)
            except FileNotFoundError:
                return []
        names = sorted(name.rstrip("/").rpartition("/")[2] for name in there)
        return [name for name in names if manifest_names(self.names(name))]

    def read(self, familiar_id: str, name: str) -> bytes:
        """Read a file, decrypted."""
        with self._told("read"):
            try:
                raw: bytes = self._files.cat_file(f"{self._root}/{familiar_id}/{name}")
            except FileNotFoundError as error:
                raise RemoteDamagedError(
                    f"{self.address!r} lacks {familiar_id}/{name}",
                    hint=f"Run `familiar backup verify {self.address}`.",
                ) from error
        if not name.endswith(SEALED):
            return raw
        plain = io.BytesIO()
        self._sealing.open(io.BytesIO(raw), plain)
        return plain.getvalue()

    def write(self, familiar_id: str, name: str, content: bytes) -> str:
        """Write a file, whole or not at all; return its name there."""
        if self._sealing.seals:
            sealed = io.BytesIO()
            self._sealing.seal(io.BytesIO(content), sealed)
            name, content = f"{name}{SEALED}", sealed.getvalue()
        path = f"{self._root}/{familiar_id}/{name}"
        with self._told("written"):
            if self.is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                write_own(path, content)
            else:
                self._files.pipe_file(path, content)
        return name

    def remove(self, familiar_id: str, name: str) -> None:
        """Remove a file."""
        with self._told("removed"):
            self._files.rm_file(f"{self._root}/{familiar_id}/{name}")

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Turn what a storage library raises into one of our errors."""
        try:
            yield
        except FamiliarError:
            raise
        except Exception as error:  # each library has classes of its own
            raise FamiliarError(
                f"{self.address!r} could not be {done}: {one_line(str(error), 200)}; "
                "no backup was finished or changed",
                hint="Check the address, its credentials and the free space, then try again.",
            ) from error


def manifest_names(names: Iterable[str]) -> list[str]:
    """Pick the manifests among names, oldest first."""
    return [name for name in names if name.removesuffix(SEALED).endswith(MANIFEST)]


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup did.

    Args:
        familiar: Whose.
        name: Name of the backup, for `familiar restore --backup`.
        files: How many files it holds.
        bytes: How large they are.
        written_bytes: How much of that was new to the target.
        removed: Backups that retention removed.
    """

    familiar: str
    name: str
    files: int
    bytes: int
    written_bytes: int
    removed: tuple[str, ...] = ()


class _PackWriter:
    """Collects pieces into packs; a piece that an earlier backup has is not written again."""

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
        """Write the pack so far."""
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
    """Back up a familiar, also while others talk to it.

    Memory cannot change meanwhile; what is said goes on, and is in it up to a moment.

    Args:
        paths: The familiar.
        target: Where to.
        keep: How many backups of it to keep there; 0: all.
        progress: Told what is read, how many files are, and how many there will be.

    Raises:
        LockedError: Another process backs it up, or writes memory all the time.
        FamiliarError: It cannot be read, or the target not written.
    """
    state = paths.root / ".backups" / sha256(target.address.encode()).hexdigest()[:16]
    state.parent.mkdir(exist_ok=True)
    if target.is_local and Path(target.address).resolve().is_relative_to(paths.root.resolve()):
        raise UsageError(
            f"{target.address!r} is inside the familiar itself; nothing was backed up",
            hint="Choose a directory elsewhere, best on another disk.",
        )
    with locked(state.with_suffix(".lock"), 0, what="a backup"):
        stamp = f"{now():{_STAMP}}-{token_hex(4)}"
        packs = _PackWriter(target, paths.id, stamp)
        packs.known = _known_pieces(state, frozenset(target.names(paths.id)))
        with hold_lock(paths.lock, _LOCK_S):
            found = list(_read_files(paths, packs, progress))
        packs.flush()
        files = tuple(
            BackedUpFile(path, size, whole, tuple(packs.known[one] for one in digests))
            for path, size, whole, digests in found
        )
        manifest = Manifest(paths.id, now().isoformat(timespec="seconds"), files)
        name = target.write(paths.id, f"{stamp}{MANIFEST}", manifest.to_bytes())
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


def _known_pieces(state: Path, there: frozenset[str]) -> dict[str, Piece]:
    """Return the pieces of the last backup whose packs are still there."""
    try:
        last = Manifest.from_bytes(state.read_bytes())
    except (OSError, RemoteDamagedError):
        return {}  # all is written again
    pieces = (piece for file in last.files for piece in file.pieces)
    return {piece.sha256: piece for piece in pieces if piece.pack in there}


def _read_files(
    paths: FamiliarPaths, packs: _PackWriter, progress: Progress | None
) -> Iterator[tuple[str, int, str, list[str]]]:
    """Read all files into packs; yield each path, its size, its hash and those of its pieces."""
    chosen = sorted(_files_in(paths.root))
    for done, rel_path in enumerate(chosen):
        if progress:
            progress("Reading", done, len(chosen))
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
            raise FamiliarError(
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
    """Copy the history as it is at one moment, by SQLite's own backup."""
    copy = Path(temp_in(str(paths.root), ".db"))
    try:
        with closing(connect(paths.history, 10.0)) as source, closing(connect(copy, 10.0)) as made:
            source.backup(made, pages=4096)
        yield copy
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            remove(copy.with_name(copy.name + suffix))


def _retire(target: BackupTarget, familiar_id: str, keep: int) -> tuple[str, ...]:
    """Remove all but the newest backups, and the packs that only they need."""
    names = target.names(familiar_id)
    manifests = manifest_names(names)
    old = manifests[: max(len(manifests) - keep, 0)]
    if not old:
        return ()
    needed: set[str] = set()
    for name in manifests[len(old) :]:
        needed |= _packs_of(target, familiar_id, name)
    for name in old:
        target.remove(familiar_id, name)
    oldest = f"{now() - _SPARED:{_STAMP}}"
    for name in names:
        if ".pack" in name and name not in needed and name < oldest:
            target.remove(familiar_id, name)
    return tuple(name.partition(".")[0] for name in old)


def _packs_of(target: BackupTarget, familiar_id: str, name: str) -> frozenset[str]:
    return Manifest.from_bytes(target.read(familiar_id, name)).packs


@dataclass(frozen=True, slots=True)
class Verified:
    """What verification found: the backups that are whole, and what is wrong with others."""

    whole: tuple[str, ...]
    problems: dict[str, str] = field(default_factory=dict)


def verify_backups(target: BackupTarget, familiar_ids: Sequence[str] = ()) -> Verified:
    """Read every piece of every backup, and compare it with its hash.

    Args:
        target: Where they are.
        familiar_ids: Only of these; empty: of all.

    Raises:
        NotFoundError: There are no backups.
        RemoteKeyError: They are encrypted for another key.
    """
    ids = list(familiar_ids) or target.familiars()
    whole: list[str] = []
    problems: dict[str, str] = {}
    for familiar_id in ids:
        checked: dict[str, str] = {}
        for name in manifest_names(target.names(familiar_id)):
            backup = f"{familiar_id}/{name.partition('.')[0]}"
            try:
                manifest = Manifest.from_bytes(target.read(familiar_id, name))
                problem = next(filter(None, _bad_packs(target, manifest, checked)), "")
            except RemoteDamagedError as error:
                problem = str(error)
            if problem:
                problems[backup] = problem
            else:
                whole.append(backup)
    if not (whole or problems):
        raise _no_backup(target, ids)
    return Verified(tuple(whole), problems)


def _bad_packs(target: BackupTarget, manifest: Manifest, checked: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with each pack of a backup; empty: nothing.

    Args:
        target: Where it is.
        manifest: The backup.
        checked: What was found of single pieces, filled in.
    """
    by_pack: dict[str, set[Piece]] = {}
    for file in manifest.files:
        for piece in file.pieces:
            by_pack.setdefault(piece.pack, set()).add(piece)
    for name, pieces in by_pack.items():
        new = [piece for piece in pieces if f"{name}:{piece.start}" not in checked]
        try:
            pack = target.read(manifest.familiar, name) if new else b""
        except RemoteDamagedError as error:
            yield str(error)
            continue
        for piece in new:
            is_good = _unpack(pack, piece) is not None
            checked[f"{name}:{piece.start}"] = "" if is_good else f"{name} is damaged"
        yield next(filter(None, (checked[f"{name}:{piece.start}"] for piece in pieces)), "")


def _unpack(pack: bytes, piece: Piece) -> bytes | None:
    """Return the content of a piece; None: it is damaged."""
    try:
        content = zlib.decompress(pack[piece.start : piece.start + piece.length])
    except zlib.error:
        return None
    return content if sha256(content).hexdigest() == piece.sha256 else None


@dataclass(frozen=True, slots=True)
class Restored:
    """A familiar that was restored: its id here, from which backup, and how many files."""

    familiar: str
    backup: str
    files: int
    home: str


def restore(
    target: BackupTarget,
    home: Path,
    familiar_id: str,
    *,
    backup: str = "",
    progress: Progress | None = None,
) -> Restored:
    """Restore a familiar that is not there; nothing of it appears until all of it is right.

    People whom the home knows to be forgotten are forgotten again.

    Args:
        target: Where its backups are.
        home: Where it is to live.
        familiar_id: Its id.
        backup: Name of the backup; empty: the newest.
        progress: Told what is written, how many files are, and how many there will be.

    Raises:
        ConflictError: There is such a familiar; nothing was changed.
        NotFoundError: There is no such backup.
        RemoteDamagedError: The backup is damaged; nothing was restored.
    """
    paths = FamiliarPaths(home / familiar_id)
    if paths.root.exists():
        raise ConflictError(
            f"There is a familiar {familiar_id!r} in {str(home)!r} already; nothing was restored",
            hint="Restore into another home: `--home DIR`.",
        )
    manifests = manifest_names(target.names(familiar_id))
    found = [name for name in manifests if not backup or name.partition(".")[0] == backup]
    if not found:
        raise _no_backup(target, [f"{familiar_id}/{backup}" if backup else familiar_id])
    manifest = Manifest.from_bytes(target.read(familiar_id, found[-1]))
    home.mkdir(parents=True, exist_ok=True)
    making = Path(temp_in(str(home), ".restoring"))
    try:
        me = _write_files(target, manifest, making, progress)
        making.replace(paths.root)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    if me is not None and not paths.me.exists():
        write_own(paths.me, me)
    with Familiar(paths) as familiar:
        carry_out_known_orders(familiar)
    return Restored(familiar_id, found[-1].partition(".")[0], len(manifest.files), str(home))


def _write_files(
    target: BackupTarget, manifest: Manifest, root: Path, progress: Progress | None
) -> bytes | None:
    """Write the files of a backup below a new directory; return the content of `me.toml`, if any.

    A pack is read once for each run of files whose pieces are in it.
    """
    root.mkdir(mode=0o700)
    me, last, pack = None, "", b""
    for done, file in enumerate(manifest.files):
        if progress:
            progress("Writing", done, len(manifest.files))
        content = bytearray()
        for piece in file.pieces:
            if piece.pack != last:
                last, pack = piece.pack, target.read(manifest.familiar, piece.pack)
            part = _unpack(pack, piece)
            if part is None:
                raise RemoteDamagedError(
                    f"{file.path!r} is damaged in the backup; nothing was restored",
                    hint="Choose an older one with `--backup NAME`: `familiar backup ls`.",
                )
            content += part
        if file.path == f"../{ME_FILE}":
            me = bytes(content)
            continue
        path = root / file.path
        if ".." in Path(file.path).parts or Path(file.path).is_absolute():
            raise RemoteDamagedError(f"The backup names a file outside: {file.path!r}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_own(path, bytes(content), durable=file.path in {_HISTORY, "character.toml"})
    return me


def _no_backup(target: BackupTarget, wanted: Sequence[str]) -> NotFoundError:
    there = target.familiars()
    named = ", ".join(wanted) or "any familiar"
    return NotFoundError(
        f"{target.address!r} has no backup of {named}",
        hint=f"It has backups of {', '.join(there)}." if there else "Make one: `familiar backup`.",
    )


def list_backups(target: BackupTarget) -> list[dict[str, Any]]:
    """List all backups: familiar, name and time, oldest first."""
    return [
        {"familiar": familiar_id, "backup": name.partition(".")[0], "at": _time_of(name)}
        for familiar_id in target.familiars()
        for name in manifest_names(target.names(familiar_id))
    ]


def _time_of(name: str) -> str:
    stamp = name.partition("-")[0]
    return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).isoformat(timespec="seconds")


def words_of(report: BackupReport) -> str:
    """Say in one line what a backup did."""
    written = f"{report.written_bytes / 1e6:,.1f} MB of {report.bytes / 1e6:,.1f} MB written"
    removed = f"; {counted(len(report.removed), 'older backup')} removed" if report.removed else ""
    return f"{report.familiar}: {report.name}, {counted(report.files, 'file')}, {written}{removed}"


def familiars_to_back_up(home: Path, given: str | None) -> list[FamiliarPaths]:
    """List the familiar that is named, or all of a home.

    Raises:
        NotFoundError: There is none.
    """
    ids = [given] if given else list_familiars(home)
    missing = [one for one in ids if one not in list_familiars(home)]
    if missing or not ids:
        raise NotFoundError(f"There is no familiar {(missing or ['at all'])[0]!r} in {str(home)!r}")
    return [FamiliarPaths(home / one) for one in ids]
