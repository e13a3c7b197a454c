"""What flows through a prompt's budget: from each layer to the pieces that were paid from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from familiar_cli.ui.context_page import origin_of, row_key, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.trace import Trace, TracedContribution

MOST_FLOWS: Final = 36
"""So many can be told apart; of the rest, those of one layer and fate become one."""

MARKS: Final = {"kept": "●", "cut": "◐", "out": "○"}


@dataclass(frozen=True, slots=True)
class Flow:
    """One or more alike pieces.

    Args:
        layer: What they were paid from.
        state: `kept`, `cut` or `out`.
        name: Who offered them.
        origin: The file or the turns that they come from.
        sent_tokens: What is in the prompt.
        lost_tokens: What is not.
        reason: Why not.
        count: How many pieces.
    """

    layer: str
    state: str
    name: str
    origin: str
    sent_tokens: int
    lost_tokens: int
    reason: str
    count: int = 1

    @property
    def tokens(self) -> int:
        """What was offered."""
        return self.sent_tokens + self.lost_tokens

    @property
    def title(self) -> str:
        """All of it in words."""
        pieces = f" ({self.count} pieces)" if self.count > 1 else ""
        origin = f"\n{self.origin}" if self.origin else ""
        lost = f", {self.lost_tokens} left out" if self.lost_tokens else ""
        why = f"\n{self.reason}" if self.reason else ""
        return (
            f"{self.name}{pieces}{origin}\n{self.state}: {self.sent_tokens} tokens sent{lost}{why}"
        )


def flows(trace: Trace, most: int = MOST_FLOWS) -> list[Flow]:
    """Return what flows, by layer, in the order of the record; empty pieces are left out."""
    order = {layer.name: number for number, layer in enumerate(trace.layers)}
    pieces = [piece for piece in trace.contributions if piece.offered_tokens > 0]
    pieces.sort(key=lambda piece: order.get(str(piece.layer), len(order)))
    found = [_flow(list(alike)) for _, alike in groupby(pieces, key=row_key)]
    return _fewer(found, most)


def _flow(alike: Sequence[TracedContribution]) -> Flow:
    first = alike[0]
    sent = sum(piece.tokens for piece in alike if piece.kept)
    offered = sum(piece.offered_tokens for piece in alike)
    return Flow(
        layer=str(first.layer),
        state=state_of(first),
        name=first.source,
        origin=origin_of(alike),
        sent_tokens=sent,
        lost_tokens=max(offered - sent, 0),
        reason=first.reason,
        count=len(alike),
    )


def _fewer(found: list[Flow], most: int) -> list[Flow]:
    """Return at most about `most` flows: the small ones of one layer and state become one."""
    if len(found) <= most:
        return found
    large = set(sorted(range(len(found)), key=lambda n: -found[n].tokens)[:most])
    rest: dict[tuple[str, str], Flow] = {}
    kept: list[Flow] = []
    for number, flow in enumerate(found):
        if number in large:
            kept.append(flow)
        else:
            key = (flow.layer, flow.state)
            rest[key] = _sum(rest[key], flow) if key in rest else replace(flow, name="others")
    layers = list(dict.fromkeys(flow.layer for flow in found))
    return sorted([*kept, *rest.values()], key=lambda flow: layers.index(flow.layer))


def _sum(one: Flow, other: Flow) -> Flow:
    return replace(
        one,
        origin="",
        reason=one.reason if one.reason == other.reason else "several reasons; see the table",
        sent_tokens=one.sent_tokens + other.sent_tokens,
        lost_tokens=one.lost_tokens + other.lost_tokens,
        count=one.count + other.count,
    )
