"""Replies in OpenAI's shape: whole objects, chunks of a stream, and the end of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.serve.asking import MEMORY_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.context.trace import Trace


DONE: Final = b"data: [DONE]\n\n"
_CHUNK: Final = "chat.completion.chunk"


def event(data: object) -> bytes:
    """Return one event of a stream; a text is JSON already."""
    text = data if isinstance(data, str) else _dumps(data)
    return b"".join(b"data: " + line.encode() + b"\n" for line in text.splitlines()) + b"\n"


def body(data: object) -> bytes:
    """Return the body of a response."""
    return _dumps(data).encode()


class ReplyFormat:
    """Makes the parts of one reply.

    Args:
        reply_id: The id that all parts share.
        model: The model's name as it was asked for.
        created_s: When it was made, in seconds since 1970.
    """

    def __init__(self, reply_id: str, model: str, created_s: int) -> None:
        self._head = {"id": reply_id, "created": created_s, "model": model}

    def first(self) -> dict[str, Any]:
        """Return the chunk that begins a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> dict[str, Any]:
        """Return the chunk for a piece of text."""
        return self._chunk({"content": text})

    def last(self, finish_reason: str) -> dict[str, Any]:
        """Return the chunk that ends the text."""
        return self._chunk({}, finish_reason)

    def counts(self, usage: dict[str, int]) -> dict[str, Any]:
        """Return the chunk with the token counts."""
        return {**self._head, "object": _CHUNK, "choices": [], "usage": usage}

    def whole(self, text: str, finish_reason: str, usage: dict[str, int]) -> dict[str, Any]:
        """Return a reply that is not streamed."""
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return {**self._head, "object": _CHUNK, "choices": [choice]}


def usage_of(trace: Trace, reply_tokens: int) -> dict[str, int]:
    """Return a turn's token counts, as the model's server reports them, else as counted here."""
    told = trace.usage
    prompt = told.prompt_tokens if told else None
    reply = told.completion_tokens if told else None
    counts = {
        "prompt_tokens": trace.used_tokens if prompt is None else prompt,
        "completion_tokens": reply_tokens if reply is None else reply,
    }
    return {**counts, "total_tokens": sum(counts.values())}


def models(familiars: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Return the list of models: each familiar, with its own prompt and with the program's.

    Args:
        familiars: Their ids, and when each was made, in seconds since 1970.
    """
    data = [
        {"id": f"{name}{suffix}", "object": "model", "created": made_s, "owned_by": "familiar"}
        for name, made_s in familiars
        for suffix in ("", MEMORY_SUFFIX)
    ]
    return {"object": "list", "data": data}


def embeddings(model: str, vectors: list[Any], tokens: int) -> dict[str, Any]:
    """Return vectors, as lists of numbers or base64, in the order of the texts."""
    data = [
        {"object": "embedding", "index": number, "embedding": vector}
        for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _dumps(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
