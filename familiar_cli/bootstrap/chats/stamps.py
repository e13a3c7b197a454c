"""Dates and times as people and their programs write them beside what was said."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from importlib import import_module
from typing import Final, Literal

from familiar_cli.languages import LANGUAGES, Language

DateOrder = Literal["dmy", "mdy", "ymd"]
"""What stands first, second and third in a date of numbers."""

ORDERS: Final[tuple[DateOrder, ...]] = ("dmy", "mdy", "ymd")

_TABLES: Final[list[Language]] = [
    import_module(f"familiar_cli.languages.{name}").TABLE for name in LANGUAGES
]
_MONTHS: Final = {
    name: number
    for language in _TABLES
    for number, names in enumerate(language.months, start=1)
    for name in names.split("|")
    if name.isalpha()
}
_WEEKDAYS: Final = sorted(
    {
        form
        for language in _TABLES
        for names in language.weekdays
        for name in names.split("|")
        if name.isalpha()
        for form in (name, name[:3], name[:2])
        if len(form) > 1 or not form.isascii()
    },
    key=lambda name: (-len(name), name),
)
_WEEKDAY: Final = "|".join(map(re.escape, _WEEKDAYS))
_DAY_NAME: Final = rf"(?:{_WEEKDAY})\.?,?[ ]{{1,3}}"
_MONTH: Final = "|".join(map(re.escape, sorted(_MONTHS, key=lambda name: (-len(name), name))))
_DATE: Final = (
    r"(?:\d{4}[ ]?年[ ]?\d{1,2}[ ]?月[ ]?\d{1,2}[ ]?日"
    r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|º|er)?[-. ]{{1,2}}(?:de[ ])?(?:{_MONTH})"
    r"[-.,/ ]{1,2}(?:de[ ])?\d{2,4}"
    rf"|(?:{_MONTH})\.?[ ]\d{{1,2}}(?:st|nd|rd|th)?,?[ ]\d{{4}})"
)
_TIME: Final = (
    r"(?:(?:上午|下午|午前|午後|오전|오후)[ ]?)?"
    r"\d{1,2}(?::\d{2}(?::\d{2}(?:[.,]\d{1,6})?)?|\.\d{2}(?:\.\d{2})?(?![./\d]))"
    r"(?:[ ]?[ap]\.?[ ]?m\b\.?)?(?:[ ]?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})(?![\w:]))?"
)
_GAP: Final = r"(?:,?[ ]{1,3}(?:at[ ]|um[ ]|à[ ]|@[ ]?)?|T|,)"
_AFTER_DATE: Final = r"(?:[ ]?[(（][^()（）\d]{1,12}[)）]|[ ](?:Mo|Tu|We|Th|Fr|Sa|Su)[a-z]{0,7})?"
STAMP: Final = (
    rf"(?:(?:{_DAY_NAME})?{_DATE}{_AFTER_DATE}(?:{_GAP}{_TIME})?|{_TIME}(?:,?[ ]{_DATE})?)"
)
"""A pattern for a date, a time, or both; in lower or upper case."""

CLOCK: Final = _TIME
"""A pattern for a time alone."""

_DATE_IN: Final = re.compile(_DATE, re.IGNORECASE)
_TIME_IN: Final = re.compile(rf"(?<![\d.:/-]){_TIME}", re.IGNORECASE)
_RULES: Final = r"[-–—=*_~#]{1,80}"
_DAY: Final = re.compile(
    rf"(?:[#>*_=~–—-]{{1,40}}[ ]{{0,3}}|\[)?\s{{0,3}}(?:{_DAY_NAME})?(?P<date>{_DATE}){_AFTER_DATE}"
    rf"(?:,?[ ]{{1,2}}(?:星期|週|周)?(?:{_WEEKDAY})\.?)?[ ]{{0,3}}(?:{_RULES}|\]|:)?",
    re.IGNORECASE,
)
_NUMBERS: Final = re.compile(r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})")
_CJK: Final = re.compile(r"(\d{4})\D{1,3}(\d{1,2})\D{1,3}(\d{1,2})")
_WORD: Final = re.compile(rf"(?<![^\W\d])(?:{_MONTH})(?![^\W\d])", re.IGNORECASE)
_CENTURY: Final = 100


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a line says of its time.

    Args:
        day: The date as it is written; empty: none.
        clock: The time of day; None: none.
        offset: How far that is ahead of UTC; None: it does not say.
    """

    day: str
    clock: time | None
    offset: timedelta | None = None


