"""Match the lines of a chat with stored turns, and place new ones.

A line is recognised by the message id that its source gives; without one, by its identity: a digest
of its channel, speaker, time and original words.

A chat that shares its beginning with another one becomes a branch of it, so that what both contain
is stored once. A copy under another name is not a separate chat.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from enum import IntEnum
from functools import cache
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.errors import NotFoundError
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import events
from familiar_cli.store.history.forgetting import is_forgotten
from familiar_cli.store.history.rows import SERVED, Turn, in_ms, pack, unpack
from familiar_cli.store.history.same_message import (
    Wording,
    account_of,
    compare_ids,
    identity_of,
    normal_words,
    stated_id,
    wording_of,
)
from familiar_cli.store.history.selection import TurnFilter, select_turns
from familiar_cli.store.history.store import HistoryStore, find_message

_FIRST_CHARACTERS: Final = "substr(content, 1, 24)"  # as in the index `turns_by_beginning`
_NEARBY: Final = 8  # turns searched for the earlier wording of an edited line
_MANY: Final = 100  # turns with one identity
_LEAVING: Final = ("branches", "bookmark_link")  # SillyTavern's keys for them in `extra`
_KNOWN: Final = (
    "SELECT turn_id, author_platform, author_user_id, raw FROM turn_extras "
    "JOIN turns ON id = turn_id WHERE identity = ? AND turn_id < ?"
)


class LineMatch(IntEnum):
    """Verdict on a line with respect to its target channel."""

    new = 0
    there = 1
    details_changed = 2
    edited = 3
    inserted = 4
    forgotten = 5

    @classmethod
    def of_known(cls, stored: Turn, turn: Turn) -> LineMatch:
        """Classify a message whose id is already stored."""
        same = (stored.role, stored.content) == (turn.role, turn.content)
        by_one = not (stored.author and turn.author) or account_of(stored) == account_of(turn)
        return cls.there if same and by_one else cls.edited


class IncomingLine(Struct, frozen=True):
    """One line of a chat.

    Args:
        turn: The turn it becomes; its id is ignored.
        fingerprint: A digest of speaker, time and words as the source has them.
        estimated: Whether the turn's time is a guess because the source had no readable one.
        raw: The original line, in JSON.
        others: Its alternatives in the source.
        message_id: The source's id of the message; empty: none.
        names_speaker: Whether the source names the speaker; otherwise only the turn's author is
            known.
    """

    turn: Turn
    fingerprint: bytes
    estimated: bool
    raw: str
    others: tuple[str, ...] = ()
    message_id: str = ""
    names_speaker: bool = True


class TurnMatcher:
    """Matches lines with turns, each turn with at most one line, in any order.

    Args:
        connection: The history.
        parts: The parts of the channel's past, newest first.
    """

    def __init__(self, connection: sqlite3.Connection, parts: Sequence[events.BranchPart]) -> None:
        self._connection = connection
        self._parts = parts
        self._cursor = 0
        self._passed: list[tuple[int, int]] = []  # ids [from, to) not yet matched with a line
        self._edited = 0

    def verdict(self, line: IncomingLine) -> LineMatch:
        """Match the next line with the channel; an inserted line counts as new."""
        found = self._find(line)
        lost = found is not LineMatch.there and is_forgotten(self._connection, line.turn)
        return LineMatch.forgotten if lost else found

    def _find(self, line: IncomingLine) -> LineMatch:
        for part in self._parts:
            message = find_message(self._connection, part.channel_id, line.message_id)
            if message and part.holds(message):
                self._pass_to(message.id)
                return LineMatch.of_known(message, line.turn)
        for part in reversed(self._parts):
            raw = self._known(part, line, is_ahead=True) or self._known(part, line, is_ahead=False)
            if raw is not None:
                is_same = raw == line.raw or _without_branches(raw) == _without_branches(line.raw)
                return LineMatch.there if is_same else LineMatch.details_changed
        return LineMatch.edited if self._is_edit(line) else LineMatch.new

    def _known(self, part: events.BranchPart, line: IncomingLine, *, is_ahead: bool) -> str | None:
        """Return the source's record of the turn that a line matches, or None.

        That is the next match ahead, else the last unmatched one behind.
        """
        if not is_ahead and not self._passed:
            return None
        order = "> ? ORDER BY turn_id" if is_ahead else "< ? ORDER BY turn_id DESC"
        sql = f"{_KNOWN} AND turn_id {order} LIMIT ?"
        identity = identity_of(part.channel_id, line.fingerprint)
        rows = self._connection.execute(sql, (identity, part.end, self._cursor, _MANY))
        for turn_id, platform, user_id, raw in rows:
            if not self._may_be(turn_id, (platform, user_id), unpack(raw), line):
                continue
            if is_ahead:
                self._pass_to(turn_id)
                return unpack(raw)
            if self._take(turn_id):
                return unpack(raw)
        return None

    def _may_be(
        self, turn_id: int, author: tuple[object, object], raw: str, line: IncomingLine
    ) -> bool:
        """Tell whether a turn with the same identity as a line may be the same message."""
        if not line.names_speaker and author != tuple(map(pack, account_of(line.turn))):
            return False
        is_same = compare_ids(line.message_id, lambda: self._message_id(turn_id, raw))
        return not (line.message_id and line.estimated) if is_same is None else is_same

    def _message_id(self, turn_id: int, raw: str) -> str:
        """Return an imported message's id; early imports have it only in the raw line."""
        sql = "SELECT message_id FROM message_ids WHERE turn_id = ?"
        value = self._connection.execute(sql, (turn_id,)).fetchone()
        return unpack(value[0]) if value else stated_id(json.loads(raw))

    def _pass_to(self, turn_id: int) -> None:
        """Advance past a turn; if it lies behind, only mark it as matched."""
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
        where, past = events.parts_condition(self._parts)
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
            follows: Whether the turn directly follows a known line.
        """
        turn_id, raw, platform, user_id, role, at_ms, content, estimated = row
        author = tuple(map(pack, account_of(line.turn)))
        if unpack(role) != line.turn.role or (platform, user_id) != author:
            return False
        if unpack(content) in line.others:
            return True
        if line.message_id:
            return self._message_id(turn_id, unpack(raw)) == line.message_id
        if line.estimated or estimated:  # without a time, only the position can decide
            return bool(line.estimated and estimated and follows)
        return bool(at_ms == in_ms(line.turn.at))


def _without_branches(raw: str) -> dict[str, Any]:
    """Return a line without the channel it is in, and the branches that start at it."""
    value: dict[str, Any] = json.loads(raw)
    value.pop("channel", None)
    extra = value.get("extra")
    if not isinstance(extra, dict):
        return {"extra": {}} | value
    return value | {"extra": {key: v for key, v in extra.items() if key not in _LEAVING}}


_MAX_CELLS: Final = 4_000_000  # most lines to compare without ignoring frequent ones
_LOOKED_UP: Final = 20  # lines at each end of a source used to find live channels
_TRUSTED_LINES: Final = 3  # consecutive equal lines that are no coincidence
_NEWEST_LINES: Final = 2  # enough at the end of a channel


def matching_blocks(
    kept: Sequence[Wording], lines: Sequence[Wording]
) -> Iterator[tuple[int, int, int]]:
    """Yield the start and length of each equal run; the last one is empty."""
    most = min(len(kept), len(lines))
    head = next((n for n in range(most) if kept[n] != lines[n]), most)
    if head:
        yield 0, 0, head
    is_large = (len(kept) - head) * (len(lines) - head) > _MAX_CELLS
    matcher = SequenceMatcher(None, kept[head:], lines[head:], autojunk=is_large)
    for i, j, size in matcher.get_matching_blocks():
        yield head + i, head + j, size


def live_channels(history: HistoryStore, lines: Sequence[IncomingLine]) -> list[str]:
    """Return the purely live channels that contain a source's lines, best match first.

    Args:
        lines: All lines of the source.
    """
    texts = {pack(line.turn.content) for line in [*lines[:_LOOKED_UP], *lines[-_LOOKED_UP:]]}
    sql = (
        f"WITH lines (content) AS (VALUES {', '.join(['(?)'] * len(texts))}) "  # noqa: S608
        f"SELECT DISTINCT channel_id FROM turns WHERE source = '{SERVED}' "
        f"AND {_FIRST_CHARACTERS} IN (SELECT {_FIRST_CHARACTERS} FROM lines) "
        "AND content IN lines AND channel_id NOT IN (SELECT channel_id FROM chats)"
    )
    with history.use(create=False) as connection:
        rows = connection.execute(sql, tuple(texts)).fetchall() if texts else []
        runs = {unpack(row[0]): shared_run(history, unpack(row[0]), lines) for row in rows}
    return sorted((name for name, run in runs.items() if run), key=lambda name: -runs[name])


def doubles_of(history: HistoryStore, channel_id: str, lines: Sequence[IncomingLine]) -> list[int]:
    """Return live turns elsewhere that a channel duplicates, given these lines.

    If another channel is duplicated entirely, all of its turns are returned, even those that the
    source withdrew.
    """
    items: list[int] = []
    others = [name for name in live_channels(history, lines) if name != channel_id]
    if not others:
        return items
    past = TurnFilter(OWNER, channel_id, everything=True)
    here = [wording_of(selection.turn) for selection in select_turns(history, past)]
    for name in others:
        turns = [kept.turn for kept in select_turns(history, TurnFilter(OWNER, name))]
        turns = [turn for turn in turns if turn.channel_id == name]
        words = [wording_of(turn) for turn in turns]
        if set(words) <= set(here):
            items += [turn.id for turn in turns]
            continue
        for i, _, size in matching_blocks(words, here):
            items += [turn.id for turn in turns[i : i + size] if size >= _TRUSTED_LINES]
    return items


def shared_run(history: HistoryStore, channel_id: str, lines: Sequence[IncomingLine]) -> int:
    """Return the longest run of lines that a source shares with a channel; 0: too short to trust.

    Greetings do not count, since many chats begin with the same one.
    """
    wordings = [
        wording_of(selection.turn)
        for selection in select_turns(history, TurnFilter(OWNER, channel_id))
    ]
    there = set(wordings)
    words = []
    for line in lines:
        own = wording_of(line.turn)
        others = ((own[0], normal_words(text)) for text in line.others)
        words.append(next((one for one in (own, *others) if one in there), own))
    best = 0
    for i, j, size in matching_blocks(wordings, words):
        counted = size - (j == 0 and size > 0 and words[0][0])
        needed = _NEWEST_LINES if i + size == len(wordings) else _TRUSTED_LINES
        best = max(best, counted if counted >= needed else 0)
    return best


_SAMPLE: Final = 50  # first lines by which a chat is recognised


class Arrival(Struct, frozen=True):
    """A chat to be imported.

    Args:
        key: Its stable key in all imports; empty: only its lines identify it.
        name: Its name in the source.
        parent: The source's name of the chat it branched off; empty: none stated.
        lines: Yields its lines, afresh at each call.
        channel: The requested channel; empty: any.
        channels: Candidate names for its channel, best first, endless, afresh at each call.
        others: Names of all chats in the same import.
        is_apart: Never make it a branch of another chat, even if the beginnings match.
    """

    key: str
    format: str
    name: str
    parent: str
    lines: Callable[[], Iterable[IncomingLine]]
    channel: str
    channels: Callable[[], Iterator[str]]
    others: frozenset[str]
    is_apart: bool


class ChatPlacement(Struct, frozen=True):
    """Target channel of a chat.

    Args:
        parent: The channel to branch off; empty: none, or it has branched off already.
        turn_id: The last shared turn.
        is_new: Whether the channel has yet to be created.
        is_copy: Whether the channel already holds the whole chat, under another name.
    """

    channel_id: str
    parent: str = ""
    turn_id: int = 0
    is_new: bool = False
    is_copy: bool = False

    def parts(self, connection: sqlite3.Connection) -> list[events.BranchPart]:
        """Return the parts of the channel's past, newest first, as if it had branched off."""
        if not self.parent:
            return events.parts_of(connection, self.channel_id)
        end = self.turn_id + 1
        above = events.parts_of(connection, self.parent)
        return [
            events.BranchPart(self.channel_id),
            *(events.BranchPart(p.channel_id, min(p.end, end)) for p in above),
        ]


