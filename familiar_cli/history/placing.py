"""Where a chat belongs that is brought in: which channel has it already, or begins as it does.

A chat that shares its beginning with another one becomes a branch of it: what both say is there
once. A copy under another name is no chat of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.history.branches import BranchPart, all_branches, branch_of, parts_of
from familiar_cli.history.matching import identity_of
from familiar_cli.history.rows import pack, unpack
from familiar_cli.history.wording import live_channels

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    from familiar_cli.history.branches import Branch
    from familiar_cli.history.matching import IncomingLine
    from familiar_cli.history.store import HistoryStore

_SAMPLE: Final = 50  # first lines by which a chat is known again


@dataclass(frozen=True, slots=True)
class Arrival:
    """A chat that is brought in.

    Args:
        key: What it is known by in all imports; empty: nothing but its lines.
        format: Its format.
        name: What its source calls it.
        parent: What its source calls the chat that it left; empty: it says nothing of one.
        lines: Yields its lines, again at each call.
        channel: The channel that is wanted for it; empty: any.
        channels: Names for its channel, the best first, without end, again at each call.
        others: Names of all chats that are brought in with it.
        is_apart: It is no part of another chat, even if it begins as that does.
    """

    key: str
    format: str
    name: str
    parent: str
    lines: Callable[[], Iterable[IncomingLine]]
    channel: str
    channels: Callable[[], Iterator[str]]
    others: frozenset[str]
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class ChatPlacement:
    """Where a chat belongs.

    Args:
        channel_id: Its channel.
        parent: The channel that this is to branch off; empty: none, or it did so before.
        turn_id: The last turn that they share.
        is_new: The channel does not exist yet.
        is_copy: The channel holds all of it, under another name.
    """

    channel_id: str
    parent: str = ""
    turn_id: int = 0
    is_new: bool = False
    is_copy: bool = False

    def parts(self, connection: sqlite3.Connection) -> list[BranchPart]:
        """Return the parts of the channel's past, the newest first, as if it had branched off."""
        if not self.parent:
            return parts_of(connection, self.channel_id)
        end = self.turn_id + 1
        above = parts_of(connection, self.parent)
        return [
            BranchPart(self.channel_id),
            *(BranchPart(p.channel_id, min(p.end, end)) for p in above),
        ]


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What the past of a channel shares with a chat.

    Args:
        channel_id: The channel.
        turn_ids: The turns that are the chat's first lines.
        is_whole: All that was brought into the channel is among them.
    """

    channel_id: str
    turn_ids: tuple[int, ...]
    is_whole: bool


class _Lines:
    """The lines of a chat, read as far as they are asked for."""

    def __init__(self, lines: Iterable[IncomingLine]) -> None:
        self._coming = iter(lines)
        self._read: list[tuple[bytes, bool]] = []

    def fingerprint(self, number: int) -> bytes | None:
        """Return that of a line, counted from 0; None: there are fewer lines."""
        while len(self._read) <= number:
            line = next(self._coming, None)
            if line is None:
                return None
            self._read.append((line.fingerprint, line.turn.role == "user"))
        return self._read[number][0]

    def has_person(self, count: int) -> bool:
        """Tell whether anybody but the familiar says one of the first lines, which were read."""
        return any(is_person for _, is_person in self._read[:count])


def placed(history: HistoryStore, chat: Arrival) -> ChatPlacement:
    """Return where a chat belongs.

    That is the channel it was brought into before; else one that holds all of it; else a branch of
    one that begins as it does; else an empty one.
    """
    with history.use(create=False) as connection:
        if chat.channel:
            before = [chat.channel] if has_begun(connection, chat.channel) else []
        else:
            before = _brought_before(connection, chat)
            if not before and not chat.is_apart:  # it may have been kept live
                before = live_channels(history, list(chat.lines()))[:1]
        if len(before) == 1:
            return ChatPlacement(before[0])
        lines = _Lines(chat.lines())
        shared = None if chat.is_apart else _deepest(connection, lines)
        if before:
            return ChatPlacement(
                shared.channel_id if shared and shared.channel_id in before else before[0]
            )
        if shared and _is_worth(connection, chat, shared, lines):
            return _beside(connection, chat, shared, lines)
        sample = list(islice(chat.lines(), _SAMPLE))
        names = iter([chat.channel]) if chat.channel else chat.channels()
        name = next(n for n in names if chat.channel or _may_be(connection, n, sample))
        return ChatPlacement(name, is_new=not has_begun(connection, name))


def branching(history: HistoryStore, chat: Arrival) -> ChatPlacement:
    """Return a new branch for a chat, after the last of its lines that is known.

    Raises:
        NotFoundError: None is.
    """
    with history.use(create=False) as connection:
        shared = _deepest(connection, _Lines(chat.lines()))
        if shared is None:
            raise NotFoundError(f"No channel begins as {chat.name!r} does; nothing was imported")
        free = (name for name in chat.channels() if not has_begun(connection, name))
        return ChatPlacement(next(free), shared.channel_id, shared.turn_ids[-1], is_new=True)


def has_begun(connection: sqlite3.Connection, channel_id: str) -> bool:
    """Tell whether a channel has a past, if only as a branch."""
    sql = "SELECT 1 FROM turns WHERE channel_id = ? LIMIT 1"
    if connection.execute(sql, (pack(channel_id),)).fetchone():
        return True
    return branch_of(connection, channel_id) is not None


def _brought_before(connection: sqlite3.Connection, chat: Arrival) -> list[str]:
    """Return the channels that the chat may have been brought into before."""
    if chat.key:
        sql = "SELECT channel_id FROM chats WHERE key = ?"
        for (channel,) in connection.execute(sql, (pack(chat.key),)):
            return [unpack(channel)]
    sql = "SELECT DISTINCT channel_id FROM chats WHERE format = ? AND name = ?"
    rows = connection.execute(sql, (pack(chat.format), pack(chat.name))).fetchall()
    sample = list(islice(chat.lines(), _SAMPLE)) if rows else []
    return [channel for row in rows if _has_any(connection, channel := unpack(row[0]), sample)]


def _is_worth(
    connection: sqlite3.Connection, chat: Arrival, shared: _Beginning, lines: _Lines
) -> bool:
    """Tell whether a shared beginning is more than the same greeting."""
    if lines.has_person(len(shared.turn_ids)):
        return True
    return bool(chat.parent) and chat.parent in _names(connection, shared.channel_id)


def _beside(
    connection: sqlite3.Connection, chat: Arrival, shared: _Beginning, lines: _Lines
) -> ChatPlacement:
    """Return the place of a chat that begins as a channel does."""
    names = _names(connection, shared.channel_id)
    last = shared.turn_ids[-1]
    if lines.fingerprint(len(shared.turn_ids)) is None and not chat.channel:
        if chat.parent not in names:
            return ChatPlacement(shared.channel_id, is_copy=True)
        for branch in all_branches(connection):  # a copy of a checkpoint
            if branch.turn_id == last and not _has_turns(connection, branch.channel_id):
                return ChatPlacement(branch.channel_id, is_copy=True)
    elif shared.is_whole and not (chat.channel or chat.parent or names & chat.others):
        return ChatPlacement(shared.channel_id)  # the chat has another name by now, and has grown
    free = (name for name in chat.channels() if not has_begun(connection, name))
    return ChatPlacement(chat.channel or next(free), shared.channel_id, last, is_new=True)


def _deepest(connection: sqlite3.Connection, lines: _Lines) -> _Beginning | None:
    """Return the longest beginning that a channel's past shares with a chat; None: there is none.

    Only what was brought in is looked at.
    """
    first = lines.fingerprint(0)
    if first is None:
        return None
    channels = connection.execute("SELECT DISTINCT channel_id FROM chats").fetchall()
    roots = [c for (name,) in channels if _begins(connection, c := unpack(name), first)]
    branches = all_branches(connection) if roots else []
    found = [_along(connection, lines, branches, root) for root in roots]
    return max(found, key=lambda beginning: len(beginning.turn_ids), default=None)


def _along(
    connection: sqlite3.Connection, lines: _Lines, branches: list[Branch], root: str
) -> _Beginning:
    """Return the longest beginning that a channel, or one of its branches, shares with a chat."""
    best = _walk(connection, lines, _Beginning(root, (), is_whole=True))
    waiting, seen = [best], {root}
    while waiting:
        start = waiting.pop()
        for branch in branches:
            if branch.turn_id not in start.turn_ids or branch.channel_id in seen:
                continue
            above = start.turn_ids[: start.turn_ids.index(branch.turn_id) + 1]
            deeper = _walk(connection, lines, _Beginning(branch.channel_id, above, is_whole=True))
            if len(deeper.turn_ids) > len(above):
                seen.add(branch.channel_id)
                waiting.append(deeper)
                best = max(best, deeper, key=lambda beginning: len(beginning.turn_ids))
    return best


def _walk(connection: sqlite3.Connection, lines: _Lines, start: _Beginning) -> _Beginning:
    """Return how far a channel's own turns go on with a chat after what was found above it."""
    sql = (
        "SELECT turn_id, identity FROM turns JOIN turn_extras ON id = turn_id "
        "WHERE channel_id = ? ORDER BY id"
    )
    found = list(start.turn_ids)
    for turn_id, identity in connection.execute(sql, (pack(start.channel_id),)):
        said = lines.fingerprint(len(found))
        if said is None or identity_of(start.channel_id, said) != identity:
            return _Beginning(start.channel_id, tuple(found), is_whole=False)
        found.append(turn_id)
    return _Beginning(start.channel_id, tuple(found), is_whole=True)


