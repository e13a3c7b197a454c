"""Lines that other machines lack, and turns that the memory writer has not read.

A turn is unread from when it is stored until the results of reading it are durable. A pass may be
restricted to the turns of some channels, or to those said here rather than imported.

Turns from another instance are not unread here, since its own writer reads them. The backlog of an
instance that never comes back can be handed over.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.times import clock
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import lines
from familiar_cli.store.history import rows as turn_rows
from familiar_cli.store.history.events import BRANCH, CHANNEL, CHAT
from familiar_cli.store.history.store import HistoryStore

_WAITING_PAGE: Final = 200
_TAIL: Final = 20  # turns searched for a channel's newest exchange
HANDED: Final = "handed:"
"""In `sync_state`, before an instance that is gone: its unread turns are read here."""

# SQL condition for turns that are read on this instance.
_OURS: Final = (
    "NOT EXISTS (SELECT 1 FROM elsewhere WHERE elsewhere.turn_id = {0} AND NOT EXISTS "
    "(SELECT 1 FROM sync_state WHERE name = 'handed:' || instance))"
)


class UnreadFilter(Struct, frozen=True):
    """Filter on the unread turns.

    Args:
        channels: Only turns of these channels; None: of all.
        said_here: Only turns that were not imported.
    """

    channels: frozenset[str] | None = None
    said_here: bool = False

    def takes(self, turn: turn_rows.Turn) -> bool:
        """Tell whether a turn is selected."""
        return self.takes_of(turn.channel_id, imported=turn.source == turn_rows.IMPORTED)

    def takes_of(self, channel_id: str, *, imported: bool) -> bool:
        """Tell whether a channel's imported turns, or its other ones, are selected."""
        is_of_channel = self.channels is None or channel_id in self.channels
        return is_of_channel and not (self.said_here and imported)

    @property
    def condition(self) -> str:
        """SQL condition of the filter; served by a partial index."""
        return "NOT unread.imported" if self.said_here else "1"


ALL: Final = UnreadFilter()
SAID_HERE: Final = UnreadFilter(said_here=True)
"""What the writer reads by itself; what was imported waits until a person asks for it."""


def count_unread_turns(history: HistoryStore, which: UnreadFilter = ALL) -> int:
    """Count the unread turns that still stand."""
    sql = f"SELECT channel_id, count(*) {turn_rows.UNREAD} WHERE {which.condition} GROUP BY 1"
    if which.channels is None:
        sql = f"SELECT '', count(*) {turn_rows.UNREAD} WHERE {which.condition}"
    rows = history.rows(sql)
    return sum(
        value
        for channel, value in rows
        if which.channels is None or turn_rows.unpack(channel) in which.channels
    )


def unread_turns(history: HistoryStore, which: UnreadFilter = ALL) -> Iterator[turn_rows.Turn]:
    """Yield the unread turns, oldest first, a page at a time."""
    sql = (
        f"SELECT {turn_rows.SELECTED} FROM unread CROSS JOIN turns ON turns.id = unread.turn_id "  # noqa: S608
        f"WHERE {which.condition} AND unread.turn_id > ? ORDER BY unread.turn_id LIMIT ?"
    )
    after = 0
    while True:
        with history.use(create=False) as connection:
            rows = connection.execute(sql, (after, _WAITING_PAGE))
            page = [turn_rows.to_turn(row) for row in rows]
        yield from filter(which.takes, page)
        if len(page) < _WAITING_PAGE:
            return
        after = page[-1].id


def newest_waiting(history: HistoryStore, limit: int) -> list[turn_rows.Turn]:
    """Return the newest unread turns that were said here and still stand, oldest first."""
    sql = (
        f"SELECT {turn_rows.SELECTED_STANDING} FROM unread CROSS JOIN standing AS turns"  # noqa: S608
        f" ON turns.id = unread.turn_id WHERE {SAID_HERE.condition}"
        " ORDER BY unread.turn_id DESC LIMIT ?"
    )
    return [turn_rows.to_turn(row) for row in history.rows(sql, (limit,))][::-1]