class _CommonBeginning(Struct, frozen=True):
    """The common beginning of a channel's past and a chat.

    Args:
        turn_ids: The turns that match the chat's first lines.
        is_whole: Whether they include everything imported into the channel.
    """

    channel_id: str
    turn_ids: tuple[int, ...]
    is_whole: bool


class _Lines:
    """The lines of a chat, read lazily."""

    def __init__(self, lines: Iterable[IncomingLine]) -> None:
        self._coming = iter(lines)
        self._read: list[tuple[bytes, bool]] = []

    def fingerprint(self, number: int) -> bytes | None:
        """Return the fingerprint of line `number`, counted from 0; None past the end."""
        while len(self._read) <= number:
            line = next(self._coming, None)
            if line is None:
                return None
            self._read.append((line.fingerprint, line.turn.role == "user"))
        return self._read[number][0]

    def has_person(self, count: int) -> bool:
        """Tell whether any of the first `count` lines, already read, is not the familiar's."""
        return any(is_person for _, is_person in self._read[:count])


def place_chat(history: HistoryStore, chat: Arrival) -> ChatPlacement:
    """Choose the channel for a chat.

    That is the channel of an earlier import; else one that holds the whole chat; else a branch of
    one with the same beginning; else an empty one.
    """
    with history.use(create=False) as connection:
        if chat.channel:
            before = [chat.channel] if has_begun(connection, chat.channel) else []
        else:
            before = _brought_before(connection, chat)
            if not before and not chat.is_apart:  # it may have been recorded live
                before = live_channels(history, list(chat.lines()))[:1]
            elif not before and _holds_all(connection, next(chat.channels()), chat.lines()):
                return ChatPlacement(next(chat.channels()), is_copy=True)  # it was exported here
        if len(before) == 1:
            return ChatPlacement(before[0])
        lines = _Lines(chat.lines())
        shared = None if chat.is_apart else _deepest_beginning(connection, lines)
        if before:
            return ChatPlacement(
                shared.channel_id if shared and shared.channel_id in before else before[0]
            )
        if shared and _is_worth(connection, chat, shared, lines):
            return _place_beside(connection, chat, shared, lines)
        sample = [] if chat.key else list(islice(chat.lines(), _SAMPLE))
        names = iter([chat.channel]) if chat.channel else chat.channels()
        name = next(n for n in names if chat.channel or _may_be(connection, n, sample))
        return ChatPlacement(name, is_new=not has_begun(connection, name))


