"""Change the text of a page: its summary, sections and bullets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from familiar_cli.base import markdown
from familiar_cli.base.languages import ENGLISH, Phrases, heading_in, section_key
from familiar_cli.store.memory.aliases import with_alias
from familiar_cli.store.memory.pages.facts import ended_on, heading_of, renew_limit, superseded
from familiar_cli.store.memory.pages.lines import (
    PLAIN,
    Numbering,
    citation_comment,
    citations_in,
    normal_line,
    normal_lines,
    without_references,
)
from familiar_cli.store.memory.pages.visible_lines import is_of_source, private_scope

if TYPE_CHECKING:
    from familiar_cli.store.memory.pages.lines import Numbering, TurnRange
    from familiar_cli.writing.writer.contract import Operation, ProposedLine


DEEPEST: Final = 2
"""The lowest headings that begin a part; those below belong to it."""


def summary_of(text: str) -> str:
    """Return the text between the H1 and the first H2."""
    section = _summary_section(text)
    return text[
        max(section.end - len(section.body), markdown.body_start(text)) : section.end
    ].strip()


def section_of(text: str, heading: str) -> str | None:
    """Return the text below the H2 that matches `heading`, or None without one."""
    section = _find_section(text, heading)
    return None if section is None else section.body


def new_file(title: str) -> str:
    """Return a file that contains only its H1."""
    return f"# {title}\n"


def with_title(text: str, old: str, new: str) -> str:
    """Replace the H1 of `text`, also in its underlined form."""
    lines = [line for line in markdown.scan(text) if not line.in_code and old in line.text]
    for line in sorted(lines, key=lambda line: line.level != 1):
        if old in {line.title, markdown.heading_text(line.text.lstrip("\ufeff"))}:
            return text[: line.start] + line.text.replace(old, new, 1) + text[line.end :]
    return text


def with_bullets(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Append `bullets` to a section, which is created if missing.

    Args:
        text: Markdown.
        heading: The H2 in Markdown, e.g. `## Facts`.
        bullets: Complete lines without line ends.
    """
    newline = markdown.newline_of(text)
    items = "".join(item + newline for item in bullets)
    section = _find_section(text, heading)
    if section is None:
        return _with_newline(text, newline) + newline + heading + newline + newline + items
    said = [line for line in section.lines if line.text.strip()]
    gap = "" if len(said) > 1 and _is_of_list(said[-1].text) else newline
    tail = text[said[-1].end : section.end] or _gap_below(text, section)
    kept = _with_newline(text[: said[-1].end], newline)
    return kept + gap + items + tail + text[section.end :]


