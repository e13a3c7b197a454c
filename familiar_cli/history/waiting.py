"""Backlog of the memory writer: one row of the table `unread` for each turn.

A turn is unread from the moment it is written down until what came of it is durable. A pass may
read only some of them: those of a channel, or those that were said here and not imported.

Turns that came from another instance are not unread here: its own writer reads them. Those of an
instance that never comes back can be handed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from familiar_cli.history.rows import SELECTED, UNREAD, in_ms, to_turn, unpack
from familiar_cli.history.types import IMPORTED, place_of
from familiar_cli.sqlite import rows_among
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

_PAGE: Final = 200
_TAIL: Final = 20  # turns among which the newest exchange of a channel is looked for
_HANDED: Final = "handed:"
_OURS: Final = (
    "NOT EXISTS (SELECT 1 FROM elsewhere WHERE elsewhere.turn_id = {0} AND NOT EXISTS "
    "(SELECT 1 FROM sync_state WHERE name = 'handed:' || instance))"
)
"""SQL condition for turns that are read on this instance."""


@dataclass(frozen=True, slots=True)
class Which:
    """Selection among the unread turns.

    Args:
        channels: Only those of these channels; None: of all.
        said_here: Only those that were not imported.
    """

    channels: frozenset[str] | None = None
    said_here: bool = False

    def takes(self, turn: Turn) -> bool:
        """Tell whether a turn is selected."""
        return self.takes_of(turn.channel_id, imported=turn.source == IMPORTED)

    def takes_of(self, channel_id: str, *, imported: bool) -> bool:
        """Tell whether imported, or other, turns of a channel are selected."""
        is_of_channel = self.channels is None or channel_id in self.channels
        return is_of_channel and not (self.said_here and imported)

    @property
    def condition(self) -> str:
        """SQL condition that narrows the selection; answered by a partial index."""
        return "NOT unread.imported" if self.said_here else "1"


ALL: Final = Which()
SAID_HERE: Final = Which(said_here=True)
"""What the writer reads by itself; what was imported waits until a person asks for it."""


def count(history: HistoryStore, which: Which = ALL) -> int:
    """Count the unread turns that still stand."""
    sql = f"SELECT channel_id, count(*) {UNREAD} WHERE {which.condition} GROUP BY 1"
    if which.channels is None:
        sql = f"SELECT '', count(*) {UNREAD} WHERE {which.condition}"
    rows = history.rows(sql)
    return sum(
        found
        for channel, found in rows
        if which.channels is None or unpack(channel) in which.channels
    )


def turns(history: HistoryStore, which: Which = ALL) -> Iterator[Turn]:
    """Yield the unread turns, oldest first, a page at a time."""
    sql = (
        f"SELECT {SELECTED} FROM unread CROSS JOIN turns ON turns.id = unread.turn_id "  # noqa: S608
        f"WHERE {which.condition} AND unread.turn_id > ? ORDER BY unread.turn_id LIMIT ?"
    )
    after = 0
    while True:
        with history.use(create=False) as connection:
            rows = connection.execute(sql, (after, _PAGE))
            page = [to_turn(row) for row in rows]
        yield from filter(which.takes, page)
        if len(page) < _PAGE:
            return
        after = page[-1].id


def unread_among(history: HistoryStore, turn_ids: Collection[int]) -> set[int]:
    """Return the unread ones of these turns."""
    sql = "SELECT turn_id FROM unread WHERE turn_id IN"
    with history.use(create=False) as connection:
        return {row[0] for row in rows_among(connection, sql, turn_ids)}


def fresh(history: HistoryStore, after: datetime) -> dict[str, int]:
    """Return the channels whose newest exchange may still change, and the place where it begins.

    Its reply was made after a moment, nothing followed it, and the writer has not read it. What
    was imported does not change.
    """
    sql = (
        "SELECT DISTINCT channel_id FROM unread CROSS JOIN turns ON turns.id = unread.turn_id "
        "WHERE NOT unread.imported AND at_ms > ?"
    )
    rows = history.rows(sql, (in_ms(after),))
    found = [unpack(row[0]) for row in rows]
    begun = {
        channel: _newest_exchange(history.recent(channel, _TAIL, viewer=OWNER), after)
        for channel in found
    }
    return {channel: place for channel, place in begun.items() if place is not None}


def settled(history: HistoryStore, after: datetime) -> int:
    """Count the unread turns said here, except exchanges that may still change."""
    begun = fresh(history, after).items()
    newest = [
        t.id for c, at in begun for t in history.recent(c, _TAIL, viewer=OWNER) if place_of(t) >= at
    ]
    return max(count(history, SAID_HERE) - len(unread_among(history, newest)), 0)


def _newest_exchange(turns: Sequence[Turn], after: datetime) -> int | None:
    """Return where the last turns begin that may still change; None: the last one is no reply."""
    if not turns or turns[-1].role != "assistant" or turns[-1].source == IMPORTED:
        return None
    if turns[-1].at <= after:
        return None
    replies = list(takewhile(lambda turn: turn.role == "assistant", reversed(turns)))
    question = turns[-len(replies) - 1 : -len(replies)]
    return place_of((*question, *reversed(replies))[0])


def ours(history: HistoryStore, turn_ids: Collection[int]) -> set[int]:
    """Return those of these turns that are read here, and not by another instance's writer."""
    sql = f"SELECT id FROM turns WHERE {_OURS.format('id')} AND id IN"  # noqa: S608
    with history.use(create=False) as connection:
        return {row[0] for row in rows_among(connection, sql, turn_ids)}


