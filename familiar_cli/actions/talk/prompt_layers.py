"""The share of each layer in the prompts of past turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.context.trace import read_trace, trace_ids

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from familiar_cli.familiar import Familiar


class PromptLayers(Struct, frozen=True):
    """The tokens of one prompt by layer.

    Args:
        budget_tokens: The prompt's budget.
        tokens: Tokens of each layer, in the order of the prompt.
        lost_tokens: Tokens of each layer that did not fit.
    """

    turn: int
    at: datetime
    budget_tokens: int
    tokens: Mapping[str, int]
    lost_tokens: Mapping[str, int]


def layers_over_time(
    familiar: Familiar, before: int | None = None, most: int = 40
) -> tuple[PromptLayers, ...]:
    """Return the layers of the newest `most` prompts, oldest first, skipping damaged traces.

    Args:
        before: Only turns with a lower number.
        most: Maximum number.
    """
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
