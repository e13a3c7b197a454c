"""From accepted operations to the new text of a file, and whether that may go in unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.languages import ENGLISH
from familiar_cli.markdown import split_lines
from familiar_cli.memory.pages.evidence import PLAIN, cited, reference, without_references
from familiar_cli.memory.pages.similarity import normal, normal_lines
from familiar_cli.memory.people.alias_section import with_alias
from familiar_cli.writer import sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.languages import Phrases
    from familiar_cli.memory.pages.evidence import Cited, Numbering
    from familiar_cli.writer.types import Operation, ProposedLine

# A part shorter than this may be replaced by a shorter one: "Likes tea." says all of "She said …".
_LEAST_PART_CHARS: Final = 120
_HALF: Final = 0.5


def edited(
    text: str,
    operation: Operation,
    private_heading: str = "",
    phrases: Phrases = ENGLISH,
    numbering: Numbering = PLAIN,
) -> str:
    """Return `text` after one operation.

    Args:
        text: The file; at least its H1.
        operation: What to do.
        private_heading: Where it goes instead of its section, if it was said in private.
        phrases: In which language a list of names that is new is headed.
        numbering: How turns are cited.
    """
    heading = private_heading or f"## {operation.section}"
    match operation.op:
        case "add_aliases":
            for line in operation.lines:
                text = with_alias(text, line.text, phrases.heading("aliases"))
            return text
        case "set_summary" | "create":
            return sections.with_summary(text, _paragraphs(text, operation.lines, numbering))
        case "replace_section":
            lines = _rewritten(text, heading, operation.lines, numbering)
            return sections.with_section(text, heading, lines)
        case _:
            section = sections.section_of(text, heading) or ""
            there = normal_lines(section) | normal_lines(sections.summary_of(text))
            fresh = [line for line in operation.lines if normal(line.text) not in there]
            bullets = [_bullet(line.text, numbering.cite(line.turns)) for line in fresh]
            return sections.with_bullets(text, heading, bullets) if bullets else text


def shrinks(before: str, after: str, operation: Operation) -> bool:
    """Return whether an operation takes away more than half of a file, or of a longer part."""
    if _size(after) < _HALF * _size(before):
        return True
    match operation.op:
        case "set_summary":
            parts = sections.summary_of(before), sections.summary_of(after)
        case "replace_section":
            heading = f"## {operation.section}"
            parts = tuple(sections.section_of(t, heading) or "" for t in (before, after))  # type: ignore[assignment]
        case _:
            return False
    old, new = map(_size, parts)
    return old >= _LEAST_PART_CHARS and new < _HALF * old


def _size(text: str) -> int:
    return len("".join(without_references(text).split()))


def _bullet(text: str, turns: Sequence[Cited]) -> str:
    return f"- {text} {reference(turns)}".rstrip()


def _paragraphs(text: str, lines: Sequence[ProposedLine], numbering: Numbering) -> list[str]:
    """Return a summary; it rests on its turns, and on those of the summary that it takes in."""
    old = cited(sections.summary_of(text))
    turns = [*old, *numbering.cite(n for line in lines for n in line.turns)]
    texts = [line.text for line in lines]
    return [*texts[:-1], f"{texts[-1]} {reference(turns)}"]


def _rewritten(
    text: str, heading: str, lines: Sequence[ProposedLine], numbering: Numbering
) -> list[str]:
    """Return the bullets of a section; one that was there keeps the turns that it rests on."""
    body = sections.section_of(text, heading) or ""
    old = {normal(line): line for line in split_lines(body) if normal(line)}
    return [
        _bullet(line.text, cited(old[normal(line.text)]))
        if normal(line.text) in old
        else _bullet(line.text, numbering.cite(line.turns))
        for line in lines
    ]
