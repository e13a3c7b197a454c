"""Cut a long row of turns into batches, at quiet moments where it can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.visibility import PUBLIC, Viewer
from familiar_cli.writer.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from familiar_cli.history.types import Turn
    from familiar_cli.visibility import PrivacyRules

# A batch this full ends at the next quiet gap; an emptier one takes the next conversation in, too,
# so that a question is not asked for every single remark of a slow day.
_ENOUGH: Final = 4


@dataclass(frozen=True, slots=True)
class Caps:
    """How large one step may be.

    Args:
        turns: Most turns.
        tokens: Most tokens of turns.
        quiet_gap_s: A silence this long ends a conversation.
    """

    turns: int
    tokens: int
    quiet_gap_s: float


def steps(
    turns: Iterable[Turn], caps: Caps, cost: Callable[[Turn], int]
) -> Iterator[tuple[Turn, ...]]:
    """Yield `turns` in pieces within `caps`, in order and none left out.

    Only one piece is in memory at a time. A turn that is longer than a piece may be is a piece by
    itself.

    Args:
        turns: In the order of their ids.
        caps: How large a piece may be.
        cost: The tokens of a turn.
    """
    held: list[Turn] = []
    costs: list[int] = []
    for turn in turns:
        price = min(cost(turn), caps.tokens)
        while held and (len(held) >= caps.turns or sum(costs) + price > caps.tokens):
            at = _quietest([*(t.at for t in held), turn.at])
            yield tuple(held[:at])
            del held[:at], costs[:at]
        if held and _is_break(held[-1], turn, caps) and _is_enough(costs, caps):
            yield tuple(held)
            held, costs = [], []
        held.append(turn)
        costs.append(price)
    if held:
        yield tuple(held)


def by_privacy(turns: Sequence[Turn], rules: PrivacyRules) -> tuple[Batch, ...]:
    """Split turns into a public batch and one for each private scope.

    The turns of a batch are in the order of their time: an imported chat is older than its ids.
    """
    found: dict[str, list[Turn]] = {}
    for turn in sorted(turns, key=lambda turn: (turn.at, turn.id)):
        scope = PUBLIC if rules.shares else rules.scope_of_turn(turn)
        found.setdefault(scope, []).append(turn)
    return tuple(
        Batch(tuple(of_one), scope or None, viewer=Viewer(rules, frozenset({scope} - {PUBLIC})))
        for scope, of_one in found.items()
    )


def _quietest(times: Sequence[datetime]) -> int:
    """Return before which turn of the second half the longest silence was; the last of equals."""
    size = len(times) - 1
    places = range(max(1, size // 2), size + 1)
    return max(places, key=lambda n: (abs((times[n] - times[n - 1]).total_seconds()), n))


def _is_break(before: Turn, after: Turn, caps: Caps) -> bool:
    """Return whether another conversation begins; imported chats also jump back in time."""
    return abs((after.at - before.at).total_seconds()) >= caps.quiet_gap_s


def _is_enough(costs: Sequence[int], caps: Caps) -> bool:
    return len(costs) * _ENOUGH >= caps.turns or sum(costs) * _ENOUGH >= caps.tokens
