"""The Responses API of OpenAI: its requests as chat requests, its replies and events."""

from __future__ import annotations

import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.llm.reply import first_choice
from familiar_cli.servers.api_errors import ApiError
from familiar_cli.servers.chat_api.api_format import ReplyFormat, encode_event

_PREVIOUS: Final = re.compile(r"(?:resp|msg)_(\d{1,18})")
# The newest function calls by unguessable id, since some clients send back only the id.
_RECENT: Final[OrderedDict[str, dict[str, str]]] = OrderedDict()

_MOST_RECENT: Final = 500
_MOST_RECENT_CHARS: Final = 20_000  # of the arguments of one
_ROLES: Final = {"developer": "system"}
_SAME: Final = (
    *("model", "stream", "temperature", "top_p", "user", "metadata", "store", "stop"),
    "parallel_tool_calls",
)
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


def to_chat_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the body of a request to that of a chat completion.

    Raises:
        ApiError: It has no input, or one that is not text or pictures.
    """
    messages: list[dict[str, Any]] = []
    if instructions := str_or_empty(body.get("instructions")):
        messages.append({"role": "system", "content": instructions})
    messages += _join_calls(_input_messages(body.get("input")))
    if not any(message["role"] == "user" for message in messages):
        raise ApiError(
            400,
            "'input' must be a text, or a list with a user's message. Send tool results together "
            "with the messages before them, since tool calls are not saved here",
            param="input",
        )
    chat = {key: body[key] for key in _SAME if body.get(key) is not None}
    if (most := body.get("max_output_tokens")) is not None:
        chat["max_completion_tokens"] = most
    if isinstance(tools := body.get("tools"), list):
        functions = [tool for tool in tools if _is_function(tool)]
        chat |= {"tools": list(map(_chat_function, functions))} if functions else {}
    if (choice := body.get("tool_choice")) is not None and "tools" in chat:
        chat["tool_choice"] = _chat_function(choice) if _is_function(choice) else choice
    return {**chat, "messages": messages}


def previous_turn(body: Mapping[str, Any]) -> int | None:
    """Return the number of the turn that a request continues; None if it names none.

    Raises:
        ApiError: The id is none of ours.
    """
    named = body.get("previous_response_id") or _last_reference(body.get("input"))[1]
    if named is None:
        return None
    match = _PREVIOUS.fullmatch(named) if isinstance(named, str) else None
    if match is None:
        raise unknown_response(named)
    return int(match[1])


def unknown_response(named: object) -> ApiError:
    """Build the error for a response that is not kept here."""
    return ApiError(
        404,
        f"There is no response {str(named)[:100]!r}; a response that was not saved cannot be "
        "continued or referred to",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def _input_messages(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, str):
        yield {"role": "user", "content": value}
        return
    if not isinstance(value, list):
        raise ApiError(400, "'input' must be a text or a list", param="input")
    begun, _ = _last_reference(value)
    for number, item in enumerate(value):
        if number < begun and not _is_instruction(item):  # it is kept here
            continue
        if not isinstance(item, dict):
            raise ApiError(400, f"Item {number} of 'input' is not valid", param=f"input[{number}]")
        role = item.get("role")
        if isinstance(role, str) and item.get("type", "message") == "message":
            content = item.get("content")
            parts = list(map(_chat_part, content)) if isinstance(content, list) else content
            yield {"role": _ROLES.get(role, role), "content": parts}
        elif item.get("type") in {"function_call", "item_reference"}:
            call = item if item["type"] == "function_call" else _RECENT.get(str(item.get("id")))
            if call is None:
                raise unknown_response(item.get("id"))
            yield {"role": "assistant", "content": None, "tool_calls": [_chat_call(call)]}
        elif item.get("type") == "function_call_output":
            output = item.get("output")
            parts = list(map(_chat_part, output)) if isinstance(output, list) else output
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": parts}


def _last_reference(value: object) -> tuple[int, str | None]:
    """Find the last reference to a reply; return the place after it, and its id."""
    for number, item in reversed(list(enumerate(value if isinstance(value, list) else ()))):
        if isinstance(item, dict) and item.get("type") == "item_reference":
            name = str(item.get("id"))
            if name.startswith("msg_"):
                return number + 1, name
    return 0, None


def _is_instruction(item: object) -> bool:
    return isinstance(item, dict) and item.get("role") in {"system", "developer"}


def _join_calls(messages: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge consecutive tool calls, and the text before them, into one message."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        calls = message.get("tool_calls")
        if calls and joined and joined[-1]["role"] == "assistant":
            joined[-1]["tool_calls"] = [*joined[-1].get("tool_calls", ()), *calls]
        else:
            joined.append(message)
    return joined


def _chat_call(item: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}


def _is_function(tool: object) -> bool:
    """Tell whether a tool or tool choice is a function of the client's, not a tool of OpenAI's."""
    return isinstance(tool, dict) and tool.get("type") == "function"


def _chat_function(tool: Mapping[str, Any]) -> dict[str, Any]:
    named = {key: value for key, value in tool.items() if key != "type" and value is not None}
    return {"type": "function", "function": named}


def _chat_part(part: object) -> object:
    """Convert a part of a message; one that is neither text nor picture stays as it is."""
    if not isinstance(part, dict):
        return part
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    if part.get("type") in {"input_text", "output_text", "text"}:
        return {"type": "text", "text": str_or_empty(part.get("text"))}
    return part


def _message_in(event: str) -> dict[str, Any]:
    """Return the message in an event, or the part of it."""
    choice = first_choice(json.loads(event).get("choices"))
    message = choice.get("delta") or choice.get("message")
    return message if isinstance(message, dict) else {}


def calls_function(event: str) -> bool:
    """Tell whether the model calls a function in an event."""
    message = _message_in(event)
    return bool(message.get("tool_calls") or message.get("function_call"))


class ToolCalls:
    """The function calls in a model server's events, each of which may hold only a part."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, str]] = {}
        self._ids: list[str] = []

    def take(self, event: str) -> None:
        """Add the parts of calls in one event."""
        calls = _message_in(event).get("tool_calls")
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
                continue
            index, function = str(call.get("index", number)), call["function"]
            kept = self._calls.setdefault(index, {"call_id": "", "name": "", "arguments": ""})
            kept["call_id"] = kept["call_id"] or str_or_empty(call.get("id"))
            for key in ("name", "arguments"):
                kept[key] += str_or_empty(function.get(key))

    def to_chat(self) -> list[dict[str, Any]]:
        """Return the calls in the form of a chat completion."""
        return list(map(_chat_call, self._calls.values()))

    def items(self) -> list[dict[str, Any]]:
        """Return the calls as items of a response."""
        self._ids += [
            f"fc_{secrets.token_hex(12)}" for _ in range(len(self._ids), len(self._calls))
        ]
        for id_, call in zip(self._ids, self._calls.values(), strict=True):
            if len(call["arguments"]) <= _MOST_RECENT_CHARS:
                _RECENT[id_] = call
        while len(_RECENT) > _MOST_RECENT:
            _RECENT.popitem(last=False)
        return [
            {"id": id_, "type": "function_call", "status": "completed", **call}
            for id_, call in zip(self._ids, self._calls.values(), strict=True)
        ]


