"""One turn of a conversation: what is said, the reply, and the record of both.

What a person said is kept before the model is asked, so that no failure loses it; of a reply that
broke off, the part that came is kept. `ask`, `chat` and every other front take their turns here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.config.tiers import DEFAULT_TIER
from familiar_cli.context.telling import Listener, no_words, notices, reported, why_stopped
from familiar_cli.context.trace import (
    make_trace,
    traced_request,
    traced_side_calls,
    traced_usage,
)
from familiar_cli.context.trace_files import write_trace
from familiar_cli.context.types import ContextRequest
from familiar_cli.errors import FamiliarError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from familiar_cli.context.limits import Allowance
    from familiar_cli.context.pipeline import ContextPipeline, Replied
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Assembled, Said, SideCall
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn
    from familiar_cli.llm.types import ChatModel, PreparedRequest


MOST_PENDING: Final = 20
"""So many turns that the familiar has not answered are seen as one with what is said now."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn that was taken.

    Args:
        turn: What the person said, as it is kept; None off the record.
        reply: What the familiar said; None when nothing came before an interruption.
        text: Its words.
        trace: The record.
        notices: What the person should know, a line each.
        interrupted: The reply broke off because the person said so.
    """

    turn: Turn | None
    reply: Turn | None
    text: str
    trace: Trace
    notices: tuple[str, ...] = ()
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what `ask --json` says of it."""
        trace = self.trace.to_json()
        return {
            "turn": self.turn.id if self.turn else None,
            "reply": self.text,
            "reply_turn": self.reply.id if self.reply else None,
            "model": trace["model"],
            "usage": trace["usage"],
            "finish_reason": trace["finish_reason"],
            "notices": list(self.notices),
        }


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


class TurnTaking:
    """Takes one turn.

    Args:
        history: Where turns are kept.
        pipeline: What makes the prompt.
        traces_dir: Where the record goes.
        keep_traces: How many records are kept; 0: all.
        notice: What the person should know in any case.
        source: Through what turns come.

    Attributes:
        interrupted: What was kept of a turn whose task was cancelled.
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
        self._history = history
        self._pipeline = pipeline
        self._traces_dir = traces_dir
        self._keep_traces = keep_traces
        self._notices = [notice] if notice else []
        self._question: Turn | None = None
        self._side_calls: list[SideCall] = []
        self._trace: Trace | None = None
        self._source = source
        self.interrupted: Taken | None = None

    async def take(
        self,
        request: ContextRequest,
        model: ChatModel,
        on_text: Callable[[str], None] | None = None,
        *,
        stream: bool = True,
    ) -> Taken:
        """Keep what was said, ask the model, and keep what it says.

        Args:
            request: What was said.
            model: Who is asked.
            on_text: Given each piece of the reply; the whole at once when a post-processor may
                still change it.
            stream: Ask for the reply piece by piece.

        Raises:
            LimitError: It is longer than a prompt may be; nothing was kept.
            ModelError: There is no whole reply; what was said is kept, and what came of the reply.
            FamiliarError: Something could not be kept; the message says what was.
        """
        self._side_calls = request.side_calls
        listener = Listener(None if self._pipeline.post_processors else on_text)
        try:
            replied = await self._pipeline.run(
                request, model, listener, before_sending=self._keep_question, stream=stream
            )
        except asyncio.CancelledError:
            if self._question is not None:
                self.interrupted = self._end(listener.text, error="interrupted", cut=True)
            raise
        except FamiliarError as error:
            raise self._failed(error, listener.text) from error
        if not replied.text.strip():
            raise self._failed(no_words(model.name, replied), "")
        if on_text and not listener.passed_on:
            on_text(replied.text)
        return self._whole(replied, model, listener)

    def _keep_question(self, assembled: Assembled, sent: PreparedRequest) -> None:
        request = assembled.request
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
        trace = make_trace(assembled, model=sent.model, counter=self._pipeline.counter.name)
        self._notices += notices(assembled)
        self._record(replace(trace, turn=self._question.id, request=traced_request(sent)))

    def _whole(self, replied: Replied, model: ChatModel, listener: Listener) -> Taken:
        assert self._trace is not None
        completion = replied.completion
        self._notices += [*reported(replied.processors), *why_stopped(replied, model)]
        self._trace = replace(
            self._trace,
            processors=(*self._trace.processors, *replied.processors),
            model=completion.model,
            reply_ms=replied.elapsed_ms,
            finish_reason=completion.finish_reason,
            usage=traced_usage(completion),
            raw_reply="" if completion.text == replied.text else completion.text,
        )
        taken = self._end(replied.text, cut=completion.finish_reason == "length")
        if listener.gone is not None:
            raise listener.gone
        return taken

    def _failed(self, error: FamiliarError, came: str) -> FamiliarError:
        """Return `error` with what was kept all the same; keep what came of the reply."""
        if self._question is None:
            return error
        why = str(error)
        taken = self._end(came, error=why, cut=True)
        kept = f"what you said is kept as turn {self._question.id}"
        if taken.reply:
            kept += f", what came of the reply as turn {taken.reply.id}"
        error.args = (f"{why}; {kept}",)
        error.data = taken.to_json()
        return error

    def _end(self, text: str, *, error: str = "", cut: bool = False) -> Taken:
        """Keep the reply, if there is one, and write the record."""
        assert self._question is not None
        assert self._trace is not None
        question, reply = self._question, None
        if text.strip():
            reply = self._kept_reply(question, text, partial=cut)
        trace = replace(
            self._trace,
            reply_turn=reply.id if reply else None,
            error=error,
            side_calls=traced_side_calls(self._side_calls),
        )
        self._record(trace, keep=self._keep_traces)
        return Taken(
            turn=question,
            reply=reply,
            text=text,
            trace=self._trace,
            notices=tuple(self._notices),
            interrupted=error == "interrupted",
        )

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

    def _record(self, trace: Trace, *, keep: int = 0) -> None:
        """Write the record; a turn is not lost because its record could not be written."""
        self._trace = replace(trace, notices=tuple(self._notices))
        try:
            write_trace(self._traces_dir, self._trace, keep=keep)
        except FamiliarError as error:
            if str(error) not in self._notices:
                self._notices.append(str(error))
