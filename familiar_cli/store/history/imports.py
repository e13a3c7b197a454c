"""Import chats, reconcile served conversations, and find duplicated turns.

The source's lines are compared with all standing turns of the channel, imported or live. Turns are
only ever added and marked: an edited line supersedes its turn, a deleted one is withdrawn.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field

from familiar_cli.base.errors import ConflictError, RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import marks
from familiar_cli.store.history.events import (
    CHAT,
    append_event,
    begin_branch,
    branch_of,
    note_shown,
    parts_of,
    set_branch,
    turns_shown,
)
from familiar_cli.store.history.forgetting import is_forgotten
from familiar_cli.store.history.marks import turn_statuses, withdraw_turns
from familiar_cli.store.history.matching import (
    ChatPlacement,
    IncomingLine,
    LineMatch,
    TurnMatcher,
    matching_blocks,
)
from familiar_cli.store.history.rows import (
    COLUMNS,
    HEARD,
    SERVED,
    Turn,
    by_time,
    from_ms,
    in_ms,
    pack,
    place_of,
    to_row,
)
from familiar_cli.store.history.same_message import (
    Account,
    Wording,
    account_of,
    identity_of,
    is_same_message,
    may_be_one_person,
    wording_of,
)
from familiar_cli.store.history.selection import (
    SourcedTurn,
    TurnFilter,
    claim_turns,
    kept_turns,
    note_origin,
    select_turns,
)
from familiar_cli.store.history.store import GREETING, HistoryStore, find_message, note_id

KIND: Final = "import"
"""The kind of a chat that was brought in from a file."""

_CACHE_KIB: Final = 65_536  # identities arrive in random order; keep the index in memory
_TURNS: Final = (
    f"INSERT INTO turns (id, {', '.join(COLUMNS)}, hidden) "  # noqa: S608  # our own names
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
)
# Other instances lack what a turn gained after it was sent, so no line of theirs equals it.
_EXTRAS: Final = (
    "INSERT INTO turn_extras VALUES (?1, ?2, ?3, ?4, ?5, CASE WHEN EXISTS (SELECT 1 FROM elsewhere "
    "WHERE turn_id = ?1) OR EXISTS (SELECT 1 FROM sync_state WHERE name = 'told' AND "
    "CAST(value AS INTEGER) >= ?1) THEN 0 ELSE (SELECT coalesce(max(nth), 0) + 1 "
    "FROM turn_extras WHERE identity = ?3) END)"
)


class ChatOrigin(Struct, frozen=True):
    """The source of a chat.

    Args:
        key: Its stable key in all imports, even if its file is moved or renamed.
        name: Its name in the source.
        head: The source's metadata for the whole chat, in JSON.
        first: Its first line, if any.
    """

    key: str
    format: str
    name: str
    head: str
    first: IncomingLine | None = None


def match_lines(
    history: HistoryStore, place: ChatPlacement, lines: Iterable[IncomingLine]
) -> bytearray:
    """Return a `LineMatch` for each line, in one byte each.

    A new line before one that is already stored cannot be appended in order: `inserted`.
    """
    with history.use(create=False) as connection:
        if place.is_new and not place.parent:
            return bytearray()
        matching = TurnMatcher(connection, place.parts(connection))
        verdicts = bytearray(matching.verdict(line) for line in lines)
    known = len(verdicts.rstrip(bytes([LineMatch.new])))
    verdicts[:known] = verdicts[:known].replace(bytes([LineMatch.new]), bytes([LineMatch.inserted]))
    return verdicts


class Appender:
    """Appends lines to the end of a channel, one transaction per batch.

    Args:
        place: The channel; if it is to branch off another, it does so with the first line.
        origin: Source of the lines.

    Attributes:
        hearer: The only person who may hear the lines; None: as who speaks there decides.
    """

    def __init__(self, history: HistoryStore, place: ChatPlacement, origin: ChatOrigin) -> None:
        self.hearer: Author | None = None
        self._history = history
        self._place = place
        self._channel_id = place.channel_id
        self._origin = origin
        self._tail: int | None = None

    def add(self, batch: Sequence[IncomingLine], *, is_late: bool = False) -> list[LineMatch]:
        """Store the new lines of `batch`, all or nothing. Return a verdict for each line.

        A line is not new if its message id is already stored, from this chat or elsewhere.

        Args:
            batch: The lines.
            is_late: Whether to order the lines by time among other turns, not at the end.

        Raises:
            RefusedError: The channel has turns later than the first of the lines.
            ConflictError: Another process wrote to the channel since the last batch.
            FamiliarError: As `HistoryStore.append`.
        """
        with self._history.change() as connection:
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            chat_id = self._begin(connection)
            if not is_late:
                self._check_end(connection, chat_id, batch[0])
            verdicts = _by_id(connection, batch)
            fresh = [line for line, known in zip(batch, verdicts, strict=True) if not known]
            last = _insert_batch(connection, chat_id, fresh) if fresh else None
            if last and self.hearer:
                claim_turns(connection, self._channel_id, last - len(fresh) + 1, self.hearer)
            self._tail = self._tail if is_late or last is None else last
            return verdicts

    def correct(self, old: Turn, line: IncomingLine, *, stands: bool = True) -> None:
        """Supersede a turn with the line that rewords it, or restore an earlier wording.

        Args:
            stands: Whether the line is to replace the turn; otherwise it becomes an alternative.

        Raises:
            FamiliarError: As `marks.supersede_turn`.
        """
        others = marks.turn_statuses(self._history, (old.id,))[old.id].alternatives
        for other, state in marks.turn_statuses(self._history, others).items():
            turn = None if state.withdrawn else self._history.turn(other)
            if turn and turn.content == line.turn.content and turn.author == line.turn.author:
                if stands:
                    marks.select_alternative(self._history, other, by_source=True)
                else:
                    self.note_shown([other])
                return
        with self._history.change() as connection:
            self._begin(connection)
        made = marks.supersede_turn(self._history, old, line.turn, by_source=True, stands=stands)
        self.describe([(made.id, line)])

    def describe(self, turns: Sequence[tuple[int, IncomingLine]]) -> None:
        """Update existing turns with what the source states about them."""
        with self._history.change() as connection:
            chat_id = self._begin(connection)
            connection.executemany(
                _EXTRAS, [_extra_values(turn_id, chat_id, line) for turn_id, line in turns]
            )

    def note_shown(self, turn_ids: Iterable[int]) -> None:
        """Record which alternatives the source shows."""
        with self._history.change() as connection:
            for turn_id in turn_ids:
                note_shown(connection, turn_id)

    def note_head(self) -> None:
        """Store the source's metadata for the chat, even if it has no new line."""
        with self._history.change() as connection:
            self._begin(connection)

    def _begin(self, connection: sqlite3.Connection) -> int:
        """Check and prepare the channel for appending; return the number of the chat."""
        if self._place.parent:
            begin_branch(connection, self._channel_id, self._place.parent, self._place.turn_id)
        return _chat_id(connection, self._channel_id, self._origin)

    def _check_end(self, connection: sqlite3.Connection, chat_id: int, first: IncomingLine) -> None:
        last = _last_turn(connection, self._channel_id)
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
            f"Channel {self._channel_id!r} continues until {from_ms(last[1]):%Y-%m-%d %H:%M} UTC, "
            f"and turns are only added at its end; the chat's lines from "
            f"{first.turn.at:%Y-%m-%d %H:%M} UTC on were not imported",
            hint="`familiar import-chat FILE --channel NAME` imports it into a new channel.",
        )


