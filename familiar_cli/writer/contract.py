"""What the model may reply: a JSON schema, made for one batch.

A server that can constrain what a model writes is handed it. Its bounds are chosen so that a reply
that follows it is not cut off at the model's own limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.memory.layout import SESSIONS_DIR, TOPICS_DIR
from familiar_cli.writer.types import KINDS, OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

# What one operation costs beside its lines, and how many characters a token holds at the least:
# measured on replies in English; a language with fewer gets a reply that is cut, and then repaired.
_OPERATION_TOKENS: Final = 90
_SIMPLE_OPERATION_TOKENS: Final = 60  # it names four turns at most
_CHARS_PER_TOKEN: Final = 3
_LINES: Final = (4, 8)
_LINE_CHARS: Final = (80, 240)
_SIMPLE_TOKENS: Final = 600  # a model that writes no more is a small one
_SIMPLE_SECTIONS: Final = ("Facts", "Likes")
_MOST_OPERATIONS: Final = 24
_MOST_TURNS: Final = 12
_SIMPLE_TURNS: Final = 4
_SUMMARY: Final = "set_summary"
_TOPIC_PATTERN: Final = f"^{TOPICS_DIR}/[a-z0-9-]{{3,40}}\\.md$"
_ANY_TOPIC_PATTERN: Final = f"^{TOPICS_DIR}/[^/.<>#]{{1,40}}\\.md$"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a reply may be. The prompt, the schema and the reference page all tell these.

    Args:
        operations: Most operations.
        lines: Most lines of one.
        line_chars: Most characters of one line.
        summary_chars: Most characters of a summary, which is one line.
        simple: The model is small, so it is offered fewer ways to go wrong.
    """

    operations: int
    lines: int
    line_chars: int
    summary_chars: int
    simple: bool = False


def bounds_for(reply_tokens: int) -> Bounds:
    """Return how much fits into a reply of so many tokens.

    Every operation can be filled to its end: the longest reply that follows the schema fits.
    """
    simple = reply_tokens < _SIMPLE_TOKENS
    beside = _SIMPLE_OPERATION_TOKENS if simple else _OPERATION_TOKENS
    chars = _LINE_CHARS[0] if simple else min(_LINE_CHARS[0] + reply_tokens // 25, _LINE_CHARS[1])
    lines = min(max(_LINES[0], 2 + reply_tokens // 1024), _LINES[1])
    fits = (reply_tokens - beside) * _CHARS_PER_TOKEN // chars
    lines = max(1, min(lines, fits))
    operations = reply_tokens // (beside + lines * chars // _CHARS_PER_TOKEN)
    operations = max(1, min(operations, _MOST_OPERATIONS))
    return Bounds(operations, lines, chars, lines * chars, simple)


def schema(
    bounds: Bounds,
    *,
    files: Sequence[str],
    turns: Sequence[int],
    topics: Sequence[str] | None,
    any_letters: bool = False,
) -> dict[str, Any]:
    """Return the JSON schema of a reply about one batch.

    Args:
        bounds: How long it may be.
        files: The session and people files that it may name.
        turns: The turns that it may rest on.
        topics: The topics that it was told of; it may name others. None: it may name none.
        any_letters: It may name topics in letters other than English ones.
    """
    if bounds.simple and files:
        operation = _simple(bounds, files, turns)
    else:
        pattern = _ANY_TOPIC_PATTERN if any_letters else _TOPIC_PATTERN
        operation = _full(bounds, files, turns, topics, pattern)
    operations = {"type": "array", "items": operation, "maxItems": bounds.operations}
    return _object({"operations": operations})


def _full(
    bounds: Bounds,
    files: Sequence[str],
    turns: Sequence[int],
    topics: Sequence[str] | None,
    pattern: str,
) -> dict[str, Any]:
    """Return a schema with every choice: a summary, which is a paragraph, or any other change."""
    topic = {"type": "string", "pattern": pattern}
    others = [path for path in topics or () if not re.fullmatch(pattern, path)]
    listed: dict[str, Any] = {"enum": [*files, *others]}
    may_add = topics is not None
    file = {"anyOf": [*([listed] if listed["enum"] else []), *([topic] if may_add else [])]}
    section = {"type": "string", "maxLength": 40}
    shapes = [
        _operation(bounds, turns, ops=ops, file=file, section=section, kinds=KINDS)
        for ops in ((_SUMMARY,), [op for op in OPS if op != _SUMMARY])
    ]
    return {"anyOf": shapes}


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
            (_SUMMARY, sessions, ("",)),
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
    is_summary = _SUMMARY in ops
    chars = bounds.summary_chars if is_summary else bounds.line_chars
    line = {"type": "string", "minLength": 1, "maxLength": chars}
    lines = {"type": "array", "items": line, "minItems": 1}
    lines["maxItems"] = 1 if is_summary else bounds.lines
    most = _SIMPLE_TURNS if bounds.simple else _MOST_TURNS
    rests_on = {"type": "array", "items": {"enum": list(turns)}, "minItems": 1, "maxItems": most}
    return _object(
        {
            "op": {"enum": list(ops)},
            "file": file,
            "section": section,
            "lines": lines,
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
