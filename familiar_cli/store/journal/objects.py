"""Git objects: loose files, packs, and deltas between texts."""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from familiar_cli.base.errors import FamiliarError, RefLimitError, RemoteDamagedError
from familiar_cli.base.files import Disk, inflate, read_plain, remove_leftovers
from familiar_cli.store.journal import packs

if TYPE_CHECKING:
    from dulwich.object_store import DiskObjectStore
    from dulwich.pack import UnpackedObject


_COPY = 0x80
_MOST_COPIED = 0xFFFF  # copied per instruction; every pack reader supports this length
_MOST_INSERTED = 0x7F
_STEP = 4096


def make_delta(base: bytes, target: bytes) -> bytes:
    """Return delta instructions that turn `base` into `target`."""
    head = shared_prefix_bytes(base, target)
    tail = shared_suffix_bytes(base, target, min(len(base), len(target)) - head)
    middle = target[head : len(target) - tail]
    return b"".join(
        (
            _encode_size(len(base)),
            _encode_size(len(target)),
            _copy_instruction(0, head),
            _insert_instruction(middle),
            _copy_instruction(len(base) - tail, tail),
        )
    )


def shared_prefix_bytes(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix in bytes."""
    most = min(len(one), len(other))
    at = 0
    step = _STEP
    while step:  # in halving steps, one comparison each
        while at < most and one[at : at + step] == other[at : at + step]:
            at += step
        step //= 4
    return min(at, most)


def shared_suffix_bytes(one: bytes, other: bytes, most: int) -> int:
    """Return the length of the common suffix in bytes, at most `most`."""
    at = 0
    step = _STEP
    while step:
        while at < most and _before_end(one, at, step, most) == _before_end(other, at, step, most):
            at += step
        step //= 4
    return min(at, most)


def _before_end(content: bytes, at: int, step: int, most: int) -> bytes:
    end = len(content) - at
    return content[end - min(step, most - at) : end]


def _encode_size(number: int) -> bytes:
    out = bytearray()
    while number > _MOST_INSERTED:
        out.append(number & _MOST_INSERTED | _COPY)
        number >>= 7
    return bytes([*out, number])


def _copy_instruction(begin: int, length: int) -> bytes:
    """Encode a copy instruction, omitting the zero bytes of its numbers."""
    out = bytearray()
    while length:
        part = min(length, _MOST_COPIED)
        place = [(begin >> shift) & 0xFF for shift in (0, 8, 16, 24)]
        size = [(part >> shift) & 0xFF for shift in (0, 8)]
        flags = sum(1 << n for n, byte in enumerate(place + size) if byte)
        out += bytes([_COPY | flags, *(byte for byte in place + size if byte)])
        begin, length = begin + part, length - part
    return bytes(out)


def _insert_instruction(content: bytes) -> bytes:
    parts = (content[at : at + _MOST_INSERTED] for at in range(0, len(content), _MOST_INSERTED))
    return b"".join(bytes([len(part)]) + part for part in parts)


Kind = Literal["blob", "tree", "commit"]

PACK_FROM = 32  # new objects above which they share one pack: two flushes instead of two each
BATCH_BYTES = 64 * 1024 * 1024  # batch size held in memory
_CHAIN = 50  # longest delta chain, as in git
_LEVEL = 1  # zlib level; packing compresses better
_LARGE_TREE_BYTES = 32 * 1024  # mostly ids, which barely compress; packing stores deltas
TYPE_NUMBERS: Final[dict[Kind, int]] = {"commit": 1, "tree": 2, "blob": 3}
_KINDS: Final[dict[str, Kind]] = {kind: kind for kind in TYPE_NUMBERS}
_ID: Final = re.compile(r"[0-9a-f]{40}")
_HEAD_BYTES: Final = 64  # header of a loose object, which states its size
_MOST_DIGITS: Final = 20
_MOST_OWN_BYTES: Final = 400 * 1024 * 1024  # a restored journal is from outside, too
_BY_NUMBER: Final = {number: kind for kind, number in TYPE_NUMBERS.items()}


class GitObject(Struct, frozen=True):
    """One object: a file's content, a directory or a commit."""

    kind: Kind
    content: bytes
    id: str


def git_object(kind: Kind, content: bytes) -> GitObject:
    """Build the object for `content`."""
    return GitObject(kind, content, object_id(kind, content))


def object_id(kind: Kind, content: bytes) -> str:
    """Return git's id for an object."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def is_unfinished(name: str) -> bool:
    """Tell whether a file in the journal is half written, and not by a git that runs beside us."""
    return bool(re.fullmatch(r"tmp_(?:pack_[0-9a-f]{12}(?:\.idx)?|obj_\d+[0-9a-f]{12})", name))


class Objects(Struct):
    """All objects in `journal.git/objects`. Close it: packs stay open while reading.

    Args:
        directory: The object directory.
        disk: The file system.
        is_foreign: Whether others write here: refuses objects too large for memory, and expects
            concurrent writes.
        beside: Fallback store for objects missing here.
    """

    directory: str
    disk: Disk = Disk()
    is_foreign: bool = False
    beside: Objects | None = None
    _reader: packs.PackReader | None = None
    _fresh: list[str] = field(default_factory=list)  # files nothing committed refers to yet

    def read(self, id_: str) -> bytes:
        """Return an object's content. Raises `FamiliarError` when it is missing or damaged."""
        return self.get(id_).content

    def get(self, id_: str) -> GitObject:
        """Return an object.

        Raises:
            FamiliarError: It is missing or damaged.
        """
        try:
            if self._reader and self._reader.knows(id_):
                return self._checked_id(id_, self._read_packed(id_))
            header, _, content = self._inflated(self._path(id_)).partition(b"\0")
            packed = git_object(_KINDS[header.split(b" ")[0].decode()], content)
        except FileNotFoundError:
            packed = self._read_packed(id_)
        except OSError as error:
            raise self._unreadable(f"object {id_}", error) from error
        except (zlib.error, EOFError, ValueError, KeyError) as error:
            raise self._damaged(f"object {id_} cannot be read: {error}") from error
        return self._checked_id(id_, packed)

    def _checked_id(self, id_: str, found: GitObject) -> GitObject:
        if found.id != id_:
            raise self._damaged(f"object {id_} does not match its id")
        return found

    def has(self, id_: str) -> bool:
        """Tell whether an object exists, without reading it."""
        if os.path.exists(self._path(id_)):
            return True
        try:
            is_here = self._packed().has(id_)
        except (packs.UnknownIndexError, OSError) as error:
            raise self._damaged(f"a pack cannot be read: {error}") from error
        return is_here or (self.beside is not None and self.beside.has(id_))

    def write(self, objects: Iterable[GitObject]) -> None:
        """Write objects durably. May raise OSError."""
        new = {o.id: o for o in objects}
        if len(new) >= PACK_FROM:
            self.add_pack(len(new), map(_to_unpacked, new.values()))
            return
        directories = sorted({os.path.dirname(self._path(id_)) for id_ in new})
        missing = [directory for directory in directories if not os.path.isdir(directory)]
        waiting: list[tuple[str, str]] = []
        try:
            for directory in missing:
                with suppress(FileExistsError):
                    self.disk.mkdir(directory)
            for id_, one in new.items():
                path = self._path(id_)
                if not os.path.exists(path):
                    name = f"tmp_obj_{os.getpid()}{os.urandom(6).hex()}"  # git knows this prefix
                    temporary = os.path.join(os.path.dirname(path), name)
                    self.disk.create(temporary, _compress_object(one))
                    waiting.append((temporary, path))
            for temporary, path in waiting:
                self.disk.replace(temporary, path)
                self._fresh.append(path)
        except BaseException:
            remove_leftovers(temporary for temporary, _ in waiting)
            raise
        for directory in [*directories, *([self.directory] if missing else ())]:
            self.disk.sync_dir(directory)

    def add_pack(self, count: int, unpacked: Iterator[UnpackedObject]) -> str:
        """Write a pack durably and atomically; return its path without suffix.

        May raise OSError.
        """
        from dulwich.object_format import DEFAULT_OBJECT_FORMAT
        from dulwich.pack import PackChunkGenerator

        if not self.is_foreign:
            self.clear_leftovers()
        content = PackChunkGenerator(DEFAULT_OBJECT_FORMAT, count, unpacked)
        path = os.path.join(self.directory, "pack", f"tmp_pack_{os.urandom(6).hex()}")
        self.disk.create(path, content)
        rows = ((id_, *place) for id_, place in content.entries.items())
        before = set(_list_names(os.path.dirname(path)))
        name = packs.finish_pack(self.disk, path, rows, content.sha1digest())
        self.disk.sync_dir(os.path.dirname(path))
        new = (f"{name}.pack", f"{name}.idx")
        self._fresh += [one for one in new if os.path.basename(one) not in before]
        return name

    def keep(self) -> None:
        """Keep the files written so far."""
        self._fresh.clear()

    def discard(self) -> None:
        """Remove written files that were never committed, to free disk space."""
        self.close()
        remove_leftovers(self._fresh)
        self._fresh.clear()

    def dulwich_store(self) -> DiskObjectStore:
        """Return a dulwich object store. The caller closes it.

        Raises:
            FamiliarError: A pack is not a regular file.
        """
        from dulwich.object_store import DiskObjectStore

        self._check_plain("pack")
        self._check_plain("info")
        return DiskObjectStore(self.directory)

    def alternates(self) -> list[Objects]:
        """Return the alternate object stores, as recorded by `git clone --shared`."""
        path = os.path.join(self.directory, "info", "alternates")
        lines = read_plain(path).splitlines() if os.path.isfile(path) else []
        return [
            Objects(os.path.join(self.directory, os.fsdecode(line)), is_foreign=True)
            for line in lines
        ]

    def largest_bytes(self) -> int:
        """Return the size of the largest object, without unpacking any.

        Raises:
            FamiliarError: One cannot be read.
        """
        most = 0
        try:
            for name in _list_names(os.path.join(self.directory, "pack")):
                if name.endswith(".idx"):
                    path = os.path.join(self.directory, "pack", name.removesuffix(".idx"))
                    most = max(most, *packs.pack_sizes(path), 0)
            for id_ in self.loose():
                data = read_plain(self._path(id_), _HEAD_BYTES * 2)
                head = zlib.decompressobj().decompress(data, _HEAD_BYTES).partition(b"\0")[0]
                most = max(most, int(head.split(b" ")[1]))
        except (OSError, ValueError, IndexError, zlib.error, packs.UnknownIndexError) as error:
            raise self._damaged(f"an object cannot be read: {error}") from error
        return most

    def loose(self) -> list[str]:
        """Return the ids of all loose objects, sorted."""
        return sorted(
            first + rest
            for first in _list_names(self.directory)
            if len(first) == 2  # noqa: PLR2004  # git splits ids after two digits
            for rest in _list_names(os.path.join(self.directory, first))
            if not rest.startswith("tmp_obj_")
        )

    def clear_leftovers(self) -> None:
        """Remove our half-written files after a crash. The caller must hold the lock."""
        for name in _list_names(os.path.join(self.directory, "pack")):
            if is_unfinished(name):
                remove_leftovers([os.path.join(self.directory, "pack", name)])

    def forget_loose(self, id_: str) -> None:
        """Remove a loose object that is packed. May raise OSError."""
        self.disk.unlink(self._path(id_))

    def close(self) -> None:
        """Close the packs; the next use reopens them."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _packed(self) -> packs.PackReader:
        """Return the pack reader, which stays open until `close`."""
        if self._reader is None:
            self._check_plain("pack")
            most = packs.MOST_OBJECT_BYTES if self.is_foreign else _MOST_OWN_BYTES
            self._reader = packs.PackReader(os.path.join(self.directory, "pack"), most)
        return self._reader

    def _read_packed(self, id_: str) -> GitObject:
        try:
            number, content = self._packed().get(id_)
            return git_object(_BY_NUMBER[number], content)
        except packs.UnknownIndexError as error:
            raise self._damaged(f"a pack cannot be read: {error}") from error
        except OSError as error:
            raise self._unreadable("a pack", error) from error
        except (zlib.error, EOFError, ValueError) as error:
            raise self._damaged(f"object {id_} cannot be read: {error}") from error
        except RefLimitError as error:
            if self.is_foreign:
                raise
            raise self._damaged(f"object {id_} is larger than any file of memory") from error
        except KeyError as error:
            others = [self.beside] if self.beside else self.alternates()
            place = next((other for other in others if other.has(id_)), None)
            if place is None:
                raise self._damaged(f"object {id_} is missing") from error
            return place.get(id_)

    def _inflated(self, path: str) -> bytes:
        if not self.is_foreign:
            return inflate(read_plain(path), _MOST_OWN_BYTES)
        compressed = read_plain(path, packs.MOST_OBJECT_BYTES)
        head = zlib.decompressobj().decompress(compressed[:_HEAD_BYTES], _HEAD_BYTES)
        size = head.partition(b"\0")[0].partition(b" ")[2]
        if size.isdigit() and int(size[:_MOST_DIGITS]) > packs.MOST_OBJECT_BYTES:
            raise packs.too_large(int(size[:_MOST_DIGITS]))
        try:
            return inflate(compressed, packs.MOST_OBJECT_BYTES)
        except ValueError:
            raise packs.too_large(None) from None

    def _check_plain(self, directory: str) -> None:
        """Refuse files that would block dulwich on open, such as a named pipe."""
        for name in _list_names(os.path.join(self.directory, directory)):
            path = os.path.join(self.directory, directory, name)
            if not os.path.isfile(path):
                raise self._damaged(f"{path!r} is not a regular file")

    def _path(self, id_: str) -> str:
        return os.path.join(self.directory, id_[:2], id_[2:])

    def _damaged(self, what: str) -> FamiliarError:
        if not self.is_foreign:
            return journal_damaged(what)
        return RemoteDamagedError(
            f"The remote is damaged: {what}; nothing was changed here",
            hint="A machine that has what is missing repairs it when it syncs. To look: `git fsck`"
            " there.",
        )

    def _unreadable(self, what: str, error: OSError) -> FamiliarError:
        if not self.is_foreign:
            return journal_unreadable(what, error)
        return self._damaged(f"{what} cannot be read: {error.strerror or error}")


def delta_objects(objects: Iterable[GitObject]) -> Iterator[UnpackedObject]:
    """Yield objects for a pack, as deltas to the previous one where that is much shorter."""
    base: GitObject | None = None
    chain = 0
    for one in objects:
        short = b""
        if base and base.kind == one.kind and chain < _CHAIN:
            short = make_delta(base.content, one.content)
        is_short = 0 < len(short) < len(one.content) // 2
        chain = chain + 1 if is_short else 0
        yield _to_unpacked(one, short, base.id) if base and is_short else _to_unpacked(one)
        base = one


def _to_unpacked(one: GitObject, short: bytes = b"", base: str = "") -> UnpackedObject:
    from dulwich.objects import RawObjectID
    from dulwich.pack import UnpackedObject

    content = short or one.content
    return UnpackedObject(
        TYPE_NUMBERS[one.kind],
        sha=RawObjectID(bytes.fromhex(one.id)),
        delta_base=RawObjectID(bytes.fromhex(base)) if base else None,
        decomp_len=len(content),
        decomp_chunks=[content],
    )


def object_batches(objects: Iterable[GitObject]) -> Iterator[list[GitObject]]:
    """Yield objects in batches that fit in memory."""
    batch: list[GitObject] = []
    held_bytes = 0
    for one in objects:
        batch.append(one)
        held_bytes += len(one.content)
        if held_bytes > BATCH_BYTES:
            yield batch
            batch, held_bytes = [], 0
    if batch:
        yield batch


def is_id(value: object) -> bool:
    """Tell whether `value` is a full object id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def journal_damaged(what: str) -> FamiliarError:
    """Return the error for a damaged journal."""
    return FamiliarError(
        f"The journal is damaged: {what}; the memory itself was not changed",
        hint="Run `familiar doctor`. Replace journal.git with a backup copy, or move it away: the "
        "next change starts a new one.",
    )


def journal_unreadable(what: str, error: OSError) -> FamiliarError:
    """Return the error for a part of the journal that cannot be read."""
    reason = error.strerror or error
    if not isinstance(error, PermissionError):
        return journal_damaged(f"{what} cannot be read: {reason}")
    return FamiliarError(
        f"The journal cannot be read: {what}: {reason}; the memory itself was not changed",
        hint="Check the permissions of journal.git, then try again.",
    )


def _compress_object(one: GitObject) -> bytes:
    level = 0 if one.kind == "tree" and len(one.content) > _LARGE_TREE_BYTES else _LEVEL
    return zlib.compress(f"{one.kind} {len(one.content)}\0".encode() + one.content, level)


def _list_names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
