"""Requests to models and their bytes, replies, the model protocol, and a scripted double."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, ModelError
from familiar_cli.base.text import well_formed

if TYPE_CHECKING:
    from familiar_cli.llm.slots import ResolvedSlot


class Message(TypedDict):
    """A chat message in OpenAI-compatible form."""

    role: Literal["system", "user", "assistant"]
    content: str


class PreparedRequest(Struct, frozen=True):
    """A request ready to send. It contains no key, so it may be stored and shown.

    Args:
        url: Its destination. The built-in model has no address until it runs: `local:…`.
        model: The model's name at that server.
        stream: Whether to stream the reply.
        body: The exact bytes to send: JSON in UTF-8.
    """

    url: str
    model: str
    stream: bool
    body: bytes

    @property
    def offers_functions(self) -> bool:
        """Whether a reply may be a call of a function instead of words."""
        body = json.loads(self.body)
        return bool(body.get("tools") or body.get("functions"))


class Usage(Struct, frozen=True):
    """The cost of a reply, as far as the server reports it.

    Args:
        prompt_tokens: Tokens read, by the server's count.
        completion_tokens: Tokens written, including reasoning.
        cost: In the server's currency (OpenRouter: credits, 1 = 1 US dollar).
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None


class Completion(Struct, frozen=True):
    """A complete reply.

    Args:
        text: The model's text; may be empty.
        finish_reason: Why it stopped, as OpenAI's API names it: `stop`, `length` (cut at the token
            limit), `content_filter`, `tool_calls` or `function_call`; None if not known.
        model: The model that answered, as reported by the server.
        usage: Its cost, or None if the server did not report it.
        thinking: The model's reasoning, apart from the text.
    """

    text: str
    finish_reason: str | None
    model: str
    usage: Usage | None
    thinking: str = ""


class SideCall(Struct, frozen=True):
    """An additional model call during a turn.

    Args:
        name: Name of the caller, e.g. `recast`.
        reply: The reply; empty if it was incomplete.
        model: The model that answered, or was asked.
        finish_reason: Why it stopped, as reported by the server.
        usage: Its cost.
        elapsed_ms: Duration in milliseconds.
        error: Why there is no reply; empty if there is one.
        thinking: The model's reasoning.
    """

    name: str
    request: PreparedRequest
    reply: str
    model: str
    finish_reason: str | None
    usage: Usage | None
    elapsed_ms: float
    error: str
    thinking: str = ""


class ChatModel(Protocol):
    """A chat model. One object may be used by several event loops, one after another.

    No resource bound to an event loop outlives a call of `complete`, so the same object works
    across several `asyncio.run`. `aclose` stops what it started (a built-in server); the next
    `complete` would start it again.
    """

    @property
    def name(self) -> str:
        """The model's name at its server."""

    @property
    def context_tokens(self) -> int:
        """Limit for prompt and reply together."""

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of one reply."""

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
        """Return the exact bytes that `complete` would send; equal messages give equal bytes.

        Args:
            messages: The chat, oldest first.
            stream: Whether to stream the reply.
            reply_schema: JSON schema for the reply. Servers without support ignore it, or refuse
                the request with `RequestRefusedError`.
            max_tokens: Maximum tokens of this reply; None: the model's setting.
            temperature: Sampling temperature; None: the model's setting.
            extra: Additional server-specific parameters.
        """

    async def complete(
        self,
        request: PreparedRequest,
        on_text: Callable[[str], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> Completion:
        """Send `request` and return the reply, passing text to `on_text` as it arrives.

        `on_event` is called with each raw JSON event, or with the whole reply if it is not
        streamed.

        If the task is cancelled, the connection is closed and `CancelledError` propagates; the text
        passed to `on_text` is then all there is.

        Raises:
            ModelError: The reply is incomplete; `.partial` has the text received.
        """

    async def aclose(self) -> None:
        """Stop whatever this object started."""


class SlotModel:
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


_MODEL_FIRST: Final = '{"model":'


def tokens_of(
    chat: Sequence[Message], completion: Completion, count: Callable[[str], int]
) -> tuple[int, int]:
    """Return the tokens of a prompt and its reply, by the server's count if reported."""
    used = completion.usage or Usage()
    read, written = used.prompt_tokens, used.completion_tokens
    return (
        sum(count(message["content"]) for message in chat) if read is None else read,
        count(completion.text) if written is None else written,
    )


def make_body(
    model: str,
    messages: Sequence[Message],
    *,
    stream: bool,
    limits: Mapping[str, object],
    extra: Mapping[str, object] | None = None,
    reply_schema: Mapping[str, Any] | None = None,
) -> bytes:
    """Serialise a request as UTF-8 JSON with a fixed key order.

    Args:
        model: The model's name at the server.
        messages: The chat, oldest first.
        stream: Whether to stream the reply, with token counts at the end.
        limits: Length and sampling settings, e.g. `max_tokens`, `temperature`.
        extra: Additional server-specific parameters.
        reply_schema: JSON schema for the reply.
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
        # Not strict: strict servers refuse schemas with length limits.
        asked = {"name": "reply", "strict": False, "schema": reply_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": asked}
    body.update(extra or {})
    return encode_body(body)


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Serialise the body of a request as UTF-8 JSON."""
    return well_formed(json.dumps(body, ensure_ascii=False, separators=(",", ":"))).encode()


def with_model(body: bytes, model: str) -> bytes:
    """Return the request for another model, all other bytes unchanged.

    Raises:
        BadInputError: `body` was not made by `make_body`.
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
    return well_formed(_MODEL_FIRST + json.dumps(model, ensure_ascii=False) + text[end:]).encode()


_PIECES = re.compile(r"\S+\s*|\s+")


class ScriptedModel:
    """A chat model without a network that gives scripted replies in order.

    Args:
        replies: Each is a text, a `Completion`, or an exception to raise. The `partial` text of a
            `ModelError` is sent before it is raised.
        name: The model's name.
        context_tokens: Its advertised limit for prompt and reply together.
        max_tokens: Its advertised limit for a reply.

    Attributes:
        requests: All requests received, oldest first.
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
        """Give the next scripted reply as one event.

        Raises:
            ModelError: The script contains one, or is exhausted.
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
