"""The facts of a page: when they were said, until when they held, and which are one.

A month is enough for most lines: `- Anna lives in Bergen. (February 2026)`. Where the lines of a
page cite several days of one month, each shows its day, so that of two that contradict each other
it is clear which is older. Both follow from the page alone and never from the present, so that a
prompt keeps its beginning from turn to turn.

No date is shown where a line, or a heading above it, names the date already, and where the turns
are not held here or are private to somebody else.

A fact that a newer one replaced stays in the file and says so, to people in words and to the
program in a comment, on one line:

    - Anna lives in Oslo. (until March 2026) <!-- turns 12 --> <!-- ended 2026-03-14 -->

Whoever takes both out makes it hold again. A fact that a person said is right has a comment, too:

    - Anna lives in Oslo. <!-- turns 12 --> <!-- confirmed 2026-03-14 -->
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final

from familiar_cli.languages import CODES, dates, heading_in, questions
from familiar_cli.markdown import bullet, newline_of, replace_spans, scan, sections
from familiar_cli.memory.pages.lines import (
    BODY,
    citation_comment,
    citations_in,
    normal_line,
    owned_lines,
    without_confirmation,
    without_references,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from familiar_cli.languages import Phrases
    from familiar_cli.markdown import Section, TextLine
    from familiar_cli.memory.pages.lines import Numbering
    from familiar_cli.visibility import Viewer

_CITING: Final = re.compile(rf"<!-- turns? {BODY} -->")


def days_shown(text: str, numbering: Numbering, viewer: Viewer, phrases: Phrases) -> dict[int, str]:
    """Return what stands in a prompt in the place of each comment that cites turns.

    That is `(February 2026)` or `(12 February 2026)`, by where the comment begins in the page:
    give it to `shown_between`.

    Args:
        text: A page, or the part of it that the viewer may see.
        numbering: Which turns citations mean.
        viewer: Who will see it: turns that are hidden from them give no day.
        phrases: In which language dates are written.
    """
    if "<!-- turn" not in text:
        return {}
    places: list[tuple[int, str, str]] = []
    above: list[tuple[int, str]] = []
    for line in scan(text):
        if ended_on(line.text):
            continue
        if line.level:
            above = [*(one for one in above if one[0] < line.level), (line.level, line.title)]
        said = "\n".join([*(title for _, title in above), line.text])
        places += (
            (line.start + found.start(), found[0], said)
            for found in (() if line.in_code else _CITING.finditer(line.text))
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


def with_days(text: str, numbering: Numbering, viewer: Viewer, phrases: Phrases) -> str:
    """Return a page with its dates before the comments that cite turns; see `days_shown`."""
    shown = days_shown(text, numbering, viewer, phrases)
    gaps = {start: "" if text[start - 1 : start].isspace() else " " for start in shown}
    return replace_spans(text, [(at, at, f"{gaps[at]}{day}") for at, day in shown.items()])


def _names_date(said: str, day: date, phrases: Phrases) -> bool:
    """Tell whether a line, or a heading above it, names the day or the month of its turn."""
    return any(one in said for one in (phrases.month(day), phrases.day(day), f"{day:%Y-%m}"))


_ENDED: Final = re.compile(r"[ \t]{0,9}<!-- ended ([0-9]{4}-[0-9]{2}-[0-9]{2}) -->")


def ended_on(line: str) -> str:
    """Return the day on which a line was replaced, as in ISO 8601; empty: it holds."""
    found = _ENDED.search(line) if "<!-- ended " in line else None
    return found[1] if found else ""


def with_end(line: str, day: date, phrases: Phrases) -> str:
    """Return a line of a page as one that held until a day."""
    body = line.rstrip("\r\n")
    said = without_references(body).rstrip()
    until = phrases.until_when.format(phrases.month(day))
    cited = citation_comment(citations_in(body))
    marks = " ".join(filter(None, (cited, f"<!-- ended {day.isoformat()} -->")))
    return f"{said} ({until}) {marks}{line[len(body) :]}"


def holding_line(text: str, words: str, scope: str | None) -> TextLine | None:
    """Return the one bullet of a page that says `words` and holds; None: there is none, or several.

    Args:
        text: A page.
        words: What it says; its citations do not count.
        scope: The private scope of its section, and of no other; None: it is public.
    """
    said, own = normal_line(words), frozenset(() if scope is None else (scope,))
    found = [
        line
        for line, _, scopes in fact_lines(text)
        if scopes == own and said and normal_line(line.text) == said
        if not goes_on_below(text, line)
    ]
    return found[0] if len(found) == 1 else None


def fact_lines(text: str, rel_path: str = "") -> Iterator[tuple[TextLine, Section, frozenset[str]]]:
    """Yield the bullets of a page that hold, with their sections and their private scopes."""
    scopes = {line.start: owners for line, owners in owned_lines(text, rel_path)}
    for section in sections(text, 2):
        if heading_of(section) not in _NO_FACTS:
            for line in section.lines:
                if line.is_item and not line.in_code and not ended_on(line.text):
                    yield line, section, scopes[line.start]


def with_line_changed(text: str, old: str, new: str) -> str | None:
    """Return a page with another text in the place of a line.

    None: the page has no such line, or several.

    Args:
        text: A page.
        old: The whole line, without its end.
        new: What stands there instead, without its end; empty: nothing, and the line goes.
    """
    found = [line for line in scan(text) if line.text.rstrip("\r\n") == old and not line.in_code]
    if len(found) != 1:
        return None
    (line,) = found
    return text[: line.start] + (new + line.text[len(old) :] if new else "") + text[line.end :]


def as_confirmed(line: str, day: date) -> str:
    """Return a line with the mark that a person said on a day that it is right."""
    return f"{without_confirmation(line).rstrip()} <!-- confirmed {day.isoformat()} -->"


_NO_FACTS: Final = ("aliases", "relations", "sessions", "people", "topics")


def goes_on_below(text: str, line: TextLine) -> bool:
    """Tell whether a list item goes on below its line, so that it cannot end alone."""
    below = text[line.end :].split("\n", 1)[0]
    item, other = bullet(line.text), bullet(below)
    is_deeper = other is not None and item is not None and len(other.indent) > len(item.indent)
    return bool(below.strip()) and (is_deeper or (other is None and not below.startswith("#")))


def superseded(text: str, old: str, new: str, day: date, phrases: Phrases) -> str | None:
    """Return a page in which a line ends on a day, with another line below it.

    None: the page has no such line, or several.

    Args:
        text: A page.
        old: The whole line, without its end.
        new: The line that holds from then on; empty: none does.
        day: When the old one ended.
        phrases: In which language that is said.
    """
    newline = newline_of(text)
    ended = with_end(old, day, phrases)
    return with_line_changed(text, old, ended + newline + new if new else ended)


def ended_spans(text: str) -> list[tuple[int, int]]:
    """Return where the lines stand that no longer hold, as characters from … to."""
    if "<!-- ended " not in text:
        return []
    return [
        (line.start, line.end) for line in scan(text) if not line.in_code and ended_on(line.text)
    ]


def without_ended(text: str) -> str:
    """Return a page without the lines that no longer hold."""
    return replace_spans(text, [(start, end, "") for start, end in ended_spans(text)])


def asks_for_past(question: str) -> bool:
    """Tell whether a question is about what was so before: `where did I live before?`."""
    return bool(question) and bool(_past_words().search(question))


@cache
def _past_words() -> re.Pattern[str]:
    """Return a pattern for the words of all languages that ask for what was so before."""
    spaced, unspaced = (
        "|".join(questions(code).before for code in CODES if dates(code).spaced is is_spaced)
        for is_spaced in (True, False)
    )
    return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{unspaced}", re.IGNORECASE)


def heading_of(section: Section) -> str:
    """Return what a section of a page holds, such as `wishes`, be it private or not."""
    return heading_in(section.title.partition("<!--")[0])
