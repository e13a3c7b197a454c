"""One turn of a conversation: what is said, the reply, and the record of both.

What a person said is kept before the model is asked, so that no failure loses it; of a reply that
broke off, the part that came is kept. `ask`, `chat` and every other front take their turns here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from familiar_cli.config.tiers import DEFAULT_TIER
from familiar_cli.context.taking import Taken, Taking
from familiar_cli.context.telling import notices
from familiar_cli.context.trace import make_trace
from familiar_cli.context.trace_files import write_trace
from familiar_cli.context.types import ContextRequest
from familiar_cli.errors import FamiliarError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from familiar_cli.context.limits import Allowance
    from familiar_cli.context.pipeline import ContextPipeline
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Assembled, Said
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn


MOST_PENDING: Final = 20
"""So many turns that the familiar has not answered are seen as one with what is said now."""


def request_for(
    said: Said,
    *,
    familiar_id: str,
    allowance: Allowance,
    history: HistoryStore,
    opening: Callable[[ContextRequest, int | None], str],
    at: datetime,
    tier: int = DEFAULT_TIER,
) -> ContextRequest:
    """Return what a prompt is wanted for. A channel without turns is opened with a greeting.

    Args:
        said: What was said.
        familiar_id: To whom.
        allowance: How many tokens there are.
        history: What was said before.
        opening: Gives the greeting with a number.
        at: When it was said.
        tier: How much of the memory the prompt is made of, unless `said` has it otherwise.

    Raises:
        UsageError: Nothing was said, or a greeting was asked for that cannot be had.
    """
    _check(said)
    recent = history.recent(said.channel_id, MOST_PENDING)
    last = recent[-1] if recent else None
    request = ContextRequest(
        familiar_id=familiar_id,
        channel_id=said.channel_id,
        author=said.author,
        utterance=said.text,
        modality=said.modality,
        at=at,
        budget_tokens=allowance.total,
        layer_tokens=allowance.layers,
        seed=f"{familiar_id}\n{said.channel_id}\n{last.id if last else 0}\n{said.text}",
        pending_turns=_unanswered(recent),
        tier=said.tier or tier,
        off_record=said.off_record,
    )
    if last is None:
        return replace(request, opening=opening(request, said.greeting))
    if said.greeting is not None:
        raise UsageError(
            f"The conversation in channel {said.channel_id!r} has begun; no greeting can open it",
            hint="Begin another with `--channel NAME`.",
        )
    return request


def _unanswered(turns: list[Turn]) -> tuple[Turn, ...]:
    """Return what people said since the familiar last did, oldest first."""
    waiting = list(takewhile(lambda turn: turn.role != "assistant", reversed(turns)))
    return tuple(turn for turn in reversed(waiting) if turn.role == "user")


def _check(said: Said) -> None:
    if not said.text.strip():
        raise UsageError("There is nothing to say: the text is empty", hint="Run `familiar chat`.")
    if not said.channel_id.strip():
        raise UsageError("A channel needs a name", hint="Leave `--channel` out to use 'cli'.")
    if any("\ud800" <= mark <= "\udfff" for mark in said.text + said.channel_id):
        raise UsageError("What you say holds bytes that are not UTF-8 text; nothing was sent")


def dry_run(assembled: Assembled, *, model: str, counter: str, told: tuple[str, ...] = ()) -> Trace:
    """Return the record of a prompt that is only looked at; `told` is to be known besides."""
    trace = make_trace(assembled, model=model, counter=counter)
    return replace(trace, notices=notices(assembled, *told))


class TurnTaking(Taking):
    """Takes one turn and keeps it: what was said, what came of the reply, and the record.

    Args:
        history: Where turns are kept.
        pipeline: What makes the prompt.
        traces_dir: Where the record goes.
        keep_traces: How many records are kept; 0: all.
        notice: What the person should know in any case.
        source: Through what turns come.
    """

    def __init__(
        self,
        history: HistoryStore,
        pipeline: ContextPipeline,
        traces_dir: Path,
        *,
        keep_traces: int = 0,
        notice: str = "",
        source: str = "cli",
    ) -> None:
        super().__init__(pipeline, notice=notice)
        self._history = history
        self._traces_dir = traces_dir
        self._keep_traces = keep_traces
        self._question: Turn | None = None
        self._source = source

    def _begin(self, request: ContextRequest, trace: Trace) -> None:
        if request.opening:
            self._history.begin(
                request.channel_id, request.opening, at=request.at, modality=request.modality
            )
        self._question = self._history.append(
            request.channel_id,
            "user",
            request.utterance,
            author=request.author,
            at=request.at,
            modality=request.modality,
            source=self._source,
        )
        self._record(replace(trace, turn=self._question.id))

    def _end(self, text: str, trace: Trace, *, partial: bool) -> Taken:
        """Keep the reply, if there is one, and write the record."""
        assert self._question is not None
        reply = None
        if text.strip():
            reply = self._kept_reply(self._question, text, partial=partial)
        trace = replace(trace, turn=self._question.id, reply_turn=reply.id if reply else None)
        trace = self._record(trace, keep=self._keep_traces)
        return Taken(self._question, reply, text, trace, tuple(self.notices))

    def _what_is_kept(self, taken: Taken) -> str:
        assert taken.turn is not None
        kept = f"what you said is kept as turn {taken.turn.id}"
        return f"{kept}, what came of the reply as turn {taken.reply.id}" if taken.reply else kept

    def _kept_reply(self, question: Turn, text: str, *, partial: bool) -> Turn:
        try:
            return self._history.append(
                question.channel_id,
                "assistant",
                text,
                modality=question.modality,
                source=question.source,
                partial=partial,
            )
        except FamiliarError as error:
            error.args = (f"The reply could not be kept. {error}",)
            error.data = {"turn": question.id, "reply": text, "reply_turn": None}
            raise

    def _record(self, trace: Trace, *, keep: int = 0) -> Trace:
        """Write the record and return it; a turn is not lost because that could not be done."""
        trace = replace(trace, notices=tuple(self.notices))
        try:
            write_trace(self._traces_dir, trace, keep=keep)
        except FamiliarError as error:
            if str(error) not in self.notices:
                self.notices.append(str(error))
        return trace
