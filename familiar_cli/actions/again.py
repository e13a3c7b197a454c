"""Which reply is to be made again or to go on, and what it replied to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.context.types import Modality, Said
from familiar_cli.errors import NotFoundError, RefusedError
from familiar_cli.history.store import GREETING
from familiar_cli.history.types import in_pairs
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn

_LAST = 20  # turns of a channel among which the question of its last reply is looked for


def again(familiar: Familiar, said: Said) -> Said:
    """Return what asks for another reply in place of the last one of channel `said.channel_id`.

    Raises:
        NotFoundError: Nothing was said in the channel.
        RefusedError: Its last turn is no reply.
    """
    return remade(familiar, replace(said, remake="again"))


def go_on(familiar: Familiar, said: Said) -> Said:
    """Return what lets the last reply of channel `said.channel_id` go on.

    Raises:
        NotFoundError: Nothing was said in the channel.
        RefusedError: Its last turn is no reply.
    """
    return remade(familiar, replace(said, remake="continue"))


def remade(familiar: Familiar, said: Said) -> Said:
    """Return `said` with the last reply of its channel, and what that replies to, as they are now.

    What asks for no reply in place of another is returned as it is.

    Raises:
        NotFoundError: Nothing was said in the channel.
        RefusedError: Its last turn is no reply.
    """
    if not said.remake:
        return said
    channel_id = said.channel_id
    turns = in_pairs(familiar.history.recent(channel_id, _LAST, viewer=OWNER))
    if not turns:
        raise NotFoundError(
            f"There are no turns in channel {channel_id!r}", hint="Run `familiar channel ls`."
        )
    last = turns[-1]
    question = _question(familiar, turns)
    if question is None:
        raise RefusedError(
            f"The last turn of channel {channel_id!r}, turn {last.id}, is no reply; "
            "nothing was asked",
            hint=_hint(last, channel_id),
        )
    return replace(
        said,
        text=question.content,
        author=question.author,
        modality=Modality(question.modality),
        reply_to=question.id,
        instead_of=last,
    )


def _question(familiar: Familiar, turns: list[Turn]) -> Turn | None:
    """Return what the last turn replies to: what it says itself, or what was said before it."""
    last = turns[-1]
    if last.role != "assistant" or last.source == GREETING:
        return None
    if last.reply_to is not None:
        question = familiar.history.turn(last.reply_to)
        if question is not None and question.stands:
            return question
    before = turns[-2] if len(turns) > 1 else None
    return before if before is not None and before.role == "user" else None


def _hint(last: Turn, channel_id: str) -> str:
    if last.role == "user":
        where = "" if last.channel_id == channel_id else f" --channel {channel_id}"
        return f"Run `familiar ask --reply-to {last.id}{where}` for a first reply to it."
    if last.source == GREETING:
        return "Open another conversation with `familiar ask --channel NAME --greeting N`."
    return "Run `familiar history show`."
