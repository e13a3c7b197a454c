"""What a person said last, said in other words: the new words take its place, the reply anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.actions.edit_turn import edit_turn
from familiar_cli.actions.last_exchange import last_exchange
from familiar_cli.context.types import Modality
from familiar_cli.errors import RefusedError

if TYPE_CHECKING:
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn


def say_again(familiar: Familiar, said: Said, turn: Turn) -> Said:
    """Write `said.text` down in place of a turn; return what asks for a reply to it.

    The new reply takes the place of the old one, if there is one.

    Raises:
        RefusedError: The turn is not the last that was said any more.
        UsageError: The text is empty, or the same as before.
    """
    exchange = last_exchange(familiar, turn.channel_id)
    if exchange.said.id != turn.id:
        raise RefusedError(
            f"Something was said after turn {turn.id}; nothing was changed",
            hint=f"Run `familiar history edit {turn.id} TEXT`.",
        )
    new = edit_turn(familiar, turn.id, said.text)
    return replace(
        said,
        author=new.author,
        channel_id=new.channel_id,
        modality=Modality(new.modality),
        reply_to=new.id,
        instead_of=exchange.replies[-1] if exchange.replies else None,
    )