def _last_turn(
    connection: sqlite3.Connection, channel_id: str
) -> tuple[int, int, int | None] | None:
    """Return id, time and chat of the newest turn of a channel."""
    sql = (
        "SELECT id, at_ms, chat_id FROM shown LEFT JOIN turn_extras ON id = turn_id "
        "WHERE channel_id = ? ORDER BY id DESC LIMIT 1"
    )
    value = connection.execute(sql, (pack(channel_id),)).fetchone()
    return tuple(value) if value else None


def _chat_id(connection: sqlite3.Connection, channel_id: str, origin: ChatOrigin) -> int:
    """Return the number of a chat after updating its metadata; writes only if something changed."""
    sql = "SELECT id FROM chats WHERE key = ? AND head = ? AND name = ?"
    same = connection.execute(sql, tuple(map(pack, (origin.key, origin.head, origin.name))))
    for (number,) in same:
        return int(number)
    sql = (
        "INSERT INTO chats (channel_id, key, kind, format, name, head, beginning) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
        "SET head = excluded.head, name = excluded.name RETURNING id"
    )
    texts = (channel_id, origin.key, KIND, origin.format, origin.name, origin.head)
    beginning = None
    if origin.first and not is_forgotten(connection, origin.first.turn):
        beginning = origin.first.fingerprint
    values = (*map(pack, texts), beginning)
    number = int(connection.execute(sql, values).fetchone()[0])
    append_event(connection, CHAT, pack(origin.key))
    return number


