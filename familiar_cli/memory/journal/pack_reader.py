"""Read single objects out of git's packs, without a library: most of what is read is packed.

A pack's index is held whole, and of the pack itself only what was asked for is read. Nothing that
a file says is believed: offsets and sizes are checked, and who asks compares the id.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, BinaryIO, Final

from familiar_cli.files import open_patiently, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_INDEX: Final = b"\xfftOc\0\0\0\2"
_FANOUT_BYTES: Final = 256 * 4
_ROWS_AT: Final = len(_INDEX) + _FANOUT_BYTES
_ID_BYTES: Final = 20
_TRAILER_BYTES: Final = 2 * _ID_BYTES
_OFS_DELTA: Final = 6
_REF_DELTA: Final = 7
_LARGE_OFFSET: Final = 1 << 31
_FIRST_BYTES: Final = 4096  # read at once; most objects are smaller
_MORE_BYTES: Final = 64 * 1024
_NEVER_BYTES: Final = 1 << 40
_MOST_CHAIN: Final = 5000  # git makes chains of at most 4095
_KEPT_BYTES: Final = 16 * 1024 * 1024
_COPY: Final = 0x80
_MOST_COPIED: Final = 0x10000  # in one instruction that leaves its length out


class UnknownIndexError(Exception):
    """A pack's index is of a kind that is not read here, or none at all."""


class PackReader:
    """The packs of one directory. Close it.

    Args:
        directory: Where they are.
        most_bytes: The largest object that is unpacked; None: any.
    """

    def __init__(self, directory: str, most_bytes: int | None = None) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._packs: dict[str, _Pack] = {}
        self._kept: dict[tuple[str, int], tuple[int, bytes]] = {}
        self._kept_bytes = 0

    def knows(self, id_: str) -> bool:
        """Tell whether an object is in a pack that was looked at already."""
        return self._find(bytes.fromhex(id_)) is not None

    def has(self, id_: str) -> bool:
        """Tell whether an object is in a pack.

        Raises:
            UnknownIndexError: An index cannot be read here.
            OSError: A file cannot be read.
        """
        return self._look(bytes.fromhex(id_)) is not None

    def get(self, id_: str) -> tuple[int, bytes]:
        """Return an object's number of its kind, and its content.

        Raises:
            KeyError: It is in no pack.
            UnknownIndexError: An index cannot be read here.
            ValueError: The pack is damaged, or the object is too large.
            OSError: A file cannot be read.
        """
        found = self._look(bytes.fromhex(id_))
        if found is None:
            raise KeyError(id_)
        return self._read(*found)

    def close(self) -> None:
        """Let go of open files; the next use lists the packs anew."""
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

    def _look(self, id_: bytes) -> tuple[_Pack, int] | None:
        """Return where an object is; packs that came meanwhile are looked at as well."""
        return self._find(id_) or (self._find(id_) if self._list() else None)

    def _list(self) -> bool:
        """Take in packs that are new, and tell whether there were any."""
        try:
            names = os.listdir(self._directory)
        except (FileNotFoundError, NotADirectoryError):
            return False
        new = {n[:-4] for n in names if n.endswith(".idx")} - self._packs.keys()
        for name in sorted(new):
            self._packs[name] = _Pack(os.path.join(self._directory, name))
        return bool(new)

    def _read(self, pack: _Pack, offset: int) -> tuple[int, bytes]:
        """Return an object, put together from the differences that it is kept as."""
        chain: list[tuple[tuple[str, int], bytes]] = []
        while (found := self._kept.get((pack.path, offset))) is None:
            number, content, base = pack.entry(offset, self._most_bytes)
            if base is None:
                found = number, content
                self._keep((pack.path, offset), found)
                break
            chain.append(((pack.path, offset), content))
            if len(chain) > _MOST_CHAIN:
                raise ValueError("differences rest on each other without an end")
            if isinstance(base, int):
                offset = base
            else:
                place = self._find(base)
                if place is None:
                    raise ValueError(f"it rests on {base.hex()}, which is missing")
                pack, offset = place
        number, content = found
        for key, difference in reversed(chain):
            content = patched(content, difference, self._most_bytes)
            self._keep(key, (number, content))
        return number, content

    def _keep(self, key: tuple[str, int], found: tuple[int, bytes]) -> None:
        """Keep what others are likely to be differences to."""
        self._kept_bytes += len(found[1])
        if self._kept_bytes > _KEPT_BYTES:
            self._kept.clear()
            self._kept_bytes = len(found[1])
        self._kept[key] = found


