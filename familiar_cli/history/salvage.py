"""Recover what is readable of a damaged history into a new file; the damaged one is kept."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.clock import now
from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.files import Disk, is_plain, remove, why
from familiar_cli.history.pages import Pages
from familiar_cli.history.rows import COLUMNS, DamagedRowError, to_turn
from familiar_cli.history.schema import opened
from familiar_cli.history.tables import OLDER_TABLES, add_events
from familiar_cli.sqlite import transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from familiar_cli.history.pages import Record, Value

_LEAST_COLUMNS: Final = 1 + len(COLUMNS)
_MOST_NEW_COLUMNS: Final = 3  # that later versions put behind them
_SCHEMA_COLUMNS: Final = 5
_DERIVED: Final = ("sqlite_", "turns_fts", "speakers")  # made again from the turns
_ENDS: Final = ("", "-wal", "-shm", "-journal")


@dataclass(slots=True)
class Salvaged:
    """Result of a salvage.

    Args:
        damaged: Whether anything was wrong; if not, nothing was done.
        turns: How many turns could be read.
        missing: How many numbers up to the highest have no turn.
        tables: Rows of other tables, by name.
        kept: Where the damaged file is now; empty in a dry run.
    """

    damaged: bool = True
    turns: int = 0
    missing: int = 0
    tables: dict[str, int] = field(default_factory=dict)
    kept: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for `--json`."""
        return asdict(self)


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


def salvage(path: Path, *, dry_run: bool = False) -> Salvaged:
    """Replace the history at `path` with a new file of all that is readable in it.

    The damaged file stays beside it, under a name that says so. No other process may use it.

    Args:
        path: `history.db`.
        dry_run: Only count.

    Raises:
        NotFoundError: There is no such file.
        FamiliarError: Nothing can be read, or the new file cannot be written; nothing was changed.
    """
    if not is_plain(path):
        raise NotFoundError(f"There is no history at {str(path)!r}", hint="Nothing was said yet.")
    if not is_damaged(path):
        return Salvaged(damaged=False)
    try:
        return _salvage(path, dry_run=dry_run)
    except OSError as error:
        raise FamiliarError(
            f"The history {str(path)!r} cannot be salvaged: {why(error)}; nothing was changed",
            hint="Check the free disk space and the permissions.",
        ) from error


def _salvage(path: Path, *, dry_run: bool) -> Salvaged:
    pages = Pages(path)
    definitions, loose = _loose_rows(pages)
    schema = _schema(pages, definitions)
    turns = _turns(pages, schema.get("turns", (0, ""))[0], loose)
    if not turns:
        raise FamiliarError(
            f"No turn can be read out of {str(path)!r}; nothing was changed",
            hint="Replace it with a backup copy, or move it away to start a new history.",
        )
    others = {name: found for name, found in schema.items() if _is_kept(name)}
    new = path.with_name(f"{path.name}.salvaged")
    try:
        for end in _ENDS:
            remove(f"{new}{end}")
        result = Salvaged(turns=len(turns))
        with closing(opened(new, 0)) as connection:
            _fill(connection, turns, others, pages, result)
            result.missing = _reserve(connection, pages, schema) - len(turns)
            connection.execute("DELETE FROM unread WHERE turn_id NOT IN (SELECT id FROM turns)")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if not dry_run:
            result.kept = str(_swap(path, new))
    finally:
        for end in _ENDS:
            with suppress(OSError):
                remove(f"{new}{end}")
    return result


def _is_kept(name: str) -> bool:
    return name != "turns" and not name.startswith(_DERIVED)


