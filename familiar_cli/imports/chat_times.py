"""Parse dates and times in the forms that people and programs write them."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.languages import CODES, Language, dates
from familiar_cli.base.times.clock import in_zone, to_ms
from familiar_cli.imports.foreign_chat import DateOrder, ForeignMessage
from familiar_cli.imports.source import Skip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_UNDATED: Final = 10_000
"""Lines without a time that are held back until the next one with a time."""

_STEP: Final = timedelta(seconds=1)  # between lines that have a dated neighbour on one side only
_MILLISECONDS_FROM: Final = 10**11  # seconds reach this in the year 5138
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\s*(?P<half>[ap]m)?"
_WORDED: Final = (
    re.compile(
        rf"(?P<month>[a-z]{{3,9}})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}}),?"
        rf"(?: at)? {_CLOCK}",
        re.IGNORECASE | re.ASCII,
    ),
    re.compile(
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?P<month>[a-z]{{3,9}})\.?,? (?P<year>\d{{4}}),?"
        rf"(?: at)? {_CLOCK}",
        re.IGNORECASE | re.ASCII,
    ),
)
_HUMANIZED: Final = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})\s*@\s*(?P<hour>\d{1,2})h\s*"
    r"(?P<minute>\d{1,2})m(?:\s*(?P<second>\d{1,2})s)?(?:\s*(?P<milli>\d{1,3})ms)?",
    re.ASCII,
)


def read_time(value: object, zone: tzinfo | None) -> datetime | None:
    """Parse a time and return it in UTC, or None if it is not one.

    Accepts ISO 8601, seconds and milliseconds since 1970, `June 19, 2023 2:20pm` and `2023-6-19
    @14h 20m 05s 123ms`. Zero means unknown.

    Args:
        value: The value in the source.
        zone: The timezone of times without one; None: the system's.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _from_epoch(value)
    return _parse_iso(value, zone) if isinstance(value, str) and value.strip() else None


def stated_time(value: object) -> str:
    """Return a time as the source writes it, for recognising the line again."""
    if value is None or isinstance(value, bool | dict | list):
        return ""
    return str(value).strip()


def date_messages(
    lines: Iterable[ForeignMessage | Skip], end: datetime
) -> Iterator[ForeignMessage | Skip]:
    """Yield `lines` with a time for every message, marked as estimated where it had none.

    Messages without times are spread evenly between their dated neighbours.

    Args:
        lines: The lines, in order.
        end: When the file was last changed: the time of the last line if none has one.
    """
    before: datetime | None = None
    waiting: list[ForeignMessage | Skip] = []
    undated, after = 0, _add_time(end, _STEP)
    for line in lines:
        if isinstance(line, ForeignMessage) and line.at is not None:
            if waiting:
                yield from _spread_times(waiting, undated, before, line.at)
                waiting, undated = [], 0
            before = line.at
            yield line
        elif isinstance(line, ForeignMessage) or waiting:
            waiting.append(line)
            undated += isinstance(line, ForeignMessage)
            if undated >= MAX_UNDATED:
                yield from _spread_times(waiting, undated, before, None if before else after)
                before = _add_time(before, undated * _STEP) if before else end
                waiting, undated = [], 0
        else:
            yield line
    if waiting:
        yield from _spread_times(waiting, undated, before, None if before else after)


def _spread_times(
    lines: list[ForeignMessage | Skip], count: int, before: datetime | None, after: datetime | None
) -> Iterator[ForeignMessage | Skip]:
    """Yield `lines` with times between `before` and `after`, one of which may be None."""
    step = _STEP
    if before is None:
        assert after is not None
        before = _add_time(after, -(count + 1) * _STEP)
    elif after is not None:
        step = max((after - before) / (count + 1), timedelta(0))
    number = 0
    for line in lines:
        if isinstance(line, Skip):
            yield line
            continue
        number += 1
        yield replace(line, at=to_ms(_add_time(before, number * step)), estimated=True)


def _add_time(moment: datetime, by: timedelta) -> datetime:
    """Add a duration to a moment; unchanged if the result is out of range."""
    try:
        return moment + by
    except OverflowError:
        return moment


