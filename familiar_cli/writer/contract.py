"""What the model may reply: a JSON schema, made for one batch.

A server that can constrain what a model writes is handed it. Its bounds are chosen so that a reply
that follows it is not cut off at the model's own limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.writer.types import KINDS, OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

# What one operation costs beside its lines, and how many characters a token holds at the least:
# measured on replies in English; a language with fewer gets a reply that is cut, and then repaired.
_OPERATION_TOKENS: Final = 90
_CHARS_PER_TOKEN: Final = 3
_LINE_CHARS: Final = (80, 600)
_MOST_OPERATIONS: Final = 24
_MOST_LINES: Final = 8
_MOST_TURNS: Final = 6
_TOPIC_PATTERN: Final = "^topics/[a-z0-9-]{3,40}\\.md$"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a reply may be.

    Args:
        operations: Most operations.
        lines: Most lines of one.
        line_chars: Most characters of one line.
    """

    operations: int
    lines: int
    line_chars: int


def bounds_for(reply_tokens: int) -> Bounds:
    """Return how much fits into a reply of so many tokens."""
    operations = max(1, min(_MOST_OPERATIONS, reply_tokens // 160))
    each = reply_tokens // operations - _OPERATION_TOKENS
    lines = max(1, min(_MOST_LINES, each // 50))
    chars = max(_LINE_CHARS[0], min(_LINE_CHARS[1], each * _CHARS_PER_TOKEN // lines))
    return Bounds(operations, lines, chars)


def schema(
    bounds: Bounds, *, files: Sequence[str], turns: Sequence[int], topics: bool
) -> dict[str, Any]:
    """Return the JSON schema of a reply about one batch.

    Args:
        bounds: How long it may be.
        files: The session and people files that it may name.
        turns: The turns that it may rest on.
        topics: It may name topics.
    """
    listed: dict[str, Any] = {"enum": list(files)}
    topic = {"type": "string", "pattern": _TOPIC_PATTERN}
    file = {"anyOf": [*([listed] if files else []), *([topic] if topics else [])]}
    line = {"type": "string", "minLength": 1, "maxLength": bounds.line_chars}
    properties = {
        "op": {"enum": list(OPS)},
        "file": file,
        "section": {"type": "string", "maxLength": 40},
        "lines": {"type": "array", "items": line, "minItems": 1, "maxItems": bounds.lines},
        "turns": {
            "type": "array",
            "items": {"enum": list(turns)},
            "minItems": 1,
            "maxItems": _MOST_TURNS,
        },
        "kind": {"enum": list(KINDS)},
    }
    operation = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    operations = {"type": "array", "items": operation, "maxItems": bounds.operations}
    return {
        "type": "object",
        "properties": {"operations": operations},
        "required": ["operations"],
        "additionalProperties": False,
    }