def leave_to_others(connection: sqlite3.Connection, first_id: int, last_id: int) -> None:
    """Remove turns that another instance's writer reads from the backlog of a range."""
    sql = f"DELETE FROM unread WHERE turn_id BETWEEN ? AND ? AND NOT {_OURS.format('turn_id')}"  # noqa: S608
    connection.execute(sql, (first_id, last_id))


def hand_over(history: HistoryStore, instance: str, read: Collection[tuple[int, int]]) -> int:
    """Adopt the backlog of an instance that is gone for good; return its number of standing turns.

    Args:
        history: The history.
        instance: The instance.
        read: The first and last number there of each run of turns that its writer has read.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    handed = f"{_HANDED}{instance}"
    with history.change() as connection:
        if connection.execute("SELECT 1 FROM sync_state WHERE name = ?", (handed,)).fetchone():
            return 0
        connection.execute("INSERT INTO sync_state VALUES (?, '')", (handed,))
        sql = (
            "SELECT id, id_there, source = ? FROM elsewhere JOIN turns ON id = turn_id "
            "WHERE instance = ?"
        )
        left = [
            (turn_id, imported)
            for turn_id, there, imported in connection.execute(sql, (IMPORTED, instance))
            if not any(first <= there <= last for first, last in read)
        ]
        connection.executemany("INSERT OR IGNORE INTO unread VALUES (?, ?)", left)
        ids = [turn_id for turn_id, _ in left]
        return len(list(rows_among(connection, "SELECT 1 FROM standing WHERE id IN", ids)))


def hand_back(history: HistoryStore, instance: str) -> None:
    """Let an instance that has come back after all read its turns itself.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        connection.execute("DELETE FROM sync_state WHERE name = ?", (f"{_HANDED}{instance}",))
        sql = (
            "DELETE FROM unread WHERE turn_id IN (SELECT turn_id FROM elsewhere WHERE instance = ?)"
        )
        connection.execute(sql, (instance,))


def unread_through(connection: sqlite3.Connection, last_id: int) -> tuple[tuple[int, int], ...]:
    """Return the first and last turn of each run of unread turns up to `last_id`."""
    runs: list[tuple[int, int]] = []
    sql = "SELECT turn_id FROM unread WHERE turn_id <= ? ORDER BY turn_id"
    for (turn_id,) in connection.execute(sql, (last_id,)):
        if runs and runs[-1][1] == turn_id - 1:
            runs[-1] = (runs[-1][0], turn_id)
        else:
            runs.append((turn_id, turn_id))
    return tuple(runs)


def finish(history: HistoryStore, turn_ids: Collection[int]) -> None:
    """Mark turns as read; all others stay unread.

    Call it only when what came of them is durable.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    if not turn_ids:
        return
    with history.change() as connection:
        sql = "DELETE FROM unread WHERE turn_id = ?"
        connection.executemany(sql, [(turn_id,) for turn_id in turn_ids])
        history.note_read(connection, max(turn_ids))
