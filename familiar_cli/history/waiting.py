"""Which turns the memory writer has still to read: those after its watermark, and ranges before it.

A pass may read only some of the turns that wait: those of a channel, or those that were said here
and not imported. What it passes over stands in the table `waiting`, a row for each run of turns of
one channel and kind. An older program has no such table, and passes it over.

Turns that came from another instance do not wait here: its own writer reads them. Those of an
instance that never comes back can be handed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.history.arranging import place_of
from familiar_cli.history.imports import SOURCE as IMPORTED
from familiar_cli.history.rows import SELECTED, from_ms, in_ms, pack, to_turn, unpack
from familiar_cli.history.types import WRITER
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

_TABLE: Final = """CREATE TABLE IF NOT EXISTS waiting (
    first_id INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    channel_id TEXT NOT NULL,
    imported INTEGER NOT NULL,
    PRIMARY KEY (channel_id, first_id)
)"""
_PAGE: Final = 200
_TAIL: Final = 20  # turns among which the newest exchange of a channel is looked for
_HANDED: Final = "handed:"
_OURS: Final = (
    "NOT EXISTS (SELECT 1 FROM elsewhere WHERE elsewhere.turn_id = {0}.id AND NOT EXISTS "
    "(SELECT 1 FROM sync_state WHERE name = 'handed:' || instance))"
)
"""What holds for turns that are read here."""

_OF_RUN: Final = "channel_id = ? AND id BETWEEN ? AND ?"
_SELECT: Final = f"SELECT {SELECTED} FROM turns"  # noqa: S608
_STANDING_OF_RUN: Final = f"FROM standing WHERE {_OF_RUN} AND {_OURS.format('standing')}"
_STANDING_AFTER: Final = f"FROM standing WHERE id > ? AND {_OURS.format('standing')}"


@dataclass(frozen=True, slots=True)
class Which:
    """Which of the turns that wait are meant.

    Args:
        channels: Only those of these channels; None: of all.
        said_here: Only those that were not imported.
    """

    channels: frozenset[str] | None = None
    said_here: bool = False

    def takes(self, turn: Turn) -> bool:
        """Tell whether a turn is meant."""
        return self.takes_of(turn.channel_id, imported=turn.source == IMPORTED)

    def takes_of(self, channel_id: str, *, imported: bool) -> bool:
        """Tell whether the turns of a channel that were imported, or were not, are meant."""
        is_of_channel = self.channels is None or channel_id in self.channels
        return is_of_channel and not (self.said_here and imported)


ALL: Final = Which()
SAID_HERE: Final = Which(said_here=True)
"""What the writer reads by itself; what was imported waits until a person asks for it."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Turns of one channel and kind, none of which has been read."""

    first_id: int
    last_id: int
    channel_id: str
    imported: bool


def count(history: HistoryStore, which: Which = ALL) -> int:
    """Return how many turns wait, of those that stand."""
    with history.use(create=False) as connection:
        if connection is None:
            return 0
        before = sum(
            _number(connection, f"SELECT count(*) {_STANDING_OF_RUN}", *_values(run))
            for run in _runs(connection, which)
        )
        if which == ALL:
            sql = f"SELECT count(*) {_STANDING_AFTER}"
            return before + _number(connection, sql, _mark(connection))
        rows = _after(connection, "channel_id, source = ?", (IMPORTED,))
        return before + sum(which.takes_of(unpack(row[0]), imported=bool(row[1])) for row in rows)


def times(history: HistoryStore) -> list[datetime]:
    """Return when each turn that waits was said, if it stands."""
    with history.use(create=False) as connection:
        if connection is None:
            return []
        sql = f"SELECT at_ms {_STANDING_OF_RUN}"
        rows = [
            row for run in _runs(connection, ALL) for row in connection.execute(sql, _values(run))
        ]
        after = f"SELECT at_ms {_STANDING_AFTER}"
        rows += connection.execute(after, (_mark(connection),)).fetchall()
        return [from_ms(row[0]) for row in rows]


def turns(history: HistoryStore, which: Which = ALL) -> Iterator[Turn]:
    """Yield the turns that wait, a page at a time: what was passed over, and then all others."""
    with history.use(create=False) as connection:
        if connection is None:
            return
        runs, mark = _runs(connection, which), _mark(connection)
    for run in runs:
        yield from _pages(history, _OF_RUN, _values(run), run.first_id - 1)
    for turn in _pages(history, "1", (), mark):
        if which.takes(turn):
            yield turn


def fresh(history: HistoryStore, after: datetime) -> dict[str, int]:
    """Return the channels whose newest exchange may still change, and the place where it begins.

    Its reply was made after a moment, nothing followed it, and the writer has not read it. What
    was imported does not change.
    """
    with history.use(create=False) as connection:
        if connection is None:
            return {}
        here = f"id > ? AND at_ms > ? AND source != ? AND {_OURS.format('turns')}"
        sql = f"SELECT DISTINCT channel_id FROM turns WHERE {here}"  # noqa: S608
        given = (_mark(connection), in_ms(after), IMPORTED)
        found = {unpack(row[0]) for row in connection.execute(sql, given)}
        found |= {run.channel_id for run in _runs(connection, SAID_HERE)}
    begun = {channel: _newest_exchange(history.recent(channel, _TAIL), after) for channel in found}
    return {channel: place for channel, place in begun.items() if place is not None}