def unread_among(history: HistoryStore, turn_ids: Collection[int]) -> set[int]:
    """Return the unread ones of these turns."""
    sql = "SELECT turn_id FROM unread WHERE turn_id IN"
    with history.use(create=False) as connection:
        return {row[0] for row in rows_among(connection, sql, turn_ids)}


def fresh_exchanges(history: HistoryStore, after: datetime) -> dict[str, int]:
    """Return the start of the newest exchange of each channel where it may still change.

    That is an exchange whose reply came after `after`, with nothing following, and which the writer
    has not read. Imported turns do not change.
    """
    sql = (
        "SELECT DISTINCT channel_id FROM unread CROSS JOIN turns ON turns.id = unread.turn_id "
        "WHERE NOT unread.imported AND at_ms > ?"
    )
    rows = history.rows(sql, (turn_rows.in_ms(after),))
    matches = [turn_rows.unpack(row[0]) for row in rows]
    begun = {
        channel: _newest_exchange(history.recent(channel, _TAIL, viewer=OWNER), after)
        for channel in matches
    }
    return {channel: place for channel, place in begun.items() if place is not None}


def count_settled(history: HistoryStore, after: datetime) -> int:
    """Count the unread turns said here, except exchanges that may still change."""
    begun = fresh_exchanges(history, after).items()
    newest = [
        t.id
        for c, at in begun
        for t in history.recent(c, _TAIL, viewer=OWNER)
        if turn_rows.place_of(t) >= at
    ]
    return max(count_unread_turns(history, SAID_HERE) - len(unread_among(history, newest)), 0)


def _newest_exchange(turns: Sequence[turn_rows.Turn], after: datetime) -> int | None:
    """Return where the turns that may still change begin; None unless the last one is a reply."""
    if not turns or turns[-1].role != "assistant" or turns[-1].source == turn_rows.IMPORTED:
        return None
    if turns[-1].at <= after or clock.elapsed_s(turns[-1].at) == math.inf:
        return None
    replies = list(takewhile(lambda turn: turn.role == "assistant", reversed(turns)))
    question = turns[-len(replies) - 1 : -len(replies)]
    return turn_rows.place_of((*question, *reversed(replies))[0])


def read_here(history: HistoryStore, turn_ids: Collection[int]) -> set[int]:
    """Return those of these turns that this instance's writer reads, not another's."""
    sql = f"SELECT id FROM turns WHERE {_OURS.format('id')} AND id IN"  # noqa: S608
    with history.use(create=False) as connection:
        return {row[0] for row in rows_among(connection, sql, turn_ids)}


def leave_to_others(connection: sqlite3.Connection, first_id: int, last_id: int) -> None:
    """Remove turns that another instance's writer reads from the backlog of a range."""
    sql = f"DELETE FROM unread WHERE turn_id BETWEEN ? AND ? AND NOT {_OURS.format('turn_id')}"  # noqa: S608
    connection.execute(sql, (first_id, last_id))


def hand_over(history: HistoryStore, instance: str, read: Collection[tuple[int, int]]) -> int:
    """Adopt the backlog of an instance that is gone for good; return how many turns of it stand.

    Args:
        read: First and last number, on that instance, of each run of turns its writer has read.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    handed = f"{HANDED}{instance}"
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
            for turn_id, there, imported in connection.execute(sql, (turn_rows.IMPORTED, instance))
            if not any(first <= there <= last for first, last in read)
        ]
        connection.executemany("INSERT OR IGNORE INTO unread VALUES (?, ?)", left)
        ids = [turn_id for turn_id, _ in left]
        return len(list(rows_among(connection, "SELECT 1 FROM standing WHERE id IN", ids)))


def forget_read_turns(
    history: HistoryStore, instance: str, read: Collection[tuple[int, int]], after: int
) -> None:
    """Remove what another instance's writer has read from the unread turns after a local one.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    sql = (
        "DELETE FROM unread WHERE turn_id > ? AND turn_id IN (SELECT turn_id FROM elsewhere "
        "WHERE instance = ? AND id_there BETWEEN ? AND ?)"
    )
    with history.change() as connection:
        connection.executemany(sql, [(after, instance, *run) for run in read])


