"""Change one part of a Markdown file, and no byte of any other part."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.pages.privacy import private_channel
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Sequence

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}(#{1,2})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])[ \t]+\S|[ \t]+\S")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+$")


@dataclass(frozen=True, slots=True)
class Section:
    """An H1 or H2 with everything up to the next one. The first section of a file has no heading.

    Args:
        lines: Each with its line end; joined, all sections are the file.
        level: 1 or 2; 0 when it begins without a heading.
        title: The words of the heading.
    """

    lines: tuple[str, ...]
    level: int = 0
    title: str = ""

    @property
    def body(self) -> str:
        """All but the heading."""
        return "".join(self.lines[1:] if self.level else self.lines)


def parse(text: str) -> list[Section]:
    """Return the sections of `text`. What looks like a heading inside a code block is none."""
    found: list[tuple[list[str], int, str]] = [([], 0, "")]
    fence = ""
    for line in _LINE.findall(text):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = ""
        heading = None if fence or mark else _HEADING.match(line.rstrip("\r\n").lstrip("\ufeff"))
        if heading:
            found.append(([line], len(heading[1]), (heading[2] or "").strip()))
        else:
            found[-1][0].append(line)
    return [Section(tuple(lines), level, title) for lines, level, title in found]


def summary_of(text: str) -> str:
    """Return what stands between the H1 and the first H2."""
    at = _summary_at(parse(text))
    return parse(text)[at].body.strip() if at is not None else ""


def section_of(text: str, heading: str) -> str | None:
    """Return what stands below the H2 that `heading` means, or None when there is none."""
    sections = parse(text)
    at = _find(sections, heading)
    return None if at is None else sections[at].body


def new_file(title: str) -> str:
    """Return a file that holds nothing but its H1."""
    return f"# {title}\n"


def with_bullets(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Return `text` with `bullets` at the end of a section, which is made if it is not there.

    Args:
        text: Markdown.
        heading: The H2 as it would be written, `## Facts`.
        bullets: Whole lines without their ends.
    """
    newline = _newline(text)
    items = [bullet + newline for bullet in bullets]
    sections = parse(text)
    at = _find(sections, heading)
    if at is None:
        return _ended(text, newline) + newline + heading + newline + newline + "".join(items)
    lines = list(sections[at].lines)
    tail = _take_blank_tail(lines)
    lines[-1] = _ended(lines[-1], newline)
    gap = [] if len(lines) > 1 and _ITEM.match(lines[-1]) else [newline]
    more = at + 1 < len(sections)
    tail = tail or ([newline] if more else [])
    sections[at] = replace(sections[at], lines=(*lines, *gap, *items, *tail))
    return _join(sections)


def with_section(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Return `text` with `bullets` in the place of all that stood below a heading."""
    sections = parse(text)
    at = _find(sections, heading)
    if at is not None:
        newline = _newline(text)
        more = at + 1 < len(sections)
        head = _ended(sections[at].lines[0], newline)
        sections[at] = replace(sections[at], lines=(head, newline) if more else (head,))
    return with_bullets(_join(sections), heading, bullets)


def with_summary(text: str, paragraphs: Sequence[str]) -> str:
    """Return `text` with `paragraphs` between its H1 and its first H2, in place of what was there.

    What stands before the H1 (front matter) stays.
    """
    newline = _newline(text)
    sections = parse(text)
    at = _summary_at(sections)
    body = (newline * 2).join(paragraphs) + newline
    if at is None or not sections[at].level:
        more = len(sections) > 1
        sections[0] = Section((body, *([newline] if more else [])))
        return _join(sections)
    more = at + 1 < len(sections)
    head = _ended(sections[at].lines[0], newline)
    gap = (newline,) if more else ()
    sections[at] = replace(sections[at], lines=(head, newline, body, *gap))
    return _join(sections)


def _summary_at(sections: Sequence[Section]) -> int | None:
    """Return which section holds the summary: the first H1's, else what has no heading."""
    return next((n for n, s in enumerate(sections) if s.level == 1), 0)


def _find(sections: Sequence[Section], heading: str) -> int | None:
    """Return the section that `heading` means: by its channel if it is private, else by title."""
    channel = private_channel(heading)
    wanted = _key(heading.lstrip("# "))
    for at, section in enumerate(sections):
        if section.level != 2:  # noqa: PLR2004
            continue
        owner = private_channel(section.title)
        if owner == channel and (channel is not None or _key(section.title) == wanted):
            return at
    return None


def _key(title: str) -> str:
    return fold(title).strip(" :*_")


def _take_blank_tail(lines: list[str]) -> list[str]:
    tail: list[str] = []
    while len(lines) > 1 and not lines[-1].strip():
        tail.insert(0, lines.pop())
    return tail


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _ended(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline


def _join(sections: Sequence[Section]) -> str:
    return "".join(line for section in sections for line in section.lines)
