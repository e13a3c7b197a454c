"""Who spoke where: a small table beside the turns, which the database itself keeps up to date.

Without it, finding the last five people of a channel would mean reading back through all its turns.
It counts the turns that people are shown, and could be made from them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
_WHO: Final = "author_platform, author_user_id, author_username, author_display_name"

# The turns tell what each was called when they last spoke.
RECENT: Final = f"""SELECT {_WHO.replace("author_", "turns.author_")} FROM (
        SELECT last_id FROM speakers WHERE channel_id = ? AND turns ORDER BY last_id DESC LIMIT ?
    ) JOIN turns ON turns.id = last_id ORDER BY last_id DESC"""  # noqa: S608  # our own names

# `is_private` is a function of the connection. Who spoke in private alone has no names.
ALL: Final = """SELECT person.author_platform, person.author_user_id, named.author_username,
        named.author_display_name, counted, latest.at_ms FROM (
        SELECT author_platform, author_user_id, sum(turns) AS counted, max(last_id) AS last,
            max(CASE WHEN NOT is_private(channel_id) THEN last_id END) AS last_public FROM speakers
        WHERE turns AND channel_id NOT IN (SELECT channel_id FROM channels_set_aside)
        GROUP BY author_platform, author_user_id
    ) AS person JOIN turns AS latest ON latest.id = last
    LEFT JOIN turns AS named ON named.id = last_public ORDER BY last DESC"""

SAID: Final = "SELECT coalesce(sum(turns), 0) FROM speakers WHERE channel_id = ?"

_MOVED: Final = """UPDATE speakers SET turns = turns + ?3, last_id = coalesce((
        SELECT id FROM turns AS said WHERE said.channel_id = ?1
        AND (author_platform, author_user_id) = (speakers.author_platform, speakers.author_user_id)
        AND NOT EXISTS (SELECT 1 FROM set_aside
            WHERE turn_id = said.id AND (superseded_by OR withdrawn))
        ORDER BY id DESC LIMIT 1), 0)
    WHERE channel_id = ?1 AND (author_platform, author_user_id) = (
        SELECT author_platform, author_user_id FROM turns WHERE id = ?2)"""


def recount(connection: sqlite3.Connection, changes: Mapping[int, int]) -> None:
    """Count turns, by number, that people are shown again (1) or no longer (-1)."""
    for turn_id, change in changes.items():
        sql = "SELECT channel_id FROM turns WHERE id = ?"
        (channel_id,) = connection.execute(sql, (turn_id,)).fetchone()
        connection.execute(_MOVED, (channel_id, turn_id, change))
