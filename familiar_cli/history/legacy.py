"""Histories of earlier programs: a `turns` table with a `speaker` column, or with author columns.

Nothing of such a file is lost. A copy stays beside it, its tables stay in the new file under
`legacy_<name>`, and each turn keeps its id, its words and its time.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from familiar_cli.clock import parse_iso, since_1970
from familiar_cli.files import Disk, remove
from familiar_cli.history.rows import COLUMNS, in_ms
from familiar_cli.sqlite import connect

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

PLATFORM: Final = "legacy-discord"
SOURCE: Final = "legacy"
UNDATED: Final = "legacy-undated"  # no readable time: the turn has that of the one before
_TIMES: Final = ("timestamp", "at_ms", "at", "created_at", "time")
_MILLISECONDS_FROM: Final = 10**11  # seconds reach this in the year 5138
_ROLES: Final = {"user", "assistant", "system"}


class Old(NamedTuple):
    """The table that holds the old turns, and its columns in lower case."""

    table: str
    columns: frozenset[str]


def tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all tables that are not SQLite's own."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if not name.startswith("sqlite_")]


def find_turns(connection: sqlite3.Connection) -> Old | None:
    """Return the table with old turns, or None: this is no history of an earlier program."""
    for table in sorted(tables(connection), key=lambda name: name.lower() != "turns"):
        described = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
        columns = frozenset(column[1].lower() for column in described)
        if {"role", "content"} <= columns and columns & {"speaker", "author_display_name"}:
            return Old(table, columns)
    return None


def keep_copy(path: Path, version: int) -> None:
    """Write a copy of the history beside it, named after the version it is about to become.

    Raises:
        OSError, sqlite3.Error: There is no copy, so nothing may be changed.
    """
    temporary = path.with_name(f"{path.name}.copy")
    remove(temporary)
    with (
        closing(connect(path, 5.0)) as old,
        closing(connect(temporary, 0)) as copy,
    ):
        old.backup(copy)
    aside = _free_name(path.with_name(f"{path.name}.before-v{version}"))
    Disk().replace(str(temporary), str(aside))


def set_aside(connection: sqlite3.Connection) -> Old | None:
    """Rename all plain tables to `legacy_<name>`, and return the one with turns, if any."""
    old = find_turns(connection)
    for index in _own_indexes(connection):
        connection.execute(f"DROP INDEX {_quoted(index)}")
    for table in _plain_tables(connection):
        new = _quoted(f"legacy_{table}")
        connection.execute(f"ALTER TABLE {_quoted(table)} RENAME TO {new}")
    return old._replace(table=f"legacy_{old.table}") if old else None


def copy_turns(connection: sqlite3.Connection, old: Old) -> None:
    """Write every old turn into `turns`, in the order of the ids they keep."""
    names = ["id" if "id" in old.columns else "rowid", *sorted(old.columns - {"id"})]
    listed = ", ".join(_quoted(name) if name != "rowid" else name for name in names)
    sql = f"SELECT {listed} FROM {_quoted(old.table)} ORDER BY 1"  # noqa: S608  # quoted names
    wanted = f"id, {', '.join(COLUMNS)}"
    marks = ", ".join("?" * (len(COLUMNS) + 1))
    at_ms = 0
    for values in connection.execute(sql).fetchall():
        found = dict(zip(names, values, strict=True))
        time_ms = _time_ms(found)
        at_ms = at_ms if time_ms is None else time_ms
        row = _row(found, at_ms, UNDATED if time_ms is None else SOURCE)
        connection.execute(f"INSERT INTO turns ({wanted}) VALUES ({marks})", (values[0], *row))  # noqa: S608


def _row(found: dict[str, Any], at_ms: int, source: str) -> tuple[Any, ...]:
    role = str(found["role"]).lower()
    role = role if role in _ROLES else "user"
    channel = found.get("channel_id")
    return (
        "legacy" if channel is None else _text(channel),
        *(_author(found) if role == "user" else (None,) * 4),
        role,
        _text(found["content"]),
        at_ms,
        "voice" if "voice" in str(found.get("modality") or found.get("mode") or "") else "text",
        source,
        0,
    )


def _author(found: dict[str, Any]) -> tuple[Any, ...]:
    """Return platform, user id, username and display name; all None when nobody is named."""
    platform, user_id = found.get("author_platform"), found.get("author_user_id")
    shown = found.get("author_display_name") or found.get("speaker")
    username = found.get("author_username")
    if platform is None or user_id is None:
        platform, user_id = PLATFORM, shown or username
    if user_id is None:
        return (None,) * 4
    names = (None if name is None else _text(name) for name in (username, shown))
    return (_text(platform), _text(user_id), *names)


def _time_ms(found: dict[str, Any]) -> int | None:
    """Return the turn's time in milliseconds since 1970, or None when it cannot be read."""
    value = next((found[name] for name in _TIMES if found.get(name) is not None), None)
    try:
        if isinstance(value, int | float):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return in_ms(since_1970(seconds))
        return in_ms(parse_iso(str(value)))
    except (ValueError, OverflowError, OSError):
        return None


def _plain_tables(connection: sqlite3.Connection) -> list[str]:
    """Return all tables but virtual ones and the tables they are made of."""
    sql = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL %'"
    virtual = [name for (name,) in connection.execute(sql)]
    belong = tuple(f"{name}_" for name in virtual)
    return [t for t in tables(connection) if t not in virtual and not t.startswith(belong)]


def _own_indexes(connection: sqlite3.Connection) -> list[str]:
    """Return the indexes that were made by name; they are derived, and we may want the names."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    return [name for (name,) in connection.execute(sql)]


def _free_name(path: Path) -> Path:
    taken, number = path, 1
    while taken.exists():
        number += 1
        taken = path.with_name(f"{path.name}.{number}")
    return taken


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: Any) -> str | bytes:  # noqa: ANN401  # a column of any type
    return value if isinstance(value, str | bytes) else str(value)
