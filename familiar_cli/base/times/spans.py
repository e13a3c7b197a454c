"""Days and longer times that a text names: `7 May 2023`, `last Friday`, `vor zwei Wochen`, `先週`.

The words are those of `languages`; nothing here knows a language.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

from msgspec import Struct

from familiar_cli.base.languages import CODES, NUMERALS, Language, codes_for, dates
from familiar_cli.base.text import fold_letters

CLOCK_UNITS: Final = {"minute": 1, "hour": 60}
"""What is counted by the clock, in minutes."""

MOST_CHARS: Final = 20_000
"""So much of a text is looked at."""

_SATURDAY: Final = 5
_WEEK: Final = 7
_MONTHS: Final = 12
_SEASON_MONTHS: Final = 3
_LEAP_YEAR: Final = 2000
_NEAR_CHARS: Final = 80  # from one end of a time to the other
_LEAP_GAP: Final = 8  # most years between two that have 29 February
_NOON: Final = 12
_MOST_ALONE_CHARS: Final = 200
_THIRD: Final = 4  # months of a year
_THIRDS: Final = ((1, 10), (11, 10), (-10, 10))
# Days from one to the next, days of one, and the weekday that it begins on.
_IN_MONTH: Final = {"day": (1, 1, None), "week": (7, 7, None), "weekend": (7, 2, _SATURDAY)}
_SINCE: Final = "since"
_UNTIL: Final = "until"
_SENTENCE_ENDS: Final = ".!?;。！？؟\n"
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_WORD: Final = re.compile(r"[^\W\d_]+")
_DATED: Final = re.compile(r"(?<!\d)(?:1[5-9]|20|21)\d\d(?!\d)|\d\. ?\d{1,2}\. ?\d{4}")
_DIGITS: Final = {
    "day": r"(?<!\d)(?:0?[1-9]|[12]\d|3[01])(?!\d)",
    "month_number": r"(?:0?[1-9]|1[0-2])(?!\d)",
    "year": r"(?<!\d)(?:1[5-9]|20|21)\d\d(?!\d)",
    "hour": r"(?<!\d)(?:[01]?\d|2[0-3])(?!\d)",
    "minute": r"[0-5]\d(?!\d)",
}


class Span(Struct, frozen=True):
    """The days from `first` to `last`, both of them included."""

    first: date
    last: date


class Yearly(Struct, frozen=True):
    """A day, month, part of a month or season of any year.

    Args:
        month: Where it begins, from 1.
        day: The day of the month; negative: counted from its end, the last is -1; 0: all of it.
        months: How many months it has.
        days: How many days it has, from `day` on.
        weekday: It begins on the first such day from `day` on; None: on `day`.
    """

    month: int
    day: int = 0
    months: int = 1
    days: int = 1
    weekday: int | None = None

    def near(self, day: date) -> Span:
        """Return the occurrence nearest to `day`; of two, the earlier.

        Raises:
            ValueError: No year near `day` has it, such as 29 February.
        """
        spans = []
        for year in (day.year - 1, day.year, day.year + 1):
            with suppress(ValueError):
                spans.append(self.of(year))
        return min(spans, key=lambda span: abs(days_between(span, Span(day, day))))

    def beside(self, day: date, tense: int) -> Span:
        """Return the last occurrence that began by `day`, or the next that ends after it.

        Args:
            tense: Below 0: the last; above 0: the next; 0: the nearest.

        Raises:
            ValueError: No year near `day` has it.
        """
        spans = []
        for year in range(day.year - _LEAP_GAP, day.year + _LEAP_GAP + 1) if tense else ():
            with suppress(ValueError):
                spans.append(self.of(year))
        some = [s for s in spans if (s.first <= day if tense < 0 else s.last >= day)]
        return (max if tense < 0 else min)(some, key=lambda s: s.first) if some else self.near(day)

    def of(self, year: int) -> Span:
        """Return the occurrence that begins in `year`.

        Raises:
            ValueError: There is none, as in `31 June`.
        """
        if self.day:
            length = monthrange(year, self.month)[1]
            first = self.day if self.day > 0 else length + 1 + self.day
            if self.weekday is not None:
                begin = _weekday(self.weekday, 1, date(year, self.month, first) - timedelta(days=1))
                return Span(begin.first, begin.first + timedelta(days=self.days - 1))
            return Span(
                date(year, self.month, first),
                date(year, self.month, min(first + self.days - 1, length)),
            )
        later = self.month + self.months - 1
        end_year, end_month = year + (later - 1) // _MONTHS, (later - 1) % _MONTHS + 1
        last = date(end_year, end_month, monthrange(end_year, end_month)[1])
        return Span(date(year, self.month, 1), last)


class NamedTime(NamedTuple):
    """A time in a text.

    Args:
        start: Its first character.
        end: The character after its last.
        inner: Where it begins without what only leads to it, such as `in`.
        values: What its words are worth, by kind.
        code: Whose words they are, as in `languages`.
        tense: Whether it is told of as past (-1) or to come (1); 0: nothing says.
        span: What is meant.
    """

    start: int
    end: int
    inner: int
    values: Mapping[str, Any]
    code: str
    tense: int
    span: Span | Yearly


class StatedTime(Struct, frozen=True):
    """What a text says of a time.

    Args:
        values: What its words are worth, by kind; empty where it names no day.
        hour: The time of day; None where it says none.
    """

    values: dict[str, Any]
    hour: time | None


def days_between(span: Span, other: Span) -> int:
    """Count the days from `span` to `other`; negative if earlier, 0 if they overlap."""
    if other.first > span.last:
        return (other.first - span.last).days
    if other.last < span.first:
        return (other.last - span.first).days
    return 0


def spans_in(text: str, today: date | None = None) -> list[Span | Yearly]:
    """Find the times named in `text`, in order.

    Args:
        text: In any of the languages.
        today: Day that `yesterday` is relative to; None leaves relative times out.
    """
    return [time_phrase.span for time_phrase in times_in(folded(text[:MOST_CHARS]), today)]


def times_in(text: str, today: date | None) -> list[NamedTime]:
    """Find the times named in the folded `text`, in order; see `spans_in`."""
    text = text[:MOST_CHARS]
    items = [match for name in _spoken(text) for match in _reader(name).matches(text)]
    return _resolve_matches(text, items, today)


def times_asked(query: str, today: date) -> list[Span | Yearly]:
    """Find the times that a question is about: `since spring` lasts until today."""
    text = folded(query[:MOST_CHARS])
    times = times_in(text, today)
    asked: list[Span | Yearly] = []
    for before, time_phrase in zip((None, *times), times, strict=False):
        with suppress(ValueError):
            side = _side(text, time_phrase)
            latest = _latest(time_phrase.span, today) if side else None
            if latest is None:
                asked.append(time_phrase.span)
            elif side == _SINCE:
                asked.append(Span(latest.first, max(today, latest.first)))
            elif side == _UNTIL:
                asked.append(Span(date.min, latest.last))
            elif before and asked:
                first = _latest(before.span, latest.last)
                asked[-1] = Span(min(first.first, latest.first), max(first.last, latest.last))
    return asked


def _latest(span: Span | Yearly, today: date) -> Span:
    return span if isinstance(span, Span) else span.beside(today, -1)


def _side(text: str, time_phrase: NamedTime) -> str:
    """Tell whether nearby words mean the time before or after; empty: the time itself."""
    before = text[max(time_phrase.inner - _NEAR_CHARS, 0) : time_phrase.inner].rstrip()
    after = text[time_phrase.end : time_phrase.end + _NEAR_CHARS].lstrip()
    for name in codes_for(text):
        for side, lead, tail in _reader(name).sides:
            is_led = lead and lead.search(before)
            if is_led or (tail and tail.match(after)):
                return side
    return ""


def with_iso_dates(text: str) -> str:
    """Fold `text`, writing each day or month of a year as `2024-03-09` or `2024-03`."""
    text = folded(text[:MOST_CHARS])
    items = [
        match
        for name in _spoken(text)
        for match in _reader(name).matches(text)
        if match.values.keys() <= {"year", "month", "month_number", "day"}
        and "year" in match.values
    ]
    end = 0
    parts: list[str] = []
    for match in sorted(items, key=lambda match: (match.start, -match.end)):
        with suppress(ValueError, OverflowError):
            if match.start >= end and isinstance(span := _span(match.values, None), Span):
                parts += text[end : match.start], _iso(span)
                end = match.end
    return "".join([*parts, text[end:]])


def _iso(span: Span) -> str:
    """Format a day, a month or a year in ISO 8601."""
    day = span.first.isoformat()
    if span.first == span.last:
        return day
    is_month = (span.first.year, span.first.month) == (span.last.year, span.last.month)
    return day[: len("2024-03" if is_month else "2024")]


def folded(text: str) -> str:
    """Normalise `text` for comparison: lower case, no accents, one line."""
    return " ".join(_folded(text).split())


def aligned_fold(text: str) -> tuple[str, list[int]]:
    """Fold `text` as `folded` does; also return the offset of each letter, and of the end."""
    parts: list[str] = []
    places: list[int] = []
    for place, letter in enumerate(text[:MOST_CHARS]):
        piece = _folded(letter) if not letter.isspace() else " " * (not parts or parts[-1] != " ")
        if piece:
            parts.append(piece)
            places += [place] * len(piece)
    return "".join(parts), [*places, min(len(text), MOST_CHARS)]


def said_alone(text: str) -> Iterator[StatedTime]:
    """Yield the readings of a whole `text` as a day, a time of day, or both, in any language.

    Nothing is relative to today yet; see `day_meant`.
    """
    text = folded(text[:_MOST_ALONE_CHARS])
    for name in CODES:
        yield from _reader(name).alone(text)


def day_meant(values: dict[str, Any], today: date, *, ahead: bool) -> date | None:
    """Resolve a stated time to one day; None if it names no day, or several.

    Args:
        values: From `Said`.
        today: What `tomorrow` is counted from.
        ahead: `friday` and `7 May` are the next ones; else the last ones.
    """
    with suppress(ValueError, OverflowError):
        tense = 1 if ahead else -1
        if "weekday" in values and not values.keys() & {"way", "unit", "ordinal"}:
            return _weekday(values["weekday"], tense, today).first
        span = _span(values, today, tense)
        if isinstance(span, Yearly):
            # Today counts as the next one, and as the last.
            years = (today.year - 1, today.year, today.year + 1)
            spans = [span.of(year) for year in years]
            some = [s for s in spans if (s.first >= today if ahead else s.first <= today)]
            span = min(some, key=lambda s: abs((s.first - today).days))
        if span and span.first == span.last:
            return span.first
    return None


def _resolve_matches(text: str, items: list[_Match], today: date | None) -> list[NamedTime]:
    """Resolve matches to times, in order; of overlapping matches, the longest counts."""
    time_phrases: list[NamedTime] = []
    for match in sorted(items, key=lambda match: (match.inner - match.end, match.start)):
        if any(match.inner < one.end and one.inner < match.end for one in time_phrases):
            continue
        with suppress(ValueError, OverflowError):
            tense = _tense(text, match) if today else 0
            if (span := _span(match.values, today, tense)) is not None:
                time_phrases.append(NamedTime(*match, tense, span))
    return sorted(time_phrases, key=lambda one: one.start)


def _tense(text: str, match: _Match) -> int:
    """Tell whether a sentence puts a time in the past or the future."""
    if not match.values.keys().isdisjoint({"year", "near", "way", "ago"}):
        return 0
    begin = max(text.rfind(mark, 0, match.start) for mark in _SENTENCE_ENDS) + 1
    ends = [at for mark in _SENTENCE_ENDS if (at := text.find(mark, match.end)) >= 0]
    end = min(ends, default=len(text))
    nearest: tuple[int, int] | None = None
    for name in (match.code,) if match.code != NUMERALS else ():
        for tense, pattern in _reader(name).tenses:
            for said in pattern.finditer(text, begin, end):
                gap = match.start - said.end() if said.end() <= match.start else said.start()
                gap -= 0 if said.end() <= match.start else match.end
                nearest = min(nearest or (gap, tense), (gap, tense), key=lambda one: abs(one[0]))
    return nearest[1] if nearest else 0


def _spoken(text: str) -> list[str]:
    """Select the languages whose words `text` may contain; for most texts, none."""
    codes = codes_for(text)
    heads = _heads(codes)
    words = heads.keys() & set(_WORD.findall(text))
    names = {name for word in words for name in heads[word]}
    if not text.isascii():
        names |= {name for sign, name in _signs() if sign in text}
    if _DATED.search(text):
        names |= {NUMERALS, *(name for name, part in _parts(codes) if part in text)}
    return [name for name in (*CODES, NUMERALS) if name in names]


@cache
def _heads(codes: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """Map characteristic words to languages, for those with spaces."""
    result: dict[str, tuple[str, ...]] = {}
    for name in codes:
        language = dates(name)
        for phrase in _telling(language) if language.spaced else ():
            head = max(_WORD.findall(phrase), key=len)
            result[head] = tuple(dict.fromkeys((*result.get(head, ()), name)))
    return result


@cache
def _parts(codes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """List the words for parts of longer times, with their languages; a year may follow."""
    listed = ((name, words) for name in codes for words in dates(name).parts)
    return tuple((name, word) for name, words in listed for word in _alternatives(words))


@cache
def _signs() -> tuple[tuple[str, str], ...]:
    """List the phrases that identify a language without spaces."""
    tables = ((name, dates(name)) for name in CODES)
    return tuple(
        (phrase, name)
        for name, language in tables
        for phrase in sorted(set(_telling(language)))
        if not language.spaced
    )


def _telling(language: Language) -> Iterator[str]:
    listed = (*language.months, *language.seasons, *language.near.values())
    units = (words for unit, words in language.units.items() if unit not in CLOCK_UNITS)
    for words in (*listed, *units, *(language.weekdays if language.spaced else ())):
        yield from _alternatives(words)


def _alternatives(words: str) -> list[str]:
    return [_folded(word) for word in words.split("|")]


def _folded(text: str) -> str:
    """Lower `text`, without the accents that people leave out."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", fold_letters(text))
    return unicodedata.normalize("NFC", _ACCENT.sub("", apart))


