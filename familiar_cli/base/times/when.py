"""Times as people type them: `7d`, `yesterday`, `2026-01-31 14:00`, `tomorrow 9:00`.

One grammar for every command and setting; docs/reference/times.md lists the forms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.errors import UsageError
from familiar_cli.base.languages import ENGLISH, dates, language_of, phrases
from familiar_cli.base.times import spans
from familiar_cli.base.times.clock import to_ms, to_utc

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


class When(Struct, frozen=True):
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
    """Parse `text` as a time.

    Days and weeks keep the time of day across changes of the clock; hours and minutes are elapsed
    time.

    Args:
        text: What somebody typed.
        now: The present, with a timezone.
        zone: Where the familiar lives; None: the system's.
        ahead: `2h`, `friday` and `9:00` lie in the future; else in the past.

    Raises:
        UsageError: It is not a time, or out of range.
    """
    words = " ".join(_in_plain_digits(unicodedata.normalize("NFKC", text)).split())
    try:
        result = _absolute(words) or _Relative(now, zone, ahead=ahead).read(words.lower())
    except OverflowError:
        result = None
    if result is None:
        raise UsageError(
            f"{text!r} is not a date or time", hint=f"Use {_AHEAD_FORMS if ahead else _BACK_FORMS}."
        )
    return result


def read_moment(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """Parse `text`, as in `--since 7d`, to a moment in UTC; see `read_when`."""
    return to_ms(to_utc(read_when(text, now, zone).moment, zone))


def read_day(text: str, now: datetime, zone: tzinfo | None) -> date:
    """Parse `text` to a day in the familiar's timezone; see `read_when`."""
    moment = read_when(text, now, zone).moment
    return (moment.astimezone(zone) if moment.tzinfo else moment).date()


def read_hour(text: str) -> time | None:
    """Parse `text` as a time of day: `9:00`, `9.30`, `9am`; None for anything else."""
    match = _CLOCK.fullmatch(text)
    if match is None or (match[2] is None and match[3] is None):
        return None
    hour, minute = int(match[1]), int(match[2] or 0)
    if match[3]:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if match[3] == "pm" else 0)
    try:
        return time(hour, minute)
    except ValueError:
        return None


