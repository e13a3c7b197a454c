"""A record as it stands in its file: nothing in it is written down twice.

The request's bytes hold the messages, and the messages hold most of what was offered. So the file
holds the bytes, and for the rest says where in them it stands.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.context._decode import Malformed

if TYPE_CHECKING:
    from collections.abc import Sequence

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
