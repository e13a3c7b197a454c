"""Let another swipe of an imported reply stand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.bootstrap.chats.sillytavern import swipes_of
from familiar_cli.bootstrap.chats.types import SILLY_TAVERN
from familiar_cli.errors import NotFoundError
from familiar_cli.history.selection import kept_turns
from familiar_cli.history.standing import choose, standings, supersede

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.selection import Kept


def swipes_in(kept: Kept) -> tuple[str, ...]:
    """Return the swipes that an imported turn came with."""
    return swipes_of(json.loads(kept.raw)) if kept.format == SILLY_TAVERN else ()


def choose_swipe(familiar: Familiar, turn_id: int, number: int) -> tuple[int, tuple[int, ...]]:
    """Let a swipe of an imported reply stand, as a turn of its own.

    Returns:
        That turn, and those that do not stand any more.

    Args:
        familiar: Whose.
        turn_id: The reply as it was imported, or what stands in its place.
        number: The swipe, counted from 1.

    Raises:
        NotFoundError: There is no such turn, or no such swipe.
        RefusedError: What stands there was withdrawn.
    """
    history = familiar.history
    became = standings(history, [turn_id]).get(turn_id)
    if became is None:
        raise NotFoundError(
            f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
        )
    group = kept_turns(history, became.alternatives or (turn_id,))
    swipes = next((found for kept in group.values() if (found := swipes_in(kept))), ())
    if not 1 <= number <= len(swipes):
        there = f"there are {len(swipes)}" if swipes else "it has none"
        raise NotFoundError(
            f"Turn {turn_id} has no swipe {number}: {there}; nothing was changed",
            hint="Run `familiar history show --all --json` for all of them.",
        )
    text = swipes[number - 1]
    known = next((kept.turn for kept in group.values() if kept.turn.content == text), None)
    if known is not None:
        return known.id, choose(history, known.id) if len(group) > 1 else ()
    standing = next(
        kept.turn for i, kept in group.items() if not standings(history, [i])[i].superseded_by
    )
    new = supersede(history, standing, replace(standing, content=text, partial=False))
    return new.id, (standing.id,)
