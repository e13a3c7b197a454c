"""Read the pages of a damaged SQLite file without SQLite.

See https://www.sqlite.org/fileformat.html. Nothing here trusts the file: whatever does not decode
is left out.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Value = None | int | float | str | bytes
Record = tuple[Value, ...]

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_INDEX_INTERIOR, _TABLE_INTERIOR, _INDEX_LEAF, _TABLE_LEAF = 2, 5, 10, 13
_KINDS: Final = {_INDEX_INTERIOR, _TABLE_INTERIOR, _INDEX_LEAF, _TABLE_LEAF}
_SIZES: Final = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_ENOUGH: Final = 0.7
_LOOKED_AT: Final = 200  # pages, to tell their size where the header is gone
_MOST_RECORD_BYTES: Final = 64 * 1024 * 1024
_LEAST_CELL: Final = 2
_MOST_COLUMNS: Final = 64
_INT_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)  # by serial type
_WAL_HEADER: Final = 32
_WAL_FRAME: Final = 24


class Pages:
    """The pages of a database, overlaid with those of its write-ahead log.

    Args:
        path: The file; it need not be whole.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.read_bytes()
        log = path.with_name(f"{path.name}-wal")
        wal = log.read_bytes() if log.is_file() else b""
        self.size = self._page_size(wal)
        reserved = self._file[20] if self._file.startswith(_MAGIC) else 0
        self._usable = self.size - (reserved if reserved <= self.size - 480 else 0)
        self._newer = dict(_committed(wal, self.size))
        self.count = max(-(-len(self._file) // self.size), *self._newer, 0)

    def page(self, number: int) -> bytes:
        """Return a page, numbered from 1; empty where the file has none."""
        if number in self._newer:
            return self._newer[number]
        start = (number - 1) * self.size
        return self._file[start : start + self.size] if number >= 1 else b""

    def free(self) -> set[int]:
        """Return the free pages, as far as the freelist is readable."""
        head = self.page(1)
        found: set[int] = set()
        trunk = int.from_bytes(head[32:36], "big") if head.startswith(_MAGIC) else 0
        while 0 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            page = self.page(trunk)
            trunk, listed = (int.from_bytes(page[at : at + 4], "big") for at in (0, 4))
            leaves = page[8 : 8 + 4 * min(listed, self._usable // 4 - 2)]
            found.update(number for (number,) in struct.iter_unpack(">I", leaves))
        return found

    def records(self, root: int) -> Iterator[tuple[int, Record]]:
        """Yield rowid (0 in an index) and values of the records reachable from a root page."""
        waiting, seen = [root], set[int]()
        while waiting:
            number = waiting.pop()
            page = self.page(number)
            if number in seen or not page:
                continue
            seen.add(number)
            kind, cells, right = _cells(page, number)
            if kind in {_TABLE_INTERIOR, _INDEX_INTERIOR}:
                children = [int.from_bytes(page[at : at + 4], "big") for at in cells]
                waiting += [child for child in (*children, right) if 1 < child <= self.count]
            if kind != _TABLE_INTERIOR:
                at_payload = 4 if kind == _INDEX_INTERIOR else 0
                for at in cells:
                    found = self._cell(page, at + at_payload, is_table=kind == _TABLE_LEAF)
                    if found:
                        yield found

    def loose_records(self, number: int) -> Iterator[tuple[int, Record]]:
        """Yield the table rows on one page, reachable or not.

        Where the page's own list of them is gone, a row may begin anywhere.
        """
        page = self.page(number)
        kind, cells, _ = _cells(page, number)
        found = [self._cell(page, at, is_table=True) for at in cells] if kind == _TABLE_LEAF else []
        is_long_text = not kind and int.from_bytes(page[:4], "big") <= self.count
        if not any(found) and kind in {0, _TABLE_LEAF} and (number == 1 or not is_long_text):
            found = [self._cell(page, at, is_table=True) for at in range(len(page) - _LEAST_CELL)]
        yield from filter(None, found)

    def _page_size(self, wal: bytes) -> int:
        if self._file.startswith(_MAGIC):
            size = int.from_bytes(self._file[16:18], "big")
            size = 65536 if size == 1 else size
            if size in _SIZES:
                return size
        size = int.from_bytes(wal[8:12], "big")
        if size in _SIZES:
            return size

        def share(size: int) -> float:
            starts = range(size, len(self._file), size)[:_LOOKED_AT]
            return sum(self._file[at] in _KINDS for at in starts) / max(len(starts), 1)

        shares = {size: share(size) for size in _SIZES}  # a multiple has as large a share
        enough = _ENOUGH * max(shares.values())
        return next(size for size, found in shares.items() if found >= enough)

    def _cell(self, page: bytes, at: int, *, is_table: bool) -> tuple[int, Record] | None:
        try:
            size, at = _varint(page, at)
            rowid, at = _varint(page, at) if is_table else (0, at)
            if not _LEAST_CELL <= size <= _MOST_RECORD_BYTES:
                return None
            payload = self._payload(page, at, size, is_table=is_table)
            return rowid, _decoded(payload)
        except (IndexError, ValueError, struct.error):
            return None

    def _payload(self, page: bytes, at: int, size: int, *, is_table: bool) -> bytes:
        """Return the bytes of a record, following its overflow pages."""
        usable = self._usable
        least = (usable - 12) * 32 // 255 - 23
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if size <= most:
            payload = page[at : at + size]
        else:
            here = least + (size - least) % (usable - 4)
            here = here if here <= most else least
            parts, left = [page[at : at + here]], size - here
            following = int.from_bytes(page[at + here : at + here + 4], "big")
            while left > 0:
                more = self.page(following) if 1 < following <= self.count else b""
                if not more:
                    raise ValueError("it goes on where nothing is")
                parts.append(more[4 : min(usable, 4 + left)])
                left -= usable - 4
                following = int.from_bytes(more[:4], "big")
            payload = b"".join(parts)
        if len(payload) != size:
            raise ValueError("it is cut off")
        return payload


def _cells(page: bytes, number: int) -> tuple[int, list[int], int]:
    """Return kind, cell offsets and rightmost child of a page; kind 0: not a b-tree page."""
    start = _HEADER_BYTES if number == 1 else 0
    if len(page) < start + 12 or page[start] not in _KINDS:
        return 0, [], 0
    kind, count = page[start], int.from_bytes(page[start + 3 : start + 5], "big")
    is_interior = kind in {_TABLE_INTERIOR, _INDEX_INTERIOR}
    right = int.from_bytes(page[start + 8 : start + 12], "big") if is_interior else 0
    first = start + (12 if is_interior else 8)
    listed = page[first : first + 2 * min(count, len(page) // 4)]
    return kind, [at for (at,) in struct.iter_unpack(">H", listed[: len(listed) & ~1])], right


def _committed(wal: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the pages in a write-ahead log up to its last commit."""
    waiting: list[tuple[int, bytes]] = []
    for at in range(_WAL_HEADER, len(wal) - _WAL_FRAME - size + 1, _WAL_FRAME + size):
        number, is_commit = struct.unpack(">II", wal[at : at + 8])
        if wal[at + 8 : at + 16] != wal[16:24]:  # left over from before the last checkpoint
            return
        waiting.append((number, wal[at + _WAL_FRAME : at + _WAL_FRAME + size]))
        if is_commit:
            yield from waiting
            waiting = []


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a varint of one to nine bytes; return it and its end."""
    value = 0
    for n in range(8):
        byte = data[at + n]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004  # the last byte has no flag
            return value, at + n + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _decoded(payload: bytes) -> Record:
    """Decode the values of a record. Raises ValueError, IndexError, struct.error: not a record."""
    head, at = _varint(payload, 0)
    if not 1 <= head <= min(len(payload), 9 * _MOST_COLUMNS):
        raise ValueError("it has no header")
    kinds = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, size = _value(payload, at, kind)
        values.append(value)
        at += size
    if at != len(payload):
        raise ValueError("its header does not fit")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, 0
    if kind in {8, 9}:
        return kind - 8, 0
    if kind == 7:  # noqa: PLR2004  # a float
        return float(struct.unpack(">d", payload[at : at + 8])[0]), 8
    if 0 < kind < len(_INT_BYTES):
        size = _INT_BYTES[kind]
        return int.from_bytes(payload[at : at + size], "big", signed=True), size
    if kind < 12:  # noqa: PLR2004  # never written
        raise ValueError("there is no such type")
    size = (kind - 12) // 2
    content = payload[at : at + size]
    return (content.decode() if kind % 2 else content), size