@lru_cache(maxsize=4096)
def read_stamp(text: str) -> Stamp:
    """Return what a text that fits `STAMP` says."""
    dated = _DATE_IN.search(text)
    rest = f"{text[: dated.start()]} {text[dated.end() :]}" if dated else text
    if dated and rest.startswith(" T"):
        rest = rest[2:]
    timed = _TIME_IN.search(rest.replace("T", " ", 1) if dated else rest)
    clock, offset = _clock(timed[0]) if timed else (None, None)
    return Stamp(dated[0] if dated else "", clock, offset)


def day_of(text: str) -> str:
    """Return the date in a text that fits `STAMP`, as it is written; empty: there is none."""
    found = _DATE_IN.search(text)
    return found[0] if found else ""


def day_alone(line: str) -> str:
    """Return the date that a line consists of, such as a heading; empty: it is another line."""
    found = _DAY.fullmatch(line.strip()) if len(line) < _CENTURY else None
    return found["date"] if found else ""


def day_in(text: str) -> str:
    """Return a date that begins with its year, from the name of a file; empty: there is none."""
    found = re.search(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", text)
    return found[0] if found else ""


def read_day(text: str, order: DateOrder) -> date | None:
    """Return the date that is written; None: the calendar has none such."""
    named = _WORD.search(text)
    if named:
        numbers = [int(n) for n in re.findall(r"\d+", text)]
        if len(numbers) != 2:  # noqa: PLR2004  # a day and a year
            return None
        return _date(numbers[1], _MONTHS[named[0].lower()], numbers[0])
    found = _CJK.fullmatch(text.rstrip("日")) if "年" in text else _NUMBERS.fullmatch(text)
    if not found:
        return None
    first, second, third = (int(part) for part in found.groups())
    if len(found[1]) > 2:  # noqa: PLR2004  # a year
        return _date(first, second, third)
    if order == "ymd":
        return _date(first, second, third)
    return _date(third, second, first) if order == "dmy" else _date(third, first, second)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year + 2000 if year < _CENTURY else year, month, day)
    except ValueError:
        return None


def _clock(text: str) -> tuple[time | None, timedelta | None]:
    low = text.lower().replace(" ", "")
    zone = re.search(r"(z|utc|gmt|[+-]\d{2}:?\d{2})$", low)
    numbers = re.findall(r"\d+", low[: zone.start()] if zone else low)
    hour, minute = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
    second = int(numbers[2]) if len(numbers) > 2 else 0  # noqa: PLR2004
    micro = int(numbers[3].ljust(6, "0")) if len(numbers) > 3 else 0  # noqa: PLR2004
    late = re.search(r"p\.?m|下午|午後|오후", low)
    if late or re.search(r"a\.?m|上午|午前|오전", low):
        hour = hour % 12 + (12 if late else 0) if hour <= 12 else hour  # noqa: PLR2004
    try:
        return time(hour, minute, second, micro), _offset(zone[0]) if zone else None
    except ValueError:
        return None, None


def _offset(text: str) -> timedelta:
    digits = re.sub(r"\D", "", text)
    if not digits:
        return timedelta(0)
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -ahead if text.startswith("-") else ahead


def with_offset(moment: datetime, offset: timedelta) -> datetime:
    """Return `moment` in a zone that is so far ahead of UTC; UTC where there is no such zone."""
    possible = abs(offset) < timedelta(hours=24)
    return moment.replace(tzinfo=timezone(offset if possible else timedelta(0)))


@dataclass(slots=True)
class DateReading:
    """Which order the dates of a file have: told by those that can be read in one way only.

    Args:
        latest: Dates after this one are none.
    """

    latest: date
    possible: set[DateOrder] = field(default_factory=lambda: set(ORDERS))
    doubtful: str = ""
    _seen: str = ""
    _counts: dict[DateOrder, int] = field(default_factory=lambda: dict.fromkeys(ORDERS, 0))
    _last: dict[DateOrder, date] = field(default_factory=dict)
    _back: dict[DateOrder, int] = field(default_factory=lambda: dict.fromkeys(ORDERS, 0))

    def take(self, text: str) -> None:
        """Look at one date."""
        found = _NUMBERS.fullmatch(text)
        if text == self._seen or not found or len(found[1]) > 2:  # noqa: PLR2004
            return
        self._seen = text
        readings = {order: self._read(text, order) for order in ORDERS}
        if len(found[3]) > 2:  # noqa: PLR2004  # the year stands at the end
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
        """Whether a date was seen whose meaning depends on the order."""
        return any(self._counts.values())

    def decide(self) -> DateOrder | None:
        """Return the order; None: it is not told, and it matters."""
        likely = self.possible - {"ymd"} or self.possible
        if len(likely) == 1:
            return next(iter(likely))
        if not likely:
            return max(ORDERS, key=lambda order: self._counts[order])
        if not self.doubtful or "." in self.doubtful:
            return "dmy"
        steady = [order for order in sorted(likely) if not self._back[order]]
        return steady[0] if len(steady) == 1 else None