def settled(history: HistoryStore, after: datetime) -> int:
    """Return how many turns wait that were said here, but for exchanges that may still change.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    begun = fresh(history, after).items()
    newest = [t.id for c, at in begun for t in history.recent(c, _TAIL) if place_of(t) >= at]
    return max(said_here(history) - len(ours(history, newest)), 0)


def _newest_exchange(turns: Sequence[Turn], after: datetime) -> int | None:
    """Return where the last turns begin that may still change; None: the last one is no reply."""
    if not turns or turns[-1].role != "assistant" or turns[-1].source == IMPORTED:
        return None
    if turns[-1].at <= after:
        return None
    replies = list(takewhile(lambda turn: turn.role == "assistant", reversed(turns)))
    question = turns[-len(replies) - 1 : -len(replies)]
    return place_of((*question, *reversed(replies))[0])


def has_gaps(history: HistoryStore) -> bool:
    """Tell whether something waits that was said before what was read."""
    with history.use(create=False) as connection:
        return connection is not None and bool(_runs(connection, ALL))


def ours(history: HistoryStore, turn_ids: Collection[int]) -> set[int]:
    """Return those of these turns that are read here, and not by another instance's writer."""
    sql = f"SELECT id FROM turns WHERE {_OURS.format('turns')} AND id IN"  # noqa: S608
    with history.use(create=False) as connection:
        return {row[0] for row in rows_among(connection, sql, turn_ids)} if connection else set()


def pass_over(connection: sqlite3.Connection, first_id: int, last_id: int) -> None:
    """Move the watermark over turns that came from elsewhere, if nothing of ours waits before."""
    sql = f"SELECT 1 FROM turns WHERE id BETWEEN ? AND ? AND {_OURS.format('turns')} LIMIT 1"  # noqa: S608
    if connection.execute(sql, (first_id, last_id)).fetchone():
        return
    sql = "UPDATE watermarks SET turn_id = ? WHERE name = ? AND turn_id = ?"
    if first_id == 1:
        connection.execute("INSERT OR IGNORE INTO watermarks VALUES (?, 0)", (WRITER,))
    connection.execute(sql, (last_id, WRITER, first_id - 1))


def hand_over(history: HistoryStore, instance: str, read: Collection[tuple[int, int]]) -> int:
    """Let turns of an instance that never comes back wait here; return how many stand of them.

    Args:
        history: The history.
        instance: The instance.
        read: The first and last number there of each run of turns that its writer has read.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    sql = "SELECT count(*) FROM sync_state WHERE name = ?"
    with history.change() as connection:
        if _number(connection, sql, f"{_HANDED}{instance}"):
            return 0
        _move(history, connection, _number(connection, "SELECT max(id) FROM turns"), frozenset())
        connection.execute("INSERT INTO sync_state VALUES (?, '')", (f"{_HANDED}{instance}",))
        sql = (
            "SELECT channel_id, source = ?, id, iif(instance = ?, id_there, 0) FROM turns "
            "LEFT JOIN elsewhere ON id = turn_id ORDER BY 1, 3"
        )
        rows = connection.execute(sql, (IMPORTED, instance))
        return _wait_again(connection, rows, read)


def hand_back(history: HistoryStore, instance: str) -> None:
    """Let an instance that has come back after all read its turns itself.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        sql = "DELETE FROM sync_state WHERE name = ?"
        connection.execute(sql, (f"{_HANDED}{instance}",))


def _wait_again(
    connection: sqlite3.Connection,
    rows: Iterable[tuple[Any, ...]],
    read: Collection[tuple[int, int]],
) -> int:
    """Let the turns wait that another instance has not read; return how many stand of them.

    Args:
        connection: The history.
        rows: Channel, whether it was imported, number, and number there (0: it is another's) of all
            turns, by channel.
        read: As of `hand_over`.
    """

    def waits(row: tuple[Any, ...]) -> bool:
        return bool(row[3]) and not any(first <= row[3] <= last for first, last in read)

    count = 0
    grouped = groupby(list(rows), key=lambda row: (row[0], row[1], waits(row)))
    for (channel, imported, is_left), found in grouped:
        if is_left:
            ids = [row[2] for row in found]
            _add(connection, _Run(ids[0], ids[-1], unpack(channel), bool(imported)))
            sql = "SELECT 1 FROM standing WHERE id IN"
            count += sum(1 for _ in rows_among(connection, sql, ids))
    return count


def unread_before_mark(connection: sqlite3.Connection) -> tuple[tuple[int, int], ...]:
    """Return the first and last turn of each run before the watermark that waits."""
    return tuple((run.first_id, run.last_id) for run in _runs(connection, ALL))


