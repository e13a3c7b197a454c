"""What the source of an imported turn said besides its words, in tables beside the turns.

`chats` has a row for each chat that was brought in, `turn_extras` one for each of its turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

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
    """CREATE TRIGGER turn_extras_are_never_changed BEFORE UPDATE ON turn_extras
        BEGIN SELECT RAISE(ABORT, 'what a source said is never changed'); END""",
    """CREATE TRIGGER turn_extras_are_never_deleted BEFORE DELETE ON turn_extras
        BEGIN SELECT RAISE(ABORT, 'what a source said is never deleted'); END""",
)


def add(connection: sqlite3.Connection) -> None:
    """Make the tables of a history that has none."""
    for statement in TABLES:
        connection.execute(statement)