@cache
def _reader(name: str) -> _Reader:
    return _Reader(name)


class _Match(NamedTuple):
    """Where a text fits a form, and what its words are worth; see `NamedTime`."""

    start: int
    end: int
    inner: int
    values: dict[str, Any]
    code: str


class _Reader:
    """Reads one language. Patterns are compiled where they are used: a language has dozens."""

    def __init__(self, name: str) -> None:
        language, self._name = dates(name), name
        self._language = language
        listed: dict[str, Mapping[Any, str]] = {
            "month": dict(enumerate(language.months, 1)),
            "weekday": dict(enumerate(language.weekdays)),
            "season": dict(enumerate(language.seasons)),
            "near": language.near,
            "way": language.ways,
            "unit": language.units,
            "number": dict(enumerate(language.numbers, 1)),
            "ago": {True: language.ago},
            "ahead": {True: language.ahead},
            "am": {True: language.am},
            "pm": {True: language.pm},
            "half": {True: language.half},
            "part": dict(enumerate(language.parts)),
            "ordinal": dict(zip((1, 2, 3, 4, -1), language.ordinals, strict=False)),
        }
        self._values = {kind: _by_word(values) for kind, values in listed.items()}
        self._begin, self._end = (r"(?<!\w)", r"(?!\w)") if language.spaced else ("", "")

    @cached_property
    def tenses(self) -> list[tuple[int, re.Pattern[str]]]:
        """The words that put a sentence in the past, -1, or the future, 1."""
        said = ((-1, self._language.past), (1, self._language.future))
        return [
            (tense, re.compile(f"{self._begin}(?:{_folded(words)}){self._end}"))
            for tense, words in said
            if words
        ]

    @cached_property
    def sides(self) -> list[tuple[str, re.Pattern[str] | None, re.Pattern[str] | None]]:
        """The words before and after a time that mean the time on one side of it."""
        return [
            (
                side,
                re.compile(f"{self._begin}(?:{_folded(lead)})$") if lead else None,
                re.compile(f"(?:{_folded(tail)}){self._end}") if tail else None,
            )
            for side, (lead, tail) in self._language.sides.items()
        ]

    @cached_property
    def _forms(self) -> list[re.Pattern[str]]:
        return self._compile_forms(self._language.forms)

    @cached_property
    def _alone(self) -> list[re.Pattern[str]]:
        return self._compile_forms(self._language.alone)

    @cached_property
    def _clocks(self) -> list[re.Pattern[str]]:
        return self._compile_forms(self._language.clocks)

    def _compile_forms(self, forms: Sequence[str]) -> list[re.Pattern[str]]:
        return [re.compile(self._begin + self._pattern(form) + self._end) for form in forms]

    def matches(self, text: str) -> Iterator[_Match]:
        """Yield each match of a form in `text`, with the values of its words."""
        for form in self._forms:
            for match in form.finditer(text):
                inner = min(at for kind in match.groupdict() if (at := match.start(kind)) >= 0)
                yield _Match(*match.span(), inner, self._captured_values(match), self._name)

    def alone(self, text: str) -> Iterator[StatedTime]:
        """Yield the readings of all of `text`: days or a number of units, a time, or both."""
        for values in self._days(text):
            yield StatedTime(values, None)
        for form in self._clocks:
            for match in form.finditer(text):
                before, after = text[: match.start()].rstrip(" ,、"), text[match.end() :].strip()
                rest = before or after
                hour = self._hour(match)
                if hour is None or (before and after):
                    continue
                if not rest:
                    yield StatedTime({}, hour)
                yield from (StatedTime(values, hour) for values in self._days(rest))

    def _days(self, text: str) -> Iterator[dict[str, Any]]:
        for form in (*self._alone, *self._forms):
            if match := form.fullmatch(text):
                yield self._captured_values(match)

    def _hour(self, match: re.Match[str]) -> time | None:
        said = self._captured_values(match)
        hour = said["hour"]
        if "pm" in said and hour < _NOON:
            hour += _NOON
        elif "am" in said and hour == _NOON:
            hour = 0
        return time(hour, said.get("minute", 30 if "half" in said else 0))

    def _captured_values(self, match: re.Match[str]) -> dict[str, Any]:
        return {
            kind.rstrip("_"): self._value(kind.rstrip("_"), words)
            for kind, words in match.groupdict().items()
            if words is not None
        }

    def _pattern(self, form: str) -> str:
        text = _folded(form)
        for kind in (*self._values, *_DIGITS):
            text = text.replace(f"{{{kind}}}", f"(?P<{kind}>{self._words(kind)})")
        return text

    def _words(self, kind: str) -> str:
        if kind in _DIGITS:
            return _DIGITS[kind]
        words = sorted(self._values[kind], key=len, reverse=True)
        spelled = "|".join(map(re.escape, words))
        return spelled + (r"|(?<!\d)\d{1,3}" if kind == "number" else "")

    def _value(self, kind: str, words: str) -> Any:  # noqa: ANN401  # a number or the name of a unit
        if kind in _DIGITS or (kind == "number" and words.isdecimal()):
            return int(words)
        return self._values[kind][words]