def branch_chat(history: HistoryStore, chat: Arrival) -> ChatPlacement:
    """Place a chat on a new branch after its last known line.

    Raises:
        NotFoundError: None of its lines is known.
    """
    with history.use(create=False) as connection:
        shared = _deepest_beginning(connection, _Lines(chat.lines()))
        if shared is None:
            raise NotFoundError(f"No channel begins as {chat.name!r} does; nothing was imported")
        free = (name for name in chat.channels() if not has_begun(connection, name))
        return ChatPlacement(next(free), shared.channel_id, shared.turn_ids[-1], is_new=True)


def has_begun(connection: sqlite3.Connection, channel_id: str) -> bool:
    """Tell whether a channel has a past, if only as a branch."""
    return (
        events.has_turns(connection, channel_id)
        or events.branch_of(connection, channel_id) is not None
    )


def _brought_before(connection: sqlite3.Connection, chat: Arrival) -> list[str]:
    """Return the channels that an earlier import of the chat may have used."""
    if chat.key:
        sql = "SELECT channel_id FROM chats WHERE key = ?"
        for (channel,) in connection.execute(sql, (pack(chat.key),)):
            return [unpack(channel)]
    sql = "SELECT channel_id, key FROM chats WHERE format = ? AND name = ?"
    keys: dict[str, set[str]] = {}
    for row in connection.execute(sql, (pack(chat.format), pack(chat.name))):
        keys.setdefault(unpack(row[0]), set()).add(unpack(row[1]))
    sample = list(islice(chat.lines(), _SAMPLE)) if keys else []
    if chat.key:  # it may be there without its key, and then what a person says first decides
        keys = {c: ks for c, ks in keys.items() if ks == {f"{chat.format}:{c}:{chat.name}"}}
        sample = [line for line in sample if line.turn.role == "user"][:1]
    return [channel for channel in keys if _has_any(connection, channel, sample)]