def _by_id(connection: sqlite3.Connection, batch: Sequence[IncomingLine]) -> list[LineMatch]:
    """Return for each line whether its message id is new, known, or known with other words."""
    seen: dict[str, Turn] = {}
    verdicts = []
    for line in batch:
        turn, key = line.turn, line.message_id
        if is_forgotten(connection, turn):
            verdicts.append(LineMatch.forgotten)
            continue
        message = find_message(connection, turn.channel_id, key)
        earlier = message or seen.get(key)
        if key:
            seen.setdefault(key, turn)
        verdicts.append(LineMatch.of_known(earlier, turn) if earlier else LineMatch.new)
    return verdicts


def _insert_batch(
    connection: sqlite3.Connection, chat_id: int, batch: Sequence[IncomingLine]
) -> int:
    """Insert turns with their metadata; return the last turn's id."""
    sql = (
        "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'turns'), 0), "
        "coalesce((SELECT max(id) FROM turns), 0))"
    )
    first = int(connection.execute(sql).fetchone()[0]) + 1
    numbered = list(enumerate(batch, start=first))
    connection.executemany(
        _TURNS, [(number, *to_row(line.turn), int(line.turn.hidden)) for number, line in numbered]
    )
    connection.executemany(
        _EXTRAS, [_extra_values(number, chat_id, line) for number, line in numbered]
    )
    for number, line in numbered:
        note_id(connection, line.turn.channel_id, line.message_id, number)
        if line.turn.one_to_one:
            note_origin(connection, number, line.turn.channel_id, line.turn.one_to_one)
    last, turn = first + len(batch) - 1, batch[-1].turn
    if turn.one_to_one:  # so is what is said next
        claim_turns(connection, turn.channel_id, last, turn.one_to_one)
    return last


def _extra_values(number: int, chat_id: int, line: IncomingLine) -> tuple[Any, ...]:
    identity = identity_of(line.turn.channel_id, line.fingerprint)
    return (number, chat_id, identity, int(line.estimated), pack(line.raw))


# Sources of live turns that a chat client shows and can delete.
_FROM_CLIENTS: Final = frozenset({SERVED, "edit", GREETING, HEARD})

_TICK: Final = timedelta(milliseconds=1)


class _SourceLine(Struct, frozen=True):
    key: Wording
    text: str
    others: tuple[str, ...]
    at: datetime | None  # None: the time is a guess


class _Gap(Struct, frozen=True):
    """Unmatched lines and turns before a matching turn; None: at the end."""

    turns: Sequence[Turn]
    numbers: range
    after: Turn | None


class ShownChat(Struct, frozen=True):
    """A chat as its source shows it.

    Args:
        name: Its name in the source.
        lines: All of its lines.
        changed: When the source was last changed; None: it is current. Turns at the end that are
            missing from an older source, and choices made since, are left alone.
    """

    name: str
    lines: Iterable[IncomingLine]
    changed: datetime | None = None


