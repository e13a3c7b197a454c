"""Requests and responses of the OpenAI API: validation, errors, objects and chunks."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import Struct, field

from familiar_cli.actions.talk.pictures import MOST_PICTURES
from familiar_cli.base.text import bare_lines, one_line, str_or_empty, well_formed
from familiar_cli.llm.thinking import split_thinking
from familiar_cli.servers.api_errors import ApiError
from familiar_cli.servers.chat_api.aligning import RequestLine
from familiar_cli.store.history.attachments import picture_mark
from familiar_cli.store.history.same_message import kept_words, without_fence

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace


def other_character(name: str, model: str) -> ApiError:
    """Build the error for a chat with a character other than the model's familiar."""
    return ApiError(
        409,
        f"This chat is with {one_line(name, 60)!r}, but the selected model is "
        f"{one_line(model, 60)!r}; nothing was asked or saved. Select that character's model "
        "(SillyTavern: API Connections, Model), or create a familiar for it with `familiar init`",
        code="other_character",
        param="model",
    )


MEMORY_SUFFIX: Final = "+memory"
"""The end of the name of a model that keeps the chat program's own prompt."""

_OURS: Final = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "n", "user", "store", "metadata"),
        *("max_tokens", "max_completion_tokens", "temperature"),
        *("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
    }
)
_SPOKEN: Final = frozenset({"user", "assistant"})
MOST_PICTURE_CHARS: Final = 12_000_000  # in base64: 9 million bytes
# What SillyTavern puts before a chat; its strict post-processing makes it a person's message.
_CHAT_START: Final = re.compile(r"\[Start a new (?:group )?chat\b[^\]\n]*\]", re.IGNORECASE)

_MOST_MESSAGES: Final = 20_000
MOST_CHARS: Final = 4_000_000
"""Most characters of all texts of a request; about a million tokens."""


class ReplyRequest(Struct, frozen=True):
    """A request for a reply.

    Args:
        model: The requested model's name.
        familiar_id: The familiar that is to reply.
        memory_only: Send the program's own prompt, with memory added.
        body: The parsed body.
        raw: The body as received.
        lines: The conversation, oldest first, without instructions and tool calls and their
            results.
        stream: Whether to stream the reply.
        with_usage: Whether to report token counts at the end.
        person: The speaker named by the program, if any.
        response: The request in the form of the Responses API; None if it came in the other one.
        pictures: The pictures of the current message.
        channel: The conversation that it names itself; empty if none.
    """

    model: str
    familiar_id: str
    memory_only: bool
    body: Mapping[str, Any]
    raw: str
    lines: tuple[RequestLine, ...]
    stream: bool
    with_usage: bool
    person: str | None = None
    response: Mapping[str, Any] | None = None
    pictures: tuple[Mapping[str, Any], ...] = ()
    channel: str = ""

    @property
    def said(self) -> str:
        """The current message."""
        return self.lines[-1].text

    @property
    def is_said(self) -> bool:
        """Whether the newest line is a person's; otherwise a reply is to be continued."""
        return bool(self.lines) and self.lines[-1].role == "user"

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of all messages, including the program's own."""
        contents = (message.get("content") for message in self.body["messages"])
        said = (without_fence(text_of(content)) for content in contents)
        return (*filter(None, said), *(line.text for line in self.lines))

    @property
    def sampling(self) -> Sampling:
        """The sampling settings of the request."""
        body = self.body
        extra = {key: value for key, value in body.items() if key not in _OURS}
        longest = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        return Sampling(longest if longest > 0 else None, body.get("temperature"), extra)


class Sampling(Struct, frozen=True):
    """Sampling settings sent by a chat program; None and empty values mean the configured ones."""

    max_tokens: int | None = None
    temperature: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def parse_request(
    raw: bytes,
    familiars: Collection[str],
    *,
    to_chat: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
    is_transcript: bool = False,
) -> ReplyRequest:
    """Parse the body of a request for a reply.

    Args:
        raw: The body.
        familiars: Ids of the available familiars.
        to_chat: Converts a body of another API to a chat completion request.
        is_transcript: Treat messages with the role `system` as said by a narrator, not as
            instructions of the program.

    Raises:
        ApiError: The body is invalid, or the model is unknown.
    """
    given = parse_object(raw)
    familiar_id = find_model(given, familiars)
    body = to_chat(given) if to_chat else given
    model = body["model"]
    memory_only = model.endswith(MEMORY_SUFFIX)
    _check_body(body)
    options = body.get("stream_options")
    lines = _request_lines(body.get("messages"), _SPOKEN | {"system"} if is_transcript else _SPOKEN)
    if not is_transcript:
        _check_addresses(body["messages"])
    return ReplyRequest(
        model=model,
        familiar_id=familiar_id,
        memory_only=memory_only,
        body=body,
        raw=raw.decode("utf-8"),
        lines=lines,
        stream=body.get("stream") is True,
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
        person=body.get("user"),
        response=given if to_chat else None,
        pictures=newest_pictures(body["messages"]),
    )


