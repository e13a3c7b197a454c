"""Read git packs without a library, and limit the size of received objects.

Small changes mostly read packed objects, and importing dulwich would take a third of their time; it
is used to index and write packs. File contents are not trusted: offsets and sizes are validated,
and the caller checks the id.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import IO, BinaryIO, Final

from msgspec import Struct

from familiar_cli.base.errors import RefLimitError, RemoteDamagedError
from familiar_cli.base.files import Disk, inflate_stream, open_patiently, read_plain

MOST_OBJECT_BYTES: Final = 128 * 1024 * 1024
"""Size limit for received objects, about a thousand times the size of a memory's files."""

MOST_TREE_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a tree object: about 200,000 files."""

MOST_LEVELS: Final = 300
"""Maximum nesting of directories; far more than a memory has."""

DIR_MODE: Final = b"40000"
SUBMODULE_MODE: Final = b"160000"

_MOST_FILES: Final = 200_000
_MOST_PATH_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = re.compile(rb"([0-7]{5,6}) ([^\0]+)\0(.{20})", re.DOTALL)
_AROUND_BYTES: Final = 22  # the space, the zero byte and the id of an entry


def tree_rows(tree: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return mode, name and id (20 bytes) of each entry of a tree object.

    Raises:
        RefLimitError: Not a tree object.
    """
    items = _ENTRY.findall(tree)
    if sum(len(mode) + len(name) + _AROUND_BYTES for mode, name, _ in items) != len(tree):
        raise RefLimitError("a directory has an entry without a name, or cannot be read")
    return items


class TreeShape(Struct, frozen=True):
    """Summary of a directory's contents.

    Args:
        files: Number of files directly in it.
        name_bytes: Total length of their names.
        directories: Id of each subdirectory and the length of its name.
        ids: Ids of all its entries except submodules.
    """

    files: int
    name_bytes: int
    directories: tuple[tuple[bytes, int], ...]
    ids: frozenset[bytes]


def shape_of(content: bytes) -> TreeShape:
    """Parse a tree object.

    Raises:
        RefLimitError: It is too large or contains an invalid name.
    """
    if len(content) > MOST_TREE_BYTES:
        raise too_wide()
    items = tree_rows(content)
    directories = tuple((id_, len(name)) for mode, name, id_ in items if mode == DIR_MODE)
    names = [len(name) for mode, name, _ in items if mode != DIR_MODE]
    ids = frozenset(id_ for mode, _, id_ in items if mode != SUBMODULE_MODE)
    return TreeShape(len(names), sum(names), directories, ids)


def check_trees(roots: Iterable[bytes], shape: Callable[[bytes], TreeShape]) -> None:
    """Refuse memories that are too deep or have too many files, reading each tree once.

    Args:
        roots: Ids of the root trees.
        shape: Returns the contents of the directory with an id.

    Raises:
        RefLimitError: One is too deep or too large.
    """
    sizes: dict[bytes, tuple[int, int, int]] = {}  # levels, files, total length of paths
    for root in roots:
        waiting = [root]
        while waiting:
            tree = waiting[-1]
            if tree in sizes:
                waiting.pop()
                continue
            found = shape(tree)
            missing = [id_ for id_, _ in found.directories if id_ not in sizes]
            if missing:
                if len(waiting) > MOST_LEVELS:
                    raise too_deep()
                waiting.append(missing[0])
                continue
            sizes[tree] = _size_bytes(found, sizes)
            waiting.pop()


def _size_bytes(shape: TreeShape, sizes: dict[bytes, tuple[int, int, int]]) -> tuple[int, int, int]:
    levels, files, path_bytes = 0, shape.files, shape.name_bytes
    for id_, name_bytes in shape.directories:
        below = sizes[id_]
        levels = max(levels, below[0])
        files += below[1]
        path_bytes += below[2] + below[1] * (name_bytes + 1)
    if levels >= MOST_LEVELS:
        raise too_deep()
    if files > _MOST_FILES or path_bytes > _MOST_PATH_BYTES:
        raise RefLimitError(
            f"it holds more than {_MOST_FILES:,} files, or their names are too long"
        )
    return levels + 1, files, path_bytes


