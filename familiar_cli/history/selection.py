"""Turns of a channel or a span of time, page by page, with what their source said of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.history.arranging import by_time
from familiar_cli.history.rows import SELECTED, in_ms, pack, to_turn, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

_PAGE: Final = 1000  # turns that are read at once
_BITS: Final = 63
_KEPT: Final = (
    f"SELECT {SELECTED}, message_id, format, estimated, raw FROM turns "  # noqa: S608
    "LEFT JOIN turn_extras ON turn_extras.turn_id = turns.id "
    "LEFT JOIN chats ON chats.id = chat_id "
    "LEFT JOIN message_ids ON message_ids.turn_id = turns.id"
)


@dataclass(frozen=True, slots=True)
class TurnFilter:
    """Which turns are meant.

    Args:
        channel_id: Those of one channel; None: of all.
        since: Said then or later.
        until: Said before.
    """

    channel_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def where(self) -> tuple[str, list[Any]]:
        """Return conditions for SQL, each beginning with AND, and their values."""
        parts: list[tuple[str, Any]] = []
        if self.channel_id is not None:
            parts.append((" AND turns.channel_id = ?", pack(self.channel_id)))
        if self.since is not None:
            parts.append((" AND turns.at_ms >= ?", in_ms(self.since)))
        if self.until is not None:
            parts.append((" AND turns.at_ms < ?", in_ms(self.until)))
        return "".join(sql for sql, _ in parts), [value for _, value in parts]


@dataclass(frozen=True, slots=True)
class Kept:
    """A turn, and what its source said of it.

    Args:
        turn: The turn.
        format: The format of the chat that it was imported from; empty: it was said here.
        estimated: Its time is a guess.
        raw: What the source said, in JSON; empty: nothing.
        message_id: What its platform calls it; empty: nobody said.
    """

    turn: Turn
    format: str = ""
    estimated: bool = False
    raw: str = ""
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class ImportedFrom:
    """A chat that was brought into a channel.

    Args:
        format: Its format.
        name: What its source calls it.
        head: What the source says of it as a whole, in JSON; empty: nothing.
    """

    format: str
    name: str
    head: str


def select(history: HistoryStore, span: TurnFilter) -> Iterator[Kept]:
    """Yield the turns that are meant, oldest first, in bounded memory."""
    after = 0
    where, values = span.where()
    sql = f"{_KEPT} WHERE turns.id > ?{where} ORDER BY turns.id LIMIT {_PAGE}"
    while page := _rows(history, sql, (after, *values)):
        yield from map(_kept, page)
        after = int(page[-1][0])


def newest(
    history: HistoryStore, span: TurnFilter, limit: int, before_id: int | None = None
) -> list[Kept]:
    """Return the newest `limit` of the turns that are meant, oldest first.

    What was heard later than it was said stands where it was said.
    """
    where, values = span.where()
    end = 2**_BITS - 1 if before_id is None else before_id
    sql = f"{_KEPT} WHERE turns.id < ?{where} ORDER BY turns.id DESC LIMIT ?"
    found = [_kept(row) for row in _rows(history, sql, (end, *values, max(limit, 0)))]
    return by_time(found[::-1], _turn)


def around(history: HistoryStore, turn: Turn, before: int, after: int) -> list[Kept]:
    """Return a turn with its neighbours in the channel, oldest first."""
    above = newest(history, TurnFilter(turn.channel_id), before + 1, turn.id + 1)
    sql = f"{_KEPT} WHERE turns.channel_id = ? AND turns.id > ? ORDER BY turns.id LIMIT ?"
    below = _rows(history, sql, (pack(turn.channel_id), turn.id, max(after, 0)))
    return by_time([*above, *map(_kept, below)], _turn)


def imported_from(history: HistoryStore, channel_id: str) -> list[ImportedFrom]:
    """Return the chats that were brought into a channel, in the order in which they came."""
    sql = "SELECT format, name, head FROM chats WHERE channel_id = ? ORDER BY id"
    rows = _rows(history, sql, (pack(channel_id),))
    return [ImportedFrom(*map(unpack, row)) for row in rows]


def _rows(history: HistoryStore, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    with history.use(create=False) as connection:
        return connection.execute(sql, values).fetchall() if connection else []


def _turn(kept: Kept) -> Turn:
    return kept.turn


def _kept(row: tuple[Any, ...]) -> Kept:
    *turn, stated_id, source, estimated, raw = row
    kept = Kept(to_turn(tuple(turn)), message_id="" if stated_id is None else unpack(stated_id))
    if source is None:
        return kept
    return replace(kept, format=unpack(source), estimated=bool(estimated), raw=unpack(raw))
