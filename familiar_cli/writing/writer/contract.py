"""The reply format for one batch: a JSON schema, and the parser for replies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import asdict

from familiar_cli.base.errors import FamiliarError, UnusableReplyError
from familiar_cli.base.text import fold, harmless, one_line
from familiar_cli.base.who.visibility import ViewerRecord
from familiar_cli.llm.asking import Spent, values_in
from familiar_cli.store.memory.layout import SESSIONS_DIR, TOPICS_DIR
from familiar_cli.store.memory.pages.lines import PLAIN, Numbering

if TYPE_CHECKING:
    from familiar_cli.llm.types import Completion
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.writing.pending import FileChange

Op = Literal["set_summary", "add_bullets", "replace_section", "supersede", "add_aliases", "create"]
Kind = Literal["said", "play", "felt", "limit"]
OPS: Final = get_args(Op)
KINDS: Final = ("said", "play", "felt", "limit")
REWRITES: Final = frozenset({"set_summary", "replace_section"})
"""What takes away words that were there."""


class Batch(ViewerRecord, frozen=True):
    """The turns of one question to the model, oldest first.

    Args:
        private: The private scope of all of them; None: they are public.
        viewer: Who may see what is learned from them.
    """

    turns: tuple[Turn, ...]
    private: str | None = None


class ProposedLine(Struct, frozen=True):
    """A line proposed by the model, with the turns it cites."""

    text: str
    turns: tuple[int, ...] = ()


class Operation(Struct, frozen=True):
    """A change of one file.

    Args:
        op: The kind of change.
        lines: Bullets, paragraphs or names.
        section: The title of the section; empty if not needed.
        title: The H1, if the file is new.
        kind: `said` by someone, part of a `play`, `felt` by the familiar, or a `limit`: something
            that it cannot do or see.
        replaces: The existing line that is superseded, if any.
        until: When that line ceased to hold; set by the rails.
    """

    op: Op
    rel_path: str
    lines: tuple[ProposedLine, ...]
    section: str = ""
    title: str = ""
    kind: Kind = "said"
    replaces: str = ""
    until: date | None = None

    @property
    def turns(self) -> tuple[int, ...]:
        """All turns cited by its lines."""
        return tuple(sorted({turn_id for line in self.lines for turn_id in line.turns}))


class Refusal(Struct, frozen=True):
    """A proposal that was not written, and why.

    Args:
        rel_path: The file named by the model; empty: none.
        rail: The rule that refused it.
        reason: Why, in words.
        text: The refused text.
        turns: The turns it cited.
    """

    rel_path: str
    rail: str
    reason: str
    text: str = ""
    turns: tuple[int, ...] = ()


Outcome = Literal["wrote", "nothing", "review", "failed"]


class WriterReport(Struct):
    """Result of a pass, updated while it goes on.

    Attributes:
        run: The pass's id, as in `runs/` and in the journal.
        outcome: The outcome.
        turns_covered: Number of turns processed.
        remaining: Number of selected turns still unread.
        newest_left: Number of turns postponed because their exchanges may still change.
        batches: Number of questions answered.
        files: The files that changed, or would change.
        refused: Proposals that were not written.
        held: Files with a change that awaits approval.
        pending: The plan with these changes; empty: none.
        spent: The cost of the requests.
        notices: Messages for the user.
        quarantined: Paths of unusable replies.
        diff: The changes as a unified diff, if they were not written.
        error: Why the pass ended early.
        interrupted: Whether it was interrupted.
    """

    run: str
    outcome: Outcome = "nothing"
    turns_covered: int = 0
    remaining: int = 0
    newest_left: int = 0
    batches: int = 0
    files: dict[str, FileChange] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    pending: str = ""
    spent: Spent = field(default_factory=Spent)
    notices: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    diff: str = ""
    error: FamiliarError | None = None
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the report as `--json` shows it."""
        used = self.spent
        per_turn = used.estimated_tokens / self.turns_covered if self.turns_covered else None
        counts = ("turns_covered", "remaining", "newest_left", "batches")
        return {
            "run": self.run,
            "outcome": self.outcome,
            **{name: getattr(self, name) for name in counts},
            "files": [asdict(file) for file in self.files.values()],
            "refused": [
                {"rel_path": r.rel_path, "rail": r.rail, "reason": r.reason} for r in self.refused
            ],
            "held": self.held,
            "pending": self.pending or None,
            "calls": used.calls,
            "repairs": used.repairs,
            "usage": {
                "prompt_tokens": used.prompt_tokens,
                "completion_tokens": used.completion_tokens,
                "cost": used.cost,
            },
            "estimated_tokens": used.estimated_tokens,
            "estimated_tokens_per_turn": None if per_turn is None else round(per_turn, 1),
            "model_s": round(used.model_s, 3),
            "notices": self.notices,
            "quarantined": self.quarantined,
            "diff": self.diff or None,
            "interrupted": self.interrupted,
        }


