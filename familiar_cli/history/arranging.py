"""The order in which turns are shown: what was heard late at its time, each reply by its question.

The history itself is in the order in which turns were written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from familiar_cli.history.messages import HEARD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.history.types import Turn

T = TypeVar("T")


def place_of(turn: Turn) -> int:
    """Return the number of the turn where it stands: its own, unless it took another's place."""
    return turn.id if turn.place is None else turn.place


def by_time(items: Sequence[T], turn_of: Callable[[T], Turn]) -> list[T]:
    """Return `items` with each turn that was heard moved up to the time when it was said.

    All others keep their order: an imported chat has that of its file, whatever its times are.
    """
    arranged: list[T] = []
    for item in items:
        turn, place = turn_of(item), len(arranged)
        while turn.source == HEARD and place and turn_of(arranged[place - 1]).at > turn.at:
            place -= 1
        arranged.insert(place, item)
    return arranged


def in_pairs(turns: Sequence[Turn]) -> list[Turn]:
    """Return `turns` by time, with each reply right after what it replies to.

    Of several replies to one turn, as when the first broke off, only the last is among them. A
    reply to a turn that is not here stays at its place.
    """
    ordered = by_time(turns, lambda turn: turn)
    questions = {turn.id for turn in turns}
    replies = {turn.reply_to: turn for turn in turns if turn.reply_to in questions}
    arranged: list[Turn] = []
    for turn in ordered:
        if turn.reply_to in questions:
            continue
        arranged.append(turn)
        if turn.id in replies:
            arranged.append(replies[turn.id])
    return arranged
