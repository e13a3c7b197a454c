"""Model clients: `LLMClient` for any OpenAI-compatible server, `LocalModel` for a GGUF file.

The local model is loaded by llama.cpp and served on loopback on any free port, where the same
client talks to it. A random key keeps other users of this machine out.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from familiar_cli.base.config import environment
from familiar_cli.base.config.environment import install_command
from familiar_cli.base.errors import (
    BadReplyError,
    ModelError,
    ModelUnknownError,
    PromptTooLongError,
)
from familiar_cli.base.text import nearest
from familiar_cli.llm import wire
from familiar_cli.llm.models.catalog import CATALOG
from familiar_cli.llm.models.store import path_of
from familiar_cli.llm.reply import (
    DONE,
    ErrorInReplyError,
    EventSplitter,
    ServerEvent,
    StreamedReply,
)
from familiar_cli.llm.slots import BEGINS_INSIDE, PRESETS, ResolvedSlot, check_usable, keep_thinking
from familiar_cli.llm.types import Completion, Message, PreparedRequest, SlotModel, make_body
from familiar_cli.llm.wire import FailedError, Failure

# If a server asks for a longer wait, do not retry: the user decides.
LONGEST_WAIT_S = 30.0
_FIRST_WAIT_S = 0.5
_COUNTS_S = 3.0
_END_S = 0.05


class LLMClient(SlotModel):
    """A chat model behind an OpenAI-compatible server.

    Args:
        slot: The server, the model and the settings.
        on_wait: Called with a one-line message before waiting to retry a busy server.
        renew_window: Called after a reply, or with the error of a prompt that was too long.
    """

    def __init__(
        self,
        slot: ResolvedSlot,
        *,
        on_wait: Callable[[str], None] | None = None,
        renew_window: Callable[[ResolvedSlot, PromptTooLongError | None], Awaitable[None]]
        | None = None,
    ) -> None:
        super().__init__(slot)
        self._on_wait = on_wait
        self._renew_window = renew_window
        self._connections = wire.Connections()

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
        return PreparedRequest(url, self._slot.model, stream, body)

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Send `request` and return the reply, passing text to `on_text` as it arrives.

        An unavailable or busy server is retried, as often as configured and no sooner than it asks,
        but never once part of the reply has arrived.

        Args:
            request: The output of `prepare`.
            on_text: Called with each piece of text.
            on_event: Called with each raw JSON event, or with the whole reply if it is not
                streamed.

        Raises:
            ConfigError: The configuration of the server is incomplete.
            ModelError: The reply is incomplete; `.partial` has the text received.
        """
        renew = self._renew_window
        try:
            reply = await self._ask_patiently(request, on_text, on_event)
        except PromptTooLongError as error:
            if renew:
                await renew(self._slot, error)
            raise
        if renew:
            await renew(self._slot, None)
        return reply

    async def _ask_patiently(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None,
        on_event: Callable[[str], None] | None,
    ) -> Completion:
        if "httpcore" not in sys.modules:  # the time is not the server's, nor the loop's
            for name in ("anyio", "httpcore"):
                await asyncio.to_thread(import_module, name)
        check_usable(self._slot)
        wire.check_allowed(self._slot)
        deadline = asyncio.get_running_loop().time() + self._slot.deadline_s
        for asked in range(self._slot.retries + 1):
            try:
                return await self._ask(request, on_text, on_event, deadline)
            except FailedError as failed:
                failure = failed.failure
                wait_s = wait_before_retry_s(failure, asked, deadline)
                if asked == self._slot.retries or wait_s is None:
                    raise failure.error from failed.__cause__
            if self._on_wait:
                self._on_wait(f"{failure.error}; retrying in {wait_s:.1f} s")
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Close the connections that were kept for the next request."""
        await self._connections.aclose()

    async def _ask(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None,
        on_event: Callable[[str], None] | None,
        deadline: float,
    ) -> Completion:
        reply = StreamedReply(on_event, begins_inside=self._slot.thinking == BEGINS_INSIDE)
        try:
            await self._listen(request, reply, on_text, deadline)
            _pass_on(reply.close(), on_text)
        except ModelError as error:
            _pass_on(reply.close(), on_text)
            error.partial, error.thinking = reply.text, reply.thinking
            raise
        except FailedError as failed:
            _pass_on(reply.close(), on_text)
            if not reply.complete:  # anything after the last text is not needed
                failed.failure.error.partial = reply.text
                failed.failure.error.thinking = reply.thinking
                if reply.text or (on_event and reply.has_begun):
                    raise failed.failure.error from failed.__cause__
                raise
        self._learn_thinking(reply)
        if reply.refusal:
            raise wire.refusal(self._slot, reply.refusal, reply.text)
        return reply.finished(request.model)

    def _learn_thinking(self, reply: StreamedReply) -> None:
        """Remember how this model thinks, for its later replies."""
        known = self._slot.thinking
        kind = "marked" if reply.thinking else known or "none"
        if reply.has_lone_end or known == BEGINS_INSIDE:
            kind = BEGINS_INSIDE
        if kind != known:
            keep_thinking(self._slot.base_url, self._slot.model, kind)
            self._slot = replace(self._slot, thinking=kind)

    async def _listen(
        self,
        request: PreparedRequest,
        reply: StreamedReply,
        on_text: Callable[[str], None] | None,
        deadline: float,
    ) -> None:
        """Pass on the text of `reply` as it arrives, until the server is silent for too long.

        Only text resets the timeout: comments, empty pieces and reasoning keep a connection alive
        but do not count.

        Raises:
            FailedError: The attempt failed.
            BadReplyError: The response is not a reply.
        """
        now, timeout_s = asyncio.get_running_loop().time, self._slot.timeout_s
        was_complete, splitter = False, EventSplitter()
        try:
            async with (
                asyncio.timeout_at(min(deadline, now() + timeout_s)) as patience,
                aclosing(self._events(request, splitter)) as events,
            ):
                async for event in events:
                    piece = reply.take(event)
                    if piece and on_text:
                        on_text(piece)
                    if piece or reply.complete > was_complete:
                        was_complete = reply.complete
                        # After the end of the text, only token counts may follow.
                        wait_s = min(timeout_s, _COUNTS_S) if was_complete else timeout_s
                        patience.reschedule(min(deadline, now() + wait_s))
                    if reply.done:
                        await _read_rest(events)
                        return
        except TimeoutError:
            if not patience.expired():  # the listener's own
                raise
            late = wire.too_long if now() >= deadline else wire.silence_error
            raise FailedError(Failure(late(self._slot, reply.text))) from None
        except ErrorInReplyError as error:
            raise FailedError(wire.from_payload(self._slot, error.payload)) from None
        raise FailedError(Failure(wire.cut_off(self._slot, reply.text, splitter.foreign_line)))

    async def _events(
        self, request: PreparedRequest, splitter: EventSplitter
    ) -> AsyncGenerator[ServerEvent]:
        """Yield the events of the server's response."""
        accept, number = "text/event-stream" if request.stream else "application/json", 0
        asked = self._connections.ask(
            self._slot, "POST", request.url, accept=accept, body=request.body
        )
        async with asked as response:
            if response.status_code != wire.OK:
                body = await wire.read_beginning(response)
                raise FailedError(
                    wire.from_status(self._slot, response.status_code, response.headers, body)
                )
            try:
                async with aclosing(wire.read_blocks(self._slot, response)) as blocks:
                    async for block in blocks:
                        for event in splitter.feed(block):
                            number += 1
                            wire.check_events(self._slot, 0, number)
                            yield event
                        wire.check_events(self._slot, splitter.pending_bytes, number)
                        if splitter.foreign_line and not splitter.has_events:
                            break
            except FailedError:  # what came may hold a whole event
                for event in splitter.close():
                    if event.value is not None or event.text.strip() == DONE:
                        yield event
                raise
            for event in splitter.close():
                yield event
            if not splitter.has_events:
                raise wire.not_a_chat_server(self._slot, response, splitter.foreign_line)


