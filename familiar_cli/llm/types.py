"""Requests to models and their bytes, replies, the protocol of models, and a scripted double."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict

from familiar_cli.errors import BadInputError, ModelError

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
        model: The model's name at that server.
        stream: The reply is asked for piece by piece.
        body: The exact bytes that go out: JSON in UTF-8.
    """

    url: str
    model: str
    stream: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of a reply, as far as the server reports it.

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


@dataclass(frozen=True, slots=True)
class SideCall:
    """A call of a model that a turn took, beside the one for the reply.

    Args:
        name: Who asked, e.g. `recast`.
        request: What went out.
        reply: What came back; empty when nothing whole did.
        model: The model that answered, or was asked.
        finish_reason: Why it stopped, by its server's account.
        usage: What it cost.
        elapsed_ms: How long it took.
        error: Why nothing came back; empty when something did.
    """

    name: str
    request: PreparedRequest
    reply: str
    model: str
    finish_reason: str | None
    usage: Usage | None
    elapsed_ms: float
    error: str


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
        self.name = model.name
        self.context_tokens = model.context_tokens
        self.max_tokens = model.max_tokens
        self._model = model

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
        self.name = slot.model
        self.context_tokens = slot.context_tokens
        self.max_tokens = slot.max_tokens
        self._slot = slot

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._slot!r})"


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
        self._shown = _replace_words(shown)
        self._meant = _replace_words(meant)

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


def _replace_words(words: Mapping[str, str]) -> Callable[[str], str]:
    either = "|".join(map(re.escape, words))
    pattern = re.compile(rf"(?<![\w-])(?:{either})(?![\w%-])")
    return lambda text: pattern.sub(lambda found: words[found[0]], text)


_MODEL_FIRST: Final = '{"model":'


def make_body(
    model: str,
    messages: Sequence[Message],
    *,
    stream: bool,
    limits: Mapping[str, object],
    extra: Mapping[str, object] | None = None,
    reply_schema: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the JSON of one request in UTF-8, its keys always in the same order.

    Args:
        model: The model's name at the server.
        messages: The chat, oldest first.
        stream: Ask for the reply piece by piece, and for its token counts at the end.
        limits: Length and sampling settings, e.g. `max_tokens`, `temperature`.
        extra: What only this kind of server understands.
        reply_schema: JSON schema that the reply shall follow.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m["role"], "content": m["content"]} for m in messages],
        **limits,
        "stream": stream,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    if reply_schema is not None:
        # Not strict: a strict server refuses schemas that say how long a text may be.
        asked = {"name": "reply", "strict": False, "schema": reply_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": asked}
    body.update(extra or {})
    return _encode_utf8(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def with_model(body: bytes, model: str) -> bytes:
    """Return the same request for another model; every other byte stays as it is.

    Raises:
        BadInputError: `body` is not what `make_body` returned.
    """
    try:
        text = body.decode("utf-8")
        _, end = json.JSONDecoder().raw_decode(text, len(_MODEL_FIRST))
    except ValueError:
        text = ""
    if not text.startswith(_MODEL_FIRST):
        raise BadInputError(
            "This request does not begin with its model, so the model cannot be replaced"
        )
    return _encode_utf8(_MODEL_FIRST + json.dumps(model, ensure_ascii=False) + text[end:])


def _encode_utf8(text: str) -> bytes:
    """Encode `text`; half of a surrogate pair, which no encoding can carry, becomes U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.encode("utf-8")


_PIECES = re.compile(r"\S+\s*|\s+")


class ScriptedModel:
    """A chat model that needs no network and gives one scripted reply after another.

    Args:
        replies: Each is a text to say, a whole `Completion`, or an exception to raise. A
            `ModelError`'s `partial` text is said before it is raised.
        name: The model's name.
        context_tokens: Most tokens it pretends to read and write together.
        max_tokens: Most tokens it pretends to write.

    Attributes:
        requests: Every request it was sent, oldest first.
    """

    def __init__(
        self,
        replies: Sequence[str | Completion | Exception],
        *,
        name: str = "scripted",
        context_tokens: int = 8192,
        max_tokens: int = 512,
    ) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self.max_tokens = max_tokens
        self.requests: list[PreparedRequest] = []
        self._replies = list(replies)

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
        """Return the request that a real client would send for `messages`."""
        limits: dict[str, object] = {"max_tokens": max_tokens or self.max_tokens}
        if temperature is not None:
            limits["temperature"] = temperature
        body = make_body(
            self.name,
            messages,
            stream=stream,
            limits=limits,
            extra=extra,
            reply_schema=reply_schema,
        )
        return PreparedRequest("scripted:/chat/completions", self.name, stream, body)

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Give the next scripted reply; as one event.

        Raises:
            ModelError: The script says so, or it has come to its end.
        """
        self.requests.append(request)
        if not self._replies:
            raise ModelError(f"The script of {self.name!r} has no reply left")
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            _say_whole(getattr(reply, "partial", ""), on_text)
            raise reply
        if isinstance(reply, str):
            reply = Completion(reply, "stop", self.name, Usage(None, len(reply.split())))
        _say_whole(reply.text, on_text)
        if on_event:
            choice = {"index": 0, "delta": {"content": reply.text}, "finish_reason": "stop"}
            on_event(json.dumps({"model": reply.model, "choices": [choice]}))
        return replace(reply)

    async def aclose(self) -> None:
        """Do nothing; there is nothing to end."""


def _say_whole(text: str, on_text: Callable[[str], None] | None) -> None:
    if on_text:
        for piece in _PIECES.findall(text):
            on_text(piece)