class Reconciliation:
    """Match of each source line to the channel, by number, and the turns the source dropped.

    Attributes:
        verdicts: A `LineMatch` for each line, in one byte each.
        turns: The turn that a line matches, or whose wording it replaces.
        parts_at: The first line that differs from the part that a branch shares; None: none does.
        latest: Upper bound of an inserted line's time, so that it sorts into its place.
        withdrawn: Turns that the source no longer shows.
        restored: Those that a person has restored since, which stay.
        bare: Lines that match live turns, of which only the words are stored.
        chosen: Changed lines in place of which a person chose or wrote another text here.
        shown: Turns with alternatives that the source shows now, and did not before.
    """

    def __init__(self, history: HistoryStore, place: ChatPlacement, chat: ShownChat) -> None:
        self.turns: dict[int, Turn] = {}
        self.parts_at: int | None = None
        self.latest: dict[int, datetime] = {}
        self.withdrawn: list[int] = []
        self.restored: list[int] = []
        self.bare: set[int] = set()
        self.chosen: set[int] = set()
        self.shown: list[int] = []
        self._history = history
        self._channel_id = place.channel_id
        self._changed = chat.changed
        self._lines: list[_SourceLine] = []
        forgotten: list[int] = []
        with history.use(create=False) as connection:
            self._shown = turns_shown(connection, place.channel_id)
            for number, line in enumerate(chat.lines):
                self._lines.append(_source_line(line))
                if is_forgotten(connection, line.turn):
                    forgotten.append(number)
        self.verdicts = bytearray([LineMatch.new]) * len(self._lines)
        selections = list(_past_turns(history, place))
        self._of_chat = _turns_of_chat(history, place.channel_id, chat.name)
        ids = {one.turn.id for one in selections}
        self._set_aside = _lines_set_aside(history, place, ids)
        self._compare(by_time(selections, lambda one: one.turn))
        for number in forgotten:
            if self.verdicts[number] != LineMatch.there:
                self.verdicts[number] = LineMatch.forgotten

    def _compare(self, selections: Sequence[SourcedTurn]) -> None:
        keys = [wording_of(one.turn) for one in selections]
        turns = [one.turn for one in selections]
        lines = [line.key for line in self._lines]
        i = j = 0
        for start, other, size in matching_blocks(keys, lines):
            after = turns[start] if start < len(turns) else None
            self._close(_Gap(turns[i:start], range(j, other), after))
            for k in range(size):
                one = selections[start + k]
                self._note(other + k, LineMatch.there, one.turn)
                if self._shown.get(one.turn.id, one.turn.id) != one.turn.id:
                    self.shown.append(one.turn.id)
                if not one.format and one.turn.channel_id == self._channel_id:
                    self.bare.add(other + k)
            i, j = start + size, other + size

    def _close(self, gap: _Gap) -> None:
        """Classify unmatched lines and turns."""
        left = {turn.id: turn for turn in gap.turns if turn.channel_id == self._channel_id}
        if self.parts_at is None and self._parts(gap):
            self.parts_at = gap.numbers.start
        others = self._alternatives(left)
        is_alone = len(gap.turns) == len(gap.numbers) == 1
        for number in gap.numbers:
            line = self._lines[number]
            old = next(
                (t for t in left.values() if self._rewords(line, t, is_alone=is_alone)), None
            )
            if old:
                del left[old.id]
                known = others[old.id]
                is_ours = self._is_replaced_here(old, known.get(line.key), known.values())
                self._note(number, LineMatch.there if is_ours else LineMatch.edited, old)
                if is_ours is None:
                    self.chosen.add(number)
            elif (line.key, line.at) in self._set_aside:
                self.verdicts[number] = LineMatch.there
            elif gap.after:
                self.verdicts[number] = LineMatch.inserted
                if gap.after.channel_id == self._channel_id:
                    latest = gap.after.at - _TICK
                    self.latest[number] = min(line.at or latest, latest)
        dropped = [t.id for t in left.values() if self._is_dropped(t, is_end=not gap.after)]
        sql = "SELECT DISTINCT turn_id FROM events WHERE kind = 'withdrawn'"  # they stand again
        restored = {row[0] for row in self._history.rows(sql)} if dropped else set()
        self.withdrawn += [turn_id for turn_id in dropped if turn_id not in restored]
        self.restored += [turn_id for turn_id in dropped if turn_id in restored]

    @property
    def copies(self) -> int:
        """How many lines would stand before the branch's own turns if it parted."""
        first = self.parts_at or 0
        own = (n for n, turn in self.turns.items() if turn.channel_id == self._channel_id)
        return max(0, min(own, default=0) - first)

    def _parts(self, gap: _Gap) -> bool:
        """Tell whether a gap differs from what the branch shares, and no person made it so."""
        if gap.after and gap.after.channel_id != self._channel_id and gap.numbers:
            lines = (self._lines[number] for number in gap.numbers)
            if any((line.key, line.at) not in self._set_aside for line in lines):
                return True
        shared = [turn.id for turn in gap.turns if turn.channel_id != self._channel_id]
        sql = "SELECT 1 FROM turn_extras WHERE turn_id = ?"
        return any(self._history.rows(sql, (turn_id,)) for turn_id in shared)

    def _note(self, number: int, verdict: LineMatch, turn: Turn) -> None:
        self.verdicts[number] = verdict
        self.turns[number] = turn

    def _alternatives(self, turns: Iterable[int]) -> dict[int, dict[Wording, int]]:
        """Return the alternatives of each turn, by wording."""
        result: dict[int, dict[Wording, int]] = {}
        for turn_id, state in turn_statuses(self._history, turns).items():
            others = [self._history.turn(i) for i in state.alternatives if i != turn_id]
            result[turn_id] = {wording_of(other): other.id for other in others if other}
        return result

    def _rewords(self, line: _SourceLine, turn: Turn, *, is_alone: bool) -> bool:
        """Tell whether a line is another wording of a turn."""
        if line.key[0] != (turn.role == "assistant"):
            return False
        if turn.content in line.others or (line.at is not None and line.at == turn.at):
            return True
        is_longer = len(turn.content) > 0 and line.text.startswith(turn.content)
        return is_longer or (is_alone and (self._changed is None or turn.id in self._of_chat))

    def _is_replaced_here(
        self, turn: Turn, other: int | None, alternatives: Iterable[int]
    ) -> bool | None:
        """Tell whether a person chose this turn here, in place of what the source shows.

        Args:
            turn: The turn that stands.
            other: Its alternative with the wording of the source.
            alternatives: All of them.

        Returns:
            None: it was chosen here, and the source has changed as well.
        """
        of_chat = self._of_chat.intersection((turn.id, *alternatives))
        is_served = turn.source == SERVED and turn.id not in of_chat  # the source's own choice
        last = self._shown.get(turn.id) or max(of_chat, default=turn.id)
        if last != turn.id and not is_served:
            return True if other == last else None
        if other not in of_chat:
            return False
        if turn.id not in of_chat:
            return True
        sql = "SELECT max(at_ms) FROM events WHERE kind = 'superseded' AND turn_id IN (?, ?)"
        ((replaced_ms,),) = self._history.rows(sql, (turn.id, other))
        return self._changed is not None and (replaced_ms or 0) > in_ms(self._changed)

    def _is_dropped(self, turn: Turn, *, is_end: bool) -> bool:
        """Tell whether the source once had a turn that it no longer shows."""
        if turn.channel_id != self._channel_id:
            return False
        if turn.id in self._of_chat:
            return True
        return turn.source in _FROM_CLIENTS and (self._changed is None or not is_end)


