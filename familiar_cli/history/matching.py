"""Which turn a line of a chat is: the same, an earlier wording of it, or none.

A line is known by its identity: a digest of its channel, and of who said what when in the words of
the source.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.history.rows import in_ms, pack, unpack

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.history.types import Turn

_NEARBY: Final = 8  # turns among which the earlier wording of an edited line is looked for
_MANY: Final = 100  # turns with one identity


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


class Matching:
    """Finds each line's turn. A turn is matched with one line at most, whatever their order."""

    def __init__(self, connection: sqlite3.Connection, channel_id: str) -> None:
        self._connection = connection
        self._channel_id = channel_id
        self._cursor = 0
        self._passed: list[tuple[int, int]] = []  # ids [from, to) that no line was matched with yet
        self._edited = 0

    def verdict(self, line: Incoming) -> Verdict:
        """Return what the next line is to the channel; `inserted` is not told from `new`."""
        identity = identity_of(self._channel_id, line.fingerprint)
        found = self._ahead(identity, line.raw) or self._behind(identity, line.raw)
        if found:
            return (
                Verdict.there if found[1] or _same(found[2], line.raw) else Verdict.details_changed
            )
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
    return bool(json.loads(stored) == json.loads(raw))


def identity_of(channel_id: str, fingerprint: bytes) -> bytes:
    """Return what a line of a channel is known by."""
    channel = channel_id.encode("utf-8", errors="surrogatepass")
    return blake2b(channel + b"\0" + fingerprint, digest_size=16).digest()