def too_large(size: int | None) -> RefLimitError:
    """Return the error for a received object over the size limit."""
    text = f" of {size:,} bytes" if size is not None else ""
    return RefLimitError(
        f"The remote sent a file{text}, over the limit of {MOST_OBJECT_BYTES:,}; nothing was "
        "merged",
        hint="Find out who pushed it: `git log --stat` at the remote.",
    )


def too_wide() -> RefLimitError:
    """Return the error for an oversized directory."""
    return RefLimitError(f"a directory has more than {MOST_TREE_BYTES:,} bytes")


def too_deep() -> RefLimitError:
    """Return the error for directories that are nested too deep."""
    return RefLimitError(f"its directories are nested more than {MOST_LEVELS} levels deep")


MOST_PACK_BYTES: Final = 16 * 1024**3
"""Limit for the total unpacked size of a pack."""

_VERSIONS: Final = {b"PACK\0\0\0\2", b"PACK\0\0\0\3"}
_INDEX: Final = b"\xfftOc\0\0\0\2"
_ROWS_AT: Final = len(_INDEX) + 256 * 4
_ID_BYTES: Final = 20
_TRAILER_BYTES: Final = 2 * _ID_BYTES
_LARGE_OFFSET: Final = 1 << 31  # offsets from here on are kept in a separate table
_TREE: Final = 2
_OFS_DELTA: Final = 6
_REF_DELTA: Final = 7
_KINDS: Final = {1, _TREE, 3, 4, _OFS_DELTA, _REF_DELTA}
_HEAD_BYTES: Final = 256  # holds an entry's header, and the sizes in a delta
_FIRST_BYTES: Final = 4096  # bytes per read; most objects are smaller
_MORE_BYTES: Final = 64 * 1024
_NEVER_BYTES: Final = 1 << 40
_MOST_BITS: Final = 70  # maximum bytes of an encoded length
_MOST_CHAIN: Final = 5000  # git limits chains to 4095
_KEPT_BYTES: Final = 16 * 1024 * 1024
_COPY: Final = 0x80
_MOST_COPIED: Final = 0x10000  # size of a copy instruction that omits its length


class UnknownIndexError(Exception):
    """A pack's index is missing or in an unsupported format."""


