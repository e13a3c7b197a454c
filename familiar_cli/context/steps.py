"""Letting old turns go in steps, so that the beginning of a prompt stays as it is for a while.

Were the oldest turn left out anew at every turn, no two prompts would begin alike, and a server
that remembers the beginnings of prompts could use none of them again. So a window that is full
loses up to a third at once, at a turn that the next few prompts choose as well: of all turns
at which it could begin, the one whose id can be halved most often. Nothing needs to be remembered.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LOST_AT_MOST: Final = 3
"""A window that is full loses at most the third part of what it holds."""


FEW_TURNS: Final = 8
"""Of so few turns none is left out that need not be."""


def first_kept(turn_ids: Sequence[int | None], weights: Sequence[int]) -> int:
    """Return the index of the turn at which a full window begins.

    Args:
        turn_ids: The turns that there is room for, oldest first; None: not in the history.
        weights: What each costs, >= 0.
    """
    spare = sum(weights) // LOST_AT_MOST if len(turn_ids) > FEW_TURNS else 0
    lost = [0, *accumulate(weights)]
    possible = [index for index in range(len(turn_ids)) if lost[index] <= spare]
    return max(possible, key=lambda index: (_halvings(turn_ids[index]), -index), default=0)


def _halvings(turn_id: int | None) -> int:
    """Return how often an id can be halved; less than any for a turn without one."""
    return (turn_id & -turn_id).bit_length() if turn_id else -1