def _from_epoch(number: float) -> datetime | None:
    if not number or not math.isfinite(number):
        return None
    milliseconds = number if abs(number) >= _MILLISECONDS_FROM else number * 1000
    try:
        return _EPOCH + timedelta(milliseconds=math.floor(milliseconds))
    except OverflowError:
        return None


@lru_cache(maxsize=1024)
def _parse_iso(text: str, zone: tzinfo | None) -> datetime | None:
    found = text.strip()
    try:
        return in_utc(datetime.fromisoformat(found), zone)
    except (ValueError, OverflowError, OSError):
        pass
    if _NUMBER.fullmatch(found):
        return _from_epoch(float(found))
    match = _HUMANIZED.fullmatch(found) or next(
        filter(None, (p.fullmatch(found) for p in _WORDED)), None
    )
    try:
        return in_utc(_from_match(match), zone) if match else None
    except (ValueError, OverflowError, OSError):
        return None


def _from_match(match: re.Match[str]) -> datetime:
    parts = match.groupdict()
    hour = int(parts["hour"])
    half = (parts.get("half") or "").lower()
    if half:
        if not 1 <= hour <= 12:  # noqa: PLR2004
            raise ValueError("no such hour")
        hour = hour % 12 + (12 if half == "pm" else 0)
    return datetime(  # noqa: DTZ001  # `in_utc` gives it its zone
        int(parts["year"]),
        _month_number(parts["month"]),
        int(parts["day"]),
        hour,
        int(parts["minute"]),
        int(parts["second"] or 0),
        int(parts.get("milli") or 0) * 1000,
    )


def _month_number(text: str) -> int:
    return int(text) if text.isdigit() else _MONTHS.index(text[:3].lower()) // 4 + 1


def in_utc(moment: datetime, zone: tzinfo | None) -> datetime:
    """Convert `moment` to UTC; a naive one is in `zone`, None being the system's."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone else in_zone(moment, None)
    return to_ms(moment)


ORDERS: Final[tuple[DateOrder, ...]] = ("dmy", "mdy", "ymd")

_TABLES: Final[list[Language]] = [dates(code) for code in CODES]
_MONTHS_BY_NAME: Final = {
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
_MONTH: Final = "|".join(
    map(re.escape, sorted(_MONTHS_BY_NAME, key=lambda name: (-len(name), name)))
)
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
    dated = _DATE_IN.search(text)
    rest = f"{text[: dated.start()]} {text[dated.end() :]}" if dated else text
    if dated and rest.startswith(" T"):
        rest = rest[2:]
    timed = _TIME_IN.search(rest.replace("T", " ", 1) if dated else rest)
    clock, offset = _parse_clock(timed[0]) if timed else (None, None)
    return WrittenTime(dated[0] if dated else "", clock, offset)


def day_of(text: str) -> str:
    """Return the date in a text that matches `STAMP`, as written; empty: none."""
    found = _DATE_IN.search(text)
    return found[0] if found else ""


def day_alone(line: str) -> str:
    """Return the date that makes up a whole line, such as a heading; empty: none."""
    found = _DAY.fullmatch(line.strip()) if len(line) < _CENTURY else None
    return found["date"] if found else ""


def day_in(text: str) -> str:
    """Return a date that begins with its year, from a file name; empty: none."""
    found = re.search(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", text)
    return found[0] if found else ""


def read_day(text: str, order: DateOrder) -> date | None:
    """Parse a date; None if the calendar has no such day."""
    named = _WORD.search(text)
    if named:
        numbers = [int(n) for n in re.findall(r"\d+", text)]
        if len(numbers) != 2:  # noqa: PLR2004  # a day and a year
            return None
        return _valid_date(numbers[1], _MONTHS_BY_NAME[named[0].lower()], numbers[0])
    found = _CJK.fullmatch(text.rstrip("日")) if "年" in text else _NUMBERS.fullmatch(text)
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
    try:
        return date(year + 2000 if year < _CENTURY else year, month, day)
    except ValueError:
        return None


def _parse_clock(text: str) -> tuple[time | None, timedelta | None]:
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
        found = _NUMBERS.fullmatch(text)
        if text == self._seen or not found or len(found[1]) > 2:  # noqa: PLR2004
            return
        self._seen = text
        readings = {order: self._read(text, order) for order in ORDERS}
        if len(found[3]) > 2:  # noqa: PLR2004  # the year is last
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