def _holds_all(
    connection: sqlite3.Connection, channel_id: str, lines: Iterable[IncomingLine]
) -> bool:
    """Tell whether a channel shows every line, at its time if that is stated, as some are."""
    channel = pack(channel_id)
    at_time = "SELECT 1 FROM shown WHERE at_ms = ? AND channel_id = ? AND content = ?"
    of_channel = "SELECT content FROM shown WHERE channel_id = ?"
    texts = cache(lambda: {text for (text,) in connection.execute(of_channel, (channel,))})

    def is_there(line: IncomingLine) -> bool:
        content = pack(line.turn.content)
        if line.estimated:
            return content in texts()
        row = (in_ms(line.turn.at), channel, content)
        return connection.execute(at_time, row).fetchone() is not None

    is_any_stated = False
    for line in lines:
        is_any_stated |= not line.estimated
        if not is_there(line):
            return False
    return is_any_stated


def _is_worth(
    connection: sqlite3.Connection, chat: Arrival, shared: _CommonBeginning, lines: _Lines
) -> bool:
    """Tell whether a shared beginning is more than the same greeting."""
    if lines.has_person(len(shared.turn_ids)):
        return True
    return bool(chat.parent) and chat.parent in _source_names(connection, shared.channel_id)


def _place_beside(
    connection: sqlite3.Connection, chat: Arrival, shared: _CommonBeginning, lines: _Lines
) -> ChatPlacement:
    """Place a chat that begins like an existing channel."""
    names = _source_names(connection, shared.channel_id)
    last = shared.turn_ids[-1]
    if lines.fingerprint(len(shared.turn_ids)) is None and not chat.channel:
        if chat.parent not in names:
            return ChatPlacement(shared.channel_id, is_copy=True)
        for branch in events.all_branches(connection):  # a copy of a checkpoint
            if branch.turn_id == last and not events.has_turns(connection, branch.channel_id):
                return ChatPlacement(branch.channel_id, is_copy=True)
    elif shared.is_whole and not (chat.channel or chat.parent or names & chat.others):
        return ChatPlacement(shared.channel_id)  # the chat was renamed and has grown
    free = (name for name in chat.channels() if not has_begun(connection, name))
    return ChatPlacement(chat.channel or next(free), shared.channel_id, last, is_new=True)


