"""Match lines of a chat with turns that are there, and place new ones.

A line is known by the id that the source gives the message; where there is none, by its identity:
a digest of its channel, and of who said what when in the words of the source.

A chat that shares its beginning with another one becomes a branch of it: what both say is there
once. A copy under another name does not count as another chat.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import IntEnum
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.history.events import (
    BranchPart,
    all_branches,
    branch_of,
    has_turns,
    parts_condition,
    parts_of,
)
from familiar_cli.history.rows import in_ms, pack, unpack
from familiar_cli.history.selection import TurnFilter, select_turns
from familiar_cli.history.store import find_message
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from familiar_cli.history.events import Branch
    from familiar_cli.history.rows import Turn
    from familiar_cli.history.store import HistoryStore

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
        by_one = not (stored.author and said.author) or _person_key(stored) == _person_key(said)
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
            named = find_message(self._connection, part.channel_id, line.message_id)
            if named and part.holds(named):
                self._pass_to(named.id)
                return LineMatch.of_known(named, line.turn)
        for part in reversed(self._parts):
            raw = self._known(part, line, is_ahead=True) or self._known(part, line, is_ahead=False)
            if raw is not None:
                return LineMatch.there if _same_json(raw, line.raw) else LineMatch.details_changed
        return LineMatch.edited if self._is_edit(line) else LineMatch.new

    def _known(self, part: BranchPart, line: IncomingLine, *, is_ahead: bool) -> str | None:
        """Return the source's record of the turn that a line matches, or None.

        That is the next one ahead, or the last one behind that no other line matches.
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
        where, past = parts_condition(self._parts)
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
    return author == tuple(map(pack, _person_key(turn)))


def _person_key(turn: Turn) -> tuple[str | None, str | None]:
    who = turn.author
    return (who.platform, who.user_id) if who else (None, None)


def _same_json(stored: str, raw: str) -> bool:
    """Tell whether two lines of JSON mean the same."""
    return stored == raw or bool(_without_branches(stored) == _without_branches(raw))


def _without_branches(raw: str) -> dict[str, Any]:
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


SERVED: Final = "serve"
"""The source of turns that came through the server."""

_FENCED: Final = re.compile(
    r"<memory>\s*What [^\n]{1,1000}? remembers, as notes\..*?</memory>\s*", re.DOTALL
)
_MAX_CELLS: Final = 4_000_000  # of a comparison in which frequent lines count like all others
_LOOKED_UP: Final = 20  # lines at each end of a source by which live channels are found
_TRUSTED_LINES: Final = 3  # so many in a row are no coincidence
_NEWEST_LINES: Final = 2  # so many are enough where nothing was said after them

Wording = tuple[bool, str]


def wording_of(turn: Turn) -> Wording:
    """Return whether the familiar says a turn, and its words without their spacing."""
    return turn.role == "assistant", normal_words(turn.content)


def without_fence(text: str) -> str:
    """Return a text without the notes that the server, or its extension, put there."""
    if "<memory>" not in text:
        return text
    head, end, tail = text.rpartition("</memory>")  # a fence that nothing closes costs no search
    rest = tail.lstrip()
    return _FENCED.sub("", f"{head}{end}{tail[: len(tail) - len(rest)]}") + rest


def kept_words(text: str) -> str:
    """Return a text as a turn holds it: without our notes, and with no tag that looks like them.

    A text that is nothing but notes stays, with its tag quoted.
    """
    if "<memory" not in text:
        return text
    words = without_fence(text)
    return (words if words.strip() else text).replace("<memory", "‹memory")


def normal_words(text: str) -> str:
    """Return words that are equal whatever their spaces, line ends and way of quoting tags."""
    return " ".join(unicodedata.normalize("NFC", text).replace("‹", "<").split())


