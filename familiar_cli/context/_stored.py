"""A record as it stands in its file, and how plain JSON becomes dataclasses again."""

from __future__ import annotations

import base64
import json
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from familiar_cli.clock import parse_iso

if TYPE_CHECKING:
    from collections.abc import Sequence


T = TypeVar("T")


class Malformed(ValueError):  # noqa: N818  # it says what the value is
    """A value is not of the shape that was asked for."""


def decode(kind: type[T], value: object) -> T:
    """Return `value` as an instance of the dataclass `kind`; keys it does not know are passed over.

    A key that is missing stands for its default.

    Raises:
        Malformed: A key without a default is missing, or one holds something else; the message
            names it.
    """
    found: T = _decode(kind, value, "it")
    return found


def _decode(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401  # any JSON, any annotation
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value, where)
    if origin is tuple:
        return _decode_tuple(get_args(kind)[0], value, where)
    if origin is Literal:
        return _expect(value in get_args(kind), value, where)
    if is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    return _decode_plain(kind, value, where)


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    _expect(isinstance(value, dict), value, where)
    hints = get_type_hints(kind)
    for field in fields(kind):
        present = field.name in value or _has_default(field)
        _expect(present, value, f"{where} has no {field.name!r}, or")
    given = [f.name for f in fields(kind) if f.name in value]
    return kind(**{name: _decode(hints[name], value[name], repr(name)) for name in given})


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _decode_tuple(item: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    _expect(isinstance(value, list | tuple), value, where)
    return tuple(_decode(item, entry, where) for entry in value)


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:  # noqa: ANN401
    if value is None and types.NoneType in kinds:
        return None
    return _decode(next(k for k in kinds if k is not types.NoneType), value, where)


def _decode_plain(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    if kind is datetime or issubclass(kind, Enum):
        try:
            return parse_iso(value) if kind is datetime else kind(value)
        except (TypeError, ValueError) as error:
            raise Malformed(f"{where} holds something else") from error
    if kind is float:
        return _decode_float(value, where)
    is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return _expect(is_kind, value, where)


def _decode_float(value: Any, where: str) -> float:  # noqa: ANN401
    _expect(isinstance(value, int | float), value, where)
    try:
        return float(value)
    except OverflowError as error:
        raise Malformed(f"{where} holds too large a number") from error


def _expect(met: bool, value: Any, where: str) -> Any:  # noqa: ANN401, FBT001
    if not met:
        raise Malformed(f"{where} holds something else")
    return value


_SHORT_CHARS: Final = 60  # a text no longer than saying where it stands


def to_bytes(record: dict[str, Any]) -> bytes:
    """Return what goes into the file for the plain values of a record."""
    compact = _point_into_messages(_without_messages(record), record["messages"])
    try:
        return json.dumps(compact, ensure_ascii=False, indent=1).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(compact, indent=1).encode("ascii") + b"\n"


def complete(record: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values again, the request's body as bytes; also of an older file.

    Raises:
        Malformed: The body is damaged, or a text stands where there is none.
    """
    request = record.get("request")
    if isinstance(request, dict):
        record = {**record, "request": {**request, "body": body_from_json(request.get("body"))}}
        if record.get("messages", ...) is None:
            record["messages"] = _messages_in(record["request"]["body"])
    return {**record, "contributions": _texts(record), "side_calls": _side_calls(record)}


def _side_calls(record: dict[str, Any]) -> object:
    """Return the calls of other models, the bodies of their requests as bytes."""
    calls = record.get("side_calls", [])
    if not isinstance(calls, list):
        return calls
    return [_with_body(call) if isinstance(call, dict) else call for call in calls]


def _with_body(holder: dict[str, Any]) -> dict[str, Any]:
    request = holder.get("request")
    if not isinstance(request, dict):
        return holder
    return {**holder, "request": {**request, "body": body_from_json(request.get("body"))}}


def body_to_json(body: bytes) -> dict[str, str]:
    """Return bytes as plain values: as text if they are one."""
    try:
        return {"text": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode("ascii")}


def body_from_json(stored: object) -> bytes:
    """Return the bytes that `body_to_json` was given.

    Raises:
        Malformed: It is not what `body_to_json` returned.
    """
    match stored:
        case {"text": str(text)}:
            return text.encode("utf-8", errors="surrogatepass")
        case {"base64": str(encoded)}:
            try:
                return base64.b64decode(encoded, validate=True)
            except ValueError as error:
                raise Malformed("its request's body is damaged") from error
    raise Malformed("its request has no body")


def _without_messages(record: dict[str, Any]) -> dict[str, Any]:
    if record["request"] is None:
        return record
    said = _messages_in(body_from_json(record["request"]["body"]))
    same = said is not None and said == list(record["messages"])
    return {**record, "messages": None} if same else record


def _messages_in(body: bytes) -> list[Any] | None:
    """Return the messages that a request's bytes hold, or None when they hold none."""
    try:
        messages = json.loads(body)["messages"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return messages if isinstance(messages, list) else None


def _point_into_messages(
    record: dict[str, Any], messages: Sequence[dict[str, str]]
) -> dict[str, Any]:
    contributions = [
        {**piece, "text": _pointer(piece["text"], messages) or piece["text"]}
        for piece in record["contributions"]
    ]
    return {**record, "contributions": contributions}


def _pointer(text: str, messages: Sequence[dict[str, str]]) -> dict[str, int] | None:
    """Return where in the messages `text` stands, or None."""
    if len(text) <= _SHORT_CHARS:
        return None
    for number, message in enumerate(messages):
        start = message["content"].find(text)
        if start >= 0:
            return {"message": number, "start": start, "chars": len(text)}
    return None


def _texts(record: dict[str, Any]) -> object:
    pieces = record.get("contributions")
    if not isinstance(pieces, list):
        return pieces
    messages = record.get("messages")
    return [
        {**piece, "text": _text_at(piece["text"], messages)}
        if isinstance(piece, dict) and isinstance(piece.get("text"), dict)
        else piece
        for piece in pieces
    ]


def _text_at(pointer: dict[str, Any], messages: object) -> str:
    match pointer, messages:
        case {"message": int(number), "start": int(start), "chars": int(chars)}, list():
            said = messages[number] if 0 <= number < len(messages) else None
            content = said.get("content") if isinstance(said, dict) else None
            if isinstance(content, str) and len(content[start : start + chars]) == chars:
                return content[start : start + chars]
    raise Malformed("a contribution's text is not where it says")
