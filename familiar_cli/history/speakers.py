"""Who spoke where: a small table beside the turns, which the database itself keeps up to date.

Without it, finding the last five people of a channel would mean reading back through all its turns.
It says nothing that the turns do not say, and could be made from them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

TABLE: Final = (
    """CREATE TABLE speakers (
        channel_id TEXT NOT NULL,
        author_platform TEXT NOT NULL,
        author_user_id TEXT NOT NULL,
        turns INTEGER NOT NULL,
        last_id INTEGER NOT NULL,
        PRIMARY KEY (channel_id, author_platform, author_user_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX speakers_of_channel ON speakers (channel_id, last_id)",
    """INSERT INTO speakers
        SELECT channel_id, author_platform, author_user_id, count(*), max(id) FROM turns
        WHERE author_platform IS NOT NULL GROUP BY 1, 2, 3""",
    """CREATE TRIGGER speakers_are_counted AFTER INSERT ON turns
        WHEN NEW.author_platform IS NOT NULL
        BEGIN
            INSERT INTO speakers VALUES
                (NEW.channel_id, NEW.author_platform, NEW.author_user_id, 1, NEW.id)
            ON CONFLICT DO UPDATE SET turns = turns + 1, last_id = max(last_id, excluded.last_id);
        END""",
)

_WHO: Final = "author_platform, author_user_id, author_username, author_display_name"

# The turns tell what each was called when they last spoke.
RECENT: Final = f"""SELECT {_WHO.replace("author_", "turns.author_")} FROM (
        SELECT last_id FROM speakers WHERE channel_id = ? ORDER BY last_id DESC LIMIT ?
    ) JOIN turns ON turns.id = last_id ORDER BY last_id DESC"""  # noqa: S608  # our own names

# `is_private` is a function of the connection. Who spoke in private alone has no names.
ALL: Final = """SELECT person.author_platform, person.author_user_id, named.author_username,
        named.author_display_name, counted, latest.at_ms FROM (
        SELECT author_platform, author_user_id, sum(turns) AS counted, max(last_id) AS last,
            max(CASE WHEN NOT is_private(channel_id) THEN last_id END) AS last_public FROM speakers
        GROUP BY author_platform, author_user_id
    ) AS person JOIN turns AS latest ON latest.id = last
    LEFT JOIN turns AS named ON named.id = last_public ORDER BY last DESC"""

SAID: Final = "SELECT coalesce(sum(turns), 0) FROM speakers WHERE channel_id = ?"


def add(connection: sqlite3.Connection) -> None:
    """Make the table of a history that has none."""
    for statement in TABLE:
        connection.execute(statement)
