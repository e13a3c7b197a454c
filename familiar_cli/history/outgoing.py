"""What a history tells other machines: its own turns, and what became known of any turn here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.history.elsewhere import remember_own, turn_names
from familiar_cli.history.events import BRANCH, CHANNEL, CHAT
from familiar_cli.history.lines import (
    MOST,
    BranchLine,
    ChannelMarkLine,
    ChatLine,
    Imported,
    MarkLine,
    ThroughLine,
    TurnLine,
)
from familiar_cli.history.order import place_in, predecessor
from familiar_cli.history.rows import COLUMNS, from_ms, to_author, to_number, to_turn, unpack
from familiar_cli.history.types import WRITER
from familiar_cli.history.waiting import unread_through
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from familiar_cli.history.lines import Fact, Line, TurnName
    from familiar_cli.history.store import HistoryStore

_PAGE: Final = 2000
QUIET: Final = "quiet"
"""In `sync_state`: between which turns none was written down here."""

TOLD: Final = "told"
"""In `sync_state`: up to which turn others were told what was."""

_TURNS: Final = (
    f"SELECT turns.id, {', '.join(f'turns.{name}' for name in COLUMNS)}, "  # noqa: S608
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
_WIDTH: Final = len(COLUMNS) + 1
FACTS: Final = (
    f"SELECT id, min(clock, {MOST}), kind, subject, turn_id, value, at_ms FROM events "  # noqa: S608
    "WHERE instance IS NULL"
)
"""Selects what `fact_line` reads; a clock that another machine drove up stays a number."""


def outgoing(history: HistoryStore, own: str, since: ThroughLine) -> Iterator[Line]:
    """Yield what is new after `since`, each line after those that it needs; the last tells how far.

    Nothing is yielded where nothing is new. Pages are read one by one, so memory is bounded.

    Args:
        history: The history.
        own: The instance that this is.
        since: The last line of its kind that was written.
    """
    if not history.path.exists():
        return
    with history.change() as connection:
        remember_own(connection, own)
        (last_turn,) = connection.execute("SELECT coalesce(max(id), 0) FROM turns").fetchone()
        (last_fact,) = connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        facts = connection.execute(f"{FACTS} AND id > ? ORDER BY id", (since.fact,)).fetchall()
        chats = {row[3]: row for row in facts if row[2] == CHAT}
        chat_lines = [fact_line(connection, own, row) for row in chats.values()]
        others = [fact_line(connection, own, row) for row in facts if row[2] != CHAT]
        written = history.watermark(WRITER)
        waiting = unread_through(connection, written)
        after = _quiet_through(connection, since.turn)
    count = 0
    yield from chat_lines
    for line in _turns(history, own, after, last_turn):
        count += 1
        yield line
    yield from others
    if count or facts:
        yield ThroughLine(last_turn, last_fact, written, waiting)
        _note(history, TOLD, str(last_turn))
    elif last_turn > after:
        _note(history, QUIET, f"{since.turn}-{last_turn}")


def _note(history: HistoryStore, name: str, value: str) -> None:
    with history.change() as connection:
        connection.execute("INSERT OR REPLACE INTO sync_state VALUES (?, ?)", (name, value))


def _quiet_through(connection: sqlite3.Connection, turn_id: int) -> int:
    """Return the turn up to which all came from elsewhere that follow a turn."""
    sql = "SELECT value FROM sync_state WHERE name = ?"
    (quiet,) = connection.execute(sql, (QUIET,)).fetchone() or ("0-0",)
    first, _, last = quiet.partition("-")
    return max(turn_id, int(last)) if int(first) <= turn_id else turn_id


def _turns(history: HistoryStore, own: str, after: int, last: int) -> Iterator[TurnLine]:
    best, best_place = 0, -1
    while after < last:
        with history.use(create=False) as connection:
            rows = connection.execute(_TURNS, (after, _PAGE)).fetchall()
            if best_place < 0:
                best = predecessor(connection, after + 1)
                best_place = place_in(connection, best)
            follows = {}
            for row in rows:
                turn_id, is_node, place = row[0], row[_WIDTH + 3], row[_WIDTH + 4]
                if not is_node:
                    continue
                follows[turn_id] = best
                if place > best_place:
                    best, best_place = turn_id, place
            slots = {row[0]: row[_WIDTH + 2] for row in rows if not row[_WIDTH + 3]}
            replies = _replies(connection, {row[0]: row[_WIDTH + 1] for row in rows})
            named = {*follows.values(), *slots.values(), *replies.values()} - {0}
            names = turn_names(connection, own, named)
        for row in rows:
            after = row[0]
            if row[-1] is None and after <= last:
                yield _turn(row, (follows, replies, slots), names)
        if len(rows) < _PAGE:
            return


def _replies(connection: sqlite3.Connection, told: Mapping[int, int | None]) -> dict[int, int]:
    """Return which turn each turn replies to, where that one precedes it and exists."""
    wanted = {i: to for i, to in told.items() if to is not None and to < i}
    rows = rows_among(connection, "SELECT id FROM turns WHERE id IN", sorted({*wanted.values()}))
    there = {row[0] for row in rows}
    return {i: to for i, to in wanted.items() if to in there}


def _turn(
    row: tuple[Any, ...], about: tuple[dict[int, int], ...], names: dict[int, TurnName]
) -> TurnLine:
    turn_id = row[0]
    message_id, chat, identity, estimated, raw, nth, *only = row[_WIDTH + 5 : -1]
    turn = to_turn(row[:_WIDTH])
    after, reply_to, instead_of = (names.get(numbers.get(turn_id, 0)) for numbers in about)
    imported = None
    if identity is not None:
        key = "" if chat is None else unpack(chat)
        imported = Imported(key, identity, bool(estimated), unpack(raw), nth)
    return TurnLine(
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
        "" if message_id is None else unpack(message_id),
        reply_to,
        instead_of,
        imported,
        None if only[0] is None else to_author((*only, None, None)),
    )


def fact_line(connection: sqlite3.Connection, own: str, fact: tuple[Any, ...]) -> Fact:
    """Encode an event for other machines, from what `FACTS` selects."""
    id_, clock, kind, subject, turn_id, value, at_ms = fact
    if kind == CHAT:
        sql = "SELECT channel_id, key, kind, format, name, head FROM chats WHERE key = ?"
        texts = connection.execute(sql, (subject,)).fetchone()
        return ChatLine(id_, clock, *map(unpack, texts))
    at = from_ms(at_ms)
    if kind == CHANNEL:
        return ChannelMarkLine(id_, clock, unpack(subject), bool(value), at)
    if kind == BRANCH:
        left = turn_names(connection, own, (turn_id,))[turn_id] if turn_id else None
        return BranchLine(id_, clock, unpack(subject), unpack(value), left, at)
    value = to_number(value)
    names = turn_names(connection, own, (turn_id, value))
    meant = names[value] if value and kind == "superseded" else value
    return MarkLine(id_, clock, names[turn_id], kind, meant, at)
