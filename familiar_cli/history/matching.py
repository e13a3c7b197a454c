"""Which turn a line of a chat is: the same, an earlier wording of it, or none.

A line is known by the id that the source gives the message; where there is none, by its identity:
a digest of its channel, and of who said what when in the words of the source.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.history.branches import condition
from familiar_cli.history.messages import find
from familiar_cli.history.rows import in_ms, pack, unpack

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from familiar_cli.history.branches import BranchPart
    from familiar_cli.history.types import Turn

_NEARBY: Final = 8  # turns among which the earlier wording of an edited line is looked for
_MANY: Final = 100  # turns with one identity
_LEAVING: Final = ("branches", "bookmark_link")  # where SillyTavern notes them in `extra`
_KNOWN: Final = (
    "SELECT turn_id, author_platform, author_user_id, raw FROM turn_extras "
    "JOIN turns ON id = turn_id WHERE identity = ? AND turn_id < ?"
)


class LineMatch(IntEnum):
    """What a line is to the channel that it is brought into."""

    new = 0
    there = 1
    details_changed = 2
    edited = 3
    inserted = 4

    @classmethod
    def of_known(cls, stored: Turn, said: Turn) -> LineMatch:
        """Match a message whose id is known."""
        same = (stored.role, stored.content) == (said.role, said.content)
        by_one = not (stored.author and said.author) or _person(stored) == _person(said)
        return cls.there if same and by_one else cls.edited


@dataclass(frozen=True, slots=True)
class IncomingLine:
    """One line of a chat.

    Args:
        turn: What it becomes; its id is not looked at.
        fingerprint: A digest of who said what when, in the words of the source.
        estimated: The source had no time that could be read; the turn's was guessed.
        raw: The line as it came, in JSON.
        others: Other wordings that the source keeps of it.
        message_id: The source's id of the message; empty: it gives none.
        names_speaker: The source says who it was; else only the turn's author does.
    """

    turn: Turn
    fingerprint: bytes
    estimated: bool
    raw: str
    others: tuple[str, ...] = ()
    message_id: str = ""
    names_speaker: bool = True


class Matching:
    """Finds each line's turn. A turn is matched with one line at most, whatever their order.

    Args:
        connection: The history.
        parts: The parts of the channel's past, the newest first.
    """

    def __init__(self, connection: sqlite3.Connection, parts: Sequence[BranchPart]) -> None:
        self._connection = connection
        self._parts = parts
        self._cursor = 0
        self._passed: list[tuple[int, int]] = []  # ids [from, to) that no line was matched with yet
        self._edited = 0

    def verdict(self, line: IncomingLine) -> LineMatch:
        """Match the next line with the channel; an inserted line counts as new."""
        for part in self._parts:
            named = find(self._connection, part.channel_id, line.message_id)
            if named and part.holds(named):
                self._pass_to(named.id)
                return LineMatch.of_known(named, line.turn)
        for part in reversed(self._parts):
            raw = self._ahead(part, line) or self._behind(part, line)
            if raw is not None:
                return LineMatch.there if _same(raw, line.raw) else LineMatch.details_changed
        return LineMatch.edited if self._is_edit(line) else LineMatch.new

    def _ahead(self, part: BranchPart, line: IncomingLine) -> str | None:
        """Return the source's record of the next turn that the line matches, or None."""
        sql = f"{_KNOWN} AND turn_id > ? ORDER BY turn_id LIMIT ?"
        identity = identity_of(part.channel_id, line.fingerprint)
        rows = self._connection.execute(sql, (identity, part.end, self._cursor, _MANY))
        for turn_id, platform, user_id, raw in rows:
            if self._may_be(turn_id, (platform, user_id), unpack(raw), line):
                self._pass_to(turn_id)
                return unpack(raw)
        return None

    def _behind(self, part: BranchPart, line: IncomingLine) -> str | None:
        """Return the source's record of an earlier turn that no other line matches, or None."""
        if not self._passed:
            return None
        sql = f"{_KNOWN} AND turn_id < ? ORDER BY turn_id DESC LIMIT ?"
        identity = identity_of(part.channel_id, line.fingerprint)
        rows = self._connection.execute(sql, (identity, part.end, self._cursor, _MANY))
        for turn_id, platform, user_id, raw in rows:
            fits = self._may_be(turn_id, (platform, user_id), unpack(raw), line)
            if fits and self._take(turn_id):
                return unpack(raw)
        return None

    def _may_be(
        self, turn_id: int, author: tuple[object, object], raw: str, line: IncomingLine
    ) -> bool:
        """Tell whether a turn with the identity of a line may be the line."""
        if not line.names_speaker and not _is_by(author, line.turn):
            return False
        if not line.message_id:
            return True
        other = self._message_id(turn_id, raw)
        return other == line.message_id if other else not line.estimated

    def _message_id(self, turn_id: int, raw: str) -> str:
        """Return the id of an imported message; one imported long ago has it in its line only."""
        sql = "SELECT message_id FROM message_ids WHERE turn_id = ?"
        found = self._connection.execute(sql, (turn_id,)).fetchone()
        return unpack(found[0]) if found else stated_id(json.loads(raw))

    def _pass_to(self, turn_id: int) -> None:
        """Go on after a turn; if it stands behind, only note that a line was matched with it."""
        if turn_id <= self._cursor:
            self._take(turn_id)
            return
        if turn_id > self._cursor + 1:
            self._passed.append((self._cursor + 1, turn_id))
        self._cursor = turn_id

    def _take(self, turn_id: int) -> bool:
        place = bisect_right(self._passed, (turn_id, 2**63)) - 1
        if place < 0 or self._passed[place][1] <= turn_id:
            return False
        start, end = self._passed[place]
        parts = [(start, turn_id), (turn_id + 1, end)]
        self._passed[place : place + 1] = [part for part in parts if part[0] < part[1]]
        return True

    def _is_edit(self, line: IncomingLine) -> bool:
        """Tell whether one of the next turns is an earlier wording of the line."""
        where, past = condition(self._parts)
        sql = (
            "SELECT id, raw, author_platform, author_user_id, role, at_ms, content, estimated "  # noqa: S608
            "FROM turns JOIN turn_extras ON id = turn_id "
            f"WHERE {where} AND id > ? ORDER BY id LIMIT ?"
        )
        start = max(self._cursor, self._edited)
        values = (*past, start, _NEARBY)
        for place, row in enumerate(self._connection.execute(sql, values).fetchall()):
            if self._is_wording(row, line, follows=bool(self._cursor) and not place):
                self._edited = row[0]
                return True
        return False

    def _is_wording(self, row: tuple[Any, ...], line: IncomingLine, *, follows: bool) -> bool:
        """Tell whether a turn is an earlier wording of a line.

        Args:
            row: The turn.
            line: The line.
            follows: The turn is the next one after a known line.
        """
        turn_id, raw, platform, user_id, role, at_ms, content, estimated = row
        if unpack(role) != line.turn.role or not _is_by((platform, user_id), line.turn):
            return False
        if unpack(content) in line.others:
            return True
        if line.message_id:
            return self._message_id(turn_id, unpack(raw)) == line.message_id
        if line.estimated or estimated:  # without a time, only the place is left
            return bool(line.estimated and estimated and follows)
        return bool(at_ms == in_ms(line.turn.at))


