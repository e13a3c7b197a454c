"""Bringing a chat in: which of its lines are here already, and how the others become turns.

A line is known by its identity: a digest of its channel, and of who said what when in the words of
the source. No turn is ever changed, so a line that was edited since is told apart from a new one.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import ConflictError, RefusedError
from familiar_cli.history.rows import COLUMNS, from_ms, in_ms, pack, to_row, unpack

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

KIND: Final = "import"
"""The kind of a chat that was brought in from a file."""

SOURCE: Final = "import-chat"
"""The source of turns that were brought in."""

_NEARBY: Final = 8  # turns among which the earlier wording of an edited line is looked for
_MANY: Final = 100  # turns with one identity
_CACHE_KIB: Final = 65_536  # identities arrive in no order, so their index is best kept in memory
_TURNS: Final = (
    f"INSERT INTO turns (id, {', '.join(COLUMNS)}, hidden) "  # noqa: S608  # our own names
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
)
_EXTRAS: Final = "INSERT INTO turn_extras VALUES (?, ?, ?, ?, ?)"


class Verdict(IntEnum):
    """What a line is to the channel that it is brought into."""

    new = 0
    there = 1
    details_changed = 2
    edited = 3
    inserted = 4


@dataclass(frozen=True, slots=True)
class Incoming:
    """One line of a chat.

    Args:
        turn: What it becomes; its id is not looked at.
        fingerprint: A digest of who said what when, in the words of the source.
        estimated: The source had no time that could be read; the turn's was guessed.
        raw: The line as it came, in JSON.
        others: Other wordings that the source keeps of it.
    """

    turn: Turn
    fingerprint: bytes
    estimated: bool
    raw: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
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


def channel_of(
    history: HistoryStore, key: str, candidates: Iterable[str], sample: Sequence[Incoming]
) -> str:
    """Return the channel that a chat belongs to.

    It is the one it was brought into before, else the first candidate that is empty or holds any
    line of `sample`.

    Args:
        history: The history.
        key: The chat's key.
        candidates: Names for its channel, the best first, without end.
        sample: Some of its first lines.
    """
    with history.use(create=False) as connection:
        if connection is None:
            return next(iter(candidates))
        sql = "SELECT channel_id FROM chats WHERE key = ?"
        known = connection.execute(sql, (pack(key),)).fetchone()
        if known:
            return unpack(known[0])
        return next(c for c in candidates if _may_be(connection, c, sample))


def survey(history: HistoryStore, channel_id: str, lines: Iterable[Incoming]) -> bytearray:
    """Return a `Verdict` for each line, in one byte each.

    A line that stands before one which is here already cannot be added at its place: `inserted`.
    """
    with history.use(create=False) as connection:
        if connection is None or not _has_turns(connection, channel_id):
            return bytearray()
        matching = _Matching(connection, channel_id)
        verdicts = bytearray(matching.verdict(line) for line in lines)
    known = len(verdicts.rstrip(bytes([Verdict.new])))
    verdicts[:known] = verdicts[:known].replace(bytes([Verdict.new]), bytes([Verdict.inserted]))
    return verdicts


class Appender:
    """Adds lines to the end of a channel, one transaction a batch.

    Args:
        history: The history.
        channel_id: The channel.
        origin: Where the lines come from.
    """

    def __init__(self, history: HistoryStore, channel_id: str, origin: Origin) -> None:
        self._history = history
        self._channel_id = channel_id
        self._origin = origin
        self._tail: int | None = None

    def add(self, batch: Sequence[Incoming]) -> None:
        """Write `batch` down: all of it, or nothing.

        Raises:
            RefusedError: The channel goes on after the first of the lines was said.
            ConflictError: Somebody else wrote to the channel since the last batch.
            FamiliarError: As `HistoryStore.append`.
        """
        with self._history.use(create=True) as connection, _transaction(connection):
            chat_id = _chat_id(connection, self._channel_id, self._origin)
            self._check_end(connection, chat_id, batch[0])
            self._tail = _insert(connection, chat_id, batch)

    def note_head(self) -> None:
        """Keep what the source says of the chat as a whole, though it has no new line."""
        with self._history.use(create=True) as connection, _transaction(connection):
            _chat_id(connection, self._channel_id, self._origin)

    def _check_end(self, connection: sqlite3.Connection, chat_id: int, first: Incoming) -> None:
        last = _last(connection, self._channel_id)
        if self._tail is not None:
            if last is None or last[0] != self._tail:
                raise ConflictError(
                    f"Something was said in channel {self._channel_id!r} during the import; "
                    "the turns imported until then stay",
                    hint="Run the same command again to go on.",
                )
            return
        if last is None or last[2] == chat_id or last[1] <= in_ms(first.turn.at):
            return
        raise RefusedError(
            f"Channel {self._channel_id!r} goes on until {from_ms(last[1]):%Y-%m-%d %H:%M}, and "
            f"turns are only added at its end; the chat's lines from "
            f"{first.turn.at:%Y-%m-%d %H:%M} on were not imported",
            hint="Add `--channel NAME` with the name of a new channel.",
        )


class _Matching:
    """Finds each line's turn. A turn is matched with one line at most, whatever their order."""

    def __init__(self, connection: sqlite3.Connection, channel_id: str) -> None:
        self._connection = connection
        self._channel_id = channel_id
        self._cursor = 0
        self._passed: list[tuple[int, int]] = []  # ids [from, to) that no line was matched with yet
        self._edited = 0

    def verdict(self, line: Incoming) -> Verdict:
        identity = _identity(self._channel_id, line.fingerprint)
        found = self._ahead(identity, line.raw) or self._behind(identity, line.raw)
        if found:
            return Verdict.there if found[1] or _same(found[2], line.raw) else _DETAILS
        return Verdict.edited if self._is_edit(line) else Verdict.new

    def _ahead(self, identity: bytes, raw: str) -> tuple[int, int, str | bytes] | None:
        sql = (
            "SELECT turn_id, raw = ?, raw FROM turn_extras WHERE identity = ? AND turn_id > ? "
            "ORDER BY turn_id LIMIT 1"
        )
        found = self._connection.execute(sql, (pack(raw), identity, self._cursor)).fetchone()
        if found is None:
            return None
        if found[0] > self._cursor + 1:
            self._passed.append((self._cursor + 1, found[0]))
        self._cursor = found[0]
        return tuple(found)

    def _behind(self, identity: bytes, raw: str) -> tuple[int, int, str | bytes] | None:
        if not self._passed:
            return None
        sql = (
            "SELECT turn_id, raw = ?, raw FROM turn_extras WHERE identity = ? AND turn_id < ? "
            "ORDER BY turn_id DESC LIMIT ?"
        )
        rows = self._connection.execute(sql, (pack(raw), identity, self._cursor, _MANY))
        return next((row for row in rows if self._take(row[0])), None)

    def _take(self, turn_id: int) -> bool:
        place = bisect_right(self._passed, (turn_id, 2**63)) - 1
        if place < 0 or self._passed[place][1] <= turn_id:
            return False
        start, end = self._passed[place]
        parts = [(start, turn_id), (turn_id + 1, end)]
        self._passed[place : place + 1] = [part for part in parts if part[0] < part[1]]
        return True

    def _is_edit(self, line: Incoming) -> bool:
        """Tell whether one of the next turns is an earlier wording of the line."""
        sql = (
            "SELECT id, role, at_ms, content, estimated FROM turns "
            "JOIN turn_extras ON id = turn_id WHERE channel_id = ? AND id > ? ORDER BY id LIMIT ?"
        )
        start = max(self._cursor, self._edited)
        values = (pack(self._channel_id), start, _NEARBY)
        for place, row in enumerate(self._connection.execute(sql, values).fetchall()):
            if _is_wording(row, line, first=not place):
                self._edited = row[0]
                return True
        return False


