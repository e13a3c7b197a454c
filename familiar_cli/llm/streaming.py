"""Make one reply out of what a server sends: pieces of a stream, or one JSON object."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from familiar_cli.errors import BadReplyError
from familiar_cli.llm.types import Completion, Usage
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

DONE = "[DONE]"
# Far above any reply; a server that never ends must not fill the memory.
MAX_REPLY_CHARS = 4_000_000


class ErrorInReplyError(Exception):
    """The server reports an error inside a reply that began well (HTTP status 200).

    Args:
        payload: The JSON object that holds the key `error`.
    """

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__("error in the reply")
        self.payload = payload


class Reply:
    """A reply that is still growing. Reasoning, tool calls and unknown fields are passed over.

    Args:
        on_text: Given each piece of text as it comes.
    """

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []
        self._chars = 0
        self._model = ""
        self._usage: Usage | None = None
        self.finish_reason: str | None = None
        self.done = False

    @property
    def text(self) -> str:
        """What has been said so far."""
        return "".join(self._pieces)

    @property
    def complete(self) -> bool:
        """The server said that the reply is over."""
        return self.done or self.finish_reason is not None

    def take_event(self, data: str) -> None:
        """Add one event of a stream.

        Raises:
            BadReplyError: It is not a piece of a reply.
            ErrorInReplyError: It reports an error.
        """
        if data.strip() == DONE:
            self.done = True
        elif data.strip():
            self._take(parse_object(data, self.text), "delta")

    def take_whole(self, body: str) -> None:
        """Add a whole reply, as servers send it when no stream was asked for.

        Raises:
            BadReplyError: It is no reply.
            ErrorInReplyError: It reports an error.
        """
        payload = parse_object(body, self.text)
        if "choices" not in payload and not payload.get("error"):
            raise BadReplyError(f"The server's answer is no reply: {one_line(body)!r}")
        self._take(payload, "message")
        self.done = True

    def finished(self, asked_model: str) -> Completion:
        """Return the reply as a value; `asked_model` is named where the server named none."""
        return Completion(self.text, self.finish_reason, self._model or asked_model, self._usage)

    def _take(self, payload: dict[str, Any], part: str) -> None:
        choices = payload.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        choice = choice if isinstance(choice, dict) else {}
        if payload.get("error") or choice.get("error"):
            raise ErrorInReplyError({"error": payload.get("error") or choice["error"]})
        if isinstance(payload.get("model"), str):
            self._model = payload["model"]
        self._usage = _usage(payload.get("usage")) or self._usage
        message = choice.get(part)
        self._say(_text(message.get("content")) if isinstance(message, dict) else "")
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]

    def _say(self, text: str) -> None:
        if not text:
            return
        self._pieces.append(text)
        self._chars += len(text)
        if self._on_text:
            self._on_text(text)
        if self._chars > MAX_REPLY_CHARS:
            raise BadReplyError(
                f"The reply is longer than {MAX_REPLY_CHARS:,} characters; the rest was not read",
                partial=self.text,
            )


def parse_object(text: str, so_far: str = "") -> dict[str, Any]:
    """Return the JSON object in `text`.

    Raises:
        BadReplyError: It is none; the error carries what was said so far.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadReplyError(f"The server sent no JSON object: {one_line(text)!r}", partial=so_far)
    return value


def _text(content: object) -> str:
    """Return the text of a message; some servers send it as a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(part for part in parts if isinstance(part, str))


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    return Usage(_count(prompt), _count(completion), _cost(value.get("cost")))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _cost(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        cost = float(value)
    except OverflowError:  # JSON may hold numbers of any size
        return None
    return cost if math.isfinite(cost) else None