def finish(history: HistoryStore, turn_ids: Collection[int]) -> None:
    """Say that these turns were read; whatever waits besides goes on waiting.

    Call it only when what came of them is durable.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    done = frozenset(turn_ids)
    with history.change() as connection:
        for run in _runs(connection, ALL):
            inside = [n for n in done if run.first_id <= n <= run.last_id]
            if inside:
                _narrow(connection, run, done, max(inside))
        _move(history, connection, max(done, default=0), done)


def said_here(history: HistoryStore) -> int:
    """Return how many turns wait that were said here; imported ones are passed over for good.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.use(create=False) as connection:
        is_settled = connection is None or not _newest_imported(connection)
    if not is_settled:
        with history.change() as connection:
            _move(history, connection, _newest_imported(connection), frozenset())
    return count(history, SAID_HERE)


def finish_through(history: HistoryStore, last_id: int) -> None:
    """Say that all turns up to `last_id` were read.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        for run in _runs(connection, ALL):
            if run.first_id <= last_id:
                _replace(connection, run, [(max(last_id + 1, run.first_id), run.last_id)])
        history.move_watermark(WRITER, last_id)


def _values(run: _Run) -> tuple[object, int, int]:
    return pack(run.channel_id), run.first_id, run.last_id


def _runs(connection: sqlite3.Connection, which: Which) -> list[_Run]:
    """Return the runs before the watermark that wait, the oldest first."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'waiting'"
    if not connection.execute(sql).fetchone():
        return []
    sql = "SELECT first_id, last_id, channel_id, imported FROM waiting ORDER BY first_id"
    found = (_Run(a, b, unpack(c), bool(d)) for a, b, c, d in connection.execute(sql))
    return [run for run in found if which.takes_of(run.channel_id, imported=run.imported)]


def _after(
    connection: sqlite3.Connection, columns: str, values: tuple[str, ...]
) -> Iterable[tuple[object, ...]]:
    """Return some columns of the turns after the watermark that stand."""
    sql = f"SELECT {columns} {_STANDING_AFTER} ORDER BY id"
    return connection.execute(sql, (*values, _mark(connection)))


def _pages(
    history: HistoryStore, where: str, values: tuple[object, ...], after: int
) -> Iterator[Turn]:
    ours_too = _OURS.format("turns")
    sql = f"{_SELECT} WHERE {where} AND id > ? AND {ours_too} ORDER BY id LIMIT ?"
    while True:
        with history.use(create=False) as connection:
            page = [to_turn(row) for row in connection.execute(sql, (*values, after, _PAGE))]
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _narrow(
    connection: sqlite3.Connection, run: _Run, done: frozenset[int], last_done: int
) -> None:
    """Take the turns that are done out of a run."""
    sql = f"SELECT id FROM turns WHERE {_OF_RUN} AND {_OURS.format('turns')}"  # noqa: S608
    values = (pack(run.channel_id), run.first_id, last_done)
    left = [(n, n) for (n,) in connection.execute(sql, values) if n not in done]
    _replace(connection, run, [*left, (last_done + 1, run.last_id)])


def _replace(connection: sqlite3.Connection, run: _Run, spans: Iterable[tuple[int, int]]) -> None:
    sql = "DELETE FROM waiting WHERE channel_id = ? AND first_id = ?"
    connection.execute(sql, (pack(run.channel_id), run.first_id))
    for first, last in spans:
        if first <= last:
            _add(connection, _Run(first, last, run.channel_id, run.imported))


def _move(
    history: HistoryStore, connection: sqlite3.Connection, last_id: int, done: frozenset[int]
) -> None:
    """Move the watermark up to a turn, and keep what it passes that is not done."""
    mark = _mark(connection)
    if last_id <= mark:
        return
    these = f"id BETWEEN ? AND ? AND {_OURS.format('turns')}"
    sql = f"SELECT channel_id, source = ?, id FROM turns WHERE {these} ORDER BY 1, 3"  # noqa: S608
    rows = connection.execute(sql, (IMPORTED, mark + 1, last_id)).fetchall()
    for (channel, imported, _), found in groupby(rows, key=lambda r: (r[0], r[1], r[2] in done)):
        ids = [row[2] for row in found]
        if ids[0] not in done:
            _add(connection, _Run(ids[0], ids[-1], unpack(channel), bool(imported)))
    history.move_watermark(WRITER, last_id)  # in the transaction of `connection`


def _add(connection: sqlite3.Connection, run: _Run) -> None:
    connection.execute(_TABLE)
    values = (run.first_id, run.last_id, pack(run.channel_id), int(run.imported))
    connection.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", values)


def _newest_imported(connection: sqlite3.Connection) -> int:
    """Return the newest imported turn if it is after the watermark, else 0."""
    newest = _number(connection, "SELECT coalesce(max(turn_id), 0) FROM turn_extras")
    return newest if newest > _mark(connection) else 0


def _mark(connection: sqlite3.Connection) -> int:
    return _number(connection, "SELECT turn_id FROM watermarks WHERE name = ?", WRITER)


def _number(connection: sqlite3.Connection, sql: str, *values: object) -> int:
    return int((connection.execute(sql, values).fetchone() or (0,))[0])
