"""What has been said, in short: the rolling summary and its steps.

There is one summary of all channels that are not private, and one of each private channel: its
`scope` is that channel's id. Each step is a row, named by the last turn that it covers. All of it
could be made from the turns again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.history.rows import (
    SELECTED,
    Row,
    from_ms,
    in_ms,
    pack,
    to_number,
    to_turn,
    unpack,
)
from familiar_cli.history.selection import oldest_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

PUBLIC: Final = ""
"""The scope of the summary of all channels that are not private."""

TABLES: Final = (
    """CREATE TABLE summaries (
        scope TEXT NOT NULL,
        last_turn_id INTEGER NOT NULL,
        text TEXT NOT NULL,
        made_at_ms INTEGER NOT NULL,
        model TEXT NOT NULL,
        cut INTEGER NOT NULL,
        PRIMARY KEY (scope, last_turn_id)
    )""",
    """CREATE TABLE summary_channels (
        scope TEXT NOT NULL,
        channel_id TEXT NOT NULL,
        PRIMARY KEY (scope, channel_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE summary_state (
        scope TEXT PRIMARY KEY,
        wanted_id INTEGER NOT NULL DEFAULT 0
    )""",
)
_BITS: Final = 63
_STANDING: Final = f"SELECT {SELECTED} FROM standing AS turns"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of all turns of its scope up to one.

    Args:
        scope: `PUBLIC`, or the id of the private channel that it is about.
        last_turn_id: The last turn that it covers.
        text: Its words.
        made_at: When it was made, in UTC.
        model: Who made it.
        cut: It was longer than it may be, and lost its end.
    """

    scope: str
    last_turn_id: int
    text: str
    made_at: datetime
    model: str
    cut: bool = False


class Summaries:
    """The summaries of one familiar.

    Args:
        history: Where they are kept, beside the turns.
    """

    def __init__(self, history: HistoryStore) -> None:
        self._history = history

    def latest(
        self, scope: str, private: Collection[str] = (), *, before_id: int | None = None
    ) -> Summary | None:
        """Return the newest summary of a scope, or None.

        The public one is not handed out while it holds what was said in a channel that is private
        now.

        Args:
            scope: The scope.
            private: The channels that are private now.
            before_id: Only summaries of turns before this one.
        """
        sql = (
            "SELECT scope, last_turn_id, text, made_at_ms, model, cut FROM summaries "
            "WHERE scope = ? AND last_turn_id < ? ORDER BY last_turn_id DESC LIMIT 1"
        )
        if scope == PUBLIC and private and not self.channels(PUBLIC).isdisjoint(private):
            return None
        end = 2**_BITS - 1 if before_id is None else before_id
        return next((_summary(row) for row in self._rows(sql, pack(scope), end)), None)

    def channels(self, scope: str) -> frozenset[str]:
        """Return the channels whose turns are in a summary."""
        sql = "SELECT channel_id FROM summary_channels WHERE scope = ?"
        return frozenset(unpack(row[0]) for row in self._rows(sql, pack(scope)))

    def scopes(self) -> list[str]:
        """Return all scopes that have a summary, or should have one, sorted."""
        sql = "SELECT scope FROM summaries UNION SELECT scope FROM summary_state"
        return sorted(unpack(row[0]) for row in self._rows(sql))

    def keep(self, summary: Summary, channels: Collection[str]) -> None:
        """Keep a step and the channels whose turns it added.

        Raises:
            FamiliarError: It could not be written; nothing changed.
        """
        values = (
            pack(summary.scope),
            summary.last_turn_id,
            pack(summary.text),
            in_ms(summary.made_at),
            pack(summary.model),
            int(summary.cut),
        )
        with self._history.change() as connection:
            connection.execute("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?, ?, ?)", values)
            connection.executemany(
                "INSERT OR IGNORE INTO summary_channels VALUES (?, ?)",
                [(pack(summary.scope), pack(channel_id)) for channel_id in channels],
            )

    def forget(self, scope: str) -> None:
        """Throw a scope's summaries away; they can be made again."""
        with self._history.change() as connection:
            for table in ("summaries", "summary_channels"):
                connection.execute(f"DELETE FROM {table} WHERE scope = ?", (pack(scope),))  # noqa: S608

    def wanted(self, scope: str) -> int:
        """Return the turn up to which a summary should reach; 0: nothing is wanted yet."""
        sql = "SELECT wanted_id FROM summary_state WHERE scope = ?"
        return next((to_number(row[0]) for row in self._rows(sql, pack(scope))), 0)

    def want(self, scope: str, turn_id: int) -> None:
        """Say that a summary should reach up to a turn."""
        sql = (
            "INSERT INTO summary_state (scope, wanted_id) VALUES (?, ?) ON CONFLICT (scope) "
            "DO UPDATE SET wanted_id = max(wanted_id, excluded.wanted_id)"
        )
        with self._history.change() as connection:
            connection.execute(sql, (pack(scope), turn_id))

    def turns(
        self, scope: str, after_id: int, through_id: int, limit: int, private: Collection[str]
    ) -> list[Turn]:
        """Return the oldest `limit` turns of a scope with ids in (`after_id`, `through_id`]."""
        with self._history.use(create=False) as connection:
            if connection is None or limit <= 0:
                return []
            between = (after_id + 1, min(through_id + 1, 2**_BITS - 1))
            condition = _of_scope(scope, private)
            rows, _ = oldest_rows(connection, _STANDING, condition, limit, between)
        return [to_turn(row) for row in rows[:limit]]

    def count(
        self, scope: str, after_id: int, through_id: int, limit: int, private: Collection[str]
    ) -> int:
        """Return how many turns `turns` would find; never more than `limit` are looked at."""
        where, values = _of_scope(scope, private)
        placed = "coalesce((SELECT place FROM places WHERE turn_id = turns.id), id)"
        sql = (
            "SELECT count(*) FROM (SELECT 1 FROM standing AS turns "  # noqa: S608
            f"WHERE id > ? AND {placed} > ? AND {placed} <= ?{where} LIMIT ?)"
        )
        through_id = min(through_id, 2**_BITS - 1)
        found = self._rows(sql, after_id, after_id, through_id, *values, limit)
        return to_number(found[0][0]) if found else 0

    def _rows(self, sql: str, *values: Any) -> list[Row]:  # noqa: ANN401
        with self._history.use(create=False) as connection:
            return connection.execute(sql, values).fetchall() if connection else []


def add(connection: sqlite3.Connection) -> None:
    """Make the tables of a history that has none."""
    for statement in TABLES:
        connection.execute(statement)


def _summary(row: Row) -> Summary:
    scope, last_turn_id, text, made_at_ms, model, cut = row
    return Summary(
        unpack(scope),
        to_number(last_turn_id),
        unpack(text),
        from_ms(made_at_ms).astimezone(UTC),
        unpack(model),
        bool(cut),
    )


def _of_scope(scope: str, private: Collection[str]) -> tuple[str, list[Any]]:
    if scope != PUBLIC:
        return " AND channel_id = ?", [pack(scope)]
    left_out = [pack(channel_id) for channel_id in sorted(private)]
    return f" AND channel_id NOT IN ({', '.join('?' * len(left_out))})", [*left_out]


def forget_from(connection: sqlite3.Connection, turn_id: int) -> None:
    """Throw away every step that may rest on a turn; the others stay, to go on from."""
    connection.execute("DELETE FROM summaries WHERE last_turn_id >= ?", (turn_id,))