# Overhead of an operation besides its lines, and minimum characters per token, as
# measured on English replies; in denser languages, replies are cut off and then repaired.
_OPERATION_TOKENS: Final = 90
_SIMPLE_OPERATION_TOKENS: Final = 60  # it cites four turns at most
_CHARS_PER_TOKEN: Final = 3
_LINES: Final = (4, 8)
_LINE_CHARS: Final = (80, 240)
_SIMPLE_TOKENS: Final = 600  # at most this for a small model
_SIMPLE_SECTIONS: Final = ("Facts", "Likes", "Wishes")
_MOST_OPERATIONS: Final = 24
_MOST_TURNS: Final = 12
_SIMPLE_TURNS: Final = 4
_SUMMARY: Final = "set_summary"
_TOPIC_PATTERN: Final = f"^{TOPICS_DIR}/[a-z0-9-]{{3,40}}\\.md$"
_ANY_TOPIC_PATTERN: Final = f"^{TOPICS_DIR}/[^/.<>#]{{1,40}}\\.md$"


class Bounds(Struct, frozen=True):
    """Size limits of a reply, as stated in the prompt, the schema and the reference page.

    Args:
        operations: Maximum number of operations.
        lines: Maximum number of lines per operation.
        line_chars: Maximum number of characters per line.
        summary_chars: Maximum number of characters of a summary, which is one line.
        simple: Whether the model is small and gets a simpler schema.
    """

    operations: int
    lines: int
    line_chars: int
    summary_chars: int
    simple: bool = False