def hand_back(history: HistoryStore, instance: str) -> None:
    """Return the backlog to an instance that has come back after all.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        connection.execute("DELETE FROM sync_state WHERE name = ?", (f"{HANDED}{instance}",))
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


def mark_read(history: HistoryStore, turn_ids: Collection[int]) -> None:
    """Mark turns as read; all others stay unread.

    Call it only once the results of reading them are durable.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    if not turn_ids:
        return
    with history.change() as connection:
        sql = "DELETE FROM unread WHERE turn_id = ?"
        connection.executemany(sql, [(turn_id,) for turn_id in turn_ids])
        history.note_read(connection, max(turn_ids))


_PAGE: Final = 2000
QUIET: Final = "quiet"
"""In `sync_state`: between which turns none was written down here."""

TOLD: Final = "told"
"""In `sync_state`: up to which turn others were told what was."""

_TURNS: Final = (
    f"SELECT turns.id, {', '.join(f'turns.{name}' for name in turn_rows.COLUMNS)}, "  # noqa: S608
    "turns.hidden, reply_to, slot, coalesce(is_node, 1), coalesce(place, turns.id), message_id, "
    "chats.key, identity, estimated, raw, nth, one_to_one.platform, one_to_one.user_id, "
    "elsewhere.turn_id FROM turns "
    "LEFT JOIN one_to_one ON one_to_one.turn_id = turns.id "
    "LEFT JOIN elsewhere ON elsewhere.turn_id = turns.id "
    "LEFT JOIN replies ON replies.turn_id = turns.id "
    "LEFT JOIN slots ON slots.turn_id = turns.id "
    "LEFT JOIN places ON places.turn_id = turns.id "
    "LEFT JOIN message_ids ON message_ids.turn_id = turns.id "
    "LEFT JOIN turn_extras ON turn_extras.turn_id = turns.id "
    "LEFT JOIN chats ON chats.id = chat_id "
    "WHERE turns.id > ? ORDER BY turns.id LIMIT ?"
)
_WIDTH: Final = len(turn_rows.COLUMNS) + 1
FACTS: Final = (
    f"SELECT id, min(clock, {lines.MOST}), kind, subject, turn_id, value, at_ms FROM events "  # noqa: S608
    "WHERE instance IS NULL"
)
"""Selects what `fact_line` reads; a clock that another machine drove up stays a number."""


def outgoing_lines(
    history: HistoryStore, own: str, since: lines.ThroughLine
) -> Iterator[lines.Line]:
    """Yield the lines after `since`, dependencies first, ending with the new cursor.

    Yields nothing if there is nothing new. Reads page by page, in bounded memory.

    Args:
        own: This instance's name.
        since: The last cursor that was written.
    """
    if not history.path.exists():
        return
    with history.change() as connection:
        lines.remember_own(connection, own)
        (last_turn,) = connection.execute("SELECT coalesce(max(id), 0) FROM turns").fetchone()
        (last_fact,) = connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        facts = connection.execute(f"{FACTS} AND id > ? ORDER BY id", (since.fact,)).fetchall()
        chats = {row[3]: row for row in facts if row[2] == CHAT}
        chat_lines = [fact_line(connection, own, row) for row in chats.values()]
        others = [fact_line(connection, own, row) for row in facts if row[2] != CHAT]
        written = history.watermark(turn_rows.WRITER)
        waiting = unread_through(connection, written)
        after = _quiet_through(connection, since.turn)
    count = 0
    yield from chat_lines
    for line in _turn_lines(history, own, after, last_turn):
        count += 1
        yield line
    yield from others
    if count or facts:
        yield lines.ThroughLine(last_turn, last_fact, written, waiting)
        with history.change() as connection:
            lines.write_state(connection, TOLD, str(last_turn))
    elif last_turn > after:
        with history.change() as connection:
            lines.write_state(connection, QUIET, f"{since.turn}-{last_turn}")


def _quiet_through(connection: sqlite3.Connection, turn_id: int) -> int:
    """Return the last turn of the run of foreign turns that follows a turn."""
    first, _, last = lines.read_state(connection, QUIET, "0-0").partition("-")
    return max(turn_id, int(last)) if int(first) <= turn_id else turn_id