def day_words(day: date) -> str:
    """Format `day` for people, independently of the locale: `31 January 2026`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def weekday_name(day: date) -> str:
    """Return the English name of a weekday, independently of the locale: `Thursday`."""
    return WEEKDAYS[day.weekday()].capitalize()


def _in_plain_digits(text: str) -> str:
    """Convert the digits of any script in `text` to 0 to 9."""
    return "".join(str(int(c)) if c.isdecimal() else c for c in text)


def _absolute(words: str) -> When | None:
    """Parse a time in ISO 8601; the hour may have one digit."""
    text = words.upper()
    if match := _LOOSE.fullmatch(text):
        day, hour, offset = match.groups()
        text = f"{day}T{hour if hour[2] == ':' else f'0{hour}'}{offset or ''}"
    with suppress(ValueError):
        return When(datetime.combine(date.fromisoformat(text), time()), has_time=False)
    with suppress(ValueError):
        return When(datetime.fromisoformat(text), has_time=True)
    return None


class _Relative(Struct, frozen=True):
    """Reads times that depend on the present."""

    now: datetime
    zone: tzinfo | None
    ahead: bool

    def read(self, words: str) -> When | None:
        return self._counted(words) or self._spoken(words)

    def _counted(self, words: str) -> When | None:
        match = _COUNTED.fullmatch(words)
        if match is None or match[4 if self.ahead else 1]:
            return None
        count = (int(match[2]) if match[2].isdigit() else 1) * (1 if self.ahead else -1)
        if match[3] in _MINUTES:
            return self._away(minutes=count * _MINUTES[match[3]])
        if match[3] in _DAYS:
            return self._away(days=count * _DAYS[match[3]])
        return None

    def _spoken(self, words: str) -> When | None:
        """Parse a time in any of the languages: `demain à 9h`, `in zwei Stunden`, `明日９時`."""
        way = 1 if self.ahead else -1
        for said in spans.said_alone(words):
            if said.values.get("way", way) == -way:
                continue
            if result := self._counted_by(said.values) if said.hour is None else None:
                return result
            if said.hour and not said.values:
                return self._nearest(said.hour)
            day = spans.day_meant(said.values, self._wall().date(), ahead=self.ahead)
            if day and said.hour:
                return When(datetime.combine(day, said.hour), has_time=True)
            if day:
                return When(datetime.combine(day, time()), has_time=False)
        return None

    def _counted_by(self, values: Mapping[str, Any]) -> When | None:
        """Resolve a number of units, in the requested direction."""
        unit = values.get("unit")
        if unit not in {**spans.CLOCK_UNITS, **_COUNTED_DAYS} or "way" in values:
            return None
        if ("ahead" if self.ahead else "ago") not in values:
            return None
        count = values.get("number", 1) * (1 if self.ahead else -1)
        if unit in spans.CLOCK_UNITS:
            return self._away(minutes=count * spans.CLOCK_UNITS[unit])
        return self._away(days=count * _COUNTED_DAYS[unit])

    def _away(self, *, days: int = 0, minutes: int = 0) -> When:
        """Return the moment some days or minutes away; days keep the time of day."""
        if days:
            moment = to_utc(self._wall() + timedelta(days=days), self.zone)
        else:
            moment = self.now.astimezone(UTC) + timedelta(minutes=minutes)
        return When(moment, has_time=True, is_counted=True)

    def _nearest(self, hour: time) -> When:
        """Return the next or last moment at that time of day."""
        today = datetime.combine(self._wall().date(), hour)
        passed = to_utc(today, self.zone) <= self.now
        days = int(passed) if self.ahead else -int(not passed)
        return When(today + timedelta(days=days), has_time=True)

    def _wall(self) -> datetime:
        """Return the local wall-clock time."""
        return self.now.astimezone(self.zone).replace(tzinfo=None, fold=0)


_WEEK_DAYS: Final = 7
# "Hier" is also "here", and "morgen" names a part of the day: only where the language is known.
_AMBIGUOUS: Final = {"hier": "fr"}
_DATE_MARK: Final = "|"
_PART: Final = re.compile(r"\b(morning|afternoon|evening|night)$|^tonight$")
_PART_AFTER: Final = re.compile(r" (?:morning|afternoon|evening|night)\b", re.IGNORECASE)
_OF: Final = re.compile(r"['’]s\b")
_NAME_GOES_ON: Final = re.compile("[子香美的性]")
# After these words, a date needs no preposition of its own.
_AFTER: Final = re.compile(
    r"\b(?:since|until|till|from|to|by|for|before|after|of|than|on|in|through|and|or|"
    r"bis|seit|von|ab|vor|nach|zum|am|im|depuis|jusqu'à|le|en|desde|hasta|el|منذ|حتى|من|في)\s+$",
    re.IGNORECASE,
)
# "Guten Morgen", "heute Morgen": not a day, or not one alone.
_NOT_AFTER: Final = re.compile(
    r"\b(?:guten|gestern|heute|i|jeden|every|see you|the|der|die|das|dem|la|les|los|las)\s+$",
    re.IGNORECASE,
)
_MORNING: Final = re.compile(r"\bam\s+$", re.IGNORECASE)
# "In two weeks" may be how long something takes.
_IN_MAY_BE_WITHIN: Final = frozenset({"en", "de", "es"})
_SUBJECT: Final = re.compile(r"\s+(?:is|was|will|would|might)\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|„[^“]*“|「[^」]*」|(?<!\w)'[^']*'(?!\w)")
_STARTS_SENTENCE: Final = re.compile(r"(?:^|[.!?:]\s|\n)\W*$")


class RelativeDate(Struct, frozen=True):
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
    """Yield the relative dates in `text`, resolved as of `day`.

    Quotations are skipped, and so are ambiguous expressions: "next Friday", or "on Monday" where
    the tense is unclear.
    """
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    language = language_of(text)
    aligned, places = spans.aligned_fold(text)
    for time_phrase in spans.times_in(aligned, day):
        start, end = places[time_phrase.start], places[time_phrase.end]
        is_name = text[start].isupper() and not _STARTS_SENTENCE.search(text, 0, start)
        if is_name or any(a <= start < b for a, b in quoted) or _NOT_AFTER.search(text[:start]):
            continue
        said = aligned[time_phrase.start : time_phrase.end]
        is_morning = said == "morgen" and _MORNING.search(text[:start])
        if is_morning or _AMBIGUOUS.get(said, language) != language:
            continue
        if not dates(time_phrase.code).spaced and _NAME_GOES_ON.match(text, end):
            continue
        part = _PART_AFTER.match(text, end) if time_phrase.code == ENGLISH.code else None
        end = part.end() if part and "near" in time_phrase.values else end
        words = _format_date(time_phrase, spans.aligned_fold(text[start:end])[0], day)
        if words and isinstance(time_phrase.span, spans.Span):
            owned = _OF.match(text, end)
            written = _fit_sentence(words, text, start, end, is_owner=owned is not None)
            end = owned.end() if owned else end
            yield RelativeDate(start, end, time_phrase.span.first, time_phrase.span.last, written)


def with_dates(text: str, day_of: Callable[[str], date | None]) -> str:
    """Replace the relative dates in `text` by absolute ones.

    Args:
        text: What was written.
        day_of: Returns the day on which words were said, or None if unknown.
    """
    dated = text
    for found in reversed(list(relative_dates(text, date(2000, 1, 1)))):
        day = day_of(text[found.start : found.end])
        meant = [d for d in relative_dates(text, day) if d.start == found.start] if day else []
        for one in meant:
            if one.first.isoformat() not in text:  # the writer has said which day it was
                dated = dated[: one.start] + one.written + dated[one.end :]
    return dated


def _format_date(time_phrase: spans.NamedTime, text: str, day: date) -> str:
    """Format a relative time as a date; empty if that is ambiguous or not done."""
    values = time_phrase.values
    if isinstance(time_phrase.span, spans.Yearly) or values.keys() & {"year", "part"}:
        return ""
    if "ordinal" in values:
        return _format_kind(time_phrase, values.get("unit", "day")) if "way" in values else ""
    if "near" in values:
        return _part_of_day(time_phrase, text) or _format_kind(time_phrase, "day")
    if "weekday" in values:
        return (
            _format_kind(time_phrase, "day")
            if _is_one_weekday(time_phrase, time_phrase.span, day)
            else ""
        )
    if "way" in values:
        # "Next weekend" is this week's or the one after it.
        is_vague = "number" in values or (values.get("unit") == "weekend" and values["way"] > 0)
        kinds = ("season", "month", values.get("unit", ""))
        return (
            ""
            if is_vague
            else _format_kind(time_phrase, next(k for k in kinds if k in {*values, kinds[2]}))
        )
    return _counted(time_phrase, day) if "ago" in values or "ahead" in values else ""


def _is_one_weekday(time_phrase: spans.NamedTime, span: spans.Span, day: date) -> bool:
    """Tell whether a weekday is unambiguous, unlike "next Friday"."""
    way = time_phrase.values.get("way")
    if way is None:
        return time_phrase.tense != 0
    return "unit" in time_phrase.values or way < 0 or (way == 0 and span.first >= day)


def _counted(time_phrase: spans.NamedTime, day: date) -> str:
    """Format a time some units away as a date."""
    values = time_phrase.values
    if "ahead" in values and time_phrase.tense < (time_phrase.code in _IN_MAY_BE_WITHIN):
        return ""
    if values["unit"] != "week":
        return _format_kind(time_phrase, values["unit"])
    weeks = values.get("number", 1) * (-1 if "ago" in values else 1)
    about = day + timedelta(days=_WEEK_DAYS * weeks)
    return dates(time_phrase.code).written["about"].format(day=about)


def _part_of_day(time_phrase: spans.NamedTime, text: str) -> str:
    part = _PART.search(text) if time_phrase.code == ENGLISH.code else None
    if part is None or isinstance(time_phrase.span, spans.Yearly):
        return ""
    return f"on |the {part[1] or 'evening'} of {time_phrase.span.first}"


def _format_kind(time_phrase: spans.NamedTime, kind: str) -> str:
    """Format a time in its language; empty if that has no form for it."""
    language, span = dates(time_phrase.code), time_phrase.span
    if kind not in language.written or isinstance(span, spans.Yearly):
        return ""
    season = (
        language.season_names[time_phrase.values["season"]]
        if "season" in time_phrase.values
        else ""
    )
    month = phrases(time_phrase.code).months[span.first.month - 1]
    is_within = not season or span.first.year == span.last.year
    year = str(span.first.year) if is_within else f"{span.first.year}/{span.last:%y}"
    return language.written[kind].format(day=span.first, month=month, season=season, year=year)


def _fit_sentence(written: str, text: str, start: int, end: int, *, is_owner: bool) -> str:
    """Word a date so that it reads naturally in its sentence."""
    lead, mark, bare = written.rpartition(_DATE_MARK)
    if is_owner:
        return f"the {bare.removeprefix('the ')}"
    alone = mark and (_AFTER.search(text[:start]) or _SUBJECT.match(text, end))
    written = bare if alone else lead + bare
    return written[:1].upper() + written[1:] if text[start].isupper() else written