_DETAILS: Final = Verdict.details_changed


def _is_wording(row: tuple[Any, ...], line: Incoming, *, first: bool) -> bool:
    _, role, at_ms, content, estimated = row
    if unpack(role) != line.turn.role:
        return False
    if unpack(content) in line.others:
        return True
    if line.estimated or estimated:  # without a time, only the place is left
        return bool(line.estimated and estimated and first)
    return bool(at_ms == in_ms(line.turn.at))


def _same(stored: str | bytes, raw: str) -> bool:
    """Tell whether two lines of JSON mean the same."""
    import json  # noqa: PLC0415  # only where the texts differ

    return bool(json.loads(stored) == json.loads(raw))


def _may_be(connection: sqlite3.Connection, channel: str, sample: Sequence[Incoming]) -> bool:
    if not _has_turns(connection, channel):
        return True
    sql = "SELECT 1 FROM turn_extras WHERE identity = ?"
    identities = (_identity(channel, line.fingerprint) for line in sample)
    return any(connection.execute(sql, (found,)).fetchone() for found in identities)


def _has_turns(connection: sqlite3.Connection, channel_id: str) -> bool:
    sql = "SELECT 1 FROM turns WHERE channel_id = ? LIMIT 1"
    return connection.execute(sql, (pack(channel_id),)).fetchone() is not None


def _last(connection: sqlite3.Connection, channel_id: str) -> tuple[int, int, int | None] | None:
    """Return id, time and chat of the newest turn of a channel."""
    sql = (
        "SELECT id, at_ms, chat_id FROM turns LEFT JOIN turn_extras ON id = turn_id "
        "WHERE channel_id = ? ORDER BY id DESC LIMIT 1"
    )
    found = connection.execute(sql, (pack(channel_id),)).fetchone()
    return tuple(found) if found else None


def _chat_id(connection: sqlite3.Connection, channel_id: str, origin: Origin) -> int:
    """Return the number of a chat, with its newest head kept."""
    sql = (
        "INSERT INTO chats (channel_id, key, kind, format, name, head) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET head = excluded.head, name = excluded.name RETURNING id"
    )
    texts = (channel_id, origin.key, KIND, origin.format, origin.name, origin.head)
    return int(connection.execute(sql, tuple(map(pack, texts))).fetchone()[0])


def _insert(connection: sqlite3.Connection, chat_id: int, batch: Sequence[Incoming]) -> int:
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
    return first + len(batch) - 1


def _extras(number: int, chat_id: int, line: Incoming) -> tuple[Any, ...]:
    identity = _identity(line.turn.channel_id, line.fingerprint)
    return (number, chat_id, identity, int(line.estimated), pack(line.raw))


def _identity(channel_id: str, fingerprint: bytes) -> bytes:
    channel = channel_id.encode("utf-8", errors="surrogatepass")
    return blake2b(channel + b"\0" + fingerprint, digest_size=16).digest()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
