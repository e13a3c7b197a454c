"""What a turn asks of the pipeline: the request, and the record of a prompt only looked at."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from familiar_cli.config.fields import DEFAULT_TIER
from familiar_cli.context.telling import notices
from familiar_cli.context.trace import make_trace
from familiar_cli.context.types import ContextRequest
from familiar_cli.errors import UsageError
from familiar_cli.history.types import in_pairs, place_of
from familiar_cli.identity import Labels, Me
from familiar_cli.languages import ENGLISH
from familiar_cli.memory.pages.similarity import KnownTexts

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from familiar_cli.context.limits import Allowance
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Assembled, Said
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn
    from familiar_cli.languages import Phrases
    from familiar_cli.visibility import Viewer


_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_MOST_LABELLED: Final = 200  # of those who spoke last; so that names stay told apart
MOST_PENDING: Final = 20
"""So many turns that the familiar has not answered are seen as one with what is said now."""


def request_for(
    said: Said,
    *,
    familiar_id: str,
    allowance: Allowance,
    history: HistoryStore,
    viewer: Viewer,
    opening: Callable[[ContextRequest, int | None], str],
    at: datetime,
    name: str = "",
    tier: int = DEFAULT_TIER,
    me: Me = Me(),  # noqa: B008  # frozen
    phrases: Phrases = ENGLISH,
) -> ContextRequest:
    """Return what a prompt is wanted for. A channel without turns is opened with a greeting.

    Args:
        said: What was said.
        familiar_id: To whom.
        allowance: How many tokens there are.
        history: What was said before.
        viewer: Who will read the reply.
        opening: Gives the greeting with a number.
        at: When it was said.
        name: What the familiar is called.
        tier: How much of the memory the prompt is made of, unless `said` has it otherwise.
        me: Whose home it is.
        phrases: The titles and labels of the prompt.

    Raises:
        UsageError: Nothing was said, or a greeting was asked for that cannot be had.
    """
    check_said(said)
    before_id = place_of(said.instead_of) if said.instead_of else None
    recent = in_pairs(history.recent(said.channel_id, MOST_PENDING, before_id, viewer=viewer))
    last = recent[-1] if recent else None
    newest = said.instead_of.id if said.instead_of else last.id if last else 0
    request = ContextRequest(
        familiar_id=familiar_id,
        channel_id=said.channel_id,
        author=said.author,
        utterance=said.text,
        modality=said.modality,
        at=at,
        budget_tokens=allowance.total,
        viewer=viewer,
        budget_reason=allowance.reason,
        layer_tokens=allowance.layers,
        seed=f"{familiar_id}\n{said.channel_id}\n{newest}\n{said.text}",
        pending_turns=_unanswered([turn for turn in recent if turn.id != said.reply_to]),
        tier=said.tier or tier,
        labels=labels_in(history, said.channel_id, name, me).joined(
            [said.author, *(turn.author for turn in recent)]
        ),
        phrases=phrases,
        off_record=said.off_record,
        before_id=before_id,
        reply_to=said.reply_to,
        beside=KnownTexts(said.beside) if said.beside else None,
    )
    if last is None:
        return replace(request, opening=opening(request, said.greeting))
    if said.greeting:
        raise UsageError(
            f"The conversation in channel {said.channel_id!r} has already begun; "
            "a greeting can only open a new one",
            hint="Start another with `--channel NAME`.",
        )
    return request


def labels_in(history: HistoryStore, channel_id: str, name: str, me: Me) -> Labels:
    """Return what people are called in a channel; `name` is the familiar's."""
    return Labels(frozenset(history.recent_distinct_authors(channel_id, _MOST_LABELLED)), name, me)


def _unanswered(turns: list[Turn]) -> tuple[Turn, ...]:
    """Return what people said since the familiar last did, oldest first."""
    waiting = list(takewhile(lambda turn: turn.role != "assistant", reversed(turns)))
    return tuple(turn for turn in reversed(waiting) if turn.role == "user")


def check_said(said: Said) -> None:
    """Make sure that there are words.

    Raises:
        UsageError: There are none, or no text could hold them.
    """
    if not said.text.strip():
        raise UsageError("The message is empty; nothing was sent", hint="Run `familiar chat`.")
    if _HALF_CHARACTER.search(said.text):
        raise UsageError("The message contains bytes that are not UTF-8 text; nothing was sent")


def dry_run(assembled: Assembled, *, model: str, counter: str, told: tuple[str, ...] = ()) -> Trace:
    """Return the record of a prompt that is only looked at; `told` is to be known besides."""
    trace = make_trace(assembled, model=model, counter=counter)
    return replace(trace, notices=notices(assembled, *told))
