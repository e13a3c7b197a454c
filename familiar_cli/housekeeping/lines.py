"""Lines of Markdown as statements: what each says, where it stands, and the day it is of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.evidence import without_references

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Note

DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})(?:-(\d{2}))?(?![\d-])")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_MARKER: Final = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?:\[[ xX]\]\s+)?")
_LEADING_DAY: Final = re.compile(r"\W{0,3}\d{4}-\d{2}(?:-\d{2})?\W")


@dataclass(frozen=True, slots=True)
class Statement:
    """One line that says something.

    Args:
        line: Its number, from 1.
        text: What it says, without the marks of a list.
        heading: The headings above it, from the outermost.
        own_day: The day that the line names as its own; None: none.
        day: That, else the day of the heading above or of the file's name.
        is_record: It begins with its day, as a diary does.
    """

    line: int
    text: str
    heading: tuple[str, ...]
    own_day: date | None
    day: date | None
    is_record: bool


def statements(note: Note) -> Iterator[Statement]:
    """Yield the statements of a file; headings and code are none."""
    of_file = last_day(note.rel_path)
    headings: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(note.text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        elif fence or not line.strip():
            continue
        elif found := _HEADING.match(line):
            headings = [h for h in headings if h[0] < len(found[1])] + [(len(found[1]), found[2])]
        else:
            text = without_references(line)[_MARKER.match(line).end() :].strip()  # type: ignore[union-attr]
            titles = tuple(title for _, title in headings)
            own = last_day(text)
            above = next((d for d in map(last_day, reversed(titles)) if d), None)
            is_record = bool(_LEADING_DAY.match(text))
            yield Statement(number, text, titles, own, own or above or of_file, is_record)


def last_day(text: str) -> date | None:
    """Return the last day that `text` names; of a month alone, its last day as far as it matters.

    A month counts from its 28th on, so that nothing is called old too early.
    """
    if "-" not in text:
        return None
    for found in reversed(list(DAY.finditer(text))):
        try:
            return date(int(found[1]), int(found[2]), int(found[3] or 28))
        except ValueError:
            continue
    return None


def line_at(text: str, offset: int) -> int:
    """Return the number of the line that holds the character at `offset`."""
    return text.count("\n", 0, offset) + 1


def line_text(text: str, number: int) -> str:
    """Return a line by its number."""
    lines = text.splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else ""
