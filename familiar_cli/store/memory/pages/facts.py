"""Facts on a page: when they were stated, when they ended, and which are the same.

The month is enough for most lines: `- Anna lives in Bergen. (February 2026)`. If a page cites
several days of one month, each line shows its day, so that of two contradictory lines the older can
be told. Both depend on the page alone and never on the present, so that a prompt's prefix is stable
from turn to turn.

No date is shown if the line or its heading already names it, or if the turns are not stored here or
hidden from the viewer.

A superseded fact stays in the file, marked in words for people and in a comment for the program, on
one line:

    - Anna lives in Oslo. (until March 2026) <!-- turns 12 --> <!-- ended 2026-03-14 -->

Removing both marks restores it. A fact confirmed by a person has a comment, too:

    - Anna lives in Oslo. <!-- turns 12 --> <!-- confirmed 2026-03-14 -->
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Final

from familiar_cli.base.languages import CODES, Phrases, dates, heading_in, questions
from familiar_cli.base.markdown import (
    Section,
    TextLine,
    bullet,
    newline_of,
    replace_spans,
    scan,
    sections,
)
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.store.memory.pages import lines, visible_lines

_CITING: Final = re.compile(rf"<!-- turns? {lines.BODY} -->")


def days_shown(
    text: str, numbering: lines.Numbering, viewer: Viewer, phrases: Phrases
) -> dict[int, str]:
    """Return the date to show in a prompt for each citation comment.

    That is `(February 2026)` or `(12 February 2026)`, by the comment's offset in the page; pass it
    to `shown_between`.

    Args:
        text: A page, or the part visible to the viewer.
        numbering: Resolves citations to turns.
        viewer: Viewer; turns hidden from them give no date.
        phrases: Language of the dates.
    """
    if "<!-- turn" not in text:
        return {}
    places: list[tuple[int, str, str]] = []
    above: list[tuple[int, str]] = []
    for line in scan(text):
        if ended_on(line.text) or lines.only_links(line.text):
            continue
        if line.level:
            above = [*(one for one in above if one[0] < line.level), (line.level, line.title)]
        said = "\n".join([*(title for _, title in above), line.text])
        places += (
            (line.start + match.start(), match[0], said)
            for match in (() if line.in_code else _CITING.finditer(line.text))
        )
    days = numbering.newest_days([comment for _, comment, _ in places], viewer)
    months: defaultdict[tuple[int, int], set[date]] = defaultdict(set)
    for day in days:
        if day:
            months[day.year, day.month].add(day)
    shown: dict[int, str] = {}
    for (start, _, said), day in zip(places, days, strict=True):
        if day and not _names_date(said, day, phrases):
            is_one_of_several = len(months[day.year, day.month]) > 1
            shown[start] = f"({phrases.day(day) if is_one_of_several else phrases.month(day)})"
    return shown


LIMIT_DAYS: Final = re.compile(
    r"[(（][^()（）]*(\d{4}-\d{2}-\d{2})[^()（）]*(\d{4}-\d{2}-\d{2})[^()（）]*[)）](?=\s*(?:<!--|\Z))"
)
"""The days at the end of what is not possible: when it was said, and when to ask again."""


def limit_days(text: str, said: str) -> tuple[str, str] | None:
    """Return the days in the line of a page that says the same as `said`; None without such one."""
    same = (line for line in scan(text) if lines.normal_line(line.text) == lines.normal_line(said))
    match = next(filter(None, (LIMIT_DAYS.search(line.text) for line in same)), None)
    return (match[1], match[2]) if match else None


def renew_limit(text: str, said: str, bullet_text: str) -> str:
    """Replace the line that says the same as `said`, and whose day to ask again has passed."""
    days, new = limit_days(text, said), LIMIT_DAYS.search(said)
    if not (days and new and new[1] > days[1]):
        return text
    for line in scan(text):
        if lines.normal_line(line.text) == lines.normal_line(said):
            end = line.start + len(line.text.rstrip("\r\n"))
            return text[: line.start] + bullet_text + text[end:]
    return text


def with_days(text: str, numbering: lines.Numbering, viewer: Viewer, phrases: Phrases) -> str:
    """Return a page with dates before its citation comments; see `days_shown`."""
    shown = days_shown(text, numbering, viewer, phrases)
    gaps = {start: "" if text[start - 1 : start].isspace() else " " for start in shown}
    return replace_spans(text, [(at, at, f"{gaps[at]}{day}") for at, day in shown.items()])


def _names_date(text: str, day: date, phrases: Phrases) -> bool:
    """Tell whether a line or its heading already names the day or month of its turn."""
    return any(one in text for one in (phrases.month(day), phrases.day(day), f"{day:%Y-%m}"))


_ENDED: Final = re.compile(r"[ \t]{0,9}<!-- ended ([0-9]{4}-[0-9]{2}-[0-9]{2}) -->")


def ended_on(line: str) -> str:
    """Return the ISO 8601 date on which a line was superseded; empty if current."""
    match = _ENDED.search(line) if "<!-- ended " in line else None
    return match[1] if match else ""


def with_end(line: str, day: date, phrases: Phrases) -> str:
    """Mark a line as ended on a day."""
    body = line.rstrip("\r\n")
    text = lines.without_references(body).rstrip()
    until = phrases.until_when.format(phrases.month(day))
    cited = lines.citation_comment(lines.citations_in(body))
    marks = " ".join(filter(None, (cited, f"<!-- ended {day.isoformat()} -->")))
    return f"{text} ({until}) {marks}{line[len(body) :]}"


def holding_line(text: str, words: str, scope: str | None) -> TextLine | None:
    """Return the one current bullet with the text `words`, or None if missing or ambiguous.

    Args:
        text: A page.
        words: Its text; citations are ignored.
        scope: Private scope of its section, exactly; None for public.
    """
    said, own = lines.normal_line(words), frozenset(() if scope is None else (scope,))
    found = [
        line
        for line, _, scopes in fact_lines(text)
        if scopes == own and said and lines.normal_line(line.text) == said
        if not goes_on_below(text, line)
    ]
    return found[0] if len(found) == 1 else None


def fact_lines(text: str, rel_path: str = "") -> Iterator[tuple[TextLine, Section, frozenset[str]]]:
    """Yield current bullets with their sections and private scopes."""
    scopes = {line.start: owners for line, owners in visible_lines.owned_lines(text, rel_path)}
    for section in sections(text, 2):
        if heading_of(section) not in _NO_FACTS:
            for line in section.lines:
                if line.is_item and not line.in_code and not ended_on(line.text):
                    yield line, section, scopes[line.start]


def with_line_changed(text: str, old: str, new: str) -> str | None:
    """Replace a line of a page.

    Returns None if the line is missing or ambiguous.

    Args:
        text: A page.
        old: The whole line, without newline.
        new: Replacement, without newline; empty to delete the line.
    """
    found = [line for line in scan(text) if line.text.rstrip("\r\n") == old and not line.in_code]
    if len(found) != 1:
        return None
    (line,) = found
    return text[: line.start] + (new + line.text[len(old) :] if new else "") + text[line.end :]


def as_confirmed(line: str, day: date) -> str:
    """Mark a line as confirmed by a person on a day."""
    return f"{lines.without_confirmation(line).rstrip()} <!-- confirmed {day.isoformat()} -->"


_NO_FACTS: Final = ("aliases", "relations", "sessions", "people", "topics")


def goes_on_below(text: str, line: TextLine) -> bool:
    """Tell whether a list item has nested items, so that its line cannot be ended alone."""
    below = text[line.end :].split("\n", 1)[0]
    item, other = bullet(line.text), bullet(below)
    is_deeper = other is not None and item is not None and len(other.indent) > len(item.indent)
    return bool(below.strip()) and (is_deeper or (other is None and not below.startswith("#")))


def superseded(text: str, old: str, new: str, day: date, phrases: Phrases) -> str | None:
    """Mark a line as ended on a day, and add its successor below.

    Returns None if the line is missing or ambiguous.

    Args:
        text: A page.
        old: The whole line, without newline.
        new: The successor; empty for none.
        day: Day on which the old one ended.
        phrases: Language of the mark.
    """
    newline = newline_of(text)
    ended = with_end(old, day, phrases)
    return with_line_changed(text, old, ended + newline + new if new else ended)


def ended_spans(text: str) -> list[tuple[int, int]]:
    """Return the ranges of superseded lines, as character offsets."""
    if "<!-- ended " not in text:
        return []
    return [
        (line.start, line.end) for line in scan(text) if not line.in_code and ended_on(line.text)
    ]


def without_ended(text: str) -> str:
    """Return a page without superseded lines."""
    return replace_spans(text, [(start, end, "") for start, end in ended_spans(text)])


def asks_for_past(question: str) -> bool:
    """Tell whether a question asks about the past: `where did I live before?`."""
    return bool(question) and bool(_past_words().search(question))


@cache
def _past_words() -> re.Pattern[str]:
    """Return a pattern for words in all languages that ask about the past."""
    spaced, unspaced = (
        "|".join(questions(code).before for code in CODES if dates(code).spaced is is_spaced)
        for is_spaced in (True, False)
    )
    return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{unspaced}", re.IGNORECASE)


def heading_of(section: Section) -> str:
    """Return the topic of a section, such as `wishes`, whether private or not."""
    return heading_in(section.title)