def _source_line(line: IncomingLine) -> _SourceLine:
    turn = line.turn
    at = None if line.estimated else turn.at
    return _SourceLine(wording_of(turn), turn.content, line.others, at)


def _past_turns(
    history: HistoryStore, place: ChatPlacement, *, everything: bool = False
) -> Iterator[SourcedTurn]:
    """Yield the turns shown in a channel, or those its new branch would inherit."""
    span = TurnFilter(OWNER, place.parent or place.channel_id, everything=everything)
    sql = "SELECT place FROM places WHERE turn_id = ?"
    ((end,),) = history.rows(sql, (place.turn_id,)) or [(place.turn_id,)]
    for one in select_turns(history, span):
        if not place.parent or place_of(one.turn) <= end:
            yield one


def part_branch(history: HistoryStore, place: ChatPlacement, turn_id: int) -> ChatPlacement:
    """Let a branch share less with its parent: only what comes before it differs.

    Args:
        place: The branch, whether it exists or not.
        turn_id: The last turn that both have; 0: none.
    """
    if place.parent:
        shares = ChatPlacement(place.channel_id, place.parent, turn_id, is_new=True)
        return shares if turn_id else ChatPlacement(place.channel_id, is_new=True)
    with history.change() as connection:
        branch = branch_of(connection, place.channel_id)
        if branch:
            set_branch(connection, place.channel_id, branch.parent, turn_id)
    return place


