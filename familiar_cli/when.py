"""Times as people type them: `7d`, `yesterday`, `2026-01-31 14:00`, `tomorrow 9:00`.

One grammar for every command and setting; docs/reference/times.md lists the forms.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.clock import to_ms, to_utc
from familiar_cli.errors import UsageError
from familiar_cli.spans import CLOCK_UNITS, day_meant, said_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import tzinfo

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_BACK_FORMS: Final = "`2026-01-31`, `2026-01-31 14:00`, `yesterday`, `7d` or `12h`"
_AHEAD_FORMS: Final = "`2026-11-30`, `2026-11-30 09:00`, `tomorrow 9:00`, `friday` or `in 2 hours`"

WEEKDAY_OF: Final = {
    **{name: n for n, name in enumerate(WEEKDAYS)},
    **{name[:3]: n for n, name in enumerate(WEEKDAYS)},
    "tues": 1,
    "wednes": 2,
    "thur": 3,
    "thurs": 3,
}
"""The number of each name of a weekday, long or short; Monday is 0."""

_MINUTES: Final = {
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 1),
    **dict.fromkeys(("h", "hour", "hours"), 60),
}
_DAYS: Final = {
    **dict.fromkeys(("d", "day", "days"), 1),
    **dict.fromkeys(("w", "week", "weeks"), 7),
}
_COUNTED_DAYS: Final = {"day": 1, "week": 7}
_COUNTED: Final = re.compile(r"(in )?(\d{1,9}|an?) ?([a-z]+)( ago)?", re.ASCII)
_CLOCK: Final = re.compile(r"(\d{1,2})(?:[:.](\d{2}))? ?([ap]m)?", re.ASCII)
_LOOSE: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{1,2}:[\d:.]+) ?(Z|[+-]\d{2}:?\d{2})?", re.ASCII
)
_NOON: Final = 12
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class When:
    """A time that somebody typed.

    Args:
        moment: What it means; without a timezone it is local. A day alone is its beginning.
        has_time: It says an hour, not only a day.
        is_counted: It was counted from now, as in `in 2 hours`.
    """

    moment: datetime
    has_time: bool
    is_counted: bool = False


def read_when(text: str, now: datetime, zone: tzinfo | None, *, ahead: bool = False) -> When:
    """Return the time that `text` means.

    Days and weeks keep the time of day, also where the clocks change in between; hours and minutes
    are counted.

    Args:
        text: What somebody typed.
        now: The present, with a timezone.
        zone: Where the familiar lives; None: the system's.
        ahead: `2h`, `friday` and `9:00` lie in the future; else in the past.

    Raises:
        UsageError: It is not a time, or no calendar holds it.
    """
    words = " ".join(_in_plain_digits(unicodedata.normalize("NFKC", text)).split())
    try:
        found = _absolute(words) or _Relative(now, zone, ahead=ahead).read(words.lower())
    except OverflowError:
        found = None
    if found is None:
        raise UsageError(
            f"{text!r} is not a date or time",
            hint=f"Use {_AHEAD_FORMS if ahead else _BACK_FORMS}.",
        )
    return found


def read_moment(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """Return the moment in UTC that `text` means, as in `--since 7d`; see `read_when`."""
    return to_ms(to_utc(read_when(text, now, zone).moment, zone))


def read_day(text: str, now: datetime, zone: tzinfo | None) -> date:
    """Return the day, where the familiar lives, that `text` means; see `read_when`."""
    moment = read_when(text, now, zone).moment
    return (moment.astimezone(zone) if moment.tzinfo else moment).date()


def read_hour(text: str) -> time | None:
    """Return the time of day that `text` means: `9:00`, `9.30`, `9am`; None for anything else."""
    found = _CLOCK.fullmatch(text)
    if found is None or (found[2] is None and found[3] is None):
        return None
    hour, minute = int(found[1]), int(found[2] or 0)
    if found[3]:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if found[3] == "pm" else 0)
    try:
        return time(hour, minute)
    except ValueError:
        return None


def day_words(day: date) -> str:
    """Return `day` as a person writes it: `31 January 2026`. Independent of the locale."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def month_words(day: date) -> str:
    """Return the month of `day` as a person writes it: `January 2026`."""
    return f"{MONTHS[day.month - 1]} {day.year}"


