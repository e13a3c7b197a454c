"""Lines of Markdown as statements: what each says, where it stands, and the day it is of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.types import MOST_QUOTES, Quote
from familiar_cli.markdown import bullet, scan
from familiar_cli.memory.pages.evidence import last_turn, without_references

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from familiar_cli.housekeeping.types import Note, Options
    from familiar_cli.markdown import Line

DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})(?:-(\d{2}))?(?![\d-])")
# What dates a line: a day at its beginning, in brackets at its end, or after "as of". Another day
# in it may be of what it tells.
_DATING: Final = re.compile(
    r"^\W{0,3}\d{4}-\d{2}(?:-\d{2})?(?!\d)"
    r"|[(（\[][^()（）\[\]]{0,24}?\d{4}-\d{2}(?:-\d{2})?[^()（）\[\]]{0,12}[)）\]]\W{0,9}$"
    r"|\b(?:as of|stand|updated)\W{0,3}\d{4}-\d{2}(?:-\d{2})?",
    re.IGNORECASE,
)
_MOST_TITLE_CHARS: Final = 200
MOST_CHARS: Final = 2_000
"""A longer line is no statement."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One line that says something.

    Args:
        line: Its number, from 1.
        text: What it says, without the marks of a list.
        heading: The headings above it, from the outermost.
        own_day: The day that dates it, else of the last turn that it rests on; None: neither.
        day: That, else the day of the heading above or of the file's name.
        is_record: It begins with its day, as a diary does.
    """

    line: int
    text: str
    heading: tuple[str, ...]
    own_day: date | None
    day: date | None
    is_record: bool


def statements(note: Note, words: frozenset[str], options: Options) -> Iterator[Statement]:
    """Yield the statements of a file that hold one of `words`; headings and code are none.

    Args:
        note: The file.
        words: Of which its `known` tells.
        options: What the checks go by.
    """
    present = note.known & words
    if not present:
        return
    headings: list[tuple[int, str]] = []
    folded = note.folded.split("\n")
    for line in scan(note.text):
        if level := line.level:
            title = line.title[:_MOST_TITLE_CHARS]
            headings = [above for above in headings if above[0] < level] + [(level, title)]
        elif line.in_code or len(line.text) > MOST_CHARS:
            continue
        elif any(word in folded[line.number - 1] for word in present):
            yield _statement(note, line, tuple(title for _, title in headings), options)


def _statement(note: Note, line: Line, headings: tuple[str, ...], options: Options) -> Statement:
    said = without_references(line.text).strip()
    item = bullet(said)
    text = said[item.words_at :] if item else said
    dates = _DATING.search(text)
    turn = last_turn(line.text, options.numbering)
    own = last_day(dates[0]) if dates else None
    if own is None and turn is not None:
        own = options.day_of_turn(turn)
    above = next((day for day in map(last_day, reversed(headings)) if day), None)
    day = own or above or last_day(note.rel_path)
    is_record = dates is not None and dates.start() == 0
    return Statement(line.number, text, headings, own, day, is_record)


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


def comments_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each HTML comment begins and ends."""
    end = 0
    while (start := text.find("<!--", end)) >= 0:
        end = text.find("-->", start + 4) + 3
        if end < len("-->"):
            return
        yield start, end


def without_comments(text: str, unwanted: Callable[[str], bool] = lambda _: True) -> str:
    """Return `text` without its HTML comments, or those of them that are unwanted."""
    parts, at = [], 0
    for start, end in comments_in(text):
        if unwanted(text[start:end]):
            parts.append(text[at:start])
            at = end
    return "".join((*parts, text[at:]))


def quotes(note: Note, numbers: Iterable[int]) -> tuple[Quote, ...]:
    """Return the lines of a file with these numbers, from 1, the first of them that fit."""
    lines = note.text.split("\n")
    return tuple(Quote(note.rel_path, at, lines[at - 1]) for at in islice(numbers, MOST_QUOTES))


def line_at(text: str, offset: int) -> int:
    """Return the number of the line that holds the character at `offset`."""
    return text.count("\n", 0, offset) + 1


def bullet_indent(line: str) -> int | None:
    """Return how far a bullet is indented; None: the line is none, or a numbered one."""
    item = bullet(line)
    is_one = item is not None and not item.marker[:-1] and line[item.text_at :].strip()
    return len(item.indent.expandtabs(4)) if item and is_one else None


def goes_on(lines: list[str], at: int, indent: int) -> bool:
    """Tell whether a bullet has more than its line, so that it cannot be taken out alone."""
    following = next((line for line in lines[at + 1 : at + 3] if line.strip()), "")
    below = bullet_indent(following)
    if below is not None:
        return below > indent
    is_below = bool(lines[at + 1 : at + 2]) and bool(lines[at + 1].strip())
    return following.startswith((" ", "\t")) or (is_below and not following.startswith("#"))