def _turns_of_chat(history: HistoryStore, channel_id: str, name: str) -> frozenset[int]:
    """Return the turns of a channel that were imported from a chat."""
    sql = (  # by the channel's own turns, since extras have no index by chat
        "SELECT turn_id FROM turns CROSS JOIN turn_extras ON turn_id = turns.id "
        "JOIN chats ON chats.id = chat_id AND chats.channel_id = turns.channel_id "
        "WHERE turns.channel_id = ? AND name = ?"
    )
    return frozenset(row[0] for row in history.rows(sql, (pack(channel_id), pack(name))))


def _lines_set_aside(
    history: HistoryStore, place: ChatPlacement, shown: set[int]
) -> set[tuple[Wording, datetime | None]]:
    """Return texts and times of the hidden turns in a channel's past; None for estimated times."""
    past = _past_turns(history, place, everything=True)
    return {
        (wording_of(one.turn), None if one.estimated else one.turn.at)
        for one in past
        if one.turn.id not in shown
    }


def find_withdrawn(
    history: HistoryStore, channel_id: str, lines: Callable[[], Iterable[IncomingLine]]
) -> list[int]:
    """Return the turns of a channel's past that were withdrawn, and that its source still has.

    Args:
        lines: Yields the lines of the source.
    """
    sql = (
        "SELECT identity, turn_id FROM set_aside JOIN turn_extras USING (turn_id) "
        "JOIN turns ON id = turn_id WHERE withdrawn AND channel_id = ?"
    )
    with history.use(create=False) as connection:
        parts = [part.channel_id for part in parts_of(connection, channel_id)]
    rows = {name: found for name in parts if (found := history.rows(sql, (pack(name),)))}
    digests = [line.fingerprint for line in lines()] if rows else []
    known = {identity_of(name, digest) for name in rows for digest in digests}
    return sorted(turn for found in rows.values() for digest, turn in found if digest in known)


_RUN: Final = 3  # consecutive equal lines that are no coincidence
_TRIED: Final = 8  # candidate starts of a run, capped to keep the time linear
_LIVE: Final = frozenset({SERVED, "edit", GREETING})


class DoubledChannel(Struct):
    """A channel that repeats turns of another one.

    Args:
        channel_id: The channel with the duplicates.
        original_id: The channel that keeps its turns: an imported one, otherwise the older.
        originals: The original of each duplicate, in order.
    """

    channel_id: str
    original_id: str
    originals: dict[int, int] = field(default_factory=dict)


class _Line(Struct, frozen=True):
    wording: int  # a hash; matches are compared in full before anything is withdrawn
    turn_id: int
    is_live: bool
    person: Account
    channel_id: str


def find_doubles(history: HistoryStore) -> list[DoubledChannel]:
    """Find turns that a client sent again into another channel, three or more in a row.

    Greetings do not count, since many chats begin with the same one. Runs in linear time and holds
    only hashes of the turns.
    """
    return list(_Index().compare(_lines_by_channel(history)))


def withdraw_doubles(
    history: HistoryStore, originals: Mapping[int, int], *, dry_run: bool = False
) -> tuple[int, ...]:
    """Withdraw duplicated turns; return those that were not withdrawn already.

    Args:
        originals: The original of each duplicated turn.
        dry_run: Check only, and return the turns that would be withdrawn.

    Raises:
        ConflictError: A turn no longer duplicates its original; none was withdrawn.
    """
    selections = kept_turns(history, {*originals, *originals.values()})
    states = turn_statuses(history, selections)
    for double, original in originals.items():
        one, other = selections.get(double), selections.get(original)
        is_double = one and other and _is_repeat(one.turn, other.turn) and not one.format
        became = states.get(original)
        if not is_double or not became or became.superseded_by or became.withdrawn:
            raise ConflictError(
                f"Turn {double} is no longer a duplicate of turn {original}; nothing was changed",
                hint="Reject the plan, and run `familiar housekeep doubles --propose` again.",
            )
    left = [turn for turn in originals if not states[turn].withdrawn]
    left = [turn for turn in left if not states[turn].superseded_by]
    return tuple(left) if dry_run else withdraw_turns(history, left)