def stated_id(value: Mapping[str, Any]) -> str:
    """Return the id that a plain line gives its message; empty: none."""
    given = value.get("id")
    return str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""


def _is_by(author: tuple[object, object], turn: Turn) -> bool:
    """Tell whether a stored platform and user id are those of a turn's author."""
    return author == tuple(map(pack, _person(turn)))


def _person(turn: Turn) -> tuple[str | None, str | None]:
    who = turn.author
    return (who.platform, who.user_id) if who else (None, None)


def _same(stored: str, raw: str) -> bool:
    """Tell whether two lines of JSON mean the same."""
    return stored == raw or bool(_told(stored) == _told(raw))


def _told(raw: str) -> dict[str, Any]:
    """Return a line without the names of the branches that leave there."""
    value: dict[str, Any] = json.loads(raw)
    extra = value.get("extra")
    if not isinstance(extra, dict):
        return {"extra": {}} | value
    return value | {"extra": {key: v for key, v in extra.items() if key not in _LEAVING}}


def identity_of(channel_id: str, fingerprint: bytes) -> bytes:
    """Return the key by which a channel's line is recognised."""
    channel = channel_id.encode("utf-8", errors="surrogatepass")
    return blake2b(channel + b"\0" + fingerprint, digest_size=16).digest()
