"""What speakers are called beside their turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn


def with_speakers(familiar: Familiar, turns: Iterable[Turn]) -> list[tuple[Turn, str]]:
    """Return turns, each with what its speaker is called."""
    found = list(turns)
    labels, name = familiar.labels(turn.author for turn in found), familiar.name

    def speaker(turn: Turn) -> str:
        if turn.author:
            return labels.of(turn.author)
        return name if turn.role == "assistant" else turn.role

    return [(turn, speaker(turn)) for turn in found]