def _deepest_beginning(connection: sqlite3.Connection, lines: _Lines) -> _CommonBeginning | None:
    """Return the longest beginning that a channel's past shares with a chat, or None.

    Only imported turns are compared.
    """
    first = lines.fingerprint(0)
    if first is None:
        return None
    # Chats of earlier versions and of other machines do not have their beginning recorded.
    sql = "SELECT DISTINCT channel_id FROM chats WHERE beginning = ? OR beginning IS NULL"
    channels = sorted(unpack(row[0]) for row in connection.execute(sql, (first,)))
    roots = [channel for channel in channels if _may_begin(connection, channel, first)]
    branches = events.all_branches(connection) if roots else []
    beginnings = [_follow_branches(connection, lines, branches, root) for root in roots]
    return max(beginnings, key=lambda beginning: len(beginning.turn_ids), default=None)


def _follow_branches(
    connection: sqlite3.Connection, lines: _Lines, branches: list[events.Branch], root: str
) -> _CommonBeginning:
    """Return the longest beginning that a channel or one of its branches shares with a chat."""
    best = _walk_channel(connection, lines, _CommonBeginning(root, (), is_whole=True))
    waiting, seen = [best], {root}
    while waiting:
        start = waiting.pop()
        for branch in branches:
            if branch.turn_id not in start.turn_ids or branch.channel_id in seen:
                continue
            above = start.turn_ids[: start.turn_ids.index(branch.turn_id) + 1]
            deeper = _walk_channel(
                connection, lines, _CommonBeginning(branch.channel_id, above, is_whole=True)
            )
            if len(deeper.turn_ids) > len(above):
                seen.add(branch.channel_id)
                waiting.append(deeper)
                best = max(best, deeper, key=lambda beginning: len(beginning.turn_ids))
    return best


def _walk_channel(
    connection: sqlite3.Connection, lines: _Lines, start: _CommonBeginning
) -> _CommonBeginning:
    """Extend a shared beginning through the channel's own turns."""
    sql = (
        "SELECT turn_id, identity FROM turns JOIN turn_extras ON id = turn_id "
        "WHERE channel_id = ? ORDER BY id"
    )
    items = list(start.turn_ids)
    for turn_id, identity in connection.execute(sql, (pack(start.channel_id),)):
        said = lines.fingerprint(len(items))
        if said is None or identity_of(start.channel_id, said) != identity:
            return _CommonBeginning(start.channel_id, tuple(items), is_whole=False)
        items.append(turn_id)
    return _CommonBeginning(start.channel_id, tuple(items), is_whole=True)


def _may_begin(connection: sqlite3.Connection, channel_id: str, fingerprint: bytes) -> bool:
    """Tell whether a root channel that contains a line may begin with it."""
    sql = "SELECT 1 FROM turn_extras WHERE identity = ?"
    known = connection.execute(sql, (identity_of(channel_id, fingerprint),)).fetchone()
    return bool(known) and events.branch_of(connection, channel_id) is None


def _may_be(connection: sqlite3.Connection, channel_id: str, sample: list[IncomingLine]) -> bool:
    return not has_begun(connection, channel_id) or _has_any(connection, channel_id, sample)


def _has_any(connection: sqlite3.Connection, channel_id: str, sample: list[IncomingLine]) -> bool:
    """Tell whether any of these lines is in the past of a channel."""
    sql = "SELECT 1 FROM turn_extras WHERE identity = ?"
    parts = events.parts_of(connection, channel_id)
    identities = (identity_of(p.channel_id, line.fingerprint) for line in sample for p in parts)
    return any(connection.execute(sql, (identity,)).fetchone() for identity in identities)


def _source_names(connection: sqlite3.Connection, channel_id: str) -> frozenset[str]:
    """Return the source names of a channel's chats."""
    sql = "SELECT name FROM chats WHERE channel_id = ?"
    rows = connection.execute(sql, (pack(channel_id),))
    return frozenset(unpack(row[0]) for row in rows)
