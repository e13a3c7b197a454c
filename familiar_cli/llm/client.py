"""`LLMClient`: any OpenAI-compatible server over HTTP.

Each call has a connection of its own, so that one client serves several event loops, one after
another, and a cancelled call leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from familiar_cli.config import environment
from familiar_cli.errors import ModelError, ModelUnreachableError
from familiar_cli.llm import failures, wire
from familiar_cli.llm.body import make_body
from familiar_cli.llm.failures import FailedError, Failure
from familiar_cli.llm.presets import PRESETS
from familiar_cli.llm.slots import check_usable
from familiar_cli.llm.slotted import Slotted
from familiar_cli.llm.streaming import ErrorInReplyError, StreamedReply
from familiar_cli.llm.types import Completion, Message, PreparedRequest
from familiar_cli.llm.wire import is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    import httpx

    from familiar_cli.llm.slots import ResolvedSlot

# A server that asks for a longer wait is believed and not asked again: the person decides.
LONGEST_WAIT_S = 30.0
_FIRST_WAIT_S = 0.5
_COUNTS_S = 3.0


class LLMClient(Slotted):
    """A chat model behind an OpenAI-compatible server.

    Args:
        slot: The server, the model and the settings.
        on_wait: Told in one line before the client waits to ask a busy server again.
    """

    def __init__(self, slot: ResolvedSlot, *, on_wait: Callable[[str], None] | None = None) -> None:
        super().__init__(slot)
        self._on_wait = on_wait

    def prepare(
        self,
        messages: Sequence[Message],
        *,
        stream: bool = True,
        reply_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> PreparedRequest:
        """Return the exact bytes that `complete` would send."""
        preset = PRESETS[self._slot.preset]
        limits = {
            preset.limit_name: self._slot.max_tokens if max_tokens is None else max_tokens,
            "temperature": self._slot.temperature if temperature is None else temperature,
        }
        body = make_body(
            self._slot.model,
            messages,
            stream=stream,
            limits=limits,
            extra={**preset.extra, **(extra or {})},
            reply_schema=reply_schema,
        )
        url = f"{self._slot.base_url}/chat/completions"
        return PreparedRequest(url, body, self._slot.model, stream)

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Send `request` and return the reply, handing each piece of text to `on_text` at once.

        A server that does not answer or says that it is busy is asked again, as often as the
        settings say and as late as it asks; never once a piece of the reply has come.

        Args:
            request: What `prepare` returned.
            on_text: Given each piece of text.
            on_event: Given each event of the reply as the server wrote it, JSON; the whole reply
                where it came as one.

        Raises:
            ConfigError: Something is missing to talk to that server at all.
            ModelError: There is no whole reply; `.partial` holds the text that came.
        """
        import httpx_sse  # noqa: F401, PLC0415  # 0.13 s that are not the server's

        check_usable(self._slot)
        _check_allowed(self._slot)
        deadline = asyncio.get_running_loop().time() + self._slot.deadline_s
        for asked in range(self._slot.retries + 1):
            try:
                return await self._ask(request, on_text, on_event, deadline)
            except FailedError as failed:
                failure = failed.failure
                wait_s = _wait_s(failure, asked, deadline)
                if asked == self._slot.retries or wait_s is None:
                    raise failure.error from failed.__cause__
            if self._on_wait:
                self._on_wait(f"{failure.error}; retrying in {wait_s:.1f} s")
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Do nothing: no connection outlives a call."""

    async def _ask(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None,
        on_event: Callable[[str], None] | None,
        deadline: float,
    ) -> Completion:
        reply = StreamedReply(on_event)
        try:
            await self._listen(request, reply, on_text, deadline)
        except ModelError as error:
            error.partial = reply.text
            raise
        except FailedError as failed:
            if not reply.complete:  # what comes after the last word is not needed
                failed.failure.error.partial = reply.text
                if reply.text or (on_event and reply.has_begun):
                    raise failed.failure.error from failed.__cause__
                raise
        return reply.finished(request.model)

    async def _listen(
        self,
        request: PreparedRequest,
        reply: StreamedReply,
        on_text: Callable[[str], None] | None,
        deadline: float,
    ) -> None:
        """Hand on the text of `reply` as it comes, until the server is silent for too long.

        Only text counts as a word of the server's: comments, empty pieces and what a model thinks
        to itself keep a connection warm but say nothing.
        """
        now, timeout_s = asyncio.get_running_loop().time, self._slot.timeout_s
        was_complete = False
        try:
            async with (
                asyncio.timeout_at(min(deadline, now() + timeout_s)) as patience,
                aclosing(self._pieces(request, reply)) as pieces,
            ):
                async for piece in pieces:
                    if piece and on_text:
                        on_text(piece)
                    if piece or reply.complete > was_complete:
                        was_complete = reply.complete
                        # Once all is said, only token counts may follow.
                        wait_s = min(timeout_s, _COUNTS_S) if was_complete else timeout_s
                        patience.reschedule(min(deadline, now() + wait_s))
        except TimeoutError:
            if not patience.expired():  # the listener's own
                raise
            late = failures.too_long if now() >= deadline else failures.silence
            raise FailedError(Failure(late(self._slot, reply.text))) from None

    async def _pieces(self, request: PreparedRequest, reply: StreamedReply) -> AsyncGenerator[str]:
        """Yield the text of each event, empty where it says nothing.

        Raises:
            FailedError: The attempt failed.
            BadReplyError: What came is no reply.
        """
        accept = "text/event-stream" if request.stream else "application/json"
        asked = wire.answer(self._slot, "POST", request.url, accept=accept, body=request.body)
        async with asked as response, aclosing(self._read(response, reply)) as pieces:
            try:
                async for piece in pieces:
                    yield piece
            except ErrorInReplyError as error:
                failure = failures.from_payload(self._slot, error.payload)
                raise FailedError(failure) from None

    async def _read(self, response: httpx.Response, reply: StreamedReply) -> AsyncGenerator[str]:
        if response.status_code != wire.OK:
            body = await wire.beginning(response)
            raise FailedError(
                failures.from_status(self._slot, response.status_code, response.headers, body)
            )
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == "text/event-stream":
            async with aclosing(wire.events(self._slot, response)) as events:
                async for event in events:
                    yield reply.take_event(event)
                    if reply.done:
                        return
            raise FailedError(Failure(failures.cut_off(self._slot, reply.text)))
        if "json" not in content_type:
            raise failures.not_a_chat_server(self._slot, content_type)
        body = await wire.whole(self._slot, response)
        yield reply.take_whole(body.decode("utf-8", errors="replace"))


def _check_allowed(slot: ResolvedSlot) -> None:
    if environment.offline() and not is_loopback(slot.base_url):
        raise ModelUnreachableError(
            f"{slot.where} was not contacted, because {environment.OFFLINE} is set",
            hint=f"Unset {environment.OFFLINE} to use servers on the network.",
        )


def _wait_s(failure: Failure, asked: int, deadline: float) -> float | None:
    """Return how long to wait before asking again, or None when that would not help."""
    if not failure.again:
        return None
    # Not all clients of a server that was down should come back in the same moment.
    chosen_s = _FIRST_WAIT_S * 2**asked * random.uniform(0.5, 1.0)  # noqa: S311
    wait_s = float(chosen_s if failure.wait_s is None else failure.wait_s)
    left_s = deadline - asyncio.get_running_loop().time()
    return wait_s if wait_s <= min(LONGEST_WAIT_S, left_s) else None