def weekday_name(day: date) -> str:
    """Return the name of a day's weekday: `Thursday`. Independent of the locale."""
    return WEEKDAYS[day.weekday()].capitalize()


def _in_plain_digits(text: str) -> str:
    """Return `text` with the digits 0 to 9 for those of any script."""
    return "".join(str(int(c)) if c.isdecimal() else c for c in text)


def _absolute(words: str) -> When | None:
    """Return a time in the form of ISO 8601; the hour may have one digit."""
    text = words.upper()
    if found := _LOOSE.fullmatch(text):
        day, hour, offset = found.groups()
        text = f"{day}T{hour if hour[2] == ':' else f'0{hour}'}{offset or ''}"
    with suppress(ValueError):
        return When(datetime.combine(date.fromisoformat(text), time()), has_time=False)
    with suppress(ValueError):
        return When(datetime.fromisoformat(text), has_time=True)
    return None


@dataclass(frozen=True, slots=True)
class _Relative:
    """Reads times that depend on the present."""

    now: datetime
    zone: tzinfo | None
    ahead: bool

    def read(self, words: str) -> When | None:
        return self._counted(words) or self._spoken(words)

    def _counted(self, words: str) -> When | None:
        found = _COUNTED.fullmatch(words)
        if found is None or found[4 if self.ahead else 1]:
            return None
        count = (int(found[2]) if found[2].isdigit() else 1) * (1 if self.ahead else -1)
        if found[3] in _MINUTES:
            return self._away(minutes=count * _MINUTES[found[3]])
        if found[3] in _DAYS:
            return self._away(days=count * _DAYS[found[3]])
        return None

    def _spoken(self, words: str) -> When | None:
        """Return a time in any of the languages: `demain à 9h`, `in zwei Stunden`, `明日９時`."""
        way = 1 if self.ahead else -1
        for said in said_alone(words):
            if said.values.get("way", way) == -way:
                continue
            if found := self._counted_by(said.values) if said.hour is None else None:
                return found
            if said.hour and not said.values:
                return self._nearest(said.hour)
            day = day_meant(said.values, self._wall().date(), ahead=self.ahead)
            if day and said.hour:
                return When(datetime.combine(day, said.hour), has_time=True)
            if day:
                return When(datetime.combine(day, time()), has_time=False)
        return None

    def _counted_by(self, values: Mapping[str, Any]) -> When | None:
        """Return a time that is so many units away, in the direction that is asked for."""
        unit = values.get("unit")
        if unit not in {**CLOCK_UNITS, **_COUNTED_DAYS} or "way" in values:
            return None
        if ("ahead" if self.ahead else "ago") not in values:
            return None
        count = values.get("number", 1) * (1 if self.ahead else -1)
        if unit in CLOCK_UNITS:
            return self._away(minutes=count * CLOCK_UNITS[unit])
        return self._away(days=count * _COUNTED_DAYS[unit])

    def _away(self, *, days: int = 0, minutes: int = 0) -> When:
        """Return the time that is so far away; days keep the time of day."""
        if days:
            moment = to_utc(self._wall() + timedelta(days=days), self.zone)
        else:
            moment = self.now.astimezone(UTC) + timedelta(minutes=minutes)
        return When(moment, has_time=True, is_counted=True)

    def _nearest(self, hour: time) -> When:
        """Return the next or the last time that the clock shows an hour."""
        today = datetime.combine(self._wall().date(), hour)
        passed = to_utc(today, self.zone) <= self.now
        days = int(passed) if self.ahead else -int(not passed)
        return When(today + timedelta(days=days), has_time=True)

    def _wall(self) -> datetime:
        """Return the local wall-clock time."""
        return self.now.astimezone(self.zone).replace(tzinfo=None, fold=0)


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