async def _read_rest(events: AsyncGenerator[ServerEvent]) -> None:
    """Read the end of a response, so that its connection can be used again."""
    with suppress(TimeoutError, FailedError, BadReplyError):
        async with asyncio.timeout(_END_S):
            async for _ in events:
                pass


def _pass_on(text: str, on_text: Callable[[str], None] | None) -> None:
    if text and on_text:
        on_text(text)


def wait_before_retry_s(failure: Failure, asked: int, deadline: float) -> float | None:
    """Return the seconds before the next attempt, or None when retrying would not help."""
    if not failure.again:
        return None
    # Jitter, so that clients do not all retry at the same moment.
    chosen_s = _FIRST_WAIT_S * 2**asked * random.uniform(0.5, 1.0)  # noqa: S311
    wait_s = float(chosen_s if failure.wait_s is None else failure.wait_s)
    left_s = deadline - asyncio.get_running_loop().time()
    return wait_s if wait_s <= min(LONGEST_WAIT_S, left_s) else None


# Our token count differs from the model's, which can be
# twice as high (Chinese, Japanese, Korean), so its context is larger than advertised to callers.
_ROOM = 2
_LEAST_ROOM_TOKENS = 4096
# Without it, such a small model soon repeats one phrase until its tokens run out.
_REPEAT_PENALTY = 1.15