def matching_blocks(
    kept: Sequence[Wording], lines: Sequence[Wording]
) -> Iterator[tuple[int, int, int]]:
    """Yield where equal runs begin, and their lengths; the last one is empty."""
    most = min(len(kept), len(lines))
    head = next((n for n in range(most) if kept[n] != lines[n]), most)
    if head:
        yield 0, 0, head
    is_large = (len(kept) - head) * (len(lines) - head) > _MAX_CELLS
    matcher = SequenceMatcher(None, kept[head:], lines[head:], autojunk=is_large)
    for i, j, size in matcher.get_matching_blocks():
        yield head + i, head + j, size


def live_channels(history: HistoryStore, lines: Sequence[IncomingLine]) -> list[str]:
    """Return the channels that hold a source's lines and were only ever kept live, the best first.

    Args:
        history: The history.
        lines: All lines of the source.
    """
    texts = {pack(line.turn.content) for line in [*lines[:_LOOKED_UP], *lines[-_LOOKED_UP:]]}
    sql = (
        "SELECT DISTINCT channel_id FROM turns WHERE source = ? "  # noqa: S608  # marks only
        f"AND content IN ({', '.join('?' * len(texts))}) "
        "AND channel_id NOT IN (SELECT channel_id FROM chats)"
    )
    with history.use(create=False) as connection:
        rows = connection.execute(sql, (SERVED, *texts)).fetchall() if texts else []
        runs = {unpack(row[0]): shared_run(history, unpack(row[0]), lines) for row in rows}
    return sorted((name for name, run in runs.items() if run), key=lambda name: -runs[name])


def doubles_of(history: HistoryStore, channel_id: str, lines: Sequence[IncomingLine]) -> list[int]:
    """Return the live turns elsewhere that a channel holds, too, now that it has these lines.

    Of a channel that it holds as a whole, these are all turns, even what the source took back.
    """
    found: list[int] = []
    others = [name for name in live_channels(history, lines) if name != channel_id]
    if not others:
        return found
    past = TurnFilter(OWNER, channel_id, everything=True)
    here = [wording_of(kept.turn) for kept in select_turns(history, past)]
    for name in others:
        turns = [kept.turn for kept in select_turns(history, TurnFilter(OWNER, name))]
        turns = [turn for turn in turns if turn.channel_id == name]
        words = [wording_of(turn) for turn in turns]
        if set(words) <= set(here):
            found += [turn.id for turn in turns]
            continue
        for i, _, size in matching_blocks(words, here):
            found += [turn.id for turn in turns[i : i + size] if size >= _TRUSTED_LINES]
    return found


def shared_run(history: HistoryStore, channel_id: str, lines: Sequence[IncomingLine]) -> int:
    """Return how many lines in a row a source shares with a channel; 0: too few to trust.

    A greeting does not count, since many chats begin with the same one.
    """
    kept = [wording_of(kept.turn) for kept in select_turns(history, TurnFilter(OWNER, channel_id))]
    there = set(kept)
    words = []
    for line in lines:
        own = wording_of(line.turn)
        others = ((own[0], normal_words(text)) for text in line.others)
        words.append(next((one for one in (own, *others) if one in there), own))
    best = 0
    for i, j, size in matching_blocks(kept, words):
        counted = size - (j == 0 and size > 0 and words[0][0])
        needed = _NEWEST_LINES if i + size == len(kept) else _TRUSTED_LINES
        best = max(best, counted if counted >= needed else 0)
    return best


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
        is_apart: It is not part of another chat, even if it begins as that does.
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


def place_chat(history: HistoryStore, chat: Arrival) -> ChatPlacement:
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
        shared = None if chat.is_apart else _deepest_beginning(connection, lines)
        if before:
            return ChatPlacement(
                shared.channel_id if shared and shared.channel_id in before else before[0]
            )
        if shared and _is_worth(connection, chat, shared, lines):
            return _place_beside(connection, chat, shared, lines)
        sample = list(islice(chat.lines(), _SAMPLE))
        names = iter([chat.channel]) if chat.channel else chat.channels()
        name = next(n for n in names if chat.channel or _may_be(connection, n, sample))
        return ChatPlacement(name, is_new=not has_begun(connection, name))