def _loose_rows(pages: Pages) -> tuple[list[Record], list[tuple[int, Record]]]:
    """Return definitions and turns on any page, whether or not the page is reachable.

    A page that SQLite says is free holds what was taken out, and is left alone.
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


def _schema(pages: Pages, loose: Iterable[Record]) -> dict[str, tuple[int, str]]:
    """Return root page and SQL of every table with a readable definition."""
    found: dict[str, tuple[int, str]] = {}
    for row in (*(row for _, row in pages.records(1)), *loose):
        if len(row) == _SCHEMA_COLUMNS and row[0] == "table":
            _, name, _, root, sql = row
            if isinstance(name, str) and isinstance(root, int) and isinstance(sql, str):
                found.setdefault(name, (root, sql))
    return found


def _turns(pages: Pages, root: int, loose: Iterable[tuple[int, Record]]) -> dict[int, Record]:
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


def _fill(
    connection: sqlite3.Connection,
    turns: Mapping[int, Record],
    tables: Mapping[str, tuple[int, str]],
    pages: Pages,
    result: Salvaged,
) -> None:
    """Write rows into a new history, with its triggers off: their rows are copied, too."""
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall()
    with transaction(connection):
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        columns = _columns(connection, "turns")
        rows = (dict(zip(columns, (n, *row[1:]), strict=False)) for n, row in turns.items())
        _insert(connection, "turns", rows)
        if is_older := "facts" in tables:
            for name in ("events", "branches"):
                connection.execute(f"DROP TABLE {name}")
            for name in tables.keys() & OLDER_TABLES:
                connection.execute(tables[name][1])
        for name, (root, sql) in tables.items():
            if not _columns(connection, name):
                continue
            found = _named_rows(pages, root, name, sql)
            if count := _insert(connection, name, found):
                result.tables[name] = count
        if is_older:
            add_events(connection)
        _follow_turns(connection, result)
        _keep_private(connection)
        for name, sql in triggers:
            connection.execute(f'DROP TRIGGER IF EXISTS "{name}"')
            connection.execute(sql)


def _reserve(
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


def _follow_turns(connection: sqlite3.Connection, result: Salvaged) -> None:
    """Rebuild what derives from the turns, and mark turns of unknown state as unread."""
    connection.execute("DELETE FROM speakers")
    connection.execute(
        "INSERT INTO speakers SELECT channel_id, author_platform, author_user_id, count(*),"
        " max(id) FROM turns WHERE author_platform IS NOT NULL AND NOT EXISTS (SELECT 1 FROM"
        " set_aside WHERE turn_id = id AND (superseded_by OR withdrawn)) GROUP BY 1, 2, 3"
    )
    if "unread" not in result.tables and "watermarks" not in result.tables:
        connection.execute("INSERT OR IGNORE INTO unread SELECT id, 0 FROM turns")


def _keep_private(connection: sqlite3.Connection) -> None:
    """Rebuild lost one-to-one marks; in doubt, more is private."""
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
        elif channel in after:  # whoever was alone later was alone then
            lost.append((turn_id, *after[channel]))
    connection.executemany("INSERT INTO one_to_one VALUES (?, ?, ?)", lost)


def _named_rows(pages: Pages, root: int, name: str, sql: str) -> Iterator[dict[str, Value]]:
    """Yield the rows of a table by column, named by its own definition."""
    with closing(sqlite3.connect(":memory:")) as scratch:
        try:
            scratch.execute(sql)
        except sqlite3.Error:
            return
        info = scratch.execute(f'PRAGMA table_info("{name}")').fetchall()
    keys = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]]
    names = [row[1] for row in info]
    has_rowid = "WITHOUT ROWID" not in sql.upper()
    alias = keys[0] if has_rowid and len(keys) == 1 else ""
    order = names if has_rowid else [*keys, *(n for n in names if n not in keys)]
    is_number = {row[1]: row[2].upper() == "INTEGER" for row in info}
    for rowid, row in pages.records(root):
        found = dict(zip(order, row, strict=False))
        if alias and is_number[alias] and found.get(alias) is None:
            found[alias] = rowid
        yield found


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Mapping[str, Value]]) -> int:
    """Write rows, skipping those that violate a constraint, and count them."""
    known, count = _columns(connection, table), 0
    for row in rows:
        names = [name for name in known if name in row]
        listed, marks = ", ".join(names), ", ".join("?" * len(names))
        statement = f'INSERT OR REPLACE INTO "{table}" ({listed}) VALUES ({marks})'  # noqa: S608
        with suppress(sqlite3.IntegrityError):
            connection.execute(statement, [row[name] for name in names])
            count += 1
    return count


def _swap(path: Path, new: Path) -> Path:
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
