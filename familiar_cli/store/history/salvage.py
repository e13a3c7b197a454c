"""Salvage turns from a damaged file, page by page.

See https://www.sqlite.org/fileformat.html. The file is not trusted: anything that does not decode
is left out.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.files import Disk, is_plain, remove, why, write_hint
from familiar_cli.base.sqlite import transaction
from familiar_cli.base.times.clock import now
from familiar_cli.store.history.events import fold_all, settle_marks
from familiar_cli.store.history.rows import COLUMNS, IMPORTED, WRITER, DamagedRowError, to_turn
from familiar_cli.store.history.schema import open_to_write

Value = None | int | float | str | bytes
Record = tuple[Value, ...]
Gap = tuple[int, int]  # an unreadable range of rowids, without its first number

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_INDEX_INTERIOR, _TABLE_INTERIOR, _INDEX_LEAF, _TABLE_LEAF = 2, 5, 10, 13
_KINDS: Final = {_INDEX_INTERIOR, _TABLE_INTERIOR, _INDEX_LEAF, _TABLE_LEAF}
_SIZES: Final = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_ENOUGH: Final = 0.7
_LOOKED_AT: Final = 200  # sample of pages from which to guess their size if the header is lost
_MOST_RECORD_BYTES: Final = 64 * 1024 * 1024
_LEAST_CELL: Final = 2
_MOST_COLUMNS: Final = 64
_MOST_ROWID: Final = (1 << 63) - 1
_INT_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)  # by serial type
_WAL_HEADER: Final = 32
_WAL_FRAME: Final = 24


class Pages:
    """The pages of a database, overlaid with those of its write-ahead log.

    Args:
        path: The file, which may be incomplete.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.read_bytes()
        log = path.with_name(f"{path.name}-wal")
        wal = log.read_bytes() if log.is_file() else b""
        self.size = self._page_size(wal)
        reserved = self._file[20] if self._file.startswith(_MAGIC) else 0
        self._usable = self.size - (reserved if reserved <= self.size - 480 else 0)
        self._newer = dict(_committed_pages(wal, self.size))
        self.count = max(-(-len(self._file) // self.size), *self._newer, 0)

    def page(self, number: int) -> bytes:
        """Return a page, numbered from 1; empty if the file does not have it."""
        if number in self._newer:
            return self._newer[number]
        start = (number - 1) * self.size
        return self._file[start : start + self.size] if number >= 1 else b""

    def free(self) -> set[int]:
        """Return the free pages, as far as the freelist is readable."""
        head = self.page(1)
        items: set[int] = set()
        trunk = int.from_bytes(head[32:36], "big") if head.startswith(_MAGIC) else 0
        while 0 < trunk <= self.count and trunk not in items:
            items.add(trunk)
            page = self.page(trunk)
            trunk, listed = (int.from_bytes(page[at : at + 4], "big") for at in (0, 4))
            leaves = page[8 : 8 + 4 * min(listed, self._usable // 4 - 2)]
            items.update(number for (number,) in struct.iter_unpack(">I", leaves))
        return items

    def records(
        self, root: int, gaps: list[Gap] | None = None, seen: set[int] | None = None
    ) -> Iterator[tuple[int, Record]]:
        """Yield rowid (0 in an index) and values of the records reachable from a root page.

        Args:
            root: The root page; 0 if it is unknown.
            gaps: Collects the unreadable ranges, which are those of whole pages.
            seen: Collects the pages.
        """
        gaps, seen = [] if gaps is None else gaps, set[int]() if seen is None else seen
        waiting = [(root, 0, _MOST_ROWID)]
        while waiting:
            number, low, high = waiting.pop()
            page = self.page(number)
            kind, cells, right = _page_cells(page, number)
            if number in seen or not kind:
                gaps.append((low, high))
                continue
            seen.add(number)
            if kind in {_TABLE_INTERIOR, _INDEX_INTERIOR}:
                children = _child_pages(page, kind, cells, (low, high))
                waiting += [*children, (right, children[-1][2] if children else low, high)]
            if kind != _TABLE_INTERIOR:
                at_payload = 4 if kind == _INDEX_INTERIOR else 0
                is_table = kind == _TABLE_LEAF
                found = [self._cell(page, at + at_payload, is_table=is_table) for at in cells]
                gaps += [(low, high)] if None in found else []
                yield from filter(None, found)

    def loose_leaves(self, used: Collection[int]) -> Iterator[list[tuple[int, Record]]]:
        """Yield the rows of each table page that is neither in `used` nor free."""
        for number in set(range(2, self.count + 1)).difference(used, self.free()):
            page = self.page(number)
            kind, cells, _ = _page_cells(page, number)
            if kind == _TABLE_LEAF:
                yield list(filter(None, (self._cell(page, at, is_table=True) for at in cells)))

    def loose_records(self, number: int) -> Iterator[tuple[int, Record]]:
        """Yield the table rows on one page, reachable or not.

        If the page's cell pointers are lost, every offset is tried as the start of a row.
        """
        page = self.page(number)
        kind, cells, _ = _page_cells(page, number)
        items = [self._cell(page, at, is_table=True) for at in cells] if kind == _TABLE_LEAF else []
        is_long_text = not kind and int.from_bytes(page[:4], "big") <= self.count
        if not any(items) and kind in {0, _TABLE_LEAF} and (number == 1 or not is_long_text):
            items = [self._cell(page, at, is_table=True) for at in range(len(page) - _LEAST_CELL)]
        yield from filter(None, items)

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

        shares = {size: share(size) for size in _SIZES}  # a multiple of the size scores as high
        enough = _ENOUGH * max(shares.values())
        return next(size for size, found in shares.items() if found >= enough)

    def _cell(self, page: bytes, at: int, *, is_table: bool) -> tuple[int, Record] | None:
        try:
            size, at = _decode_varint(page, at)
            rowid, at = _decode_varint(page, at) if is_table else (0, at)
            if not _LEAST_CELL <= size <= _MOST_RECORD_BYTES:
                return None
            payload = self._payload(page, at, size, is_table=is_table)
            return rowid, _decode_record(payload)
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
                    raise ValueError("it continues on a missing page")
                parts.append(more[4 : min(usable, 4 + left)])
                left -= usable - 4
                following = int.from_bytes(more[:4], "big")
            payload = b"".join(parts)
        if len(payload) != size:
            raise ValueError("it is cut off")
        return payload


def _page_cells(page: bytes, number: int) -> tuple[int, list[int], int]:
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


def _child_pages(
    page: bytes, kind: int, cells: Iterable[int], gap: Gap
) -> list[tuple[int, int, int]]:
    """Return the children of an interior page but the last, each with its range of rowids."""
    low, high = gap
    children: list[tuple[int, int, int]] = []
    for at in cells:
        key = high
        with suppress(IndexError):
            key = _decode_varint(page, at + 4)[0] if kind == _TABLE_INTERIOR else high
        children.append((int.from_bytes(page[at : at + 4], "big"), low, min(key, high)))
        low = low if kind == _INDEX_INTERIOR else max(low, min(key, high))
    return children


def _committed_pages(wal: bytes, size: int) -> Iterator[tuple[int, bytes]]:
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


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a varint of one to nine bytes; return it and its end."""
    value = 0
    for n in range(8):
        byte = data[at + n]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004  # the last byte has no flag
            return value, at + n + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _decode_record(payload: bytes) -> Record:
    """Decode the values of a record. Raises ValueError, IndexError, struct.error: not a record."""
    head, at = _decode_varint(payload, 0)
    if not 1 <= head <= min(len(payload), 9 * _MOST_COLUMNS):
        raise ValueError("it has no header")
    kinds = []
    while at < head:
        kind, at = _decode_varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, size = _decode_value(payload, at, kind)
        values.append(value)
        at += size
    if at != len(payload):
        raise ValueError("its header does not match its content")
    return tuple(values)


def _decode_value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
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


_LEAST_COLUMNS: Final = 1 + len(COLUMNS)
_MOST_NEW_COLUMNS: Final = 3  # columns appended by later versions
_SCHEMA_COLUMNS: Final = 5
_DERIVED: Final = ("sqlite_", "turns_fts", "speakers")  # rebuilt from the turns
_ENDS: Final = ("", "-wal", "-shm", "-journal")


class SalvageResult(Struct):
    """Result of a salvage.

    Args:
        damaged: Whether anything was wrong; if not, nothing was done.
        turns: How many turns could be read.
        missing: How many numbers up to the highest have no turn.
        tables: Rows of other tables, by name.
        lost: At most how many rows of other tables are lost, by name; None: unknown.
        marked_unread: Turns that may have been read by the memory writer and count as unread.
        kept: New path of the damaged file; empty in a dry run.
    """

    damaged: bool = True
    turns: int = 0
    missing: int = 0
    tables: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int | None] = field(default_factory=dict)
    marked_unread: int = 0
    kept: str = ""


def is_damaged(path: Path) -> bool:
    """Tell whether SQLite or the turn reader finds a history damaged."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return True
            rows = connection.execute(f"SELECT id, {', '.join(COLUMNS)} FROM turns")  # noqa: S608
            for row in rows:
                to_turn(row)
    except (sqlite3.DatabaseError, DamagedRowError, UnicodeDecodeError):
        return True
    return False


def salvage(path: Path, *, dry_run: bool = False) -> SalvageResult:
    """Replace the history at `path` with a new file of everything readable in it.

    The damaged file is kept beside it under a new name. No other process may use it.

    Args:
        path: `history.db`.
        dry_run: Only count.

    Raises:
        NotFoundError: The file does not exist.
        FamiliarError: Nothing is readable, or the new file cannot be written; nothing was changed.
    """
    if not is_plain(path):
        raise NotFoundError(f"There is no history at {str(path)!r}", hint="Nothing was said yet.")
    if not is_damaged(path):
        return SalvageResult(damaged=False)
    try:
        return _salvage_file(path, dry_run=dry_run)
    except OSError as error:
        raise FamiliarError(
            f"The history {str(path)!r} cannot be salvaged: {why(error)}; nothing was changed",
            hint=write_hint(error.errno),
        ) from error


def _salvage_file(path: Path, *, dry_run: bool) -> SalvageResult:
    pages = Pages(path)
    definitions, loose = _loose_rows(pages)
    schema = _read_schema(pages, definitions)
    turns = _read_turns(pages, schema.get("turns", (0, ""))[0], loose)
    if not turns:
        raise FamiliarError(
            f"No turn can be recovered from {str(path)!r}; nothing was changed",
            hint="Replace it with a backup copy, or move it away to start a new history.",
        )
    new = path.with_name(f"{path.name}.salvaged")
    try:
        for end in _ENDS:
            remove(f"{new}{end}")
        result = SalvageResult(turns=len(turns))
        with closing(open_to_write(new, 0)) as connection:
            _fill_history(connection, turns, schema, pages, result)
            result.missing = _reserve_numbers(connection, pages, schema) - len(turns)
            connection.execute("DELETE FROM unread WHERE turn_id NOT IN (SELECT id FROM turns)")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if not dry_run:
            result.kept = str(_swap_files(path, new))
    finally:
        for end in _ENDS:
            with suppress(OSError):
                remove(f"{new}{end}")
    return result


def _is_kept(name: str) -> bool:
    return name != "turns" and not name.startswith(_DERIVED)


def _loose_rows(pages: Pages) -> tuple[list[Record], list[tuple[int, Record]]]:
    """Return definitions and turns on any page, whether or not the page is reachable.

    Pages on the freelist hold deleted content and are skipped.
    """
    free = pages.free()
    definitions: list[Record] = []
    turns: list[tuple[int, Record]] = []
    for number in range(1, pages.count + 1):
        for rowid, row in pages.loose_records(number) if number not in free else ():
            if len(row) == _SCHEMA_COLUMNS and row[0] == "table":
                definitions.append(row)
            elif _is_turn(rowid, row):
                turns.append((rowid, row))
    return definitions, turns


def _read_schema(pages: Pages, loose: Iterable[Record]) -> dict[str, tuple[int, str]]:
    """Return root page and SQL of every table with a readable definition."""
    result: dict[str, tuple[int, str]] = {}
    for row in (*(row for _, row in pages.records(1)), *loose):
        if len(row) == _SCHEMA_COLUMNS and row[0] == "table":
            _, name, _, root, sql = row
            if isinstance(name, str) and isinstance(root, int) and isinstance(sql, str):
                result.setdefault(name, (root, sql))
    return result


def _read_turns(pages: Pages, root: int, loose: Iterable[tuple[int, Record]]) -> dict[int, Record]:
    """Return the turns by number, including those unreachable from the table's tree."""
    reached = (found for found in pages.records(root) if _is_turn(*found)) if root else ()
    turns = dict(loose)
    turns.update(reached)
    return dict(sorted(turns.items()))


def _is_turn(rowid: int, row: Record) -> bool:
    if rowid < 1 or not 0 <= len(row) - _LEAST_COLUMNS <= _MOST_NEW_COLUMNS or row[0] is not None:
        return False
    if row[6] not in ("user", "assistant", "system") or not isinstance(row[11], int):
        return False
    try:
        to_turn((rowid, *row[1:_LEAST_COLUMNS]))
    except (DamagedRowError, ValueError, TypeError):
        return False
    return True


def _fill_history(
    connection: sqlite3.Connection,
    turns: Mapping[int, Record],
    schema: Mapping[str, tuple[int, str]],
    pages: Pages,
    result: SalvageResult,
) -> None:
    """Write the salvaged rows into a new history with its triggers disabled."""
    own = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    triggers = [(name, sql) for kind, name, sql in own if kind == "trigger"]
    names = [(name, sql) for kind, name, sql in own if kind == "table" and _is_kept(name)]
    tables = [_SavedTable.of(name, *schema.get(name, (0, sql))) for name, sql in names]
    with transaction(connection):
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        columns = [row[1] for row in connection.execute("PRAGMA table_info(turns)")]
        rows = (dict(zip(columns, (n, *row[1:]), strict=False)) for n, row in turns.items())
        _insert_rows(connection, "turns", columns, rows)
        _read_tables(tables, pages, [root for root, _ in schema.values()])
        for table in tables:
            known = [row[1] for row in connection.execute(f'PRAGMA table_info("{table.name}")')]
            if count := _insert_rows(connection, table.name, known, table.named_rows()):
                result.tables[table.name] = count
        _rebuild_marks(connection, tables)
        unread = next(table for table in tables if table.name == "unread")
        result.marked_unread = _mark_unread(connection, unread.gaps)
        _follow_turns(connection)
        _keep_private(connection)
        result.lost = {t.name: n for t in tables if (n := t.count_lost(connection)) != 0}
        for name, sql in triggers:
            connection.execute(f'DROP TRIGGER IF EXISTS "{name}"')
            connection.execute(sql)


def _reserve_numbers(
    connection: sqlite3.Connection, pages: Pages, schema: Mapping[str, tuple[int, str]]
) -> int:
    """Reserve the numbers of lost turns, which may be cited; return the highest number."""
    root, _ = schema.get("sqlite_sequence", (0, ""))
    counted = [row[1] for _, row in pages.records(root) if row[:1] == ("turns",)] if root else []
    (newest,) = connection.execute(
        "SELECT max((SELECT max(id) FROM turns), (SELECT coalesce(max(turn_id), 0) FROM unread),"
        " (SELECT coalesce(max(turn_id), 0) FROM message_ids))"
    ).fetchone()
    highest = max(newest, *(n for n in counted if isinstance(n, int)), 0)
    connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'turns'", (highest,))
    connection.commit()
    return int(highest)


def _rebuild_marks(connection: sqlite3.Connection, tables: Iterable[_SavedTable]) -> None:
    """Derive lost marks, branches and withdrawn channels from the events, if these are whole."""
    damaged = {table.name: table for table in tables if table.gaps}
    derived = damaged.keys() & {"set_aside", "branches", "channels_set_aside"}
    if not derived or {"events", "slots"} & damaged.keys():
        return
    summaries = connection.execute("SELECT * FROM summaries").fetchall()  # made with the marks
    marked = connection.execute("SELECT DISTINCT turn_id FROM events WHERE turn_id").fetchall()
    fold_all(connection)
    settle_marks(connection, [turn_id for (turn_id,) in marked])
    connection.executemany("INSERT OR IGNORE INTO summaries VALUES (?, ?, ?, ?, ?, ?)", summaries)
    for name in derived:
        damaged[name].gaps.clear()


def _mark_unread(connection: sqlite3.Connection, gaps: Iterable[Gap]) -> int:
    """Mark turns as unread by the memory writer if it is unknown whether they are; count them."""
    return connection.executemany(
        "INSERT OR IGNORE INTO unread SELECT id, source = ? FROM turns WHERE id > ? AND id <= ?"
        " AND (source = ? OR id >"
        " coalesce((SELECT turn_id FROM watermarks WHERE name = ?), 0))",
        [(IMPORTED, low, high, IMPORTED, WRITER) for low, high in gaps],
    ).rowcount


def _follow_turns(connection: sqlite3.Connection) -> None:
    """Rebuild what derives from the turns."""
    connection.execute("DELETE FROM speakers")
    connection.execute(
        "INSERT INTO speakers SELECT channel_id, author_platform, author_user_id, count(*),"
        " max(id) FROM turns WHERE author_platform IS NOT NULL AND NOT EXISTS (SELECT 1 FROM"
        " set_aside WHERE turn_id = id AND (superseded_by OR withdrawn)) GROUP BY 1, 2, 3"
    )


def _keep_private(connection: sqlite3.Connection) -> None:
    """Rebuild lost one-to-one marks, erring on the side of privacy."""
    alone = "count(DISTINCT author_platform || ' ' || author_user_id) = 1"
    connection.execute(
        f"INSERT INTO only_speakers SELECT channel_id, iif({alone}, min(author_platform), NULL),"  # noqa: S608
        f" iif({alone}, min(author_user_id), NULL) FROM turns WHERE author_platform IS NOT NULL"
        " AND channel_id NOT IN (SELECT channel_id FROM only_speakers) GROUP BY channel_id"
    )
    only = connection.execute("SELECT * FROM only_speakers WHERE platform IS NOT NULL")
    after = {channel: (platform, user_id) for channel, platform, user_id in only}
    turns = connection.execute(
        "SELECT id, channel_id, platform, user_id FROM turns"
        " LEFT JOIN one_to_one ON turn_id = id ORDER BY id DESC"
    ).fetchall()
    lost = []
    for turn_id, channel, platform, user_id in turns:
        if platform is not None:
            after[channel] = (platform, user_id)
        elif channel in after:  # the only speaker later was the only one earlier, too
            lost.append((turn_id, *after[channel]))
    connection.executemany("INSERT INTO one_to_one VALUES (?, ?, ?)", lost)


class _SavedTable(Struct):
    """A table of the damaged file.

    Args:
        root: Its root page; 0 if its definition is lost.
        columns: Name, type, and whether it may be NULL, in the order of a record.
        key: The column that is the rowid; empty if there is none.
        has_rowid: Whether its rows are numbered.
        gaps: The unreadable ranges.
        rows: Its rows, by rowid in a table that has one.
    """

    name: str
    root: int
    columns: list[tuple[str, str, bool]]
    key: str
    has_rowid: bool
    gaps: list[Gap] = field(default_factory=list)
    rows: list[tuple[int, Record]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, root: int, sql: str) -> _SavedTable:
        """Parse a definition; an invalid one has no columns, so that no row fits."""
        info: list[tuple[Any, ...]] = []
        with closing(sqlite3.connect(":memory:")) as scratch, suppress(sqlite3.Error):
            scratch.execute(sql)
            info = scratch.execute(f'PRAGMA table_info("{name}")').fetchall()
        has_rowid = "WITHOUT ROWID" not in sql.upper()
        keys = [row[1] for row in info if row[5]]
        is_number = {row[1]: row[2].upper() == "INTEGER" for row in info}
        key = keys[0] if has_rowid and len(keys) == 1 and is_number[keys[0]] else ""
        if not has_rowid:  # its records begin with the primary key
            info.sort(key=lambda row: row[5] or len(info) + row[0])
        columns = [(row[1], row[2].upper(), not row[3]) for row in info]
        return cls(name, root, columns, key, has_rowid)

    def fits(self, rowid: int, row: Record) -> bool:
        """Tell whether a record can be a row of the table."""
        return len(row) == len(self.columns) and all(
            (value is None and rowid > 0)
            if name == self.key
            else may_be_null
            if value is None
            else isinstance(value, _VALUES.get(type_, object))
            for value, (name, type_, may_be_null) in zip(row, self.columns, strict=True)
        )

    def named_rows(self) -> Iterator[dict[str, Value]]:
        """Yield the rows by column."""
        for rowid, row in self.rows:
            names = (name for name, _, _ in self.columns)
            yield {**dict(zip(names, row, strict=True)), **({self.key: rowid} if self.key else {})}

    def count_lost(self, connection: sqlite3.Connection) -> int | None:
        """Return at most how many rows are lost, those of lost turns aside; None: unknown."""
        if self.key != "turn_id":
            is_known = self.key and all(high < _MOST_ROWID for _, high in self.gaps)
            return self._count_missing() if is_known or not self.gaps else None
        sql = f"SELECT id FROM turns WHERE id NOT IN (SELECT turn_id FROM {self.name})"  # noqa: S608
        rows = connection.execute(sql).fetchall() if self.gaps else []
        return sum(any(low < n <= high for low, high in self.gaps) for (n,) in rows)

    def _count_missing(self) -> int:
        """Count the rowids in the gaps that no row has; a damaged page can make a gap enormous."""
        count = end = 0
        for low, high in sorted(self.gaps):
            count += max(high - max(low, end), 0)
            end = max(end, high)
        numbers = {rowid for rowid, _ in self.rows}
        return count - sum(any(low < n <= high for low, high in self.gaps) for n in numbers)


_VALUES: Final[dict[str, Any]] = {"INTEGER": int, "TEXT": (str, bytes)}


def _read_tables(tables: Sequence[_SavedTable], pages: Pages, roots: Iterable[int]) -> None:
    """Read the rows of tables, then those on pages that can belong to one damaged table only.

    Args:
        roots: The root pages of all tables, including those that are not read.
    """
    used: set[int] = set()
    for root in roots:
        deque(pages.records(root, None, used), maxlen=0)
    names = {"turns", *(table.name for table in tables)}  # they begin the rows of sqlite_sequence
    for table in tables:
        found = pages.records(table.root, table.gaps)
        table.rows = [one for one in found if table.fits(*one)]
    damaged = [table for table in tables if table.gaps and table.has_rowid]
    for leaf in pages.loose_leaves(used) if damaged else ():
        if not leaf or names.intersection(leaf[0][1][:1]):
            continue
        owners = [table for table in damaged if all(table.fits(*one) for one in leaf)]
        if len(owners) == 1:
            owners[0].rows += leaf


def _insert_rows(
    connection: sqlite3.Connection,
    table: str,
    known: Collection[str],
    rows: Iterable[Mapping[str, Value]],
) -> int:
    """Write rows, skipping those that violate a constraint, and count them."""
    count = 0
    for row in rows:
        names = [name for name in known if name in row]
        listed, marks = ", ".join(names), ", ".join("?" * len(names))
        statement = f'INSERT OR REPLACE INTO "{table}" ({listed}) VALUES ({marks})'  # noqa: S608
        with suppress(sqlite3.IntegrityError):
            connection.execute(statement, [row[name] for name in names])
            count += 1
    return count


def _swap_files(path: Path, new: Path) -> Path:
    """Replace the damaged file with the new one; return the damaged one's new path."""
    aside = path.with_name(f"{path.name}.damaged-{now():%Y%m%d-%H%M%S}")
    disk = Disk()
    for end in _ENDS[1:]:
        if os.path.lexists(f"{path}{end}"):
            disk.replace(f"{path}{end}", f"{aside}{end}")
    disk.replace(str(path), str(aside))
    disk.replace(str(new), str(path))
    disk.sync_dir(str(path.parent))
    return aside