def with_section(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Replace the contents of a section by `bullets`."""
    section = _find_section(text, heading)
    if section is not None:
        head = _with_newline(text[: section.lines[0].end], markdown.newline_of(text))
        text = head + _gap_below(text, section) + text[section.end :]
    return with_bullets(text, heading, bullets)


def with_summary(text: str, paragraphs: Sequence[str]) -> str:
    """Replace the text between the H1 and the first H2 by `paragraphs`.

    Anything before the H1 (front matter) is kept.
    """
    newline = markdown.newline_of(text)
    section = _summary_section(text)
    head = text[: section.lines[0].end if section.level else markdown.body_start(text)]
    head = _with_newline(head, newline) + newline if head else ""
    body = (newline * 2).join(paragraphs) + newline
    return head + body + _gap_below(text, section) + text[section.end :]


def _summary_section(text: str) -> markdown.Section:
    """Return the section with the summary: the first H1's, else the text without a heading."""
    found = list(markdown.sections(text, DEEPEST))
    return next((section for section in found if section.level == 1), found[0])


def _find_section(text: str, heading: str) -> markdown.Section | None:
    """Find the section of `heading`: by its channel if private, else by title.

    What another program remembers has a section of its own for each program.
    """
    channel, title = private_scope(heading), markdown.heading_text(heading.lstrip("# "))
    target, are_wishes = section_key(title), heading_in(title) == "wishes"
    for section in markdown.sections(text, DEEPEST):
        if section.level != DEEPEST or private_scope(section.lines[0].text) != channel:
            continue
        if channel is None or is_of_source(title) or is_of_source(section.title):
            is_it = section_key(section.title) == target
        else:  # a private section is found by its channel
            is_it = (heading_of(section) == "wishes") == are_wishes
        if is_it:
            return section
    return None


def _is_of_list(line: str) -> bool:
    return line.startswith((" ", "\t")) or markdown.bullet(line) is not None


def _gap_below(text: str, section: markdown.Section) -> str:
    """Return the blank line needed between a section and the next one, if any."""
    return markdown.newline_of(text) if section.end < len(text) else ""


def _with_newline(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline


# A part shorter than this may shrink freely: "Likes tea." says all of "She said …".
_LEAST_PART_CHARS: Final = 120
_HALF: Final = 0.5


def apply_operation(
    text: str,
    operation: Operation,
    private_heading: str = "",
    phrases: Phrases = ENGLISH,
    numbering: Numbering = PLAIN,
    *,
    seen: Callable[[str], str] = str,
) -> str:
    """Apply one operation to `text`.

    Args:
        text: The file, with at least its H1.
        private_heading: The section to write to instead, if it was said in private.
        phrases: Language of the heading of a new list of names.
        numbering: How turns are cited.
        seen: Returns the part in which a line need not be repeated.
    """
    heading = private_heading or f"## {operation.section}"
    match operation.op:
        case "add_aliases":
            for line in operation.lines:
                text = with_alias(text, line.text, phrases.heading("aliases"))
            return text
        case "set_summary" | "create":
            return with_summary(text, _summary_paragraphs(text, operation.lines, numbering))
        case "supersede":
            (line,) = operation.lines
            new = _bullet_text(line.text, numbering.cite(line.turns))
            indent = operation.replaces[: -len(operation.replaces.lstrip())]
            assert operation.until is not None
            made = superseded(text, operation.replaces, indent + new, operation.until, phrases)
            return text if made is None else made
        case "replace_section":
            lines = _rewrite_section(text, heading, operation.lines, numbering)
            return with_section(text, heading, lines)
        case _:
            for line in operation.lines:
                bullet = _bullet_text(line.text, numbering.cite(line.turns))
                text = renew_limit(text, line.text, bullet)
            known = seen(text)
            section = section_of(known, heading) or ""
            there = normal_lines(section) | normal_lines(summary_of(known))
            fresh = [line for line in operation.lines if normal_line(line.text) not in there]
            bullets = [_bullet_text(line.text, numbering.cite(line.turns)) for line in fresh]
            return with_bullets(text, heading, bullets) if bullets else text


def shrinks_by_half(before: str, after: str, operation: Operation) -> bool:
    """Tell whether an operation removes more than half of a file, or of a longer part."""
    if _text_size(after) < _HALF * _text_size(before):
        return True
    match operation.op:
        case "set_summary":
            parts = summary_of(before), summary_of(after)
        case "replace_section":
            heading = f"## {operation.section}"
            parts = tuple(section_of(t, heading) or "" for t in (before, after))  # type: ignore[assignment]
        case _:
            return False
    old, new = map(_text_size, parts)
    return old >= _LEAST_PART_CHARS and new < _HALF * old


def _text_size(text: str) -> int:
    return len("".join(without_references(text).split()))


def _bullet_text(text: str, turns: Sequence[TurnRange]) -> str:
    return f"- {text} {citation_comment(turns)}".rstrip()


def _summary_paragraphs(
    text: str, lines: Sequence[ProposedLine], numbering: Numbering
) -> list[str]:
    """Render a summary that cites its turns and those of the summary it replaces."""
    turns = [numbering.cite(line.turns) for line in lines]
    turns[-1] = [*citations_in(summary_of(text)), *turns[-1]]
    pairs = zip(lines, turns, strict=True)
    return [f"{line.text} {citation_comment(cited)}" for line, cited in pairs]


def _rewrite_section(
    text: str, heading: str, lines: Sequence[ProposedLine], numbering: Numbering
) -> list[str]:
    """Return the bullets of a section; existing ones keep their citations.

    Bullets that have ended are kept, since the model was not shown them.
    """
    body = section_of(text, heading) or ""
    old = {normal_line(line): line for line in markdown.split_lines(body) if normal_line(line)}
    ended = [line.rstrip() for line in old.values() if ended_on(line)]
    new = [
        _bullet_text(line.text, citations_in(old[normal_line(line.text)]))
        if normal_line(line.text) in old
        else _bullet_text(line.text, numbering.cite(line.turns))
        for line in lines
    ]
    return [*new, *ended]
