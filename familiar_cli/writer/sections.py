"""Change one part of a Markdown file, and no byte of any other part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.languages.headings import section_key
from familiar_cli.markdown import body_start, bullet, newline_of, scan, sections
from familiar_cli.memory.pages.privacy import private_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.markdown import Section

DEEPEST: Final = 2
"""The lowest headings that begin a part; those below belong to it."""


def summary_of(text: str) -> str:
    """Return what stands between the H1 and the first H2."""
    section = _summary(text)
    return text[max(section.end - len(section.body), body_start(text)) : section.end].strip()


def section_of(text: str, heading: str) -> str | None:
    """Return what stands below the H2 that `heading` means, or None when there is none."""
    section = _find(text, heading)
    return None if section is None else section.body


def new_file(title: str) -> str:
    """Return a file that holds nothing but its H1."""
    return f"# {title}\n"


def with_title(text: str, old: str, new: str) -> str:
    """Return `text` with another H1, be it one with a line below it."""
    said = [line for line in scan(text) if not line.in_code and old in line.text]
    for line in sorted(said, key=lambda line: line.level != 1):
        if old in {line.title, line.text.strip("\ufeff \t\r\n")}:
            return text[: line.start] + line.text.replace(old, new, 1) + text[line.end :]
    return text


def with_bullets(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Return `text` with `bullets` at the end of a section, which is made if it is not there.

    Args:
        text: Markdown.
        heading: The H2 as it would be written, `## Facts`.
        bullets: Whole lines without their ends.
    """
    newline = newline_of(text)
    items = "".join(item + newline for item in bullets)
    section = _find(text, heading)
    if section is None:
        return _ended(text, newline) + newline + heading + newline + newline + items
    said = [line for line in section.lines if line.text.strip()]
    gap = "" if len(said) > 1 and _is_of_list(said[-1].text) else newline
    tail = text[said[-1].end : section.end] or _gap_below(text, section)
    kept = _ended(text[: said[-1].end], newline)
    return kept + gap + items + tail + text[section.end :]


def with_section(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Return `text` with `bullets` in the place of all that stood below a heading."""
    section = _find(text, heading)
    if section is not None:
        head = _ended(text[: section.lines[0].end], newline_of(text))
        text = head + _gap_below(text, section) + text[section.end :]
    return with_bullets(text, heading, bullets)


def with_summary(text: str, paragraphs: Sequence[str]) -> str:
    """Return `text` with `paragraphs` between its H1 and its first H2, in place of what was there.

    What stands before the H1 (front matter) stays.
    """
    newline = newline_of(text)
    section = _summary(text)
    head = text[: section.lines[0].end if section.level else body_start(text)]
    head = _ended(head, newline) + newline if head else ""
    body = (newline * 2).join(paragraphs) + newline
    return head + body + _gap_below(text, section) + text[section.end :]


def _summary(text: str) -> Section:
    """Return the section that holds the summary: the first H1's, else what has no heading."""
    found = list(sections(text, DEEPEST))
    return next((section for section in found if section.level == 1), found[0])


def _find(text: str, heading: str) -> Section | None:
    """Return the section that `heading` means: by its channel if it is private, else by title."""
    channel = private_scope(heading)
    wanted = section_key(heading.lstrip("# "))
    for section in sections(text, DEEPEST):
        owner = private_scope(section.title)
        is_it = owner == channel and (channel is not None or section_key(section.title) == wanted)
        if is_it and section.level == DEEPEST:
            return section
    return None


def _is_of_list(line: str) -> bool:
    return line.startswith((" ", "\t")) or bullet(line) is not None


def _gap_below(text: str, section: Section) -> str:
    """Return the blank line that parts a section from the next one, if there is a next one."""
    return newline_of(text) if section.end < len(text) else ""


def _ended(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline
