"""Chats that are kept in two channels: find their doubled turns, and withdraw them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.errors import ConflictError
from familiar_cli.history.selection import TurnFilter, kept_turns, select
from familiar_cli.history.standing import standings, withdraw
from familiar_cli.history.store import GREETING
from familiar_cli.history.wording import SERVED, wording_of
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from familiar_cli.history.selection import Kept
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

_RUN: Final = 3  # lines in a row that are no coincidence
_TRIED: Final = 8  # places where a run may begin, so that the time stays linear
_LIVE: Final = frozenset({SERVED, "edit", GREETING})


@dataclass(slots=True)
class DoubledChannel:
    """A channel that repeats turns of another one.

    Args:
        channel_id: The channel with the doubles.
        original_id: The channel whose turns stay: an imported one, otherwise the older.
        originals: The turn that stays, for each doubled turn, in order.
    """

    channel_id: str
    original_id: str
    originals: dict[int, int] = field(default_factory=dict)


class _Line(NamedTuple):
    wording: int  # a hash; equal lines are compared again before anything is withdrawn
    turn_id: int
    is_live: bool
    person: tuple[str, str] | None
    channel_id: str


def find_doubles(history: HistoryStore) -> list[DoubledChannel]:
    """Find turns that a client sent again into another channel, three or more in a row.

    A greeting does not count, since many chats begin with the same one. The time is linear in the
    number of turns, of which only hashes are held.
    """
    return list(_Index().compare(_lines_by_channel(history)))


def withdraw_doubles(
    history: HistoryStore, originals: Mapping[int, int], *, dry_run: bool = False
) -> tuple[int, ...]:
    """Withdraw doubled turns, and return those that were not withdrawn already.

    Args:
        history: The history.
        originals: The turn that stays, for each doubled turn.
        dry_run: Check only, and return the turns that would be withdrawn.

    Raises:
        ConflictError: A turn is no double of its original any more; none was withdrawn.
    """
    kept = kept_turns(history, {*originals, *originals.values()})
    states = standings(history, kept)
    for double, original in originals.items():
        one, other = kept.get(double), kept.get(original)
        is_double = one and other and _repeats(one.turn, other.turn) and not one.format
        became = states.get(original)
        if not is_double or not became or became.superseded_by or became.withdrawn:
            raise ConflictError(
                f"Turn {double} is no double of turn {original} any more; nothing was changed",
                hint="Reject the plan, and run `familiar housekeep doubles --propose` again.",
            )
    left = [turn for turn in originals if not states[turn].withdrawn]
    left = [turn for turn in left if not states[turn].superseded_by]
    return tuple(left) if dry_run else withdraw(history, left)


def _lines_by_channel(history: HistoryStore) -> list[list[_Line]]:
    """Return the lines of each channel, imported channels first, then the older ones."""
    channels: defaultdict[str, list[_Line]] = defaultdict(list)
    imported = set[str]()
    for kept in select(history, TurnFilter(OWNER)):
        channels[kept.turn.channel_id].append(_line(kept))
        if kept.format:
            imported.add(kept.turn.channel_id)
    # A dict keeps the channels in the order of their first turns.
    return [channels[name] for name in sorted(channels, key=lambda name: name not in imported)]


def _line(kept: Kept) -> _Line:
    turn = kept.turn
    is_live = not kept.format and turn.source in _LIVE
    return _Line(hash(wording_of(turn)), turn.id, is_live, _person(turn), turn.channel_id)


def _person(turn: Turn) -> tuple[str, str] | None:
    return (turn.author.platform, turn.author.user_id) if turn.author else None


def _repeats(turn: Turn, original: Turn) -> bool:
    is_elsewhere = turn.channel_id != original.channel_id
    same_words = wording_of(turn) == wording_of(original)
    return is_elsewhere and same_words and _may_be_one(_person(turn), _person(original))


def _may_be_one(one: tuple[str, str] | None, other: tuple[str, str] | None) -> bool:
    """Tell whether two speakers may be the same; one person has another id on each platform."""
    return one is None or other is None or one[0] != other[0] or one == other


class _Index:
    """The lines that stay, one channel after the other, by each three in a row."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._starts: set[int] = set()  # where channels begin
        self._places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)

    def compare(self, channels: list[list[_Line]]) -> Iterator[DoubledChannel]:
        """Yield what each channel repeats of those before it."""
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
        """Yield where a run begins in these lines and in the index, and its length."""
        at = after = 0
        used = set[int]()  # so that lines which are said twice stay two
        while at + _RUN <= len(lines):
            places = self._places.get(_key(lines, at), [])
            following = bisect_left(places, after)
            likely = [*places[following : following + _TRIED], *places[:_TRIED]]
            runs = [(self._run(lines, at, start, used), start) for start in likely]
            size, start = max(runs, key=lambda run: run[0], default=(0, 0))
            is_greeting = start in self._starts and lines[at].person is None
            if size - is_greeting < _RUN:
                at += 1
                continue
            yield at, start, size
            used.update(range(start, start + size))
            at, after = at + size, start + size

    def _run(self, lines: list[_Line], at: int, start: int, used: set[int]) -> int:
        """Return how many lines in a row repeat unused ones of one channel in the index."""
        size, channel_id = 0, self._lines[start].channel_id
        most = min(len(lines) - at, len(self._lines) - start)
        for one_at, place in zip(range(at, at + most), range(start, start + most), strict=True):
            one, other = lines[one_at], self._lines[place]
            is_same = one.wording == other.wording and _may_be_one(one.person, other.person)
            if not (is_same and one.is_live and other.channel_id == channel_id) or place in used:
                break
            size += 1
        return size

    def _add(self, lines: list[_Line]) -> None:
        first = len(self._lines)
        self._starts.add(first)
        self._lines += lines
        for at in range(len(lines) - _RUN + 1):
            self._places[_key(lines, at)].append(first + at)


def _key(lines: list[_Line], at: int) -> tuple[int, ...]:
    return tuple(line.wording for line in lines[at : at + _RUN])