def _by_word(values: Mapping[Any, str]) -> dict[str, Any]:
    return {word: value for value, words in values.items() for word in _alternatives(words)}


def _span(said: Mapping[str, Any], today: date | None, tense: int = 0) -> Span | Yearly | None:
    """Compute the span of time that the parts of an expression describe together.

    Raises:
        ValueError: Not a date of the calendar.
        OverflowError: The same.
    """
    if said.keys() & {"part", "ordinal"}:
        return _part(said, today, tense)
    is_counted = "number" in said or "ago" in said or "ahead" in said
    if is_counted or said.keys() & {"near", "way"}:
        return _relative(said, today) if today else None
    if "weekday" in said:
        return _weekday(said["weekday"], 1 if tense > 0 else -1, today) if today else None
    year, yearly = said.get("year"), _yearly(said)
    if year is None or yearly is None:
        return yearly or Span(date(said["year"], 1, 1), date(said["year"], 12, 31))
    return yearly.of(year)


def _part(said: Mapping[str, Any], today: date | None, tense: int) -> Span | Yearly | None:
    """Compute a third of a longer time, or an ordinal (first, second, last) within a month.

    Raises:
        ValueError: No calendar holds it.
        OverflowError: The same.
    """
    month = said.get("month")
    if "part" not in said:
        return _in_month(said, today, tense)
    part, year = said["part"], said.get("year")
    if not month and year is None and today:
        whole = _away(said["unit"], said["way"], today, whole=True)
        year, month = (whole.first.year, whole.first.month) if whole else (None, None)
        if said["unit"] != "month":
            month = None
    if month:
        first, days = _THIRDS[part]
        third = Yearly(month, first, days=days)
        return third if year is None else third.of(year)
    if year is None or said.get("unit", "year") != "year":
        return None
    return Yearly(part * _THIRD + 1, months=_THIRD).of(year)


