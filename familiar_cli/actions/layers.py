"""What prompts were made of, one after another: how much of each layer, and when it fell out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from familiar_cli.familiar import Familiar


@dataclass(frozen=True, slots=True)
class PromptLayers:
    """One prompt.

    Args:
        turn: The turn that it was made for.
        at: When.
        budget_tokens: What it could hold.
        tokens: What it held of each layer, in the order in which layers are sent.
        lost_tokens: What was offered for each layer and had no room.
    """

    turn: int
    at: datetime
    budget_tokens: int
    tokens: Mapping[str, int]
    lost_tokens: Mapping[str, int]


def layers_over_time(
    familiar: Familiar, before: int | None = None, most: int = 40
) -> tuple[PromptLayers, ...]:
    """Return what the newest `most` prompts held, the oldest first; damaged records are left out.

    Args:
        familiar: Whose prompts.
        before: Only turns with a lower number.
        most: How many.
    """
    from familiar_cli.context.trace_files import read_trace, trace_ids

    directory = familiar.paths.traces
    ids = sorted(n for n in trace_ids(directory) if before is None or n < before)[-most:]
    found = []
    for turn in ids:
        try:
            trace = read_trace(directory, turn)
        except FamiliarError:
            continue
        lost: dict[str, int] = {}
        for piece in trace.contributions:
            sent = piece.tokens if piece.kept else 0
            gone = max(piece.offered_tokens - sent, 0)
            lost[str(piece.layer)] = lost.get(str(piece.layer), 0) + gone
        held = {layer.name: layer.used_tokens for layer in trace.layers}
        found.append(PromptLayers(turn, trace.at, trace.budget_tokens, held, lost))
    return tuple(found)
