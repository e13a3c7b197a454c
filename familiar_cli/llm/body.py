"""The bytes of a request: the same messages always give the same bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from familiar_cli.llm.types import Message

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
    return _utf8(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


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
    return _utf8(_MODEL_FIRST + json.dumps(model, ensure_ascii=False) + text[end:])


def _utf8(text: str) -> bytes:
    """Encode `text`; half of a surrogate pair, which no encoding can carry, becomes U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.encode("utf-8")