class PackReader:
    """The packs of one directory. Close it.

    Args:
        directory: Where they are.
        most_bytes: Largest object to unpack; None for no limit.
    """

    def __init__(self, directory: str, most_bytes: int | None = None) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._packs: dict[str, _Pack] = {}
        self._kept: dict[tuple[str, int], tuple[int, bytes]] = {}
        self._kept_bytes = 0

    def knows(self, id_: str) -> bool:
        """Tell whether an object is in a pack opened earlier."""
        return self._find(bytes.fromhex(id_)) is not None

    def has(self, id_: str) -> bool:
        """Tell whether an object is in a pack.

        Raises:
            UnknownIndexError: An index has an unsupported format.
            OSError: A file cannot be read.
        """
        return self._locate(bytes.fromhex(id_)) is not None

    def get(self, id_: str) -> tuple[int, bytes]:
        """Return an object's type number and content.

        Raises:
            KeyError: It is in no pack.
            UnknownIndexError: An index has an unsupported format.
            ValueError: The pack is damaged, or the object is too large.
            OSError: A file cannot be read.
        """
        found = self._locate(bytes.fromhex(id_))
        if found is None:
            raise KeyError(id_)
        return self._read(*found)

    def close(self) -> None:
        """Close open files; the next use lists the packs again."""
        for pack in self._packs.values():
            pack.close()
        self._packs.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def _find(self, id_: bytes) -> tuple[_Pack, int] | None:
        for pack in self._packs.values():
            offset = pack.offset(id_)
            if offset is not None:
                return pack, offset
        return None

    def _locate(self, id_: bytes) -> tuple[_Pack, int] | None:
        """Return an object's pack and offset, checking new packs as well."""
        return self._find(id_) or (self._find(id_) if self._list() else None)

    def _list(self) -> bool:
        """Load new packs, and tell whether there were any."""
        try:
            names = os.listdir(self._directory)
        except (FileNotFoundError, NotADirectoryError):
            return False
        new = {n[:-4] for n in names if n.endswith(".idx")} - self._packs.keys()
        for name in sorted(new):
            self._packs[name] = _Pack(os.path.join(self._directory, name))
        return bool(new)

    def _read(self, pack: _Pack, offset: int) -> tuple[int, bytes]:
        """Return an object, resolving its chain of deltas."""
        chain: list[tuple[tuple[str, int], bytes]] = []
        while (found := self._kept.get((pack.path, offset))) is None:
            entry = pack.entry(offset, self._most_bytes)
            if entry.base is None:
                found = entry.kind, entry.content
                self._keep((pack.path, offset), found)
                break
            chain.append(((pack.path, offset), entry.content))
            if len(chain) > _MOST_CHAIN:
                raise ValueError("its deltas form a cycle")
            if isinstance(entry.base, int):
                offset = entry.base
                continue
            place = self._find(entry.base)
            if place is None:
                raise ValueError(f"its base {entry.base.hex()} is missing")
            pack, offset = place
        number, content = found
        for key, difference in reversed(chain):
            content = apply_delta(content, difference, self._most_bytes)
            self._keep(key, (number, content))
        return number, content

    def _keep(self, key: tuple[str, int], found: tuple[int, bytes]) -> None:
        """Cache an object that is likely to be a delta base."""
        self._kept_bytes += len(found[1])
        if self._kept_bytes > _KEPT_BYTES:
            self._kept.clear()
            self._kept_bytes = len(found[1])
        self._kept[key] = found


