"""Reconcile a saved chat with its source: edits, deletions, insertions.

The source's lines are laid beside all turns that stand in the channel, imported or live. Turns are
only ever added and marked: an edited line supersedes its turn, a deleted one is withdrawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.history.matching import LineMatch
from familiar_cli.history.rows import in_ms, pack
from familiar_cli.history.selection import TurnFilter, select
from familiar_cli.history.standing import standings
from familiar_cli.history.store import GREETING
from familiar_cli.history.types import HEARD, by_time
from familiar_cli.history.wording import SERVED, matching_blocks, wording_of
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from familiar_cli.history.matching import IncomingLine
    from familiar_cli.history.placing import ChatPlacement
    from familiar_cli.history.selection import Kept
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn
    from familiar_cli.history.wording import Wording

_FROM_CLIENTS: Final = frozenset({SERVED, "edit", GREETING, HEARD})
"""Sources of live turns that a chat client shows and can delete."""

_TICK: Final = timedelta(milliseconds=1)


class _SourceLine(NamedTuple):
    key: Wording
    text: str
    others: tuple[str, ...]
    at: datetime | None  # None: it is a guess


class _Gap(NamedTuple):
    """Unmatched lines and turns before a matching turn; None: at the end."""

    turns: Sequence[Turn]
    numbers: range
    after: Turn | None


@dataclass(frozen=True, slots=True)
class ShownChat:
    """A chat in the state of its source.

    Args:
        name: What its source calls it.
        lines: All of its lines.
        changed: When the source was changed last; None: it is the chat as it is at this moment. A
            live turn at the end that an older source lacks, or a choice made since, is left alone.
    """

    name: str
    lines: Iterable[IncomingLine]
    changed: datetime | None = None


class Reconciliation:
    """Match of each source line to the channel, by number, and the turns the source dropped.

    Attributes:
        verdicts: A `LineMatch` for each line, in one byte each.
        turns: The turn that a line is there as, or whose wording it replaces.
        latest: When an inserted line was said at the latest, so that it stands at its place.
        withdrawn: Turns that the source does not show any more.
        bare: Lines whose turns were said live, so that only the words are kept.
    """

    def __init__(self, history: HistoryStore, place: ChatPlacement, chat: ShownChat) -> None:
        self.turns: dict[int, Turn] = {}
        self.latest: dict[int, datetime] = {}
        self.withdrawn: list[int] = []
        self.bare: set[int] = set()
        self._history = history
        self._channel_id = place.channel_id
        self._changed = chat.changed
        self._lines = [_source_line(line) for line in chat.lines]
        self.verdicts = bytearray([LineMatch.new]) * len(self._lines)
        shown = list(_past(history, place))
        self._of_chat = _turns_of_chat(history, place.channel_id, chat.name)
        ids = {one.turn.id for one in shown}
        self._set_aside = _lines_set_aside(history, place, ids)
        self._compare(by_time(shown, lambda one: one.turn))

    def _compare(self, shown: Sequence[Kept]) -> None:
        keys = [wording_of(one.turn) for one in shown]
        turns = [one.turn for one in shown]
        lines = [line.key for line in self._lines]
        i = j = 0
        for start, other, size in matching_blocks(keys, lines):
            after = turns[start] if start < len(turns) else None
            self._close(_Gap(turns[i:start], range(j, other), after))
            for k in range(size):
                one = shown[start + k]
                self._note(other + k, LineMatch.there, one.turn)
                if not one.format and one.turn.channel_id == self._channel_id:
                    self.bare.add(other + k)
            i, j = start + size, other + size

    def _close(self, gap: _Gap) -> None:
        """Classify unmatched lines and turns."""
        left = {turn.id: turn for turn in gap.turns if turn.channel_id == self._channel_id}
        if gap.turns and not gap.after:  # a branch may reword the last turn that it shares
            left[gap.turns[-1].id] = gap.turns[-1]
        others = self._alternatives(left)
        is_alone = len(gap.turns) == len(gap.numbers) == 1
        for number in gap.numbers:
            line = self._lines[number]
            old = next(
                (t for t in left.values() if self._rewords(line, t, is_alone=is_alone)), None
            )
            if old:
                del left[old.id]
                is_ours = self._is_replaced_here(old, others[old.id].get(line.key))
                self._note(number, LineMatch.there if is_ours else LineMatch.edited, old)
            elif (line.key, line.at) in self._set_aside:
                self.verdicts[number] = LineMatch.there
            elif gap.after:
                self.verdicts[number] = LineMatch.inserted
                if gap.after.channel_id == self._channel_id:
                    latest = gap.after.at - _TICK
                    self.latest[number] = min(line.at or latest, latest)
        self.withdrawn += [t.id for t in left.values() if self._is_dropped(t, is_end=not gap.after)]

    def _note(self, number: int, verdict: LineMatch, turn: Turn) -> None:
        self.verdicts[number] = verdict
        self.turns[number] = turn

    def _alternatives(self, turns: Iterable[int]) -> dict[int, dict[Wording, int]]:
        """Return the other wordings of each turn, by text."""
        found: dict[int, dict[Wording, int]] = {}
        for turn_id, state in standings(self._history, turns).items():
            others = [self._history.turn(i) for i in state.alternatives if i != turn_id]
            found[turn_id] = {wording_of(other): other.id for other in others if other}
        return found

    def _rewords(self, line: _SourceLine, turn: Turn, *, is_alone: bool) -> bool:
        """Tell whether a line is another wording of a turn."""
        if line.key[0] != (turn.role == "assistant"):
            return False
        if turn.content in line.others or (line.at is not None and line.at == turn.at):
            return True
        is_longer = len(turn.content) > 0 and line.text.startswith(turn.content)
        return is_longer or (is_alone and (self._changed is None or turn.id in self._of_chat))

    def _is_replaced_here(self, turn: Turn, other: int | None) -> bool:
        """Tell whether a person replaced, by this turn, what the source still says."""
        if other is None or other not in self._of_chat:
            return False
        if turn.id not in self._of_chat:
            return True
        sql = "SELECT max(at_ms) FROM events WHERE kind = 'superseded' AND turn_id IN (?, ?)"
        ((replaced_ms,),) = self._history.rows(sql, (turn.id, other))
        return self._changed is not None and (replaced_ms or 0) > in_ms(self._changed)

    def _is_dropped(self, turn: Turn, *, is_end: bool) -> bool:
        """Tell whether the source had a turn that it no longer shows."""
        if turn.channel_id != self._channel_id:
            return False
        if turn.id in self._of_chat:
            return True
        return turn.source in _FROM_CLIENTS and (self._changed is None or not is_end)


def _source_line(line: IncomingLine) -> _SourceLine:
    turn = line.turn
    at = None if line.estimated else turn.at
    return _SourceLine(wording_of(turn), turn.content, line.others, at)


def _past(
    history: HistoryStore, place: ChatPlacement, *, everything: bool = False
) -> Iterator[Kept]:
    """Yield the turns shown in a channel, or in it after it branches off."""
    span = TurnFilter(OWNER, place.parent or place.channel_id, everything=everything)
    for one in select(history, span):
        yield one
        if place.parent and one.turn.id == place.turn_id:
            return


def _turns_of_chat(history: HistoryStore, channel_id: str, name: str) -> frozenset[int]:
    """Return the turns of a channel that were imported from a chat."""
    sql = (
        "SELECT turn_id FROM turn_extras JOIN chats ON chats.id = chat_id "
        "WHERE channel_id = ? AND name = ?"
    )
    return frozenset(row[0] for row in history.rows(sql, (pack(channel_id), pack(name))))


def _lines_set_aside(
    history: HistoryStore, place: ChatPlacement, shown: set[int]
) -> set[tuple[Wording, datetime | None]]:
    """Return texts and times of the hidden turns in a channel's past."""
    past = (one.turn for one in _past(history, place, everything=True))
    return {(wording_of(turn), turn.at) for turn in past if turn.id not in shown}
