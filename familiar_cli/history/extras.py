"""What the source of an imported turn said besides its words, in tables beside the turns.

`chats` has a row for each chat that was brought in, `turn_extras` one for each of its turns. Of
lines that are equal in all but their place, `nth` tells which is which on every machine: it counts
all that were known where the line was imported. 0 is equal to no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

_UNCHANGED: Final = """CREATE TRIGGER turn_extras_are_never_changed BEFORE UPDATE ON turn_extras
    BEGIN SELECT RAISE(ABORT, 'what a source said is never changed'); END"""
TABLES: Final = (
    "ALTER TABLE turns ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        key TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        format TEXT NOT NULL,
        name TEXT NOT NULL,
        head TEXT NOT NULL
    )""",
    "CREATE INDEX chats_of_channel ON chats (channel_id, id)",
    """CREATE TABLE turn_extras (
        turn_id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        identity BLOB NOT NULL,
        estimated INTEGER NOT NULL,
        raw TEXT NOT NULL
    )""",
    "CREATE INDEX turn_extras_by_identity ON turn_extras (identity)",
    _UNCHANGED,
    """CREATE TRIGGER turn_extras_are_never_deleted BEFORE DELETE ON turn_extras
        BEGIN SELECT RAISE(ABORT, 'what a source said is never deleted'); END""",
)


def add(connection: sqlite3.Connection) -> None:
    """Make the tables of a history that has none."""
    for statement in TABLES:
        connection.execute(statement)


def number_equal_lines(connection: sqlite3.Connection) -> None:
    """Number the equal lines of each instance, in their order, in a history without numbers."""
    connection.execute("ALTER TABLE turn_extras ADD COLUMN nth INTEGER NOT NULL DEFAULT 1")
    sql = (
        "SELECT nth, turn_id FROM (SELECT turn_extras.turn_id, row_number() OVER (PARTITION BY "
        "identity, instance ORDER BY coalesce(id_there, turn_extras.turn_id)) AS nth "
        "FROM turn_extras LEFT JOIN elsewhere USING (turn_id)) WHERE nth > 1"
    )
    repeated = connection.execute(sql).fetchall()
    connection.execute("DROP TRIGGER turn_extras_are_never_changed")
    connection.executemany("UPDATE turn_extras SET nth = ? WHERE turn_id = ?", repeated)
    connection.execute(_UNCHANGED)
