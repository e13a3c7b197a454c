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
MAX_NAME_CHARS = 200  # of a model, or of a reason to stop
_LARGEST_COUNT = 2**53  # what JSON can say to everyone


class ErrorInReplyError(Exception):
    """The server reports an error inside a reply that began well (HTTP status 200).

    Args:
        payload: The JSON object that holds the key `error`.
    """

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__("error in the reply")
        self.payload = payload


class StreamedReply:
    """A reply that is still growing. Reasoning, tool calls and unknown fields are passed over.

    Args:
        on_event: Given each event, and the whole of a reply that comes as one, as it was sent.
    """

    def __init__(self, on_event: Callable[[str], None] | None = None) -> None:
        self._on_event = on_event
        self.has_begun = False
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

    def take_event(self, data: str) -> str:
        """Add one event of a stream, and return what it says.

        Raises:
            BadReplyError: It is not a piece of a reply.
            ErrorInReplyError: It reports an error.
        """
        if data.strip() == DONE:
            self.done = True
        elif data.strip():
            said = self._take(parse_object(data), "delta")
            self._hand_on(data)
            return said
        return ""

    def take_whole(self, body: str) -> str:
        """Add a whole reply, as servers send it when no stream was asked for, and return its text.

        Raises:
            BadReplyError: It is no reply.
            ErrorInReplyError: It reports an error.
        """
        payload = parse_object(body)
        if "choices" not in payload and not payload.get("error"):
            raise BadReplyError(f"The server's response is not a reply: {_start_of(body)!r}")
        said = self._take(payload, "message")
        self.done = True
        self._hand_on(body)
        return said

    def finished(self, asked_model: str) -> Completion:
        """Return the reply as a value; `asked_model` is named where the server named none."""
        return Completion(self.text, self.finish_reason, self._model or asked_model, self._usage)

    def _hand_on(self, event: str) -> None:
        self.has_begun = True
        if self._on_event:
            self._on_event(event)

    def _take(self, payload: dict[str, Any], part: str) -> str:
        choices = payload.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        choice = choice if isinstance(choice, dict) else {}
        if payload.get("error") or choice.get("error"):
            raise ErrorInReplyError({"error": payload.get("error") or choice["error"]})
        if isinstance(payload.get("model"), str):
            self._model = payload["model"][:MAX_NAME_CHARS]
        self._usage = _usage(payload.get("usage")) or self._usage
        message = choice.get(part)
        text = _text(message.get("content")) if isinstance(message, dict) else ""
        self._add(text)
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"][:MAX_NAME_CHARS]
        return text

    def _add(self, text: str) -> None:
        if text:
            self._pieces.append(text)
        self._chars += len(text)
        if self._chars > MAX_REPLY_CHARS:
            raise BadReplyError(
                f"The reply is longer than {MAX_REPLY_CHARS:,} characters; the rest was not read"
            )


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`.

    Raises:
        BadReplyError: It is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadReplyError(f"The server did not send a JSON object: {_start_of(text)!r}")
    return value


def _start_of(text: str) -> str:
    return one_line(text[:1000])  # of megabytes, a line is shown


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
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _LARGEST_COUNT else None


def _cost(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        cost = float(value)
    except OverflowError:  # JSON may hold numbers of any size
        return None
    return cost if math.isfinite(cost) else None