def find_model(body: Mapping[str, Any], familiars: Collection[str]) -> str:
    """Find the familiar that a request names.

    Raises:
        ApiError: No such model.
    """
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ApiError(400, "The request names no 'model'", param="model")
    familiar_id = model.removesuffix(MEMORY_SUFFIX)
    if familiar_id not in familiars:
        raise unknown_model(model, familiars)
    return familiar_id


def unknown_model(model: str, familiars: Collection[str]) -> ApiError:
    """Build the error for an unknown model."""
    known = ", ".join(f"{name!r}" for name in sorted(familiars)) or "none yet"
    return ApiError(
        404,
        f"The model {model[:200]!r} does not exist. Familiars here: {known}; "
        f"add {MEMORY_SUFFIX!r} to keep your own prompt",
        code="model_not_found",
        param="model",
    )


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse the JSON object of a request.

    Raises:
        ApiError: The body is not a JSON object.
    """
    try:
        body = json.loads(raw.decode("utf-8"))
        if _HALF.search(raw):  # an escape may be half a character, which nothing can encode
            body = json.loads(_dump_json(body))
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "The request is not JSON in UTF-8") from error
    if not isinstance(body, dict):
        raise ApiError(400, "The request is not a JSON object")
    return body


_MOST_TEMPERATURE: Final = 100


def _check_body(body: Mapping[str, Any]) -> None:
    """Validate the types of the fields that this program uses."""
    if body.get("n", 1) not in (1, None):
        raise ApiError(400, "Only one reply at a time can be requested: 'n' must be 1", param="n")
    if not isinstance(body.get("user"), str | None):
        raise ApiError(400, "'user' must be a string", param="user")
    for name in ("max_tokens", "max_completion_tokens"):
        value = body.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ApiError(400, f"'{name}' must be a whole number", param=name)
    value = body.get("temperature")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= _MOST_TEMPERATURE):
        raise ApiError(400, "'temperature' must be a number from 0 to 100", param="temperature")


def _request_lines(messages: object, roles: frozenset[str]) -> tuple[RequestLine, ...]:
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "The request has no 'messages'", param="messages")
    if len(messages) > _MOST_MESSAGES:
        raise ApiError(400, f"The request has more than {_MOST_MESSAGES:,} messages")
    lines: list[RequestLine] = []
    chars = 0
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(400, f"Message {number} is not valid", param=f"messages[{number}]")
        text = without_fence(text_of(message.get("content")))
        if message["role"] == "assistant":
            text, _ = split_thinking(text)
        chars += len(text)
        if chars > MOST_CHARS:
            raise ApiError(413, f"The messages hold more than {MOST_CHARS:,} characters")
        if message["role"] in roles and text.strip() and not _CHAT_START.fullmatch(text.strip()):
            name = str_or_empty(message.get("name")).strip()
            lines.append(RequestLine(message["role"], kept_words(text), name))
    return tuple(lines)


def text_of(content: object) -> str:
    """Extract the text of a message, which may consist of parts, some of them images."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [_part_text(part) for part in content if isinstance(part, dict)]
    return "\n".join(filter(None, texts))


