"""Relative dates in a text (`yesterday`, `last Friday`, `昨日`), read from the day it was said."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.when import WEEKDAY_OF, WEEKDAYS, month_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WEEK: Final = 7
_MONTHS: Final = 12
_NUMBERS: Final = {
    word: n
    for n, words in enumerate(
        ("", "a an one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
    for word in words.split()
}
_WHEN: Final = {"last": -1, "this": 0, "next": 1}
# How each language names the days around today, and what stands before a date in it. Not "hier"
# and "mañana", which mean "here" and "morning" as well.
_DAY_NAMES: Final = (
    (
        "on ",
        {
            -2: "the day before yesterday",
            -1: "yesterday",
            0: "today",
            1: "tomorrow",
            2: "the day after tomorrow",
        },
    ),
    ("am ", {-2: "vorgestern", -1: "gestern", 0: "heute", 1: "morgen", 2: "übermorgen"}),
    ("le ", {-2: "avant-hier", 0: "aujourd'hui|aujourd’hui", 1: "demain"}),
    ("el ", {-2: "anteayer", -1: "ayer", 0: "hoy", 2: "pasado mañana"}),
    ("", {-1: "أمس|البارحة", 0: "اليوم", 1: "غدا|غدًا"}),
    (
        "",
        {-2: "一昨日|前天", -1: "昨日|昨天", 0: "今日|今天", 1: "明日|明天", 2: "明後日|後天|后天"},
    ),
)
_OFFSETS: Final = {
    word: (prefix, offset)
    for prefix, names in _DAY_NAMES
    for offset, words in names.items()
    for word in words.split("|")
}
_WIDE: Final = 0x2E80  # from here on scripts put no spaces between words
_SPACED: Final = sorted((w for w in _OFFSETS if ord(w[0]) < _WIDE), key=len, reverse=True)
_UNSPACED: Final = sorted((w for w in _OFFSETS if ord(w[0]) >= _WIDE), key=len, reverse=True)
_PARTS: Final = "morning|afternoon|evening|night"
_PHRASE: Final = re.compile(
    rf"""(?<!\w)(?:
    (?P<day>{"|".join(map(re.escape, _SPACED))})(?:[ ](?P<part>{_PARTS}))?(?P<of>['’]s)?
    | (?P<tonight>tonight|last[ ]night|this[ ](?:morning|afternoon|evening))
    | last[ ](?P<weekday>{"|".join(WEEKDAYS)})
    | (?P<which>last|next|this)[ ](?P<unit>week|month|year)
    | (?P<count>\d{{1,3}}|{"|".join(_NUMBERS)})[ ](?P<units>day|week|month|year)s?[ ]ago
    )(?!\w) | (?P<wide>{"|".join(_UNSPACED)})(?![子香美的性])""",
    re.IGNORECASE | re.VERBOSE,
)
# After these words, a date needs no preposition of its own.
_AFTER: Final = re.compile(
    r"\b(?:since|until|till|from|to|by|for|before|after|of|than|on|in|through|and|or|"
    r"bis|seit|von|ab|vor|nach|zum|depuis|jusqu'à|desde|hasta)\s+$",
    re.IGNORECASE,
)
# "Guten Morgen", "heute Morgen": not a day, or not one alone.
_NOT_AFTER: Final = re.compile(
    r"\b(?:guten|gestern|heute|am|i|jeden|every|see you)\s+$", re.IGNORECASE
)
_SUBJECT: Final = re.compile(r"\s+(?:is|was|will|would|might)\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|„[^“]*“|「[^」]*」|(?<!\w)'[^']*'(?!\w)")
_STARTS_SENTENCE: Final = re.compile(r"(?:^|[.!?:]\s|\n)\W*$")


@dataclass(frozen=True, slots=True)
class RelativeDate:
    """One relative date in a text.

    Args:
        start: Its first character.
        end: The character after its last.
        first: The first day that it means.
        last: The last day that it means.
        written: The same as a date, to stand in its place: `on 2024-03-14`, `in March 2024`.
    """

    start: int
    end: int
    first: date
    last: date
    written: str


def relative_dates(text: str, day: date) -> Iterator[RelativeDate]:
    """Yield the relative dates in `text`, as they are meant on `day`.

    What is quoted is left alone, and so is what may mean another day: "next Friday", "on Monday".
    """
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    for found in _PHRASE.finditer(text):
        start, end = found.span()
        is_name = text[start].isupper() and not _STARTS_SENTENCE.search(text, 0, start)
        if is_name or any(a <= start < b for a, b in quoted) or _NOT_AFTER.search(text[:start]):
            continue
        try:
            first, last, written = _meaning(found, day)
        except (OverflowError, ValueError):  # no calendar holds it
            continue
        yield RelativeDate(start, end, first, last, _fitted(written, found))


def with_dates(text: str, day_of: Callable[[str], date | None]) -> str:
    """Return `text` with dates in the place of relative ones.

    Args:
        text: What was written.
        day_of: Gives the day on which such words were said; None: it is not known.
    """
    for found in reversed(list(relative_dates(text, date(2000, 1, 1)))):
        day = day_of(text[found.start : found.end])
        meant = [d for d in relative_dates(text, day) if d.start == found.start] if day else []
        for one in meant:
            if one.first.isoformat() not in text:  # the writer has said which day it was
                text = text[: one.start] + one.written + text[one.end :]
    return text


def _meaning(found: re.Match[str], day: date) -> tuple[date, date, str]:
    """Return the first and the last day that a phrase means, and how to write them."""
    part = found["part"]
    if name := found["day"] or found["wide"]:
        prefix, offset = _OFFSETS[name.lower()]
        meant = day + timedelta(days=offset)
        written = f"on the {part} of {meant}" if part else f"{prefix}{meant}"
        return meant, meant, written
    if tonight := found["tonight"]:
        part = tonight.lower().rpartition(" ")[2].replace("tonight", "evening")
        meant = day - timedelta(days=part == "night")
        return meant, meant, f"on the {part} of {meant}"
    if weekday := found["weekday"]:
        back = (day.weekday() - WEEKDAY_OF[weekday.lower()] - 1) % _WEEK + 1
        meant = day - timedelta(days=back)
        return meant, meant, f"on {meant}"
    if which := found["which"]:
        return _span(found["unit"].lower(), _WHEN[which.lower()], day)
    count = found["count"].lower()
    number = int(count) if count.isdigit() else _NUMBERS[count]
    unit = found["units"].lower()
    if unit in {"day", "week"}:
        meant = day - timedelta(days=number * (_WEEK if unit == "week" else 1))
        return meant, meant, f"on {meant}" if unit == "day" else f"around {meant}"
    return _span(unit, -number, day)


def _span(unit: str, offset: int, day: date) -> tuple[date, date, str]:
    """Return the week, month or year that is `offset` of them away from that of `day`."""
    if unit == "week":
        first = day - timedelta(days=day.weekday()) + timedelta(days=_WEEK * offset)
        return first, first + timedelta(days=_WEEK - 1), f"in the week of {first}"
    if unit == "month":
        years, month = divmod(day.month - 1 + offset, _MONTHS)
        first = date(day.year + years, month + 1, 1)
        end = first.replace(day=monthrange(first.year, first.month)[1])
        return first, end, f"in {month_words(first)}"
    first = date(day.year + offset, 1, 1)
    return first, first.replace(month=12, day=31), f"in {first.year}"


def _fitted(written: str, found: re.Match[str]) -> str:
    """Return a date so that it fits between the words around it."""
    text, start = found.string, found.start()
    bare = re.sub(r"^(?:on|in|am|le|el) ", "", written)
    if found["of"]:
        return f"the {bare}"
    if _AFTER.search(text[:start]) or _SUBJECT.match(text, found.end()):
        written = bare
    return written[:1].upper() + written[1:] if text[start].isupper() else written