def _begins(connection: sqlite3.Connection, channel_id: str, fingerprint: bytes) -> bool:
    """Tell whether a channel that is no branch may begin with a line; it has the line somewhere."""
    sql = "SELECT 1 FROM turn_extras WHERE identity = ?"
    known = connection.execute(sql, (identity_of(channel_id, fingerprint),)).fetchone()
    return bool(known) and branch_of(connection, channel_id) is None


def _may_be(connection: sqlite3.Connection, channel_id: str, sample: list[IncomingLine]) -> bool:
    return not has_begun(connection, channel_id) or _has_any(connection, channel_id, sample)


def _has_any(connection: sqlite3.Connection, channel_id: str, sample: list[IncomingLine]) -> bool:
    """Tell whether any of these lines is in the past of a channel."""
    sql = "SELECT 1 FROM turn_extras WHERE identity = ?"
    parts = parts_of(connection, channel_id)
    identities = (identity_of(p.channel_id, line.fingerprint) for line in sample for p in parts)
    return any(connection.execute(sql, (found,)).fetchone() for found in identities)


def _has_turns(connection: sqlite3.Connection, channel_id: str) -> bool:
    sql = "SELECT 1 FROM turns WHERE channel_id = ? LIMIT 1"
    return connection.execute(sql, (pack(channel_id),)).fetchone() is not None


def _names(connection: sqlite3.Connection, channel_id: str) -> frozenset[str]:
    """Return the names of the sources that a channel's chats came from."""
    sql = "SELECT name FROM chats WHERE channel_id = ?"
    rows = connection.execute(sql, (pack(channel_id),))
    return frozenset(unpack(row[0]) for row in rows)
