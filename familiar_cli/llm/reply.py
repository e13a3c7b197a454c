"""Read the response of a model server as events, and its reply from them.

Servers and gateways mislabel their responses, so the first bytes decide: server-sent events, JSON
objects on lines, or one JSON object. A bare object inside a stream of events is an event, too.

A reply is complete with a known finish reason, `[DONE]`, or the end of an object that holds all of
it, and without any error. Only the choice with index 0 is read. Reasoning is kept apart.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.errors import BadReplyError
from familiar_cli.base.text import one_line, str_or_empty, well_formed
from familiar_cli.llm.thinking import ThinkingFilter
from familiar_cli.llm.types import ChatModel, Completion, Usage

DONE: Final = "[DONE]"
_LINE_END: Final = re.compile(rb"\r\n?|\n")  # and no other: JSON strings may hold U+2028
_FIELDS: Final = frozenset({"data", "event", "id", "retry"})
_HEAD_BYTES: Final = 64  # of a line, to know whether it begins an object
_MOST_PARSED_BYTES: Final = 16 * 1024 * 1024  # of an object that has no end yet


class ServerEvent(Struct, frozen=True):
    """One event of a response.

    Args:
        text: Its data, as the server sent it.
        value: The parsed data; None if it is not JSON.
        name: Its name, such as `error`; usually empty.
        is_bare: It is an object of its own, not the data of a server-sent event.
    """

    text: str
    value: Any
    name: str = ""
    is_bare: bool = False


class EventSplitter:
    """Splits the bytes of a response into events as they arrive.

    Attributes:
        foreign_line: The first line that belongs to none of the known forms; empty if there is
            none.
        has_events: Whether anything of a known form has come.
        pending_bytes: Bytes since the last event.
    """

    def __init__(self) -> None:
        self.foreign_line = ""
        self.has_events = False
        self.pending_bytes = 0
        self._line = bytearray()  # not ended yet
        self._data: list[str] = []
        self._name = ""
        self._object: list[str] = []  # lines of an object that spans several
        self._parsed_bytes = 0
        self._skips_lf = False

    def feed(self, block: bytes) -> Iterator[ServerEvent]:
        """Take some bytes; yield the events that they complete."""
        self.pending_bytes += len(block)
        if self._skips_lf and block.startswith(b"\n"):
            block = block[1:]
        self._skips_lf = block.endswith(b"\r") or (self._skips_lf and not block)
        *ended, rest = _LINE_END.split(block)
        for part in ended:
            line = (bytes(self._line) + part).decode("utf-8", "replace")
            self._line.clear()
            yield from self._take_line(line.removeprefix("\ufeff"))
        self._line += rest
        if rest.rstrip().endswith(b"}"):
            yield from self._take_open_object()

    def close(self) -> Iterator[ServerEvent]:
        """Yield what the end of the response completes."""
        last = self._line.decode("utf-8", "replace").removeprefix("\ufeff")
        self._line.clear()
        yield from self._take_line(last)
        yield from self._flush_data()
        if self._object:
            text, self._object = "\n".join(self._object), []
            yield from self._bare_events(text, _parse_first(text))

    def _take_line(self, line: str) -> Iterator[ServerEvent]:
        if self._object:
            self._object.append(line)
            if line.rstrip().endswith("}"):
                yield from self._take_open_object()
            return
        field, _, value = line.partition(":")
        if not line.strip():
            yield from self._flush_data()
        elif not field or field in _FIELDS:
            self.has_events = True
            yield from self._take_field(field, value.removeprefix(" "))
        elif line.lstrip()[:1] in {"{", "["}:
            self.has_events = True
            parsed = _parse(line)
            if parsed is None:
                self._object = [line]
            else:
                yield from self._bare_events(line, parsed)
        elif not self.foreign_line:
            self.foreign_line = line.strip()

    def _take_field(self, field: str, value: str) -> Iterator[ServerEvent]:
        if field == "event":
            self._name = value.strip()
        elif field == "data":
            self._data.append(value)
            # Some servers leave out the empty line after an event.
            parsed = _parse(value) if len(self._data) == 1 else None
            if parsed is not None or (len(self._data) == 1 and value.strip() == DONE):
                yield from self._flush_data(parsed)

    def _flush_data(self, parsed: Any = None) -> Iterator[ServerEvent]:  # noqa: ANN401  # JSON
        if not self._data:
            return
        text, name = "\n".join(self._data), self._name
        self._data, self._name = [], ""
        if text.strip():
            self.pending_bytes = 0
            yield ServerEvent(text, _parse(text) if parsed is None else parsed, name)

    def _take_open_object(self) -> Iterator[ServerEvent]:
        """Yield an object that is complete although no line end follows it."""
        if self._parsed_bytes > _MOST_PARSED_BYTES:
            return
        begin = (
            self._object[0] if self._object else self._line[:_HEAD_BYTES].decode("utf-8", "replace")
        )
        if begin.lstrip()[:1] not in {"{", "\ufeff"}:
            return
        text = "\n".join([*self._object, self._line.decode("utf-8", "replace")])
        self._parsed_bytes += len(text)
        parsed = _parse(text.removeprefix("\ufeff"))
        if parsed is not None:
            self.has_events = True
            self._object = []
            self._line.clear()
            yield from self._bare_events(text, parsed)

    def _bare_events(self, text: str, parsed: object) -> Iterator[ServerEvent]:
        self.pending_bytes = 0
        if isinstance(parsed, list) and parsed and all(isinstance(item, dict) for item in parsed):
            for item in parsed:
                yield ServerEvent(json.dumps(item), item, is_bare=True)
        else:
            yield ServerEvent(text, parsed, is_bare=True)


def _parse(text: str) -> Any:  # noqa: ANN401  # JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parse_first(text: str) -> Any:  # noqa: ANN401  # JSON
    """Parse the value at the beginning of a text, whatever follows it."""
    try:
        return json.JSONDecoder().raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        return None


# Far above any reply; a server that never stops must not exhaust memory.
MAX_REPLY_CHARS = 4_000_000
MAX_NAME_CHARS = 200  # characters of a model name
_LARGEST_COUNT = 2**53  # what JSON can say to everyone
# The finish reasons that servers send, by the one that OpenAI's API has for each.
_ENDS: Final = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("stop_token", "complete", "completed", "done", "finished"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "safety", "sensitive", "recitation"), "content_filter"),
    **dict.fromkeys(("blocklist", "prohibited_content", "spii", "refusal"), "content_filter"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use"), "tool_calls"),
    "function_call": "function_call",
}
# Finish reasons of replies that broke off.
_FAILED: Final = frozenset(
    {
        *("error", "abort", "aborted", "cancelled", "canceled", "timeout", "failed"),
        *("network_error", "insufficient_system_resource", "engine_error"),
    }
)
CALLS: Final = frozenset({"tool_calls", "function_call"})
"""Finish reasons of replies that want something done before they say anything."""

_REASONING: Final = ("reasoning_content", "reasoning", "thinking")
_CONTENT: Final = frozenset({"choices", "message", "response", "done", "usage"})


class ErrorInReplyError(Exception):
    """The server reported an error inside a reply with HTTP status 200.

    Args:
        payload: The JSON object with the key `error`.
    """

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__("error in the reply")
        self.payload = payload


class StreamedReply:
    """A reply being received. Tool calls and unknown fields are ignored.

    Args:
        on_event: Called with each event, or with a reply that is not streamed, verbatim.
        begins_inside: Whether its text begins with reasoning that has no opening mark.

    Attributes:
        has_begun: Whether any part of it has come.
        finish_reason: Why the model stopped; None if not known.
        done: Whether nothing more is to come.
        refusal: The model's words where it refuses to reply.
    """

    def __init__(
        self, on_event: Callable[[str], None] | None = None, *, begins_inside: bool = False
    ) -> None:
        self._on_event = on_event
        self.has_begun = False
        self.finish_reason: str | None = None
        self.done = False
        self.refusal = ""
        self._has_failed = False
        self._filter = ThinkingFilter(begins_inside=begins_inside)
        self._half = ""  # the first half of a surrogate pair, whose second is yet to come
        self._thinking: list[str] = []
        self._raw: list[str] = []
        self._raw_chars = 0
        self._chars = 0
        self._model = ""
        self._usage: Usage | None = None

    @property
    def text(self) -> str:
        """The text so far, without reasoning."""
        return self._filter.text

    @property
    def thinking(self) -> str:
        """The reasoning so far."""
        apart = well_formed("".join(self._thinking)).strip()
        return "\n\n".join(filter(None, (apart, self._filter.thinking)))

    @property
    def has_lone_end(self) -> bool:
        """Whether its reasoning had a closing mark only."""
        return self._filter.has_lone_end

    @property
    def complete(self) -> bool:
        """Whether the server has ended the reply, without an error."""
        return (self.done or self.finish_reason is not None) and not self._has_failed

    def take(self, event: ServerEvent) -> str:
        """Add one event, and return the text to show.

        Raises:
            BadReplyError: It is not part of a reply.
            ErrorInReplyError: It reports an error.
        """
        if event.text.strip() == DONE:
            self.done = True
            return ""
        payload = event.value
        if event.name == "error" and not isinstance(payload, dict):
            self._fail(event.text)
        if not isinstance(payload, dict):
            raise _no_object(event.text)
        self._check_error(payload, is_error=event.name == "error")
        if event.is_bare and _CONTENT.isdisjoint(payload):
            raise BadReplyError(f"The server's response is not a reply: {_start_of(event.text)!r}")
        text = self._take_payload(payload, is_bare=event.is_bare)
        self.has_begun = True
        if self._on_event:
            self._on_event(event.text)
        return text

    def close(self) -> str:
        """End the reply; return the text that was held back."""
        half, self._half = self._half, ""
        shown = self._filter(well_formed(half)) if half else ""
        return shown + self._filter.close(is_whole=self.complete and self.finish_reason != "length")

    def finished(self, asked_model: str) -> Completion:
        """Return the completion; the model defaults to `asked_model`."""
        model = self._model or asked_model
        return Completion(self.text, self.finish_reason, model, self._usage, self.thinking)

    def _check_error(self, payload: dict[str, Any], *, is_error: bool) -> None:
        error = payload.get("error")
        is_error = is_error or "error" in (payload.get("object"), payload.get("type"))
        if not is_error and "choices" not in payload:
            is_error = payload.get("status") == "error" or bool(payload.get("detail"))
            is_error = is_error or isinstance(payload.get("message"), str)
        if error or is_error:
            self._fail(error or payload)

    def _fail(self, error: object) -> None:
        self._has_failed = True
        raise ErrorInReplyError({"error": error})

    def _take_payload(self, payload: dict[str, Any], *, is_bare: bool) -> str:
        if isinstance(payload.get("model"), str):
            self._model = well_formed(payload["model"][:MAX_NAME_CHARS])
        self._usage = _read_usage(payload) or self._usage
        if "choices" not in payload:
            return self._take_plain(payload)
        choice = first_choice(payload["choices"])
        delta, message = choice.get("delta"), choice.get("message")
        is_whole = isinstance(message, dict) and not isinstance(delta, dict)
        text = self._take_message(message if is_whole else delta, choice.get("text"))
        text = self._new_part(well_formed(text)) if is_whole else text
        shown = self._add(text)
        self._take_reason(choice.get("finish_reason"), choice.get("error"))
        if is_whole and (is_bare or payload.get("object") == "chat.completion"):
            self.done = True
        return shown

    def _take_plain(self, payload: dict[str, Any]) -> str:
        """Take an object of Ollama's own API, which has no choices."""
        text = self._take_message(payload.get("message"), payload.get("response"))
        shown = self._add(text)
        if payload.get("done") is True:
            self._take_reason(payload.get("done_reason"))
            self.done = True
        return shown

    def _take_message(self, message: object, text: object) -> str:
        """Return the text of a message or of a part of it; keep its reasoning and refusal."""
        if not isinstance(message, dict):
            return text if isinstance(text, str) else ""
        thought = next(filter(None, (str_or_empty(message.get(key)) for key in _REASONING)), "")
        content, thoughts = _read_content(message.get("content"))
        self._thinking += filter(None, (thought, thoughts))
        self._count(thought + thoughts)
        if isinstance(message.get("refusal"), str):
            self.refusal = well_formed(self.refusal + message["refusal"])
            self._count(message["refusal"])
        return content

    def _new_part(self, text: str) -> str:
        """Return the part of a whole message that has not been streamed before it."""
        if len(text) < self._raw_chars:
            return text
        known = "".join(self._raw)
        return text.removeprefix(known)

    def _take_reason(self, reason: object, error: object = None) -> None:
        name = reason.strip().lower() if isinstance(reason, str) else ""
        if error or name in _FAILED:
            self._fail(error or f"the reply ended with {name!r}")
        self.finish_reason = _ENDS.get(name) or self.finish_reason

    def _add(self, text: str) -> str:
        self._count(text)
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = well_formed(text.removesuffix(self._half))
        if not text:
            return ""
        self._raw.append(text)
        self._raw_chars += len(text)
        return self._filter(text)

    def _count(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > MAX_REPLY_CHARS:
            raise BadReplyError(
                f"The reply is longer than {MAX_REPLY_CHARS:,} characters; the rest was not read"
            )


def empty_reply(model: ChatModel, completion: Completion) -> BadReplyError:
    """Build the error for an empty reply."""
    why = completion.finish_reason
    if why == "length" and completion.thinking:
        return BadReplyError(
            f"The model {model.name!r} used up its limit of {model.max_tokens:,} tokens with "
            "thinking, and replied nothing",
            hint="`familiar config set llm.max_tokens N` with a larger N leaves room for a reply.",
        )
    if why in CALLS:
        return BadReplyError(
            f"The model {model.name!r} wants to call a function instead of replying, and was "
            "offered none",
            hint="Try again, or choose another model: `familiar config set llm.model M`.",
        )
    if completion.thinking:
        return BadReplyError(
            f"The model {model.name!r} sent only its thinking, and no reply",
            hint="Try again, or choose another model: `familiar config set llm.model M`.",
        )
    return BadReplyError(
        f"The model {model.name!r} returned an empty reply" + (f" ({why})" if why else ""),
        hint="`familiar context --last` shows what was sent.",
    )


def first_choice(choices: object) -> dict[str, Any]:
    """Return the choice with index 0; a choice without an index is the first."""
    items = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    return next((choice for choice in items if str(choice.get("index") or 0) == "0"), {})


def _read_content(content: object) -> tuple[str, str]:
    """Return the text and the reasoning of a message, which may be a list of parts."""
    if isinstance(content, str):
        return content, ""
    text, thinking = list[str](), list[str]()
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            is_thought = str(part.get("type")) in {"thinking", "reasoning"}
            words = part.get("thinking") if is_thought else part.get("text")
            words = "".join(_part_texts(words if words is not None else part.get("text")))
            (thinking if is_thought else text).append(words)
    return "".join(text), "".join(thinking)


def _part_texts(words: object) -> Iterator[str]:
    if isinstance(words, str):
        yield words
    for part in words if isinstance(words, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def parse_object(text: str) -> dict[str, Any]:
    """Parse `text` as a JSON object.

    Raises:
        BadReplyError: It is not one.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _no_object(text)
    return value


def _no_object(text: str) -> BadReplyError:
    return BadReplyError(f"The server did not send a JSON object: {_start_of(text)!r}")


def _start_of(text: str) -> str:
    return one_line(text[:1000])  # a line's worth, even of megabytes


def _read_usage(payload: dict[str, Any]) -> Usage | None:
    value = payload.get("usage")
    if not isinstance(value, dict):
        counts = payload.get("prompt_eval_count"), payload.get("eval_count")  # Ollama
        return Usage(*map(_read_count, counts)) if any(counts) else None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    return Usage(_read_count(prompt), _read_count(completion), _read_cost(value.get("cost")))


def _read_count(value: object) -> int | None:
    number = _read_cost(value)
    return int(number) if number is not None and 0 <= number <= _LARGEST_COUNT else None


def _read_cost(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        cost = float(value)
    except (OverflowError, ValueError):  # JSON numbers may have any size
        return None
    return cost if math.isfinite(cost) else None