def _lines_by_channel(history: HistoryStore) -> list[list[_Line]]:
    """Return the lines of each channel: imported channels first, each group oldest first."""
    channels: defaultdict[str, list[_Line]] = defaultdict(list)
    imported = set[str]()
    for selection in select_turns(history, TurnFilter(OWNER)):
        channels[selection.turn.channel_id].append(_known_line(selection))
        if selection.format:
            imported.add(selection.turn.channel_id)
    # A dict keeps the channels in the order of their first turns.
    return [channels[name] for name in sorted(channels, key=lambda name: name not in imported)]


def _known_line(selection: SourcedTurn) -> _Line:
    turn = selection.turn
    is_live = not selection.format and turn.source in _LIVE
    return _Line(hash(wording_of(turn)), turn.id, is_live, account_of(turn), turn.channel_id)


def _is_repeat(turn: Turn, original: Turn) -> bool:
    return turn.channel_id != original.channel_id and is_same_message(turn, original)


class _Index:
    """Index of the original lines of all channels by three consecutive lines."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._starts: set[int] = set()  # start offsets of channels
        self._places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)

    def compare(self, channels: list[list[_Line]]) -> Iterator[DoubledChannel]:
        """Yield, for each channel, the duplicates of lines in earlier channels."""
        for lines in channels:
            found: dict[str, DoubledChannel] = {}
            doubled = set[int]()
            for at, start, size in self._runs(lines):
                doubled.update(range(at, at + size))
                here = lines[at].channel_id
                there = self._lines[start].channel_id
                of_it = found.setdefault(there, DoubledChannel(here, there))
                pairs = zip(lines[at : at + size], self._lines[start : start + size], strict=True)
                of_it.originals |= {one.turn_id: other.turn_id for one, other in pairs}
            yield from found.values()
            self._add([line for n, line in enumerate(lines) if n not in doubled])

    def _runs(self, lines: list[_Line]) -> Iterator[tuple[int, int, int]]:
        """Yield each run's start in these lines, start in the index, and length."""
        at = after = 0
        used = set[int]()  # so that a line said twice stays two lines
        while at + _RUN <= len(lines):
            places = self._places.get(_line_key(lines, at), [])
            following = bisect_left(places, after)
            likely = [*places[following : following + _TRIED], *places[:_TRIED]]
            runs = [(self._run(lines, at, start, used), start) for start in likely]
            size, start = max(runs, key=lambda run: run[0], default=(0, 0))
            is_greeting = start in self._starts and lines[at].person[0] is None
            if size - is_greeting < _RUN:
                at += 1
                continue
            yield at, start, size
            used.update(range(start, start + size))
            at, after = at + size, start + size

    def _run(self, lines: list[_Line], at: int, start: int, used: set[int]) -> int:
        """Return how many consecutive lines repeat unused ones of one channel in the index."""
        size, channel_id = 0, self._lines[start].channel_id
        most = min(len(lines) - at, len(self._lines) - start)
        for one_at, place in zip(range(at, at + most), range(start, start + most), strict=True):
            one, other = lines[one_at], self._lines[place]
            is_same = one.wording == other.wording and may_be_one_person(one.person, other.person)
            if not (is_same and one.is_live and other.channel_id == channel_id) or place in used:
                break
            size += 1
        return size

    def _add(self, lines: list[_Line]) -> None:
        first = len(self._lines)
        self._starts.add(first)
        self._lines += lines
        for at in range(len(lines) - _RUN + 1):
            self._places[_line_key(lines, at)].append(first + at)


def _line_key(lines: list[_Line], at: int) -> tuple[int, ...]:
    return tuple(line.wording for line in lines[at : at + _RUN])
