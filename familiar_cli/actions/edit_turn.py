"""Replace the text of a turn; the old text is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.history import standing

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn

EDIT: Final = "edit"
"""The source of a turn whose text replaces that of another."""


def edit_turn(familiar: Familiar, turn_id: int, text: str) -> Turn:
    """Write down what a turn should have said, in its place; return the new turn.

    Raises:
        NotFoundError: There is no such turn.
        UsageError: The text is empty, or the same as before.
        RefusedError: The turn was replaced or withdrawn.
    """
    turn = familiar.history.turn(turn_id)
    if turn is None:
        raise NotFoundError(
            f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
        )
    if not text.strip():
        raise UsageError(
            "The new text is empty; nothing was changed",
            hint=f"Run `familiar history withdraw {turn_id}` to leave the turn out.",
        )
    if text == turn.content:
        raise UsageError(f"Turn {turn_id} says that already; nothing was changed")
    return standing.supersede(
        familiar.history, turn, replace(turn, content=text, source=EDIT, partial=False)
    )