class _Pack:
    """One pack; `path` has no suffix."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._index = read_plain(f"{path}.idx")
        self._file: BinaryIO | None = None
        if not self._index.startswith(_INDEX) or len(self._index) < _ROWS_AT + _TRAILER_BYTES:
            raise UnknownIndexError(path)
        self._count = self._number(_ROWS_AT - 4)
        self._offsets_at = _ROWS_AT + self._count * (_ID_BYTES + 4)
        self._large_at = self._offsets_at + self._count * 4
        if self._large_at + _TRAILER_BYTES > len(self._index):
            raise UnknownIndexError(path)

    def close(self) -> None:
        if self._file:
            self._file.close()

    def ids(self) -> list[str]:
        """Return the ids of all objects, sorted."""
        places = range(_ROWS_AT, _ROWS_AT + self._count * _ID_BYTES, _ID_BYTES)
        return [self._index[at : at + _ID_BYTES].hex() for at in places]

    def offset(self, id_: bytes) -> int | None:
        """Return the offset of an object, or None if it is not in this pack."""
        place = len(_INDEX) + id_[0] * 4
        begin = _ROWS_AT + _ID_BYTES * (self._number(place - 4) if id_[0] else 0)
        end = _ROWS_AT + _ID_BYTES * min(self._number(place), self._count)
        at = self._index.find(id_, begin, end)
        while at >= 0 and (at - _ROWS_AT) % _ID_BYTES:
            at = self._index.find(id_, at + 1, end)
        if at < 0:
            return None
        row = self._number(self._offsets_at + (at - _ROWS_AT) // _ID_BYTES * 4)
        if row < _LARGE_OFFSET:
            return row
        large = self._large_at + (row - _LARGE_OFFSET) * 8
        return int.from_bytes(self._index[large : large + 8], "big")

    def entry(self, offset: int, most_bytes: int | None) -> _Entry:
        """Return the object at an offset."""
        if self._file is None:
            self._file = open_patiently(f"{self.path}.pack")
        return _read_entry(self._file, offset, most_bytes)

    def sizes(self) -> Iterator[int]:
        """Yield the size of each object, in bytes, without unpacking it."""
        with open_patiently(f"{self.path}.pack") as file:
            for id_ in self.ids():
                offset = self.offset(bytes.fromhex(id_)) or 0
                file.seek(offset)
                data = file.read(_HEAD_BYTES)
                _, size, base, at = _entry_head(data, offset)
                if base is not None:
                    begin = zlib.decompressobj().decompress(data[at:], _MOST_BITS)
                    size, _ = _read_number(begin, _read_number(begin, 0)[1])
                yield size

    def _number(self, at: int) -> int:
        return int.from_bytes(self._index[at : at + 4], "big")


class _Entry(Struct, frozen=True):
    """One object in a pack.

    Args:
        kind: Its type number.
        content: Its content or delta; for a large object, possibly only the beginning.
        base: Delta base: the offset of another object, or its id; None for a whole object.
        size: Unpacked size in bytes.
        end: Offset of the next object.
    """

    kind: int
    content: bytes
    base: int | bytes | None
    size: int
    end: int


def _read_entry(
    file: IO[bytes], offset: int, most_bytes: int | None, *, is_kept: bool = True
) -> _Entry:
    """Read the object at an offset.

    Args:
        file: The pack.
        offset: Offset of its header.
        most_bytes: Largest object to unpack; None for no limit.
        is_kept: Whether the whole content is needed.

    Raises:
        RefLimitError: It is too large.
        ValueError: The pack is damaged.
    """
    if offset >= _NEVER_BYTES:
        raise ValueError("its offset is beyond the end of the pack")
    file.seek(offset)
    data = file.read(_FIRST_BYTES)
    try:
        kind, size, base, at = _entry_head(data, offset)
    except IndexError:
        raise ValueError("the pack is truncated") from None
    _check_size(size, most_bytes)
    parts: list[bytes] = []

    def keep(part: bytes) -> None:
        if is_kept or not parts:
            parts.append(part)

    try:
        unpacked, unused = inflate_stream(data[at:], lambda: file.read(_MORE_BYTES), size, keep)
    except EOFError:
        raise ValueError("the pack is truncated") from None
    except ValueError:
        unpacked, unused = -1, 0
    if unpacked != size:
        raise ValueError("an object's size differs from its header")
    return _Entry(kind, b"".join(parts), base, size, file.tell() - unused)


def _entry_head(data: bytes, offset: int) -> tuple[int, int, int | bytes | None, int]:
    """Return an object's type, size and delta base, and the length of its header."""
    kind, size, at = data[0] >> 4 & 7, data[0] & 15, 1
    if data[0] & 0x80:
        more, at = _read_number(data, 1)
        size |= more << 4
    if kind == _REF_DELTA:
        return kind, size, data[at : at + _ID_BYTES], at + _ID_BYTES
    if kind != _OFS_DELTA:
        return kind, size, None, at
    distance = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        distance = (distance + 1) << 7 | data[at] & 0x7F
    if not 0 < offset - distance < offset:
        raise ValueError("a delta precedes its base")
    return kind, size, offset - distance, at + 1


def pack_ids(path: str) -> list[str]:
    """Return the ids of all objects in a pack; `path` has no suffix. Raises as `PackReader`."""
    return _Pack(path).ids()


def pack_sizes(path: str) -> Iterator[int]:
    """Yield the sizes of all objects in a pack, as `pack_ids` names it."""
    return _Pack(path).sizes()