def bounds_for(reply_tokens: int) -> Bounds:
    """Return the size limits for a reply of this many tokens.

    They apply even if every operation is full: the longest valid reply fits.
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


def reply_schema(
    bounds: Bounds,
    *,
    files: Sequence[str],
    turns: Sequence[int],
    topics: Sequence[str] | None,
    any_letters: bool = False,
) -> dict[str, Any]:
    """Build the JSON schema for the reply about one batch.

    Args:
        bounds: Size limits.
        files: The session and people files it may change.
        turns: The turns it may cite.
        topics: The topics in the prompt; others are allowed, too. None: no topics.
        any_letters: Allow topic names with other than English letters.
    """
    if bounds.simple and files:
        operation = _simple_schema(bounds, files, turns)
    else:
        pattern = _ANY_TOPIC_PATTERN if any_letters else _TOPIC_PATTERN
        operation = _full_schema(bounds, files, turns, topics, pattern)
    operations = {"type": "array", "items": operation, "maxItems": bounds.operations}
    return _object_schema({"operations": operations})


def _full_schema(
    bounds: Bounds,
    files: Sequence[str],
    turns: Sequence[int],
    topics: Sequence[str] | None,
    pattern: str,
) -> dict[str, Any]:
    """Build a schema with every choice: a one-paragraph summary, or any other change."""
    topic = {"type": "string", "pattern": pattern}
    others = [path for path in topics or () if not re.fullmatch(pattern, path)]
    listed: dict[str, Any] = {"enum": [*files, *others]}
    may_add = topics is not None
    file = {"anyOf": [*([listed] if listed["enum"] else []), *([topic] if may_add else [])]}
    section = {"type": "string", "maxLength": 40}
    shapes = [
        _operation_schema(bounds, turns, ops=ops, file=file, section=section, kinds=KINDS)
        for ops in ((_SUMMARY,), [op for op in OPS if op != _SUMMARY])
    ]
    return {"anyOf": shapes}


def _simple_schema(bounds: Bounds, files: Sequence[str], turns: Sequence[int]) -> dict[str, Any]:
    """Build a restricted schema: a summary of a session, or facts about a person."""
    sessions = [path for path in files if path.startswith(f"{SESSIONS_DIR}/")]
    people = [path for path in files if path not in sessions]
    shapes = [
        _operation_schema(
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


def _operation_schema(
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
    return _object_schema(
        {
            "op": {"enum": list(ops)},
            "file": file,
            "section": section,
            "lines": lines,
            "turns": rests_on,
            "kind": {"enum": list(kinds)},
        }
    )


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


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
    "replace_line": "supersede",
    "end": "supersede",
    "create_file": "create",
}


class ParsedReply(Struct, frozen=True):
    """The valid proposals in a reply, and the invalid ones."""

    operations: tuple[Operation, ...]
    malformed: tuple[Refusal, ...]


def parse_reply(completion: Completion) -> ParsedReply:
    """Parse the operations of a reply; an empty list means nothing to remember.

    Raises:
        UnusableReplyError: It contains no such JSON.
    """
    items = _operations_in(completion.text)
    read = [_parse_operation(value) for value in items]
    operations = tuple(value for value in read if isinstance(value, Operation))
    malformed = tuple(value for value in read if isinstance(value, Refusal))
    if malformed and not operations:
        raise UnusableReplyError(f"none of its operations is valid: {malformed[0].reason}")
    return ParsedReply(operations, malformed)


def _operations_in(text: str) -> list[Any]:
    """Return the operations from the first JSON value in `text` that has any."""
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


def _parse_operation(value: object) -> Operation | Refusal:
    if not isinstance(value, dict):
        return _refuse_malformed("", "it is not an object", value)
    rel_path = value.get("file", value.get("rel_path"))
    if not isinstance(rel_path, str) or not rel_path.strip():
        return _refuse_malformed("", "it names no file", value)
    rel_path = rel_path.strip()
    op = _read_op(value.get("op"))
    if op is None:
        return _refuse_malformed(rel_path, f"no such operation: {value.get('op')!r:.40}", value)
    shared = _read_turns(value.get("turns"))
    lines = _read_lines(value, shared)
    if lines is None:
        return _refuse_malformed(rel_path, "its lines are not text", value)
    replaces = ""
    if op == "supersede":
        if len(lines) != 2:  # noqa: PLR2004
            return _refuse_malformed(rel_path, "it needs the old line and the new one", value)
        replaces, lines = lines[0].text, lines[1:]
    return Operation(
        op=op,
        rel_path=rel_path if len(rel_path) <= _PATH_CHARS else one_line(rel_path, _PATH_CHARS),
        lines=lines,
        section=_read_title(value.get("section")),
        title=_read_title(value.get("title")),
        kind=_read_kind(value.get("kind")),
        replaces=replaces,
    )


def _read_op(value: object) -> Op | None:
    if not isinstance(value, str):
        return None
    word = re.sub(r"[\s-]+", "_", fold(value).strip())
    return word if word in OPS else _SPELLINGS.get(word)  # type: ignore[return-value]


def _read_kind(value: object) -> Kind:
    word = fold(value).strip() if isinstance(value, str) else ""
    return word if word in KINDS else "said"  # type: ignore[return-value]


def _read_title(value: object) -> str:
    return one_line(value, _TITLE_CHARS).lstrip("#").strip() if isinstance(value, str) else ""


def _read_lines(value: dict[str, Any], shared: tuple[int, ...]) -> tuple[ProposedLine, ...] | None:
    given: Any = next((value[k] for k in ("lines", "bullets", "names", "text") if k in value), [])
    given = [given] if isinstance(given, str | dict) else given
    if not isinstance(given, list):
        return None
    read = [_read_line(entry, shared) for entry in given]
    return None if None in read else tuple(line for line in read if line is not None)


def _read_line(entry: object, shared: tuple[int, ...]) -> ProposedLine | None:
    if isinstance(entry, str):
        return ProposedLine(entry, shared)
    if isinstance(entry, dict) and isinstance(entry.get("text"), str):
        return ProposedLine(entry["text"], _read_turns(entry.get("turns")) or shared)
    return None


def _read_turns(value: object) -> tuple[int, ...]:
    """Parse turn numbers: `12`, `"12"`, `"turn 12"`, `"12-15"`, or a list of these."""
    items: set[int] = set()
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, int) and not isinstance(entry, bool):
            items.add(entry)
        elif isinstance(entry, str):
            for match in _TURNS.finditer(entry):
                first, last = int(match[1]), int(match[2] or match[1])
                items.update(range(first, min(last, first + _MOST_IN_RANGE) + 1))
    return tuple(sorted(items))


def _refuse_malformed(rel_path: str, reason: str, value: object) -> Refusal:
    text = one_line(harmless(json.dumps(value, ensure_ascii=False, default=str)), _SHOWN_CHARS)
    return Refusal(one_line(rel_path, _SHOWN_CHARS), "form", reason, text)


class WriterSettings(Struct, frozen=True):
    """Settings of the writer.

    Args:
        batch_turns: Maximum turns per question.
        batch_tokens: Maximum tokens of turns per question; less for a small model.
        quiet_gap_s: A silence this long ends a conversation.
        reply_tokens: Maximum tokens of a reply.
        temperature: Sampling temperature; None: the model's setting.
        structured: `auto`, `on` or `off`: whether to request constrained replies.
        numbering: How turns are cited.
    """

    batch_turns: int = 60
    batch_tokens: int = 4000
    quiet_gap_s: float = 1800.0
    reply_tokens: int = 1024
    temperature: float | None = None
    structured: str = "auto"
    numbering: Numbering = PLAIN
