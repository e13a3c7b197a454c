"""Look through a pack before it is taken in: how large its objects are, however small it is."""

from __future__ import annotations

import zlib
from typing import IO, TYPE_CHECKING, Final

from familiar_cli.errors import RefLimitError, RemoteDamagedError
from familiar_cli.memory.journal.bounds import MOST_TREE_BYTES, too_wide

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_OBJECT_BYTES: Final = 128 * 1024 * 1024
"""The largest object that is taken from elsewhere; a memory's files are a thousandth of that."""

MOST_BYTES: Final = 16 * 1024**3
"""The most that all objects of a pack may become together."""

_READ_BYTES: Final = 16 * 1024  # at a time; what follows a small object is copied once for each
_PART_BYTES: Final = 256 * 1024
_HEAD_BYTES: Final = 24  # hold both sizes that a difference begins with
_TREE: Final = 2
_OFS_DELTA: Final = 6
_REF_DELTA: Final = 7
_KINDS: Final = {1, 2, 3, 4, _OFS_DELTA, _REF_DELTA}
_VERSIONS: Final = {b"PACK\0\0\0\2", b"PACK\0\0\0\3"}
_MOST_SIZE_BYTES: Final = 10  # of a number that says how long something is


def check(file: IO[bytes]) -> None:
    """Read through a pack, up to its checksum, and refuse what would not fit into memory.

    No more of an object is unpacked at a time than a part of it.

    Args:
        file: Stands at the pack's first byte.

    Raises:
        RemoteDamagedError: An object is too large, all are, or it is no pack.
        OSError: It cannot be read.
    """
    stream = _Stream(file)
    if stream.take(8) not in _VERSIONS:
        raise RemoteDamagedError("The data from the remote is not a git pack")
    total = 0
    for _ in range(int.from_bytes(stream.take(4), "big")):
        total += _object(stream)
        if total > MOST_BYTES:
            raise RemoteDamagedError(
                f"The pack from the remote expands to more than {MOST_BYTES // 1024**3} GB; "
                "none of it was used"
            )


def _object(stream: _Stream) -> int:
    """Read over one object, and return how many bytes it becomes."""
    first = stream.byte()
    kind = first >> 4 & 7
    size = first & 15
    if kind not in _KINDS:
        raise RemoteDamagedError("The pack from the remote has an object of an unknown kind")
    if first & 0x80:
        size |= _size(stream.byte) << 4
    if kind == _OFS_DELTA:
        while stream.byte() & 0x80:
            pass
    elif kind == _REF_DELTA:
        stream.take(20)
    _check_size(size)
    if kind == _TREE and size > MOST_TREE_BYTES:
        raise too_wide()
    head = stream.inflate(size)
    if kind in {_OFS_DELTA, _REF_DELTA}:
        numbers = iter(head)
        _check_size(_size(lambda: next(numbers, 0)))
        size = _size(lambda: next(numbers, 0))
        _check_size(size)
    return size


def _size(byte: Callable[[], int]) -> int:
    """Read a number of which each byte holds seven bits, the lowest first."""
    size = 0
    for n in range(_MOST_SIZE_BYTES):
        part = byte()
        size |= (part & 0x7F) << (7 * n)
        if not part & 0x80:
            break
    return size


def _check_size(size: int) -> None:
    if size > MOST_OBJECT_BYTES:
        raise too_large(size)


def too_large(size: int | None) -> RefLimitError:
    """Return the error for an object that is not taken from elsewhere; its size, if known."""
    shown = f" of {size:,} bytes" if size is not None else ""
    return RefLimitError(
        f"The remote sent a file{shown}, over the limit of {MOST_OBJECT_BYTES:,}; nothing was "
        "merged",
        hint="Find out who pushed it: `git log --stat` at the remote.",
    )


class _Stream:
    """Bytes of a file, of which a compressed part may end anywhere."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._buffer = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        while len(self._buffer) - self._at < count:
            self._more()
        self._at += count
        return self._buffer[self._at - count : self._at]

    def byte(self) -> int:
        if self._at == len(self._buffer):
            self._more()
        self._at += 1
        return self._buffer[self._at - 1]

    def inflate(self, size: int) -> bytes:
        """Read over a compressed part of that size, and return how it begins."""
        unpacker = zlib.decompressobj()
        head = b""
        left = size
        data = self._buffer[self._at :] if self._at else self._buffer
        while not unpacker.eof:
            if not data:
                self._buffer = b""
                self._at = 0
                self._more()
                data = self._buffer
            try:
                part = unpacker.decompress(data, _PART_BYTES)
            except zlib.error as error:
                raise RemoteDamagedError(f"The data from the remote is damaged: {error}") from error
            if len(head) < _HEAD_BYTES:
                head += part[:_HEAD_BYTES]
            left -= len(part)
            if left < 0:
                break
            data = unpacker.unconsumed_tail
        if left:
            raise RemoteDamagedError("The pack from the remote has an object of the wrong size")
        self._buffer = unpacker.unused_data
        self._at = 0
        return head

    def _more(self) -> None:
        new = self._file.read(_READ_BYTES)
        if not new:
            raise RemoteDamagedError("The pack from the remote is truncated")
        self._buffer = self._buffer[self._at :] + new
        self._at = 0
