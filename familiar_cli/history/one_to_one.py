"""Turns said while only one person had spoken in their channel.

The database itself notes it with each turn, whoever writes it down: what was private to a person
when it was said stays so, also when others join the channel later. Whether it counts is for
`visibility` to say.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from familiar_cli.history.rows import pack, to_author, unpack
from familiar_cli.identity import Author

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

    from familiar_cli.history.file import HistoryFile
    from familiar_cli.visibility import Viewer


def of_turn(connection: sqlite3.Connection, turn_id: int) -> Author | None:
    """Return the only person who had spoken by a turn, or None if there were several."""
    sql = "SELECT platform, user_id FROM one_to_one WHERE turn_id = ?"
    row = connection.execute(sql, (turn_id,)).fetchone()
    return _author(row) if row else None


def inherit(connection: sqlite3.Connection, turn_id: int, other_id: int) -> None:
    """Copy the privacy of a turn to one that answers or replaces it."""
    sql = "INSERT OR IGNORE INTO one_to_one SELECT ?, platform, user_id FROM one_to_one"
    connection.execute(f"{sql} WHERE turn_id = ?", (turn_id, other_id))


def note_origin(
    connection: sqlite3.Connection, turn_id: int, channel_id: str, who: Author | None
) -> None:
    """Record the privacy that another instance states for its own turn."""
    connection.execute("DELETE FROM one_to_one WHERE turn_id = ?", (turn_id,))
    if who is not None:
        values = (turn_id, pack(who.platform), pack(who.user_id))
        connection.execute("INSERT INTO one_to_one VALUES (?, ?, ?)", values)
        return
    sql = (
        "UPDATE only_speakers SET platform = NULL, user_id = NULL WHERE channel_id = ? "
        "AND EXISTS (SELECT 1 FROM turns WHERE id = ? AND author_platform IS NOT NULL)"
    )
    connection.execute(sql, (pack(channel_id), turn_id))


def publish_chat(history: HistoryFile, channel_id: str, first_id: int) -> None:
    """Mark the turns imported from `first_id` on as a conversation of several people."""
    with history.change() as connection:
        key = pack(channel_id)
        sql = "UPDATE only_speakers SET platform = NULL, user_id = NULL WHERE channel_id = ?"
        connection.execute(sql, (key,))
        sql = (
            "DELETE FROM one_to_one WHERE turn_id >= ? AND turn_id IN "
            "(SELECT id FROM turns WHERE channel_id = ?)"
        )
        connection.execute(sql, (first_id, key))


def only_speaker(history: HistoryFile, channel_id: str) -> tuple[bool, Author | None]:
    """Return whether a channel has turns, and its only speaker, if there is just one.

    In a branch without words of its own, it is as in its parent.
    """
    sql = (
        "SELECT platform, user_id FROM only_speakers WHERE channel_id IN (?1, "
        "(SELECT parent FROM branches WHERE channel_id = ?1)) ORDER BY channel_id != ?1 LIMIT 1"
    )
    rows = history.rows(sql, (pack(channel_id),))
    return bool(rows), _author(rows[0]) if rows else None


def only_speakers(history: HistoryFile) -> dict[str, Author]:
    """Return the channels with a single speaker, and that speaker."""
    sql = "SELECT channel_id, platform, user_id FROM only_speakers WHERE platform IS NOT NULL"
    rows = history.rows(sql)
    return {unpack(channel_id): to_author((*who, None, None)) for channel_id, *who in rows}


def speakers_stamp(history: HistoryFile) -> tuple[int, ...]:
    """Return numbers of which one changes with who spoke where, and with what branches there are.

    The tables only grow, and a channel that has had several people never has one again.
    """
    sql = (
        "SELECT (SELECT count(*) FROM speakers), (SELECT count(*) FROM events "
        "WHERE kind = 'branch' AND subject IS NOT NULL), "
        "count(*), count(platform) FROM only_speakers"
    )
    return tuple(history.rows(sql)[0])


def people_in(history: HistoryFile, channels: Iterable[str]) -> dict[str, set[str]]:
    """Return the slugs of all past speakers, by channel."""
    from familiar_cli.sqlite import rows_among  # noqa: PLC0415  # loads sqlite3

    found: dict[str, set[str]] = {}
    sql = "SELECT channel_id, author_platform, author_user_id FROM speakers WHERE channel_id IN"
    with history.use(create=False) as connection:
        rows = rows_among(connection, sql, map(pack, channels))
        for channel_id, *who in rows:
            author = _author(who)
            if author:
                found.setdefault(unpack(channel_id), set()).add(author.slug)
    return found


def spoken_in(history: HistoryFile) -> list[str]:
    """Return all channels that have turns."""
    return [unpack(row[0]) for row in history.rows("SELECT channel_id FROM only_speakers")]


def visible(viewer: Viewer, *, also: Collection[str] = ()) -> tuple[str, list[Any]]:
    """Build the SQL condition, and its values, for turns that a viewer may see.

    Args:
        viewer: Who will see them.
        also: Further channels of which nothing is shown.
    """
    parts, values = list[str](), list[Any]()
    hidden = [pack(channel_id) for channel_id in sorted(viewer.hidden_channels.union(also))]
    if hidden:
        sql, found = _among(hidden)
        parts.append(f"NOT {sql}")
        values += found
    if not viewer.sees_everything and not viewer.rules.shares:
        declared = [pack(one) for one in sorted({*viewer.rules.private, *viewer.rules.public})]
        people = [part for slug in sorted(viewer.visible_people) for part in _account(slug)]
        sql, found = _among(declared)
        pairs = ", ".join(["(?, ?)"] * (len(people) // 2))
        parts.append(
            f"({sql} OR NOT EXISTS (SELECT 1 FROM one_to_one "  # noqa: S608
            f"WHERE turn_id = turns.id AND (platform, user_id) NOT IN (VALUES {pairs})))"
        )
        values += [*found, *people]
    return " AND ".join(parts) or "TRUE", values


def _among(channels: Collection[str | bytes | None]) -> tuple[str, list[str | bytes | None]]:
    """Build the condition that a turn is in one of many channels; a query takes few values."""
    plain = [one for one in channels if isinstance(one, str) and "\0" not in one]
    odd = [one for one in channels if not isinstance(one, str) or "\0" in one]
    sql = "turns.channel_id IN (SELECT value FROM json_each(?)"
    rest = f" OR turns.channel_id IN ({_marks(odd)})" if odd else ""
    return f"({sql}){rest})", [json.dumps(plain, ensure_ascii=False), *odd]


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _account(slug: str) -> tuple[str | bytes | None, str | bytes | None]:
    author = Author.from_slug(slug)
    return pack(author.platform), pack(author.user_id)


def _author(row: Iterable[Any]) -> Author | None:
    platform, user_id = row
    return None if platform is None else Author(unpack(platform), unpack(user_id))
