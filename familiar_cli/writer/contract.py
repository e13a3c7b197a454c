"""What the model may reply: a JSON schema, made for one batch.

A server that can constrain what a model writes is handed it. Its bounds are chosen so that a reply
that follows it is not cut off at the model's own limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.memory.layout import SESSIONS_DIR, TOPICS_DIR
from familiar_cli.writer.types import KINDS, OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

# What one operation costs beside its lines, and how many characters a token holds at the least:
# measured on replies in English; a language with fewer gets a reply that is cut, and then repaired.
_OPERATION_TOKENS: Final = 90
_CHARS_PER_TOKEN: Final = 3
_LINE_CHARS: Final = (80, 600)
_SIMPLE_TOKENS: Final = 600  # a model that writes no more is a small one
_SIMPLE_SECTIONS: Final = ("Facts", "Likes")
_MOST_OPERATIONS: Final = 24
_MOST_LINES: Final = 8
_MOST_TURNS: Final = 12
_SIMPLE_TURNS: Final = 4
_TOPIC_PATTERN: Final = f"^{TOPICS_DIR}/[a-z0-9-]{{3,40}}\\.md$"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a reply may be.

    Args:
        operations: Most operations.
        lines: Most lines of one.
        line_chars: Most characters of one line.
        simple: The model is small, so it is offered fewer ways to go wrong.
    """

    operations: int
    lines: int
    line_chars: int
    simple: bool = False


def bounds_for(reply_tokens: int) -> Bounds:
    """Return how much fits into a reply of so many tokens."""
    operations = max(1, min(_MOST_OPERATIONS, reply_tokens // 160))
    each = reply_tokens // operations - _OPERATION_TOKENS
    lines = max(1, min(_MOST_LINES, each // 50))
    chars = max(_LINE_CHARS[0], min(_LINE_CHARS[1], each * _CHARS_PER_TOKEN // lines))
    return Bounds(operations, lines, chars, simple=reply_tokens < _SIMPLE_TOKENS)


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
    if bounds.simple and files:
        operation = _simple(bounds, files, turns)
    else:
        listed: dict[str, Any] = {"enum": list(files)}
        topic = {"type": "string", "pattern": _TOPIC_PATTERN}
        file = {"anyOf": [*([listed] if files else []), *([topic] if topics else [])]}
        section = {"type": "string", "maxLength": 40}
        operation = _operation(bounds, turns, ops=OPS, file=file, section=section, kinds=KINDS)
    operations = {"type": "array", "items": operation, "maxItems": bounds.operations}
    return _object({"operations": operations})


def _simple(bounds: Bounds, files: Sequence[str], turns: Sequence[int]) -> dict[str, Any]:
    """Return a schema with little choice: a summary of a session, or facts about a person."""
    sessions = [path for path in files if path.startswith(f"{SESSIONS_DIR}/")]
    people = [path for path in files if path not in sessions]
    shapes = [
        _operation(
            bounds,
            turns,
            ops=(op,),
            file={"enum": of},
            section={"enum": list(sections)},
            kinds=("said",),
        )
        for op, of, sections in (
            ("set_summary", sessions, ("",)),
            ("add_bullets", people, _SIMPLE_SECTIONS),
        )
        if of
    ]
    return {"anyOf": shapes}


def _operation(
    bounds: Bounds,
    turns: Sequence[int],
    *,
    ops: Sequence[str],
    file: dict[str, Any],
    section: dict[str, Any],
    kinds: Sequence[str],
) -> dict[str, Any]:
    line = {"type": "string", "minLength": 1, "maxLength": bounds.line_chars}
    most = _SIMPLE_TURNS if bounds.simple else _MOST_TURNS
    rests_on = {"type": "array", "items": {"enum": list(turns)}, "minItems": 1, "maxItems": most}
    return _object(
        {
            "op": {"enum": list(ops)},
            "file": file,
            "section": section,
            "lines": {"type": "array", "items": line, "minItems": 1, "maxItems": bounds.lines},
            "turns": rests_on,
            "kind": {"enum": list(kinds)},
        }
    )


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
