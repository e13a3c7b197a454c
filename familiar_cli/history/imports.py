"""Bringing a chat in: which of its lines are here already, and how the others become turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import ConflictError, RefusedError
from familiar_cli.history import standing
from familiar_cli.history.branches import leave
from familiar_cli.history.events import CHAT, append
from familiar_cli.history.matching import IncomingLine, LineMatch, Matching, identity_of
from familiar_cli.history.messages import find, note_id
from familiar_cli.history.rows import COLUMNS, from_ms, in_ms, pack, to_row

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from familiar_cli.history.placing import ChatPlacement
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

KIND: Final = "import"
"""The kind of a chat that was brought in from a file."""

_CACHE_KIB: Final = 65_536  # identities arrive in no order, so their index is best kept in memory
_TURNS: Final = (
    f"INSERT INTO turns (id, {', '.join(COLUMNS)}, hidden) "  # noqa: S608  # our own names
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
)
# What a turn got only after others heard of it, they do not know: no line is equal to it.
_EXTRAS: Final = (
    "INSERT INTO turn_extras VALUES (?1, ?2, ?3, ?4, ?5, CASE WHEN EXISTS (SELECT 1 FROM elsewhere "
    "WHERE turn_id = ?1) OR EXISTS (SELECT 1 FROM sync_state WHERE name = 'told' AND "
    "CAST(value AS INTEGER) >= ?1) THEN 0 ELSE (SELECT coalesce(max(nth), 0) + 1 "
    "FROM turn_extras WHERE identity = ?3) END)"
)


@dataclass(frozen=True, slots=True)
class ChatOrigin:
    """Where a chat comes from.

    Args:
        key: What it is known by in all imports, whatever becomes of its file.
        format: Its format.
        name: What its source calls it.
        head: What the source says of the chat as a whole, in JSON.
    """

    key: str
    format: str
    name: str
    head: str


def survey(history: HistoryStore, place: ChatPlacement, lines: Iterable[IncomingLine]) -> bytearray:
    """Return a `LineMatch` for each line, in one byte each.

    A line that stands before one which is here already cannot be added at its place: `inserted`.
    """
    with history.use(create=False) as connection:
        if place.is_new and not place.parent:
            return bytearray()
        matching = Matching(connection, place.parts(connection))
        verdicts = bytearray(matching.verdict(line) for line in lines)
    known = len(verdicts.rstrip(bytes([LineMatch.new])))
    verdicts[:known] = verdicts[:known].replace(bytes([LineMatch.new]), bytes([LineMatch.inserted]))
    return verdicts


class Appender:
    """Adds lines to the end of a channel, one transaction a batch.

    Args:
        history: The history.
        place: The channel; one that is to branch off another does so with the first line.
        origin: Where the lines come from.
    """

    def __init__(self, history: HistoryStore, place: ChatPlacement, origin: ChatOrigin) -> None:
        self._history = history
        self._place = place
        self._channel_id = place.channel_id
        self._origin = origin
        self._tail: int | None = None

    def add(self, batch: Sequence[IncomingLine], *, is_late: bool = False) -> list[LineMatch]:
        """Write down what is new in `batch`: all of it, or nothing. Return a verdict for each line.

        A line is not new if a message with its id is there by now, from this chat or elsewhere.

        Args:
            batch: The lines.
            is_late: They stand at their time between other turns, not at the end.

        Raises:
            RefusedError: The channel goes on after the first of the lines was said.
            ConflictError: Somebody else wrote to the channel since the last batch.
            FamiliarError: As `HistoryStore.append`.
        """
        with self._history.change() as connection:
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            chat_id = self._begin(connection)
            if not is_late:
                self._check_end(connection, chat_id, batch[0])
            verdicts = _by_id(connection, batch)
            fresh = [line for line, known in zip(batch, verdicts, strict=True) if not known]
            last = _insert(connection, chat_id, fresh) if fresh else None
            self._tail = self._tail if is_late or last is None else last
            return verdicts

    def correct(self, old: Turn, line: IncomingLine) -> None:
        """Replace a turn by the line that rewords it, or restore an earlier wording.

        Raises:
            FamiliarError: As `standing.supersede`.
        """
        others = standing.standings(self._history, (old.id,))[old.id].alternatives
        for other, state in standing.standings(self._history, others).items():
            turn = None if state.withdrawn else self._history.turn(other)
            if turn and turn.content == line.turn.content and turn.author == line.turn.author:
                standing.choose(self._history, other)
                return
        with self._history.change() as connection:
            self._begin(connection)
        made = standing.supersede(self._history, old, line.turn)
        self.describe([(made.id, line)])

    def describe(self, turns: Sequence[tuple[int, IncomingLine]]) -> None:
        """Update existing turns with what the source states about them."""
        with self._history.change() as connection:
            chat_id = self._begin(connection)
            connection.executemany(
                _EXTRAS, [_extras(turn_id, chat_id, line) for turn_id, line in turns]
            )

    def note_head(self) -> None:
        """Keep what the source says of the chat as a whole, though it has no new line."""
        with self._history.change() as connection:
            self._begin(connection)

    def _begin(self, connection: sqlite3.Connection) -> int:
        """Make sure that the channel is what it is to be, and return the number of the chat."""
        if self._place.parent:
            leave(connection, self._channel_id, self._place.parent, self._place.turn_id)
        return _chat_id(connection, self._channel_id, self._origin)

    def _check_end(self, connection: sqlite3.Connection, chat_id: int, first: IncomingLine) -> None:
        last = _last(connection, self._channel_id)
        if self._tail is not None:
            if last is None or last[0] != self._tail:
                raise ConflictError(
                    f"Channel {self._channel_id!r} got new turns during the import; the turns "
                    "imported so far are kept",
                    hint="Run the same command again to continue.",
                )
            return
        if last is None or last[2] == chat_id or last[1] <= in_ms(first.turn.at):
            return
        raise RefusedError(
            f"Channel {self._channel_id!r} goes on until {from_ms(last[1]):%Y-%m-%d %H:%M}, and "
            f"turns are only added at its end; the chat's lines from "
            f"{first.turn.at:%Y-%m-%d %H:%M} on were not imported",
            hint="Add `--channel NAME` to import into a new channel.",
        )


def _last(connection: sqlite3.Connection, channel_id: str) -> tuple[int, int, int | None] | None:
    """Return id, time and chat of the newest turn of a channel."""
    sql = (
        "SELECT id, at_ms, chat_id FROM shown LEFT JOIN turn_extras ON id = turn_id "
        "WHERE channel_id = ? ORDER BY id DESC LIMIT 1"
    )
    found = connection.execute(sql, (pack(channel_id),)).fetchone()
    return tuple(found) if found else None


def _chat_id(connection: sqlite3.Connection, channel_id: str, origin: ChatOrigin) -> int:
    """Return the number of a chat, with its newest head kept; nothing is written without need."""
    sql = "SELECT id FROM chats WHERE key = ? AND head = ? AND name = ?"
    same = connection.execute(sql, tuple(map(pack, (origin.key, origin.head, origin.name))))
    for (number,) in same:
        return int(number)
    sql = (
        "INSERT INTO chats (channel_id, key, kind, format, name, head) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET head = excluded.head, name = excluded.name RETURNING id"
    )
    texts = (channel_id, origin.key, KIND, origin.format, origin.name, origin.head)
    number = int(connection.execute(sql, tuple(map(pack, texts))).fetchone()[0])
    append(connection, CHAT, pack(origin.key))
    return number


def _by_id(connection: sqlite3.Connection, batch: Sequence[IncomingLine]) -> list[LineMatch]:
    """Return for each line whether a message with its id is new, there, or there in other words."""
    seen: dict[str, Turn] = {}
    verdicts = []
    for line in batch:
        turn, key = line.turn, line.message_id
        known = find(connection, turn.channel_id, key)
        earlier = known or seen.get(key)
        if key:
            seen.setdefault(key, turn)
        verdicts.append(LineMatch.of_known(earlier, turn) if earlier else LineMatch.new)
    return verdicts


def _insert(connection: sqlite3.Connection, chat_id: int, batch: Sequence[IncomingLine]) -> int:
    """Write turns and what belongs to them; return the last turn's id."""
    sql = (
        "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'turns'), 0), "
        "coalesce((SELECT max(id) FROM turns), 0))"
    )
    first = int(connection.execute(sql).fetchone()[0]) + 1
    numbered = list(enumerate(batch, start=first))
    connection.executemany(
        _TURNS, [(number, *to_row(line.turn), int(line.turn.hidden)) for number, line in numbered]
    )
    connection.executemany(_EXTRAS, [_extras(number, chat_id, line) for number, line in numbered])
    for number, line in numbered:
        note_id(connection, line.turn.channel_id, line.message_id, number)
    return first + len(batch) - 1


def _extras(number: int, chat_id: int, line: IncomingLine) -> tuple[Any, ...]:
    identity = identity_of(line.turn.channel_id, line.fingerprint)
    return (number, chat_id, identity, int(line.estimated), pack(line.raw))