def _in_month(said: Mapping[str, Any], today: date | None, tense: int) -> Span | Yearly | None:
    """Compute an ordinal weekday, week, weekend or day in a month.

    `of the month` without any other word is the month of `today`, or an adjacent one that fits the
    tense.
    """
    number, weekday = said["ordinal"], said.get("weekday")
    if weekday is None and said["unit"] not in _IN_MONTH:
        return None
    step, days, begin = (_WEEK, 1, weekday) if weekday is not None else _IN_MONTH[said["unit"]]
    day = step * (number - 1) + 1 if number > 0 else -step
    if "month" in said:
        yearly = Yearly(said["month"], day, days=days, weekday=begin)
        return yearly.of(said["year"]) if "year" in said else yearly
    if today is None:
        return None
    months = today.year * _MONTHS + today.month - 1 + said.get("way", 0)
    near = [
        Yearly(one % _MONTHS + 1, day, days=days, weekday=begin).of(one // _MONTHS)
        for one in (months, months + tense)
    ]
    suits = "way" in said or (near[0].first <= today if tense < 0 else near[0].last >= today)
    return near[0] if suits or not tense else near[1]


def _yearly(said: Mapping[str, Any]) -> Yearly | None:
    """Build a day, month or season without its year.

    Raises:
        ValueError: No year has it.
    """
    month = said.get("month") or said.get("month_number")
    if month:
        date(_LEAP_YEAR, month, said.get("day", 1))
        return Yearly(month, said.get("day", 0))
    return _season(said["season"]) if "season" in said else None


def _season(number: int) -> Yearly:
    """Build a season of the northern hemisphere, by months."""
    return Yearly(_SEASON_MONTHS * (number + 1), months=_SEASON_MONTHS)


def _relative(said: Mapping[str, Any], today: date) -> Span | None:
    if "near" in said:
        return _one(today + timedelta(days=said["near"]))
    if "way" in said and "number" in said:
        return _stretch(said["unit"], said["way"] * said["number"], today)
    if "way" in said:
        return _beside(said, today)
    sign = 1 if "ahead" in said and "ago" not in said else -1
    return _away(said["unit"], sign * said.get("number", 1), today)


def _beside(said: Mapping[str, Any], today: date) -> Span | None:
    """Resolve last, this or next; within the result, a weekday or season."""
    way = said["way"]
    if "unit" in said:
        whole = _away(said["unit"], way, today, whole=True)
        if "weekday" in said:
            in_week = whole if said["unit"] == "week" else None
            return _one(in_week.first + timedelta(days=said["weekday"])) if in_week else None
        if whole and "season" in said:
            return _season(said["season"]).of(whole.first.year)
        return whole
    if "weekday" in said:
        return _weekday(said["weekday"], way, today)
    yearly = _yearly(said)
    return _of_years(yearly, way, today) if yearly else None


def _of_years(yearly: Yearly, way: int, today: date) -> Span:
    """Return the last occurrence that is over, this one, or the next that has not begun.

    A winter that has begun is this one, also when the year in which it began is over.
    """
    if way == 0:
        begun = yearly.of(today.year - 1) if yearly.months > 1 else None
        return begun if begun and begun.last >= today else yearly.of(today.year)
    years = range(today.year - 2, today.year + 3)
    spans = [yearly.of(year) for year in years]
    if way < 0:
        return max((s for s in spans if s.last < today), key=lambda s: s.first)
    return min((s for s in spans if s.first > today), key=lambda s: s.first)


def _weekday(weekday: int, way: int, today: date) -> Span:
    """Return the last or next such weekday, never today; for 0, this week's."""
    if way == 0:
        return _one(today + timedelta(days=weekday - today.weekday()))
    if way < 0:
        return _one(today - timedelta(days=(today.weekday() - weekday - 1) % _WEEK + 1))
    return _one(today + timedelta(days=(weekday - today.weekday() - 1) % _WEEK + 1))


def _away(unit: str, count: int, today: date, *, whole: bool = False) -> Span | None:
    """Return the span `count` units away; with `whole`, only a calendar unit."""
    if unit in CLOCK_UNITS:
        return None
    if unit == "day":
        return None if whole else _one(today + timedelta(days=count))
    monday = today - timedelta(days=today.weekday())
    if unit == "weekend":
        saturday = monday + timedelta(days=_SATURDAY + _WEEK * count)
        return Span(saturday, saturday + timedelta(days=1))
    if unit == "week":
        start = monday + timedelta(days=_WEEK * count)
        return Span(start, start + timedelta(days=_WEEK - 1))
    if unit == "year":
        return Span(date(today.year + count, 1, 1), date(today.year + count, 12, 31))
    months = today.year * _MONTHS + today.month - 1 + count
    return Yearly(months % _MONTHS + 1).of(months // _MONTHS)


def _stretch(unit: str, count: int, today: date) -> Span | None:
    """Return all days between today and `count` units away."""
    far = _away(unit, count, today)
    if far is None:
        return None
    return Span(min(far.first, today), max(far.last, today))


def _one(day: date) -> Span:
    return Span(day, day)
