"""Dates and times as programs and phones write them, in any language."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from importlib import resources
from typing import Final

from msgspec import Struct, field

from familiar_cli.base.languages import CODES, dates
from familiar_cli.imports.contract import DateOrder  # type of a field

ORDERS: Final[tuple[DateOrder, ...]] = ("dmy", "mdy", "ymd")

# Words for months and for halves of the day, from CLDR by `tools/locale_times.py`.
_WORDS: Final[dict[str, dict[str, str]]] = json.loads(
    (resources.files(__package__) / "locale_times.json").read_text("utf-8")
)


def _bare(word: str) -> str:
    """Return a word without the dots and spaces that phones add or leave out."""
    return re.sub(r"[.\s]", "", word.casefold())


_MONTHS: Final = {
    _bare(word): int(number)
    for number, words in _WORDS["months"].items()
    for word in words.split("|")
}
_HALVES: Final = {
    _bare(word): half for half, words in _WORDS["halves"].items() for word in words.split("|")
}
_HALF: Final = "|".join(
    r"\.?[ ]?".join(map(re.escape, re.split(r"\.[ ]?", word.rstrip(".")))) + r"\.?"
    for word in sorted(
        (word for words in _WORDS["halves"].values() for word in words.split("|")),
        key=lambda word: (-len(word), word),
    )
)
_WEEKDAYS: Final = sorted(
    {
        form
        for code in CODES
        for names in dates(code).weekdays
        for name in names.split("|")
        if name.isalpha()
        for form in (name, name[:3], name[:2])
        if len(form) > 1 or not form.isascii()
    },
    key=lambda name: (-len(name), name),
)
_WEEKDAY: Final = "|".join(map(re.escape, _WEEKDAYS))
_DAY_NAME: Final = rf"(?:{_WEEKDAY})\.?,?[ ]{{1,3}}"
_MONTH: Final = r"[^\s\d.,:/\[\]()<>-]{2,16}"  # looked up when it is read
_DATE: Final = (
    r"(?:\d{4}[ ]?[年년][ ]?\d{1,2}[ ]?[月월][ ]?\d{1,2}[ ]?[日일]"
    r"|\d{1,4}[-/.][ ]?\d{1,2}[-/.][ ]?\d{1,4}\.?"
    rf"|\d{{1,2}}(?:st|nd|rd|th|º|er)?[-. ]{{1,2}}(?:de[ ])?{_MONTH}"
    r"[-.,/ ]{1,2}(?:de[ ])?\d{2,4}"
    rf"|{_MONTH}\.?[ ]\d{{1,2}}(?:st|nd|rd|th)?,?[ ]\d{{4}})"
)
_NAMED_DAY: Final = (  # without a year
    r"(?:\d{1,2}[ ]?[月월][ ]?\d{1,2}[ ]?[日일]"
    rf"|\d{{1,2}}(?:st|nd|rd|th|º|er)?[-. ]{{1,2}}(?:de[ ])?{_MONTH}\.?"
    rf"|{_MONTH}\.?[ ]\d{{1,2}}(?:st|nd|rd|th)?)"
)
_SHORT_DATE: Final = rf"(?:\d{{1,2}}/\d{{1,2}}|\d{{1,2}}\.[ ]?\d{{1,2}}\.|{_NAMED_DAY})"
_TIME: Final = (
    rf"(?:(?:{_HALF})[ ]?)?"
    r"\d{1,2}(?::\d{2}(?::\d{2}(?:[.,]\d{1,6})?)?|[.h]\d{2}(?:\.\d{2})?(?![./\d]))"
    rf"(?:[ ]?(?:{_HALF})(?![^\W\d_]))?(?:[ ]?(?:ч\.|uhr(?!\w)|น\.))?"
    r"(?:[ ]?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})(?![\w:]))?"
)
_GAP: Final = r"(?:,?[ ]{1,3}(?:(?:[^\W\d_]{1,4}\.?,?[ ]{1,3}){1,2}|@[ ]?)?|T|,)"
_AFTER_DATE: Final = r"(?:[ ]?[(（][^()（）\d]{1,12}[)）]|[ ](?:Mo|Tu|We|Th|Fr|Sa|Su)[a-z]{0,7})?"
STAMP: Final = (
    rf"(?:(?:{_DAY_NAME})?{_DATE}{_AFTER_DATE}(?:{_GAP}{_TIME})?|{_TIME}(?:,?[ ]{_DATE})?"
    rf"|(?:{_DAY_NAME})?{_SHORT_DATE}{_GAP}{_TIME})"
)
"""A pattern for a date, a time, or both, in a text that `in_ascii_digits` returned."""

CLOCK: Final = _TIME
"""A pattern for a time alone."""

_DATE_IN: Final = re.compile(_DATE, re.IGNORECASE)
_SHORT_IN: Final = re.compile(rf"{_SHORT_DATE}(?={_GAP}{_TIME})", re.IGNORECASE)
_TIME_IN: Final = re.compile(rf"(?<![\d.:/-]){_TIME}", re.IGNORECASE)
_HALF_IN: Final = re.compile(rf"(?<![^\W\d_])(?:{_HALF})(?![^\W\d_])", re.IGNORECASE)
_RULES: Final = r"[-–—=*_~#]{1,80}"
_DAY: Final = re.compile(
    rf"(?:[#>*_=~–—-]{{1,40}}[ ]{{0,3}}|\[)?\s{{0,3}}(?:{_DAY_NAME})?"
    rf"(?P<date>{_DATE}|{_NAMED_DAY}){_AFTER_DATE}"
    rf"(?:,?[ ]{{1,2}}(?:星期|週|周)?(?:{_WEEKDAY})\.?)?[ ]{{0,3}}(?:{_RULES}|\]|:)?",
    re.IGNORECASE,
)
_NUMBERS: Final = re.compile(r"(\d{1,4})[^\w:]{1,3}(\d{1,2})[^\w:]{1,3}(\d{1,4})\.?")
_CJK: Final = re.compile(r"(\d{4})\D{1,3}(\d{1,2})\D{1,3}(\d{1,2})")
_CJK_MONTH: Final = r"\d[ ]?[月월]"
_LETTERS: Final = re.compile(r"[^\W\d_][^\s\d.,:/-]*")
_OTHER_DIGIT: Final = re.compile(r"[^\D0-9]")
_CENTURY: Final = 100
_PERSIAN_YEARS: Final = range(1300, 1421)
_BUDDHIST_YEARS: Final = range(2400, 2701)
_BUDDHIST_YEARS_AHEAD: Final = 543


def in_ascii_digits(text: str) -> str:
    """Return a text of the same length with digits of any script, and Arabic commas, as ASCII."""
    if text.isascii():
        return text
    return _OTHER_DIGIT.sub(lambda found: str(unicodedata.digit(found[0])), text).replace("،", ",")


class WrittenTime(Struct, frozen=True):
    """A timestamp as written.

    Args:
        day: The date as written; empty: none.
        clock: The time of day; None: none.
        offset: The UTC offset; None: not stated.
    """

    day: str
    clock: time | None
    offset: timedelta | None = None


@lru_cache(maxsize=4096)
def read_stamp(text: str) -> WrittenTime:
    """Parse a text that matches `STAMP`."""
    dated = _find_date(text)
    rest = f"{text[: dated.start()]} {text[dated.end() :]}" if dated else text
    if dated and rest.startswith(" T"):
        rest = rest[2:]
    timed = _TIME_IN.search(rest.replace("T", " ", 1) if dated else rest)
    clock, offset = _parse_clock(timed[0]) if timed else (None, None)
    return WrittenTime(dated[0] if dated else "", clock, offset)


def is_stamp(text: str) -> bool:
    """Tell whether the words in a text that matches `STAMP` are words of a date."""
    return _is_day(day_of(text))


def _is_day(day: str) -> bool:
    return not _LETTERS.search(day) or bool(re.search(_CJK_MONTH, day) or _month_in(day))


def holds_time(text: str) -> bool:
    """Tell whether a text holds a time of day, or a word for half a day."""
    digits = in_ascii_digits(text)
    clock = re.search(r"(?<!\d)\d{1,2}[:.]\d{2}(?!\d)", digits)
    return bool(clock) or any(_bare(word) in _HALVES for word in digits.split()[:1])


def day_of(text: str) -> str:
    """Return the date in a text that matches `STAMP`, as written; empty: none."""
    match = _find_date(text)
    return match[0] if match else ""


def _find_date(text: str) -> re.Match[str] | None:
    whole = _DATE_IN.search(text)  # which may take the hour for a year
    date = (_SHORT_IN.match(text, whole.start()) or whole) if whole else None
    if date and _is_day(date[0]):
        return date
    return _SHORT_IN.search(text) or date  # "May 5 at 10:30" is no "5 at"


def lacks_year(day: str) -> bool:
    """Tell whether a date, as written, has no year."""
    return bool(day) and not _DATE_IN.fullmatch(day)


def with_year(day: str, year: int) -> str:
    """Add a year to a date that has none, as its form has it."""
    if re.search(_CJK_MONTH, day):
        return f"{year}年{day}"
    between = "" if day.endswith(".") and day[:-1][-1:].isdigit() else "/" if "/" in day else " "
    return f"{day}{between}{year}"


_LOGGED: Final = re.compile(
    r"(?:--- (?:Log opened|Log closed|Day changed)|\*{4} (?:BEGIN|ENDING) LOGGING AT"
    r"|Session (?:Start|Time|Close):) \S{2,5} (\S{2,5}) {1,2}(\d{1,2}) (?:[\d:]{8} )?(\d{4})"
)


def logged_day(line: str) -> str:
    """Return the date in a line with which an IRC client begins or ends a log; empty: none."""
    logged = _LOGGED.fullmatch(line.strip())
    return f"{logged[1]} {logged[2]} {logged[3]}" if logged else ""


def day_alone(line: str) -> str:
    """Return the date that makes up a whole line, such as a heading; empty: none."""
    if logged := logged_day(line):
        return logged
    match = _DAY.fullmatch(in_ascii_digits(line.strip())) if len(line) < _CENTURY else None
    return match["date"] if match and is_stamp(match["date"]) else ""


def day_in(text: str) -> str:
    """Return a date that begins with its year, from a file name; empty: none."""
    match = re.search(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", text)
    return match[0] if match else ""


def _month_in(text: str) -> int | None:
    words = (_MONTHS.get(_bare(word)) for word in _LETTERS.findall(text))
    return next(filter(None, words), None)


def read_day(text: str, order: DateOrder) -> date | None:
    """Parse a date; None if the calendar has no such day."""
    is_cjk = bool(re.search("[年년]", text))
    month = None if is_cjk else _month_in(text)
    if month:
        numbers = [int(n) for n in re.findall(r"\d+", text)]
        if len(numbers) != 2:  # noqa: PLR2004  # a day and a year
            return None
        return _valid_date(numbers[1], month, numbers[0])
    found = _CJK.match(text) if is_cjk else _NUMBERS.fullmatch(text)
    if not found:
        return None
    first, second, third = (int(part) for part in found.groups())
    if len(found[1]) > 2:  # noqa: PLR2004  # a year
        return _valid_date(first, second, third)
    if order == "ymd":
        return _valid_date(first, second, third)
    return (
        _valid_date(third, second, first) if order == "dmy" else _valid_date(third, first, second)
    )


def _valid_date(year: int, month: int, day: int) -> date | None:
    """Return a date of the Gregorian, the Buddhist or the Persian calendar."""
    try:
        if year in _PERSIAN_YEARS:
            return _persian_date(year, month, day)
        if year in _BUDDHIST_YEARS:
            year -= _BUDDHIST_YEARS_AHEAD
        return date(year + 2000 if year < _CENTURY else year, month, day)
    except ValueError:
        return None


def _persian_date(year: int, month: int, day: int) -> date:
    """Convert a date of the Persian calendar, by its cycle of 33 years with 8 leap days."""
    if not (1 <= month <= 12 and 1 <= day <= 31):  # noqa: PLR2004
        raise ValueError("no such day")
    since = year + 1595
    days = 365 * since + since // 33 * 8 + (since % 33 + 3) // 4
    days += 31 * (month - 1) if month < 7 else 30 * (month - 7) + 186  # noqa: PLR2004
    return date.fromordinal(days + day - 355668 + 1 - 366)


def _parse_clock(text: str) -> tuple[time | None, timedelta | None]:
    low = text.casefold().replace(" ", "")
    zone = re.search(r"(z|utc|gmt|[+-]\d{2}:?\d{2})$", low)
    numbers = re.findall(r"\d+", low[: zone.start()] if zone else low)
    hour, minute = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
    second = int(numbers[2]) if len(numbers) > 2 else 0  # noqa: PLR2004
    micro = int(numbers[3].ljust(6, "0")) if len(numbers) > 3 else 0  # noqa: PLR2004
    half = next((_HALVES.get(_bare(match[0])) for match in _HALF_IN.finditer(text)), None)
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0) if hour <= 12 else hour  # noqa: PLR2004
    try:
        return time(hour, minute, second, micro), _parse_offset(zone[0]) if zone else None
    except ValueError:
        return None, None


def _parse_offset(text: str) -> timedelta:
    digits = re.sub(r"\D", "", text)
    if not digits:
        return timedelta(0)
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -ahead if text.startswith("-") else ahead


def with_offset(moment: datetime, offset: timedelta) -> datetime:
    """Attach a UTC offset to a naive `moment`; UTC if the offset is out of range."""
    possible = abs(offset) < timedelta(hours=24)
    return moment.replace(tzinfo=timezone(offset if possible else timedelta(0)))


class DateReading(Struct):
    """Infers the order of a file's dates from the unambiguous ones.

    Args:
        latest: Dates after this one are not accepted.
    """

    latest: date
    possible: set[DateOrder] = field(default_factory=lambda: set(ORDERS))
    doubtful: str = ""
    _seen: str = ""
    _counts: dict[DateOrder, int] = field(default_factory=lambda: dict.fromkeys(ORDERS, 0))
    _last: dict[DateOrder, date] = field(default_factory=dict)
    _back: dict[DateOrder, int] = field(default_factory=lambda: dict.fromkeys(ORDERS, 0))

    def take(self, text: str) -> None:
        """Take one date into account."""
        match = _NUMBERS.fullmatch(text)
        if text == self._seen or not match or len(match[1]) > 2:  # noqa: PLR2004
            return
        self._seen = text
        readings = {order: self._read(text, order) for order in ORDERS}
        if len(match[3]) > 2:  # noqa: PLR2004  # the year is last
            readings["ymd"] = None
        for order, day in readings.items():
            if day is None:
                self.possible.discard(order)
                continue
            self._counts[order] += 1
            self._back[order] += day < self._last.get(order, day)
            self._last[order] = day
        if not self.doubtful and readings["dmy"] != readings["mdy"]:
            self.doubtful = text

    def _read(self, text: str, order: DateOrder) -> date | None:
        day = read_day(text, order)
        return day if day is not None and day <= self.latest else None

    @property
    def is_needed(self) -> bool:
        """Whether any date was ambiguous."""
        return any(self._counts.values())

    def decide(self) -> DateOrder | None:
        """Return the order, or None if it matters but is unknown."""
        likely = self.possible - {"ymd"} or self.possible
        if len(likely) == 1:
            return next(iter(likely))
        if not likely:
            return max(ORDERS, key=lambda order: self._counts[order])
        if not self.doubtful or "." in self.doubtful:
            return "dmy"
        steady = [order for order in sorted(likely) if not self._back[order]]
        return steady[0] if len(steady) == 1 else None