def _check_addresses(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check that the model's server is asked for nothing that its clients could not reach.

    Raises:
        ApiError: A picture or the like that is passed on is a file, or is in a private network.
    """
    for number, message in enumerate(messages):
        for part in _parts_of(message):
            for name, value in part.items():
                holds_url = isinstance(value, dict) or name.endswith("url")  # `source` of Anthropic
                url = _address_in(part, name) if holds_url else ""
                if url and not _may_pass(url, name):
                    raise ApiError(
                        400,
                        f"{url[:80]!r} is neither a `data:` address of that kind nor one on the "
                        "public web; nothing was sent or saved",
                        param=f"messages[{number}].content",
                    )


_DATA: Final = re.compile(r"data:([a-z]*)/?", re.IGNORECASE)


def _may_pass(url: str, name: str) -> bool:
    """Tell whether an address holds a picture or the like, or names a host of the public web.

    Args:
        name: What it is the address of: `image_url`, `video_url` and so on.
    """
    if data := _DATA.match(url):
        return data[1].lower() == name.removesuffix("_url") or name in {"file_url", "source"}
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    if parts.scheme not in {"http", "https"} or not host or re.search(r"[\s\\\x00-\x1f]", url):
        return False
    with suppress(ValueError):
        return _is_public_host(ipaddress.ip_address(host))
    domain, _, last = host.rpartition(".")
    return bool(domain) and not last[0].isdigit() and last not in _PRIVATE_NAMES


_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses that stand for IPv4 addresses in their last 32 bits (RFC 6052)."""


def _is_public_host(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Tell whether anybody can reach an address, and each IPv4 address that it holds."""
    every: list[ipaddress.IPv4Address | ipaddress.IPv6Address | None] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return _is_public_host(address.ipv4_mapped)
        every += [address.sixtofour, *(address.teredo or ())]
        if address in _TRANSLATED:
            every.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return all(one.is_global and not one.is_multicast for one in every if one)


# Names at the end of hosts that no public server has; others are numbers, as `0x7f.1` is.
_PRIVATE_NAMES: Final = frozenset({"localhost", "local", "internal", "lan", "home", "arpa"})


def _parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return [part for part in parts if isinstance(part, dict)]


def newest_pictures(messages: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the pictures of the last message of a person.

    Raises:
        ApiError: They are too many or too large.
    """
    said = next((message for message in reversed(messages) if message["role"] == "user"), None)
    items = tuple(filter(is_picture, _parts_of(said) if said else ()))
    if len(items) > MOST_PICTURES:
        raise ApiError(413, f"A message can hold at most {MOST_PICTURES} pictures")
    for part in items:
        if len(picture_url(part)) > MOST_PICTURE_CHARS:
            most = MOST_PICTURE_CHARS // 4 * 3
            raise ApiError(413, f"A picture is larger than {most:,} bytes; send a smaller one")
    return items


def is_picture(part: Mapping[str, Any]) -> bool:
    """Tell whether a part of a message is a picture."""
    return part.get("type") == "image_url" and bool(picture_url(part))


def picture_url(part: Mapping[str, Any]) -> str:
    """Return the address of a picture, which may hold the picture itself."""
    return _address_in(part, "image_url")


def _address_in(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    return str_or_empty(value.get("url") if isinstance(value, dict) else value)


def _part_text(part: Mapping[str, Any]) -> str:
    if part.get("type") == "image_url":
        return picture_mark(picture_url(part))
    text = part.get("text")
    return text if isinstance(text, str) else ""


_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_CHUNK: Final = "chat.completion.chunk"


def encode_event(data: object, name: str = "") -> bytes:
    """Encode one server-sent event; a string is JSON already."""
    text = data if isinstance(data, str) else _dump_json(data)
    lines = [f"event: {name}"] if name else []
    lines += [f"data: {line}" for line in bare_lines(text)]
    return "\n".join((*lines, "", "")).encode()


def encode_body(data: object) -> bytes:
    """Encode the body of a response."""
    return _dump_json(data).encode()


class ReplyFormat:
    """Encodes one reply as Chat Completions do.

    Args:
        turn: Number of the turn, from which its id is made; None if nothing is kept.
        model: The requested model's name.
        created_s: Creation time in seconds since 1970.
        with_usage: Whether the stream ends with token counts.

    Attributes:
        end: What closes a stream.
    """

    end = b"data: [DONE]\n\n"

    def __init__(self, turn: int | None, model: str, created_s: int, *, with_usage: bool) -> None:
        self._head = {"id": f"chatcmpl-{turn or 'unkept'}", "created": created_s, "model": model}
        self._with_usage = with_usage

    def first(self) -> bytes:
        """Encode the beginning of a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> bytes:
        """Encode a piece of text."""
        return self._chunk({"content": text})

    def last(self, text: str, finish_reason: str, usage: dict[str, int]) -> bytes:
        """Encode the end of a stream."""
        del text
        counts = {**self._head, "object": _CHUNK, "choices": [], "usage": usage}
        ends = [self._chunk({}, finish_reason)]
        return b"".join([*ends, encode_event(counts)] if self._with_usage else ends)

    def error(self, error: ApiError) -> bytes:
        """Encode an error after the beginning of a stream."""
        return encode_event(error.to_json())

    def whole(self, text: str, finish_reason: str, usage: dict[str, int]) -> dict[str, Any]:
        """Build a reply that is not streamed."""
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return encode_event({**self._head, "object": _CHUNK, "choices": [choice]})


def usage_of(trace: Trace | None, reply_tokens: int) -> dict[str, int]:
    """Report a turn's token counts: the model server's, or else an estimate."""
    told, used = (trace.usage, trace.used_tokens) if trace else (None, 0)
    prompt = told.prompt_tokens if told else None
    reply = told.completion_tokens if told else None
    counts = {
        "prompt_tokens": used if prompt is None else prompt,
        "completion_tokens": reply_tokens if reply is None else reply,
    }
    return {**counts, "total_tokens": sum(counts.values())}


def list_models(familiars: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """List the models: each familiar with its own prompt, and with the program's.

    Args:
        familiars: Ids with their creation times, in seconds since 1970.
    """
    data = [
        {"id": f"{name}{suffix}", "object": "model", "created": made_s, "owned_by": "familiar"}
        for name, made_s in familiars
        for suffix in ("", MEMORY_SUFFIX)
    ]
    return {"object": "list", "data": data}


def embeddings_body(model: str, vectors: list[Any], tokens: int) -> dict[str, Any]:
    """Encode vectors as lists of numbers or base64, in the order of the texts."""
    data = [
        {"object": "embedding", "index": number, "embedding": vector}
        for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _dump_json(data: object) -> str:
    return well_formed(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