class ResponseFormat(ReplyFormat):
    """Encodes one reply as the Responses API does.

    Args:
        turn: Number of the turn, from which its id is made; None if nothing is kept.
        model: The requested model's name.
        created_s: Creation time in seconds since 1970.
        asked: The body of the request.
        calls: The calls of functions so far.
    """

    end = b""

    def __init__(
        self,
        turn: int | None,
        model: str,
        created_s: int,
        asked: Mapping[str, Any],
        calls: ToolCalls,
    ) -> None:
        super().__init__(turn, model, created_s, with_usage=False)
        name = turn or "unkept"
        self._item_id = f"msg_{name}"
        self._calls = calls
        self._number = -1
        self._has_text = False
        self._response = {
            "id": f"resp_{name}",
            "object": "response",
            "created_at": created_s,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": asked.get("instructions"),
            "max_output_tokens": asked.get("max_output_tokens"),
            "metadata": asked.get("metadata") or {},
            "model": model,
            "output": [],
            "parallel_tool_calls": asked.get("parallel_tool_calls") is not False,
            "previous_response_id": asked.get("previous_response_id"),
            "reasoning": {"effort": None, "summary": None},
            "store": asked.get("store") is not False,
            "temperature": asked.get("temperature", 1.0),
            "text": {"format": {"type": "text"}},
            "tool_choice": asked.get("tool_choice") or "auto",
            "tools": asked.get("tools") or [],
            "top_p": asked.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": None,
            "user": asked.get("user"),
        }

    def first(self) -> bytes:
        """Encode the beginning of a stream."""
        kinds = "response.created", "response.in_progress"
        return b"".join(self._event(kind, response=self._response) for kind in kinds)

    def piece(self, text: str) -> bytes:
        """Encode a piece of text."""
        if not text:
            return b""
        delta = {"delta": text, "logprobs": []}
        begun = b"" if self._has_text else self._begin_text()
        return begun + self._event("response.output_text.delta", **self._place, **delta)

    def _begin_text(self) -> bytes:
        self._has_text = True
        item = {**self._item("", "in_progress"), "content": []}
        part = {**self._place, "part": _text_part("")}
        return self._event("response.output_item.added", output_index=0, item=item) + self._event(
            "response.content_part.added", **part
        )

    def last(self, text: str, finish_reason: str, usage: dict[str, int]) -> bytes:
        """Encode the end of a stream."""
        whole = self.whole(text, finish_reason, usage)
        ended = "response.incomplete" if whole["incomplete_details"] else "response.completed"
        items = [self._end_item(n, item) for n, item in enumerate(whole["output"])]
        return b"".join((*chain(*items), self._event(ended, response=whole)))

    def _end_item(self, index: int, item: Mapping[str, Any]) -> Iterator[bytes]:
        if item["type"] == "message":
            yield b"" if self._has_text else self._begin_text()
            part = item["content"][0]
            words = {"text": part["text"], "logprobs": []}
            yield self._event("response.output_text.done", **self._place, **words)
            yield self._event("response.content_part.done", **self._place, part=part)
        else:
            place = {"output_index": index, "item_id": item["id"]}
            arguments, name = item["arguments"], "response.function_call_arguments"
            begun = {**item, "arguments": "", "status": "in_progress"}
            yield self._event("response.output_item.added", output_index=index, item=begun)
            yield self._event(f"{name}.delta", **place, delta=arguments)
            yield self._event(f"{name}.done", **place, name=item["name"], arguments=arguments)
        yield self._event("response.output_item.done", output_index=index, item=item)

    def error(self, error: ApiError) -> bytes:
        """Encode an error after the beginning of a stream."""
        told = {"code": error.code or "server_error", "message": str(error)}
        failed = {**self._response, "status": "failed", "error": told}
        return self._event("error", **told, param=error.param) + self._event(
            "response.failed", response=failed
        )

    def whole(self, text: str, finish_reason: str, usage: dict[str, int]) -> dict[str, Any]:
        """Build a reply that is not streamed."""
        why = _INCOMPLETE.get(finish_reason)
        status = "incomplete" if why else "completed"
        calls = self._calls.items()
        message = [self._item(text, status)] if text or self._has_text or not calls else []
        return {
            **self._response,
            "status": status,
            "incomplete_details": {"reason": why} if why else None,
            "output": [*message, *calls],
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage["total_tokens"],
            },
        }

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _item(self, text: str, status: str) -> dict[str, Any]:
        head = {"id": self._item_id, "type": "message", "status": status, "role": "assistant"}
        return {**head, "content": [_text_part(text)]}

    def _event(self, kind: str, **fields: object) -> bytes:
        self._number += 1
        return encode_event({"type": kind, "sequence_number": self._number, **fields}, kind)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
