"""From the words of a model to proposed operations. Nothing is believed here, only read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import UnusableReplyError
from familiar_cli.llm.json_in import values_in
from familiar_cli.text import fold, harmless, one_line
from familiar_cli.writer.types import KINDS, OPS, Kind, Op, Operation, ProposedLine, Refusal

if TYPE_CHECKING:
    from familiar_cli.llm.types import Completion

_TURNS: Final = re.compile(r"(\d{1,15})(?:\s*(?:-|–|to)\s*#?(\d{1,15}))?")
_MOST_IN_RANGE: Final = 500
_SHOWN_CHARS: Final = 200
_PATH_CHARS: Final = 200
_TITLE_CHARS: Final = 80
_SPELLINGS: Final[dict[str, Op]] = {
    "add_bullet": "add_bullets",
    "add": "add_bullets",
    "append": "add_bullets",
    "replace": "replace_section",
    "summary": "set_summary",
    "summarise": "set_summary",
    "summarize": "set_summary",
    "add_alias": "add_aliases",
    "aliases": "add_aliases",
    "create_file": "create",
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a reply proposes, and what of it makes no sense."""

    operations: tuple[Operation, ...]
    malformed: tuple[Refusal, ...]


def parse_reply(completion: Completion) -> Parsed:
    """Return what a reply proposes. No operation at all means: there is nothing to remember.

    Raises:
        UnusableReplyError: It holds no such JSON.
    """
    found = _operations_in(completion.text)
    read = [_operation(value) for value in found]
    operations = tuple(value for value in read if isinstance(value, Operation))
    malformed = tuple(value for value in read if isinstance(value, Refusal))
    if malformed and not operations:
        raise UnusableReplyError(f"none of its operations is valid: {malformed[0].reason}")
    return Parsed(operations, malformed)


def _operations_in(text: str) -> list[Any]:
    """Return the list of operations in the first piece of `text` that holds one."""
    broken = False
    for value in values_in(text):
        if isinstance(value, dict) and isinstance(value.get("operations"), list):
            return list(value["operations"])
        if isinstance(value, list) and value and all(_looks_like_one(v) for v in value):
            return value
        broken = broken or value is None
    if not broken and "{" not in text:
        raise UnusableReplyError("it contains no JSON")
    raise UnusableReplyError('it contains no complete JSON object with the key "operations"')


def _looks_like_one(value: object) -> bool:
    return isinstance(value, dict) and "op" in value and "file" in value


def _operation(value: object) -> Operation | Refusal:
    if not isinstance(value, dict):
        return _malformed("", "it is not an object", value)
    rel_path = value.get("file", value.get("rel_path"))
    if not isinstance(rel_path, str) or not rel_path.strip():
        return _malformed("", "it names no file", value)
    rel_path = rel_path.strip()
    op = _op(value.get("op"))
    if op is None:
        return _malformed(rel_path, f"no such operation: {value.get('op')!r:.40}", value)
    shared = _turns(value.get("turns"))
    lines = _lines(value, shared)
    if lines is None:
        return _malformed(rel_path, "its lines are not text", value)
    return Operation(
        op=op,
        rel_path=rel_path if len(rel_path) <= _PATH_CHARS else one_line(rel_path, _PATH_CHARS),
        lines=lines,
        section=_title(value.get("section")),
        title=_title(value.get("title")),
        kind=_kind(value.get("kind")),
    )


def _op(value: object) -> Op | None:
    if not isinstance(value, str):
        return None
    word = re.sub(r"[\s-]+", "_", fold(value).strip())
    return word if word in OPS else _SPELLINGS.get(word)  # type: ignore[return-value]


def _kind(value: object) -> Kind:
    word = fold(value).strip() if isinstance(value, str) else ""
    return word if word in KINDS else "said"  # type: ignore[return-value]


def _title(value: object) -> str:
    return one_line(value, _TITLE_CHARS).lstrip("#").strip() if isinstance(value, str) else ""


def _lines(value: dict[str, Any], shared: tuple[int, ...]) -> tuple[ProposedLine, ...] | None:
    given: Any = next((value[k] for k in ("lines", "bullets", "names", "text") if k in value), [])
    given = [given] if isinstance(given, str | dict) else given
    if not isinstance(given, list):
        return None
    read = [_line(entry, shared) for entry in given]
    return None if None in read else tuple(line for line in read if line is not None)


def _line(entry: object, shared: tuple[int, ...]) -> ProposedLine | None:
    if isinstance(entry, str):
        return ProposedLine(entry, shared)
    if isinstance(entry, dict) and isinstance(entry.get("text"), str):
        return ProposedLine(entry["text"], _turns(entry.get("turns")) or shared)
    return None


def _turns(value: object) -> tuple[int, ...]:
    """Return the turns that are named: `12`, `"12"`, `"turn 12"`, `"12-15"`, or a list of such."""
    found: set[int] = set()
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, int) and not isinstance(entry, bool):
            found.add(entry)
        elif isinstance(entry, str):
            for match in _TURNS.finditer(entry):
                first, last = int(match[1]), int(match[2] or match[1])
                found.update(range(first, min(last, first + _MOST_IN_RANGE) + 1))
    return tuple(sorted(found))


def _malformed(rel_path: str, reason: str, value: object) -> Refusal:
    shown = one_line(harmless(json.dumps(value, ensure_ascii=False, default=str)), _SHOWN_CHARS)
    return Refusal(one_line(rel_path, _SHOWN_CHARS), "form", reason, shown)
