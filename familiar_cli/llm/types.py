"""Requests to models and their replies, the protocol of models, and models around models."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from familiar_cli.llm.slots import ResolvedSlot


class Message(TypedDict):
    """One message of a chat, as every OpenAI-compatible server takes it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """One request, ready to go out. It holds no key, so it may be stored and shown.

    Args:
        url: Where it goes. The model inside the program has no address until it runs: `local:…`.
        body: The exact bytes that go out: JSON in UTF-8.
        model: The model's name at that server.
        stream: The reply is asked for piece by piece.
    """

    url: str
    body: bytes
    model: str
    stream: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply cost, as far as the server tells.

    Args:
        prompt_tokens: Tokens that the server read, in its own counting.
        completion_tokens: Tokens that it wrote, reasoning included.
        cost: In the server's currency (OpenRouter: credits, 1 = 1 US dollar).
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole reply.

    Args:
        text: What the model said; may be empty.
        finish_reason: Why it stopped: `stop`, `length` (cut at the token limit), `content_filter`,
            or another word of the server's; None when it did not say.
        model: The model that answered, by the server's own account.
        usage: What it cost, or None when the server did not say.
    """

    text: str
    finish_reason: str | None
    model: str
    usage: Usage | None


class ChatModel(Protocol):
    """A model to talk to. One object serves any number of event loops, one after another.

    Nothing that belongs to an event loop outlives a call of `complete`, so the same object may be
    used in several `asyncio.run`. `aclose` ends what it started (a server inside the program); the
    next `complete` would start it again.
    """

    @property
    def name(self) -> str:
        """The model's name at its server."""

    @property
    def context_tokens(self) -> int:
        """Most tokens that the model reads and writes together."""

    @property
    def max_tokens(self) -> int:
        """Most tokens of one reply."""

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
        """Return the exact bytes that `complete` would send. The same messages, the same bytes.

        Args:
            messages: The chat, oldest first.
            stream: Ask for the reply piece by piece.
            reply_schema: JSON schema that the reply shall follow. A server that knows no such thing
                ignores it, or refuses the request with `RequestRefusedError`.
            max_tokens: Most tokens of this reply; None: as the model's settings say.
            temperature: How freely words are chosen; None: as the model's settings say.
            extra: What only this kind of server understands, beside what it is always told.
        """

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Send `request` and return the reply, handing each piece of text to `on_text` at once.

        `on_event` is given each event of the reply as the server wrote it, as JSON, or the whole
        reply where it came as one.

        When the task is cancelled the connection is closed and `CancelledError` passes through;
        what `on_text` was given is then all there is.

        Raises:
            ModelError: There is no whole reply; `.partial` holds the text that came.
        """

    async def aclose(self) -> None:
        """End whatever this object started."""


class Wrapping:
    """Asks `model` as it is asked itself; see `ChatModel`. A subclass changes what it must.

    Args:
        model: Who is asked.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """See `ChatModel`."""
        return self._model.name

    @property
    def context_tokens(self) -> int:
        """See `ChatModel`."""
        return self._model.context_tokens

    @property
    def max_tokens(self) -> int:
        """See `ChatModel`."""
        return self._model.max_tokens

    def prepare(self, messages: Sequence[Message], **how: Any) -> PreparedRequest:  # noqa: ANN401
        """See `ChatModel`."""
        return self._model.prepare(messages, **how)

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """See `ChatModel`."""
        return await self._model.complete(request, on_text, on_event)

    async def aclose(self) -> None:
        """See `ChatModel`."""
        await self._model.aclose()


class Slotted:
    """A chat model with the settings of a slot.

    Args:
        slot: The server, the model and the settings.
    """

    def __init__(self, slot: ResolvedSlot) -> None:
        self._slot = slot

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._slot!r})"

    @property
    def name(self) -> str:
        """The model's name at its server, or the path of its file."""
        return self._slot.model

    @property
    def context_tokens(self) -> int:
        """Most tokens that the model reads and writes together."""
        return self._slot.context_tokens

    @property
    def max_tokens(self) -> int:
        """Most tokens of one reply."""
        return self._slot.max_tokens


class Renaming(Wrapping):
    """Shows `model` some words as others, and reads them in its replies as what they stand for.

    Args:
        model: Who is asked.
        shown: What is shown in place of a word.
        meant: What a word of a reply stands for.
    """

    def __init__(
        self, model: ChatModel, shown: Mapping[str, str], meant: Mapping[str, str]
    ) -> None:
        super().__init__(model)
        self._shown = _replacing(shown)
        self._meant = _replacing(meant)

    def prepare(
        self,
        messages: Sequence[Message],
        *,
        reply_schema: Mapping[str, Any] | None = None,
        **how: Any,  # noqa: ANN401  # as `ChatModel.prepare` takes it
    ) -> PreparedRequest:
        """See `ChatModel`."""
        told: list[Message] = [
            {"role": message["role"], "content": self._shown(message["content"])}
            for message in messages
        ]
        if reply_schema is not None:
            reply_schema = json.loads(self._shown(json.dumps(reply_schema)))
        return self._model.prepare(told, reply_schema=reply_schema, **how)

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """See `ChatModel`; what comes piece by piece is handed on as it is."""
        completion = await self._model.complete(request, on_text, on_event)
        return replace(completion, text=self._meant(completion.text))


def _replacing(words: Mapping[str, str]) -> Callable[[str], str]:
    either = "|".join(map(re.escape, words))
    pattern = re.compile(rf"(?<![\w-])(?:{either})(?![\w%-])")
    return lambda text: pattern.sub(lambda found: words[found[0]], text)
