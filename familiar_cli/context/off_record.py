"""A turn of which nothing is kept.

`OffRecord` is given neither the history nor a place for records, so there is nothing that it could
write to. What is said this way can be shown again only by whoever holds the result.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.context.telling import Listener, no_words, notices, reported, why_stopped
from familiar_cli.context.trace import (
    make_trace,
    traced_request,
    traced_side_calls,
    traced_usage,
)
from familiar_cli.context.turn import Taken
from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.context.pipeline import ContextPipeline, Replied
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Assembled, ContextRequest
    from familiar_cli.llm.types import ChatModel, PreparedRequest


class OffRecord:
    """Takes one turn and keeps nothing.

    Args:
        pipeline: What makes the prompt.
        notice: What the person should know in any case.

    Attributes:
        interrupted: What came before the task was cancelled.
    """

    def __init__(self, pipeline: ContextPipeline, *, notice: str = "") -> None:
        self._pipeline = pipeline
        self._notices = [notice] if notice else []
        self._trace: Trace | None = None
        self.interrupted: Taken | None = None

    async def take(
        self,
        request: ContextRequest,
        model: ChatModel,
        on_text: Callable[[str], None] | None = None,
        *,
        stream: bool = True,
    ) -> Taken:
        """Ask the model and return what it says.

        Args:
            request: What was said.
            model: Who is asked.
            on_text: Given each piece of the reply; the whole at once when a post-processor may
                still change it.
            stream: Ask for the reply piece by piece.

        Raises:
            LimitError: It is longer than a prompt may be.
            ModelError: There is no whole reply; `.data` holds what came of it.
        """
        listener = Listener(None if self._pipeline.post_processors else on_text)
        try:
            replied = await self._pipeline.run(
                request, model, listener, before_sending=self._note, stream=stream
            )
        except asyncio.CancelledError:
            if self._trace is not None:
                self.interrupted = replace(self._taken(listener.text), interrupted=True)
            raise
        except FamiliarError as error:
            raise self._failed(error, listener.text) from error
        if not replied.text.strip():
            raise self._failed(no_words(model.name, replied), "")
        if on_text and not listener.passed_on:
            on_text(replied.text)
        if listener.gone is not None:
            raise listener.gone
        return self._whole(replied, model)

    def _note(self, assembled: Assembled, sent: PreparedRequest) -> None:
        trace = make_trace(assembled, model=sent.model, counter=self._pipeline.counter.name)
        self._trace = replace(trace, request=traced_request(sent))
        self._notices += notices(assembled)

    def _whole(self, replied: Replied, model: ChatModel) -> Taken:
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
            side_calls=traced_side_calls(replied.assembled.request.side_calls),
            raw_reply="" if completion.text == replied.text else completion.text,
        )
        return self._taken(replied.text)

    def _failed(self, error: FamiliarError, came: str) -> FamiliarError:
        if self._trace is not None:
            error.args = (f"{error}; nothing of it is kept",)
            error.data = self._taken(came).to_json()
        return error

    def _taken(self, text: str) -> Taken:
        assert self._trace is not None
        told = tuple(self._notices)
        return Taken(None, None, text, replace(self._trace, notices=told), told)