def finish_pack(
    disk: Disk, path: str, rows: Iterable[tuple[bytes, int, int | None]], digest: bytes
) -> str:
    """Write a pack's index and rename both files into place, atomically. May raise OSError.

    Args:
        disk: The file system.
        path: The pack under its temporary name.
        rows: Id (20 bytes), offset and checksum of each object.
        digest: The pack's trailing checksum.

    Returns:
        The path of both without suffix.
    """
    from dulwich.pack import iter_sha1, write_pack_index

    entries, content = sorted(rows), BytesIO()
    write_pack_index(content, entries, digest)
    name = f"pack-{iter_sha1(row[0] for row in entries).decode()}"
    whole = os.path.join(os.path.dirname(path), name)
    try:
        if not os.path.exists(f"{whole}.idx"):  # the pack counts once its index exists
            disk.create(f"{path}.idx", content.getvalue())
            disk.replace(path, f"{whole}.pack")
            disk.replace(f"{path}.idx", f"{whole}.idx")
    finally:
        for left in (path, f"{path}.idx"):
            with suppress(OSError):
                disk.unlink(left)
    return whole


def check_pack(file: IO[bytes]) -> None:
    """Validate a whole pack including its checksum, refusing objects too large for memory.

    Args:
        file: Positioned at the pack's first byte.

    Raises:
        RemoteDamagedError: Not a pack, or an object or their total is too large.
        OSError: It cannot be read.
    """
    at = file.tell() + 12
    if file.read(8) not in _VERSIONS:
        raise RemoteDamagedError("The data from the remote is not a git pack")
    total = 0
    try:
        for _ in range(int.from_bytes(file.read(4), "big")):
            entry = _read_entry(file, at, MOST_OBJECT_BYTES, is_kept=False)
            at = entry.end
            total += _checked_size(entry)
            if total > MOST_PACK_BYTES:
                raise RefLimitError(f"it expands to more than {MOST_PACK_BYTES // 1024**3} GB")
    except (ValueError, zlib.error) as error:
        raise RemoteDamagedError(f"The pack from the remote is damaged: {error}") from error


def _checked_size(entry: _Entry) -> int:
    """Return the size of an object after resolving deltas."""
    if entry.kind not in _KINDS:
        raise ValueError("an object is of an unknown kind")
    if entry.kind == _TREE and entry.size > MOST_TREE_BYTES:
        raise too_wide()
    if entry.base is None:
        return entry.size
    try:
        old, at = _read_number(entry.content, 0)
        new, _ = _read_number(entry.content, at)
    except IndexError:
        raise ValueError("a delta is damaged") from None
    _check_size(max(old, new), MOST_OBJECT_BYTES)
    return new


def apply_delta(base: bytes, difference: bytes, most_bytes: int | None = None) -> bytes:
    """Apply a delta to `base`.

    Raises:
        ValueError: The delta does not match `base`, or its result is too large.
    """
    parts: list[bytes] = []
    try:
        old, at = _read_number(difference, 0)
        left, at = _read_number(difference, at)
        if old != len(base):
            raise ValueError("a delta does not match its base")
        _check_size(left, most_bytes)
        while at < len(difference):
            code = difference[at]
            at += 1
            if code & _COPY:
                numbers = bytearray(7)  # four bytes of offset, three of length
                for n in range(7):
                    if code >> n & 1:
                        numbers[n] = difference[at]
                        at += 1
                begin = int.from_bytes(numbers[:4], "little")
                length = int.from_bytes(numbers[4:], "little") or _MOST_COPIED
                part = base[begin : begin + length]
            else:
                part = difference[at : at + code]
                at += code
            left -= len(part)
            if not part or left < 0:
                raise ValueError("a delta is damaged")
            parts.append(part)
    except IndexError:
        raise ValueError("a delta ends too early") from None
    if left:
        raise ValueError("a delta produces an object of the wrong size")
    return b"".join(parts)


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a little-endian number of seven bits per byte; also return its end."""
    number = 0
    for shift in range(0, _MOST_BITS, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
    raise ValueError("a number is unterminated")


def _check_size(size: int, most_bytes: int | None) -> None:
    if size >= _NEVER_BYTES:
        raise ValueError("its size is impossible")
    if most_bytes is not None and size > most_bytes:
        raise too_large(size)