def _turn_lines(history: HistoryStore, own: str, after: int, last: int) -> Iterator[lines.TurnLine]:
    best, best_place = 0, -1
    while after < last:
        with history.use(create=False) as connection:
            rows = connection.execute(_TURNS, (after, _PAGE)).fetchall()
            if best_place < 0:
                best = lines.previous_turn(connection, after + 1)
                best_place = lines.place_in(connection, best)
            follows = {}
            for row in rows:
                turn_id, is_node, place = row[0], row[_WIDTH + 3], row[_WIDTH + 4]
                if not is_node:
                    continue
                follows[turn_id] = best
                if place > best_place:
                    best, best_place = turn_id, place
            slots = {row[0]: row[_WIDTH + 2] for row in rows if not row[_WIDTH + 3]}
            replies = _reply_targets(connection, {row[0]: row[_WIDTH + 1] for row in rows})
            named = {*follows.values(), *slots.values(), *replies.values()} - {0}
            names = lines.turn_names(connection, own, named)
            former = lines.own_former_names(connection)
        for row in rows:
            after = row[0]
            if row[-1] is None and after <= last:
                yield _turn_line(row, (follows, replies, slots), names, former)
        if len(rows) < _PAGE:
            return


def _reply_targets(
    connection: sqlite3.Connection, told: Mapping[int, int | None]
) -> dict[int, int]:
    """Return the turn that each turn replies to, if it exists and comes earlier."""
    wanted = {i: to for i, to in told.items() if to is not None and to < i}
    rows = rows_among(connection, "SELECT id FROM turns WHERE id IN", sorted({*wanted.values()}))
    there = {row[0] for row in rows}
    return {i: to for i, to in wanted.items() if to in there}


def _turn_line(
    row: tuple[Any, ...],
    about: tuple[dict[int, int], ...],
    names: dict[int, lines.TurnName],
    former: Mapping[str, int],
) -> lines.TurnLine:
    turn_id = row[0]
    message_id, chat, identity, estimated, raw, nth, *only = row[_WIDTH + 5 : -1]
    turn = turn_rows.to_turn(row[:_WIDTH])
    after, reply_to, instead_of = (names.get(numbers.get(turn_id, 0)) for numbers in about)
    imported = None
    if identity is not None:
        key = "" if chat is None else turn_rows.unpack(chat)
        imported = lines.ImportOrigin(key, identity, bool(estimated), turn_rows.unpack(raw), nth)
    return lines.TurnLine(
        turn_id,
        after,
        turn.channel_id,
        turn.role,
        turn.author,
        turn.content,
        turn.at,
        turn.modality,
        turn.source,
        turn.partial,
        bool(row[_WIDTH]),
        "" if message_id is None else turn_rows.unpack(message_id),
        reply_to,
        instead_of,
        imported,
        None if only[0] is None else turn_rows.to_author((*only, None, None)),
        tuple(sorted(old for old, through in former.items() if turn_id <= through)),
    )


def fact_line(connection: sqlite3.Connection, own: str, fact: tuple[Any, ...]) -> lines.Fact:
    """Encode a row selected by `FACTS` for other machines."""
    id_, clock, kind, subject, turn_id, value, at_ms = fact
    if kind == CHAT:
        sql = "SELECT channel_id, key, kind, format, name, head FROM chats WHERE key = ?"
        texts = connection.execute(sql, (subject,)).fetchone()
        return lines.ChatLine(id_, clock, *map(turn_rows.unpack, texts))
    at = turn_rows.from_ms(at_ms)
    if kind == CHANNEL:
        return lines.ChannelMarkLine(id_, clock, turn_rows.unpack(subject), bool(value), at)
    if kind == BRANCH:
        left = lines.turn_names(connection, own, (turn_id,))[turn_id] if turn_id else None
        return lines.BranchLine(
            id_, clock, turn_rows.unpack(subject), turn_rows.unpack(value), left, at
        )
    value = turn_rows.to_number(value)
    names = lines.turn_names(connection, own, (turn_id, value))
    target = names[value] if value and kind == "superseded" else value
    return lines.MarkLine(id_, clock, names[turn_id], kind, target, at)
