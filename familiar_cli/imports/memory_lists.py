"""Lines, days and names in the memories of other programs, as every format reads them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

from familiar_cli.base.text import counted, one_line, str_or_empty
from familiar_cli.base.times.clock import since_1970
from familiar_cli.imports.contract import ForeignMemories, ForeignMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_CHARS: Final = 2_000
"""Longest line; what is longer is cut, which a note says."""

_MILLISECONDS_FROM: Final = 10**11  # seconds reach this in the year 5138
_BULLET: Final = re.compile(r"\s{0,8}(?:[-*•–]|\d{1,4}[.)])\s+")
_HEADING: Final = re.compile(r"\s{0,3}#{1,6}\s+|\s{0,3}\*\*[^*]{1,120}\*\*:?\s*$")
_DATED: Final = re.compile(r"\[([^\[\]:\n]{1,40})\]\s*[-–—]\s*(?=\S)")
_NO_DATE: Final = frozenset({"unknown", "undated", "no date", "n/a", "none", "date unknown", "?"})
_WRITTEN: Final = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%Y/%m/%d", "%Y.%m.%d")


def read_day(value: object) -> date | None:
    """Read the day of an ISO 8601 time, a date in English, or seconds since 1970; None if none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return since_1970(seconds).date()
        except (ValueError, OverflowError, OSError):
            return None
    text = str_or_empty(value).strip()
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        pass
    for form in _WRITTEN:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
    return None


def split_dated(text: str) -> tuple[date | None, str] | None:
    """Split a line that begins with a date in brackets; None if it does not.

    Brackets that say that there is no date count, too; a clock does not, since chats have one.
    """
    found = _DATED.match(text)
    if not found:
        return None
    day, said = read_day(found[1]), found[1].strip().casefold()
    if day is None and said not in _NO_DATE:
        return None
    return day, text[found.end() :].strip()


def read_lines(text: str, *, about: str = "") -> Iterable[ForeignMemory]:
    """Yield the memories in a text: dated lines, bullets, or one for each paragraph.

    A heading is no memory; an indented line goes on from the one above.
    """
    kept: list[tuple[int, date | None, str]] = []
    is_open = False
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        marker = _BULLET.match(line)
        if not bare or bare.startswith("```") or (_HEADING.match(line) and not marker):
            is_open = False
            continue
        said = line[marker.end() :].strip() if marker else bare
        dated = split_dated(said)
        if kept and is_open and not (marker or dated or _DATED.match(said)):
            at, day, before = kept[-1]
            kept[-1] = (at, day, f"{before} {bare}")
            continue
        kept.append((number, *(dated or (None, said))))
        is_open = True
    for number, day, said in kept:
        if any(map(str.isalnum, said)):
            yield ForeignMemory(said, number, day, about)


def build_memories(
    program: str, name: str, memories: Iterable[ForeignMemory], *notes: str
) -> ForeignMemories:
    """Return memories that say something, each text once; notes say what was cut or left out."""
    memories = list(memories)
    notes = (*notes, *_losses([one.text for one in memories]))
    seen: dict[tuple[str, str], ForeignMemory] = {}
    for one in memories:
        text = one_line(one.text, MOST_CHARS)
        if text:
            seen.setdefault(
                (text, one.about), ForeignMemory(text, one.line, one.day, one_line(one.about, 80))
            )
    return ForeignMemories(program, name, tuple(seen.values()), notes)


def _losses(texts: list[str]) -> Iterator[str]:
    empty = sum(not text.strip() for text in texts)
    long = sum(len(text) > MOST_CHARS for text in texts)
    if empty:
        yield f"{counted(empty, 'entry', 'entries')} without text left out"
    if long:
        yield f"{counted(long, 'memory', 'memories')} cut after {MOST_CHARS:,} characters"
