"""A public double: a chat model that says what a script says, and remembers what it was asked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from familiar_cli.errors import ModelError
from familiar_cli.llm.client import make_body
from familiar_cli.llm.types import Completion, Message, PreparedRequest, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
        return PreparedRequest("scripted:/chat/completions", body, self.name, stream)

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
            _say(getattr(reply, "partial", ""), on_text)
            raise reply
        if isinstance(reply, str):
            reply = Completion(reply, "stop", self.name, Usage(None, len(reply.split())))
        _say(reply.text, on_text)
        if on_event:
            choice = {"index": 0, "delta": {"content": reply.text}, "finish_reason": "stop"}
            on_event(json.dumps({"model": reply.model, "choices": [choice]}))
        return replace(reply)

    async def aclose(self) -> None:
        """Do nothing; there is nothing to end."""


def _say(text: str, on_text: Callable[[str], None] | None) -> None:
    if on_text:
        for piece in _PIECES.findall(text):
            on_text(piece)
