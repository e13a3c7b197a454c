"""Which kept turn is to be answered: one that is named, or the message with a known id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.context.types import Modality
from familiar_cli.errors import (
    AnsweredError,
    ConflictError,
    NotFoundError,
    RefusedError,
    UsageError,
)
from familiar_cli.history.messages import of_id, whole_reply

if TYPE_CHECKING:
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn


def kept_question(familiar: Familiar, said: Said) -> Said:
    """Return `said` with the words of the kept turn that it means, if it means one.

    Raises:
        NotFoundError: There is no turn `said.reply_to`.
        RefusedError: The familiar said it itself.
        ConflictError: The message with that id is kept in other words.
        UsageError: It is to be off the record.
    """
    turn, history = _meant(familiar, said), familiar.history
    if turn is None:
        return said
    if said.off_record:
        raise UsageError(f"Turn {turn.id} is on the record; its reply cannot be off it")
    if turn.role != "user":
        raise RefusedError(
            f"Turn {turn.id} was not said to the familiar, so there is nothing to reply to",
            hint="Run `familiar history show` for the turns.",
        )
    return replace(
        said,
        text=turn.content,
        author=turn.author,
        channel_id=said.channel_id if history.holds(said.channel_id, turn) else turn.channel_id,
        modality=Modality(turn.modality),
        reply_to=turn.id,
    )


def _meant(familiar: Familiar, said: Said) -> Turn | None:
    if said.reply_to is not None:
        turn = familiar.history.turn(said.reply_to)
        if turn is None:
            raise NotFoundError(
                f"There is no turn {said.reply_to}", hint="Run `familiar history show`."
            )
        return turn
    turn = of_id(familiar.history, said.channel_id, said.message_id, said.author)
    if turn is not None and turn.content != said.text:
        raise ConflictError(
            f"Message {said.message_id!r} of channel {said.channel_id!r} is kept in other words, "
            f"as turn {turn.id}; turns are never changed, and nothing was asked",
            hint=f"Run `familiar ask --reply-to {turn.id}` for a reply to what is kept.",
        )
    return turn


def check_unanswered(familiar: Familiar, said: Said) -> None:
    """Make sure that the kept turn that is meant, if any, has no whole reply.

    Raises:
        AnsweredError: It has one, which the error's `data` holds as `ask --json` does.
    """
    reply = (
        None
        if said.reply_to is None or said.instead_of
        else whole_reply(familiar.history, said.reply_to, said.channel_id)
    )
    if reply is None:
        return
    error = AnsweredError(
        f"Turn {said.reply_to} has a reply already, turn {reply.id}; nothing was asked",
        hint=f"Run `familiar history show {reply.id}` to read it.",
    )
    error.data = {
        "turn": said.reply_to,
        "reply": reply.content,
        "reply_turn": reply.id,
        "supersedes": None,
        "model": None,
        "usage": None,
        "finish_reason": None,
        "notices": [],
    }
    raise error