class _Pack:
    """One pack: its path has no suffix."""

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

    def offset(self, id_: bytes) -> int | None:
        """Return where an object begins; None: it is not here."""
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

    def entry(self, offset: int, most_bytes: int | None) -> tuple[int, bytes, int | bytes | None]:
        """Return what stands at an offset.

        Returns:
            The number of its kind, its content, and what that is a difference to: the place of
            another object, or its id; None: it is whole.
        """
        if self._file is None:
            self._file = open_patiently(f"{self.path}.pack")
        if offset >= _NEVER_BYTES:
            raise ValueError("its place is beyond every pack")
        self._file.seek(offset)
        data = self._file.read(_FIRST_BYTES)
        numbers = iter(data)
        try:
            first = next(numbers)
            number, size = first >> 4 & 7, first & 15
            if first & 0x80:
                size |= _size(numbers) << 4
            base: int | bytes | None = None
            at = len(data) - numbers.__length_hint__()  # type: ignore[attr-defined]
            if number == _OFS_DELTA:
                base = offset - _distance(numbers)
                at = len(data) - numbers.__length_hint__()  # type: ignore[attr-defined]
                if not 0 < base < offset:
                    raise ValueError("a difference rests on what does not come before it")
            elif number == _REF_DELTA:
                base = data[at : at + _ID_BYTES]
                at += _ID_BYTES
        except StopIteration:
            raise ValueError("the pack ends too early") from None
        _check_size(size, most_bytes)
        return number, self._inflated(data[at:], size), base

    def _inflated(self, data: bytes, size: int) -> bytes:
        unpacker = zlib.decompressobj()
        parts, left = [], size + 1  # one more than it may be
        while not unpacker.eof and left > 0:
            if not data and self._file:
                data = self._file.read(_MORE_BYTES)
                if not data:
                    raise ValueError("the pack ends too early")
            part = unpacker.decompress(data, left)
            data = unpacker.unconsumed_tail
            parts.append(part)
            left -= len(part)
        if left != 1:
            raise ValueError("it has another size than the pack says")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _number(self, at: int) -> int:
        return int.from_bytes(self._index[at : at + 4], "big")


def patched(base: bytes, difference: bytes, most_bytes: int | None = None) -> bytes:
    """Return what a difference makes of `base`.

    Raises:
        ValueError: It was not made for it, or what it makes is too large.
    """
    numbers = iter(difference)
    parts: list[bytes] = []
    try:
        if _size(numbers) != len(base):
            raise ValueError("a difference rests on something else")
        size = left = _size(numbers)
        _check_size(size, most_bytes)
        at = len(difference) - numbers.__length_hint__()  # type: ignore[attr-defined]
        while at < len(difference):
            code = difference[at]
            at += 1
            if code & _COPY:
                begin = length = 0
                for n in range(7):
                    if code & (1 << n):
                        if n < 4:  # noqa: PLR2004  # four bytes say where, three how much
                            begin |= difference[at] << (8 * n)
                        else:
                            length |= difference[at] << (8 * (n - 4))
                        at += 1
                part = base[begin : begin + (length or _MOST_COPIED)]
            else:
                part = difference[at : at + code]
                at += code
            left -= len(part)
            if not part or left < 0:
                raise ValueError("a difference is damaged")
            parts.append(part)
    except (StopIteration, IndexError):
        raise ValueError("a difference ends too early") from None
    if left:
        raise ValueError("a difference makes something of another size")
    return b"".join(parts)


def _size(numbers: Iterator[int]) -> int:
    """Read a number of which each byte holds seven bits, the lowest first."""
    size = shift = 0
    for byte in numbers:
        size |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return size
        shift += 7
    raise StopIteration


def _distance(numbers: Iterator[int]) -> int:
    """Read how far before it the base of a difference begins."""
    byte = next(numbers)
    distance = byte & 0x7F
    while byte & 0x80:
        byte = next(numbers)
        distance = (distance + 1) << 7 | byte & 0x7F
    return distance


def _check_size(size: int, most_bytes: int | None) -> None:
    if size >= _NEVER_BYTES:
        raise ValueError("it has a size that no object has")
    if most_bytes is not None and size > most_bytes:
        from familiar_cli.memory.journal.packs import too_large

        raise too_large(size)
