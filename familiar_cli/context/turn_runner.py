"""Run a turn: ask the model for a reply, and give account of it, whatever comes of it.

What of a turn is kept, and where, is for the subclasses to say.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable  # noqa: TC003  # a field's type
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.context.going_on import GoingOn
from familiar_cli.context.telling import Listener, no_words, notices, reported, why_stopped
from familiar_cli.context.trace import (
    make_trace,
    traced_request,
    traced_side_calls,
    traced_usage,
)
from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from familiar_cli.context.pipeline import ContextPipeline, Replied
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Assembled, ContextRequest, SideCall
    from familiar_cli.history.types import Turn
    from familiar_cli.llm.types import ChatModel, PreparedRequest

_CALLS: Final = frozenset({"tool_calls", "function_call"})
"""A reply that ends so wants something done before it says anything."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came of a turn.

    Args:
        turn: What the person said, as it is kept; None off the record.
        reply: What the familiar said; None when nothing came before an interruption.
        text: Its words.
        trace: The record.
        notices: What the person should know, a line each.
        interrupted: The reply broke off because the person said so.
        supersedes: The turn whose place the reply took; None: there is none.
        added: How a reply went on that had begun; None: it is new from its beginning.
    """

    turn: Turn | None
    reply: Turn | None
    text: str
    trace: Trace
    notices: tuple[str, ...] = ()
    interrupted: bool = False
    supersedes: int | None = None
    added: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what `ask --json` says of it."""
        trace = self.trace.to_json()
        return {
            "turn": self.turn.id if self.turn else None,
            "reply": self.text,
            "reply_turn": self.reply.id if self.reply else None,
            "supersedes": self.supersedes,
            "model": trace["model"],
            "usage": trace["usage"],
            "finish_reason": trace["finish_reason"],
            "notices": list(self.notices),
            **({} if self.added is None else {"added": self.added}),
        }


@dataclass(frozen=True, slots=True)
class Watcher:
    """What a caller has a say in, and is told, before a turn goes out.

    Args:
        amend: Returns the record as it is to be kept.
        begun: Given the record once what was said is kept, before the model is asked.
    """

    amend: Callable[[Trace], Trace] = field(default=lambda trace: trace)
    begun: Callable[[Trace], None] = field(default=lambda _: None)


UNWATCHED: Final = Watcher()


class TurnRunner(ABC):
    """Runs one turn.

    Args:
        pipeline: What makes the prompt.
        notice: What the person should know in any case.
        watcher: Who is told of what goes out.

    Attributes:
        notices: What the person should know.
        interrupted: What came of a turn whose task was cancelled.
    """

    def __init__(
        self, pipeline: ContextPipeline, *, notice: str = "", watcher: Watcher = UNWATCHED
    ) -> None:
        self._pipeline = pipeline
        self._watcher = watcher
        self._side_calls: list[SideCall] = []
        self._trace: Trace | None = None
        self.notices = [notice] if notice else []
        self.interrupted: TurnResult | None = None

    @abstractmethod
    def _begin(self, request: ContextRequest, trace: Trace) -> Trace:
        """Keep what was said; it is about to be sent. Return the record as it is kept."""

    def _came(self, piece: str) -> None:  # noqa: B027  # what is off the record does nothing
        """Handle a piece of the reply before it is shown."""

    @abstractmethod
    def _end(self, text: str, trace: Trace, *, partial: bool) -> TurnResult:
        """Keep what came of the reply."""

    @abstractmethod
    def _what_is_kept(self, result: TurnResult) -> str:
        """Return what stays of a turn that failed, in words."""

    async def run(
        self,
        request: ContextRequest,
        model: ChatModel,
        on_text: Callable[[str], None] | None = None,
        *,
        stream: bool = True,
    ) -> TurnResult:
        """Ask the model and return what it says.

        Args:
            request: What was said.
            model: Who is asked.
            on_text: Given each piece of the reply, or of what is added to one that had begun; the
                whole at once when a post-processor may still change it.
            stream: Ask for the reply piece by piece.

        Raises:
            LimitError: It is longer than a prompt may be; nothing was kept.
            ModelError: There is no whole reply; the message says what is kept, and `.data` what
                came.
            FamiliarError: Something could not be kept; the message says what was.
        """
        self._side_calls = request.side_calls
        if request.begun and on_text:
            on_text = GoingOn(request.begun, on_text)
        listener = Listener(None if self._pipeline.post_processors else on_text, self._came)
        try:
            replied = await self._pipeline.run(
                request, model, listener, before_sending=self._sending, stream=stream
            )
        except asyncio.CancelledError:
            if self._trace is not None:
                result = self._ended(listener.text, error="interrupted", partial=True)
                self.interrupted = replace(result, interrupted=True)
            raise
        except FamiliarError as error:
            raise self._failed(error, listener.text) from error
        if not replied.text.strip() and replied.completion.finish_reason not in _CALLS:
            raise self._failed(no_words(model.name, replied), "")
        if on_text and not listener.passed_on:
            on_text(replied.text)
        result = self._whole(replied, model)
        if listener.gone is not None:
            raise listener.gone
        return result

    def _sending(self, assembled: Assembled, sent: PreparedRequest) -> None:
        trace = make_trace(assembled, model=sent.model, counter=self._pipeline.counter.name)
        trace = replace(trace, request=traced_request(sent))
        self.notices += notices(assembled)
        trace = self._watcher.amend(trace)
        begun = self._begin(assembled.request, trace)
        self._trace = trace
        self._watcher.begun(begun)

    def _whole(self, replied: Replied, model: ChatModel) -> TurnResult:
        assert self._trace is not None
        completion = replied.completion
        self.notices += [*reported(replied.processors), *why_stopped(replied, model)]
        self._trace = replace(
            self._trace,
            processors=(*self._trace.processors, *replied.processors),
            model=completion.model,
            reply_ms=replied.elapsed_ms,
            finish_reason=completion.finish_reason,
            usage=traced_usage(completion),
            raw_reply="" if completion.text == replied.text else completion.text,
        )
        return self._ended(replied.text, partial=replied.is_cut)

    def _failed(self, error: FamiliarError, came: str) -> FamiliarError:
        """Return `error` with what is kept all the same; keep what came of the reply."""
        if self._trace is None:
            return error
        why = str(error)
        result = self._ended(came, error=why, partial=True)
        error.args = (f"{why}; {self._what_is_kept(result)}",)
        error.data = result.to_json()
        return error

    def _ended(self, text: str, *, error: str = "", partial: bool) -> TurnResult:
        assert self._trace is not None
        calls = traced_side_calls(self._side_calls)
        return self._end(text, replace(self._trace, error=error, side_calls=calls), partial=partial)
