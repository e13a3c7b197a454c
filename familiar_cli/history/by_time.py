"""How much was said when, and by whom."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.history.rows import from_ms, in_ms, unpack

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

    from familiar_cli.history.store import HistoryStore

_QUARTER_MS: Final = 15 * 60_000  # no timezone is shifted by less
_SPAN: Final = "turns.at_ms >= ? AND turns.at_ms < ?"
_COUNTS: Final = (
    "SELECT at_ms / ?, author_platform, author_user_id, count(*), min(id) "  # noqa: S608  # our own
    f"FROM turns WHERE {_SPAN} {{}} GROUP BY 1, 2, 3"
)
_NOT_SHOWN: Final = (
    "AND (id IN (SELECT turn_id FROM set_aside WHERE superseded_by OR withdrawn) "
    "OR channel_id IN (SELECT channel_id FROM channels_set_aside))"
)


class Said(NamedTuple):
    """What one person, or the familiar, said within a part of an hour.

    Args:
        at: When that part begins, in UTC.
        account: The person's platform and id; None: nobody's, so the familiar's or the program's.
        turns: How many turns stand.
        first: The number of one of the first.
    """

    at: datetime
    account: tuple[str, str] | None
    turns: int
    first: int


def add(connection: sqlite3.Connection) -> None:
    """Make the index of a history that has none."""
    connection.execute(
        "CREATE INDEX turns_by_time ON turns (at_ms, author_platform, author_user_id)"
    )


def said_between(
    history: HistoryStore, since: datetime, until: datetime, *, whole_hours: bool
) -> list[Said]:
    """Return the standing turns of a span of time, in order.

    Args:
        history: The history.
        since: Where the span begins.
        until: Where it ends; it is no part of it.
        whole_hours: Count by the hour; otherwise by the quarter of an hour.
    """
    part_ms = _QUARTER_MS * 4 if whole_hours else _QUARTER_MS
    values = (part_ms, in_ms(since), in_ms(until))
    with history.use(create=False) as connection:
        if connection is None:
            return []
        found = connection.execute(_COUNTS.format(""), values).fetchall()
        less: dict[tuple[object, ...], int] = defaultdict(int)
        for part, platform, user_id, turns, _ in connection.execute(
            _COUNTS.format(_NOT_SHOWN), values
        ):
            less[part, platform, user_id] = turns
    return [
        Said(from_ms(part * part_ms), _account(platform, user_id), stand, first)
        for part, platform, user_id, turns, first in found
        if (stand := turns - less.get((part, platform, user_id), 0))
    ]


def first_and_last(history: HistoryStore) -> tuple[datetime, datetime] | None:
    """Return when the first and the last turn were said; None: there is none."""
    with history.use(create=False) as connection:
        if connection is None:
            return None
        (first,) = connection.execute("SELECT min(at_ms) FROM turns").fetchone()
        (last,) = connection.execute("SELECT max(at_ms) FROM turns").fetchone()
    return None if first is None else (from_ms(first), from_ms(last))


def count_up_to(history: HistoryStore, since: datetime, until: datetime, most: int) -> int:
    """Return how many turns were said in a span of time, but no more than `most`."""
    sql = f"SELECT count(*) FROM (SELECT 1 FROM turns WHERE {_SPAN} LIMIT ?)"  # noqa: S608
    with history.use(create=False) as connection:
        if connection is None:
            return 0
        return int(connection.execute(sql, (in_ms(since), in_ms(until), most)).fetchone()[0])


def _account(platform: object, user_id: object) -> tuple[str, str] | None:
    return None if platform is None else (unpack(platform), unpack(user_id))