class LocalModel(SlotModel):
    """A chat model that needs no server or network. It is loaded on first use.

    Args:
        slot: Its `model` is a name in the model catalog, or the path of a GGUF file.
        cache_dir: The model cache.
    """

    def __init__(self, slot: ResolvedSlot, *, cache_dir: Path) -> None:
        super().__init__(slot)
        self._cache_dir = cache_dir
        self._client: LLMClient | None = None
        self._server: Any = None
        self._loading = threading.Lock()

    def prepare(
        self,
        messages: Sequence[Message],
        **how: Any,  # noqa: ANN401  # as `LLMClient.prepare` takes it
    ) -> PreparedRequest:
        """Return the exact bytes that `complete` would send, without loading the model."""
        request = LLMClient(self._slot).prepare(messages, **how)
        return replace(request, url=f"local:{self._slot.model}/chat/completions")

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Load the model if needed, and let it answer.

        Raises:
            ModelError: The model is not on disk, cannot be loaded, or its reply is incomplete.
        """
        client = await asyncio.to_thread(self._load_client)
        sent = replace(request, url=client.prepare(()).url)
        completion = await client.complete(sent, on_text, on_event)
        return replace(completion, model=self._slot.model)  # otherwise the file's path

    async def aclose(self) -> None:
        """Stop the server and free its memory."""
        with self._loading:
            self._client = self._server = None

    def _load_client(self) -> LLMClient:
        with self._loading:
            if self._client is None:
                key = secrets.token_urlsafe(24)
                self._server = _start_server(self._file(), self._slot, key)
                address = f"{self._server.listening_address}/v1"
                self._client = LLMClient(replace(self._slot, base_url=address, api_key=key))
            return self._client

    def _file(self) -> Path:
        model = self._slot.model
        if model.endswith(".gguf"):
            path = Path(model).expanduser()
            if path.is_file():
                return path
            raise ModelUnknownError(
                f"No such model file: {model!r}", hint="Run `familiar config set llm.model PATH`."
            )
        kinds = {name: entry.kind for name, entry in CATALOG.items()}
        if kinds.get(model) != "gguf":
            names = [name for name, kind in kinds.items() if kind == "gguf"]
            raise ModelUnknownError(
                f"Preset 'local' has no model {model!r}",
                hint=f"Run `familiar config set llm.model {nearest(model, names) or names[0]}`, or "
                "set the path of a GGUF file.",
            )
        found = path_of(model, self._cache_dir)
        if found is None:
            raise ModelUnknownError(
                f"The model {model!r} is not on this machine yet",
                hint=f"Run `familiar model pull {model}`.",
            )
        return found


def load_engine() -> Any:  # noqa: ANN401  # it has no types
    """Import the library that runs the built-in models.

    Raises:
        ModelError: It is not installed, or does not work on this machine.
    """
    try:
        import xllamacpp  # noqa: PLC0415  # an extra, and native code
    except (ImportError, OSError) as error:
        is_missing = isinstance(error, ModuleNotFoundError)
        why = "is not installed" if is_missing else f"cannot be loaded: {error}"
        raise ModelError(
            f"The library that runs local models {why}",
            hint=f"Run `{install_command('local')}`, or choose a server: "
            "`familiar config set llm.preset ollama`.",
        ) from error
    return xllamacpp


def _start_server(file: Path, slot: ResolvedSlot, key: str) -> Any:  # noqa: ANN401  # it has no types
    """Load `file` and return the running server, which stops when released."""
    xllamacpp = load_engine()
    settings = xllamacpp.CommonParams()
    settings.model.path = str(file)
    settings.n_ctx = max(_LEAST_ROOM_TOKENS, _ROOM * slot.context_tokens)
    settings.n_parallel = 1
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.api_keys = [key]
    settings.ui = False
    settings.warmup = False
    settings.verbosity = -1
    settings.sampling.penalty_repeat = _REPEAT_PENALTY
    threads = environment.llm_threads()
    if threads:
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    try:
        return xllamacpp.Server(settings)
    except RuntimeError as error:
        raise ModelError(
            f"The model file {str(file)!r} could not be loaded: {error}",
            hint="Run `familiar model list --check`; `familiar model pull` replaces damaged files.",
        ) from error