def branch_chat(history: HistoryStore, chat: Arrival) -> ChatPlacement:
    """Return a new branch for a chat, after the last of its lines that is known.

    Raises:
        NotFoundError: None is.
    """
    with history.use(create=False) as connection:
        shared = _deepest_beginning(connection, _Lines(chat.lines()))
        if shared is None:
            raise NotFoundError(f"No channel begins as {chat.name!r} does; nothing was imported")
        free = (name for name in chat.channels() if not has_begun(connection, name))
        return ChatPlacement(next(free), shared.channel_id, shared.turn_ids[-1], is_new=True)


def has_begun(connection: sqlite3.Connection, channel_id: str) -> bool:
    """Tell whether a channel has a past, if only as a branch."""
    return has_turns(connection, channel_id) or branch_of(connection, channel_id) is not None


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
    return bool(chat.parent) and chat.parent in _source_names(connection, shared.channel_id)


def _place_beside(
    connection: sqlite3.Connection, chat: Arrival, shared: _Beginning, lines: _Lines
) -> ChatPlacement:
    """Return the place of a chat that begins as a channel does."""
    names = _source_names(connection, shared.channel_id)
    last = shared.turn_ids[-1]
    if lines.fingerprint(len(shared.turn_ids)) is None and not chat.channel:
        if chat.parent not in names:
            return ChatPlacement(shared.channel_id, is_copy=True)
        for branch in all_branches(connection):  # a copy of a checkpoint
            if branch.turn_id == last and not has_turns(connection, branch.channel_id):
                return ChatPlacement(branch.channel_id, is_copy=True)
    elif shared.is_whole and not (chat.channel or chat.parent or names & chat.others):
        return ChatPlacement(shared.channel_id)  # the chat has another name by now, and has grown
    free = (name for name in chat.channels() if not has_begun(connection, name))
    return ChatPlacement(chat.channel or next(free), shared.channel_id, last, is_new=True)


def _deepest_beginning(connection: sqlite3.Connection, lines: _Lines) -> _Beginning | None:
    """Return the longest beginning that a channel's past shares with a chat; None: there is none.

    Only what was brought in is looked at.
    """
    first = lines.fingerprint(0)
    if first is None:
        return None
    channels = connection.execute("SELECT DISTINCT channel_id FROM chats").fetchall()
    roots = [c for (name,) in channels if _may_begin(connection, c := unpack(name), first)]
    branches = all_branches(connection) if roots else []
    found = [_follow_branches(connection, lines, branches, root) for root in roots]
    return max(found, key=lambda beginning: len(beginning.turn_ids), default=None)


def _follow_branches(
    connection: sqlite3.Connection, lines: _Lines, branches: list[Branch], root: str
) -> _Beginning:
    """Return the longest beginning that a channel, or one of its branches, shares with a chat."""
    best = _walk_channel(connection, lines, _Beginning(root, (), is_whole=True))
    waiting, seen = [best], {root}
    while waiting:
        start = waiting.pop()
        for branch in branches:
            if branch.turn_id not in start.turn_ids or branch.channel_id in seen:
                continue
            above = start.turn_ids[: start.turn_ids.index(branch.turn_id) + 1]
            deeper = _walk_channel(
                connection, lines, _Beginning(branch.channel_id, above, is_whole=True)
            )
            if len(deeper.turn_ids) > len(above):
                seen.add(branch.channel_id)
                waiting.append(deeper)
                best = max(best, deeper, key=lambda beginning: len(beginning.turn_ids))
    return best


def _walk_channel(connection: sqlite3.Connection, lines: _Lines, start: _Beginning) -> _Beginning:
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


def _may_begin(connection: sqlite3.Connection, channel_id: str, fingerprint: bytes) -> bool:
    """Tell whether a channel that is not a branch may begin with a line that it holds somewhere."""
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


def _source_names(connection: sqlite3.Connection, channel_id: str) -> frozenset[str]:
    """Return the names of the sources that a channel's chats came from."""
    sql = "SELECT name FROM chats WHERE channel_id = ?"
    rows = connection.execute(sql, (pack(channel_id),))
    return frozenset(unpack(row[0]) for row in rows)
