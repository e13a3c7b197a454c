"""Recurring times as people write them: `every monday 9:00`, `every 2 weeks`, `daily 8am`.

One grammar for all recurrences; docs/reference/times.md lists the forms. Days keep their local time
across clock changes: a skipped hour means the following one, an ambiguous hour the first. Minutes
and hours are elapsed time.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.text import join_names
from familiar_cli.base.times.clock import to_utc, to_zone
from familiar_cli.base.times.when import MONTHS, WEEKDAY_OF, WEEKDAYS, read_hour

Unit = Literal["minute", "hour", "day", "week", "month", "year"]

LAST: Final = -1
"""The last day of a month, or the last of its weekday."""

_COUNTED: Final = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_MOST_INTERVAL: Final = 1000
_MOST_LONG: Final = 100  # weeks, months and years
_MOST_DAYS: Final = 366 * (_MOST_LONG + 1)
_WEEK: Final = 7
_EPOCH: Final = date(1970, 1, 5)  # a Monday
_WEEKDAY_SETS: Final = {"weekday": frozenset(range(5)), "weekend": frozenset((5, 6))}
_ADVERBS: Final = {
    "hourly": "every hour",
    "daily": "every day",
    "weekly": "every week",
    "monthly": "every month",
    "yearly": "every year",
    "annually": "every year",
}
_ORDINALS: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": LAST}
_MONTH_OF: Final = {
    **{name.lower(): n for n, name in enumerate(MONTHS, start=1)},
    **{name.lower()[:3]: n for n, name in enumerate(MONTHS, start=1)},
    "sept": 9,
}
_DAY_NUMBER: Final = r"(\d{1,2})(?:st|nd|rd|th)?"
_MONTH_NAME: Final = rf"({'|'.join(sorted(_MONTH_OF, key=len, reverse=True))})"
_AT: Final = re.compile(r"(.+?),?(?: at)? (\d{1,2}[:.]\d{2}(?: ?[ap]m)?|\d{1,2} ?[ap]m)")
_EVERY: Final = re.compile(r"(?:every|each) (.+)")
_INTERVAL: Final = re.compile(r"(other|\d{1,4}) (.+)", re.ASCII)
_UNIT: Final = re.compile(r"(minute|min|hour|day|week|month|year)s?(?: (?:on )?(?:the )?(.+))?")
_NTH: Final = re.compile(rf"({'|'.join(_ORDINALS)}) ([a-z]+)(?: of (?:the|each|every) month)?")
_MONTH_DAY: Final = re.compile(rf"{_DAY_NUMBER}(?: of (?:the|each|every) month)?")
_YEAR_DAY: Final = re.compile(
    rf"{_DAY_NUMBER} (?:of )?{_MONTH_NAME}|{_MONTH_NAME} {_DAY_NUMBER}", re.ASCII
)
_AND: Final = re.compile(r",? and |, ?| & |,")


class Recurrence(Struct, frozen=True):
    """A recurrence rule.

    Args:
        unit: Unit of the interval.
        interval: Number of units between occurrences.
        weekdays: Weekdays; Monday is 0.
        day: Day of the month, 0 for none; the last day in shorter months.
        month: Month, from 1; 0 for any.
        nth: Which of the month's `weekdays`; 0 for all.
        hour: Local time; None for a whole day.
    """

    unit: Unit
    interval: int = 1
    weekdays: frozenset[int] = frozenset()
    day: int = 0
    month: int = 0
    nth: int = 0
    hour: time | None = None

    def __str__(self) -> str:
        """Format the rule so that `parse_recurrence` reads it."""
        at = f" {self.hour:%H:%M}" if self.hour else ""
        units = f"{self.interval} {self.unit}s" if self.interval > 1 else self.unit
        return f"every {self._days(units)}{at}"

    def _days(self, units: str) -> str:
        if self.unit == "week" and self.weekdays:
            names = next((n for n, days in _WEEKDAY_SETS.items() if days == self.weekdays), "")
            days = [WEEKDAYS[n] for n in sorted(self.weekdays)]
            names = names or join_names(days)
            return names if self.interval == 1 else f"{units} on {names}"
        if self.nth:
            which = next(name for name, n in _ORDINALS.items() if n == self.nth)
            on = f"{which} {WEEKDAYS[min(self.weekdays)]}"
            return on if self.interval == 1 else f"{units} on the {on}"
        if self.unit == "year" and self.month:
            return f"{units} on {self.day} {MONTHS[self.month - 1]}"
        if self.day:
            return f"{units} on the {'last day' if self.day == LAST else _nth_words(self.day)}"
        return units

    @property
    def is_counted(self) -> bool:
        """Whether the interval is elapsed time, independent of the clock."""
        return self.unit in _COUNTED

    def anchored(self, day: date) -> Recurrence:
        """Fill in the weekday or date that the rule takes from its first day."""
        if self.unit == "week" and not self.weekdays:
            return replace(self, weekdays=frozenset((day.weekday(),)))
        if self.unit == "month" and not (self.day or self.nth):
            return replace(self, day=day.day)
        if self.unit == "year" and not self.month:
            return replace(self, day=day.day, month=day.month)
        return self


def _nth_words(day: int) -> str:
    suffixes = {1: "st", 2: "nd", 3: "rd"}
    return f"{day}{'th' if day in {11, 12, 13} else suffixes.get(day % 10, 'th')}"


def parse_recurrence(text: str) -> Recurrence | None:
    """Parse a rule such as `every monday 9:00`; None for anything else."""
    words = " ".join(text.casefold().split())
    head, space, rest = words.partition(" ")
    words = f"{_ADVERBS.get(head, head)}{space}{rest}"
    hour = None
    if timed := _AT.fullmatch(words):
        hour = read_hour(timed[2])
        if hour is None:
            return None
        words = timed[1]
    match = _EVERY.fullmatch(words)
    if match is None:
        return None
    rule = _parse_days(match[1], 1)
    if rule is None and (counted := _INTERVAL.fullmatch(match[1])):
        rule = _parse_days(counted[2], 2 if counted[1] == "other" else int(counted[1]))
    if rule is None or (hour and rule.is_counted):
        return None
    most = _MOST_LONG if rule.unit in {"week", "month", "year"} else _MOST_INTERVAL
    return replace(rule, hour=hour) if 1 <= rule.interval <= most else None


def _parse_days(words: str, interval: int) -> Recurrence | None:
    if unit := _UNIT.fullmatch(words):
        return _parse_unit("minute" if unit[1] == "min" else unit[1], unit[2], interval)
    if weekdays := _parse_weekdays(words):
        return Recurrence("week", interval, weekdays)
    return _parse_month_day(words, interval) or _parse_year_day(words, interval)


def _parse_unit(unit: str, on: str | None, interval: int) -> Recurrence | None:
    if on is None:
        return Recurrence(next(one for one in get_args(Unit) if one == unit), interval)
    if unit == "week":
        weekdays = _parse_weekdays(on)
        return Recurrence("week", interval, weekdays) if weekdays else None
    if unit == "month":
        return _parse_month_day(on, interval)
    return _parse_year_day(on, interval) if unit == "year" else None


def _parse_weekdays(words: str) -> frozenset[int]:
    """Parse a list of weekdays; empty for anything else."""
    if words.removesuffix("s") in _WEEKDAY_SETS:
        return _WEEKDAY_SETS[words.removesuffix("s")]
    days = [WEEKDAY_OF.get(n, WEEKDAY_OF.get(n.removesuffix("s"), -1)) for n in _AND.split(words)]
    return frozenset() if -1 in days else frozenset(days)


def _parse_month_day(words: str, interval: int) -> Recurrence | None:
    if nth := _NTH.fullmatch(words):
        which = _ORDINALS[nth[1]]
        if nth[2] == "day" and which in {1, LAST}:
            return Recurrence("month", interval, day=which)
        if nth[2] in WEEKDAY_OF:
            return Recurrence("month", interval, frozenset((WEEKDAY_OF[nth[2]],)), nth=which)
        return None
    match = _MONTH_DAY.fullmatch(words)
    if match is None or not 1 <= int(match[1]) <= 31:  # noqa: PLR2004
        return None
    return Recurrence("month", interval, day=int(match[1]))


def _parse_year_day(words: str, interval: int) -> Recurrence | None:
    match = _YEAR_DAY.fullmatch(words)
    if match is None:
        return None
    day, month = int(match[1] or match[4]), _MONTH_OF[match[2] or match[3]]
    if not 1 <= day <= calendar.monthrange(2000, month)[1]:
        return None
    return Recurrence("year", interval, day=day, month=month)


def next_occurrence(
    rule: Recurrence, after: datetime, zone: tzinfo | None, first: date | None = None
) -> datetime:
    """Return the first occurrence after a moment, in UTC.

    Args:
        after: A moment with a timezone.
        zone: Timezone of the days; None for the system's.
        first: Day from which intervals are counted, or moment for minutes and hours; None for an
            arbitrary Monday.

    Raises:
        OverflowError: It is out of the calendar's range.
    """
    return _nearest_occurrence(rule, after, zone, first, is_ahead=True)


def last_occurrence(
    rule: Recurrence, until: datetime, zone: tzinfo | None, first: date | None = None
) -> datetime:
    """Return the latest occurrence up to a moment, in UTC; parameters as for `next_occurrence`."""
    return _nearest_occurrence(rule, until, zone, first, is_ahead=False)


def _nearest_occurrence(
    rule: Recurrence, at: datetime, zone: tzinfo | None, first: date | None, *, is_ahead: bool
) -> datetime:
    """Return the first occurrence after a moment, or the last one up to it."""
    if rule.is_counted:
        return _count_steps(rule, at, zone, first, more=int(is_ahead))
    step = timedelta(days=1 if is_ahead else -1)
    day = to_zone(at, zone).date() - step
    for _ in range(_MOST_DAYS):
        if _falls_on(rule, day, first) and (_moment_on(rule, day, zone) > at) == is_ahead:
            return _moment_on(rule, day, zone)
        day += step
    raise OverflowError(f"{rule} never occurs")


def _count_steps(
    rule: Recurrence, moment: datetime, zone: tzinfo | None, first: date | None, *, more: int
) -> datetime:
    start = to_utc(
        first if isinstance(first, datetime) else datetime.combine(first or _EPOCH, time()), zone
    )
    step = rule.interval * _COUNTED[rule.unit]
    return start + ((moment - start) // step + more) * step


def _moment_on(rule: Recurrence, day: date, zone: tzinfo | None) -> datetime:
    return to_utc(datetime.combine(day, rule.hour or time()), zone).astimezone(UTC)


def _falls_on(rule: Recurrence, day: date, first: date | None) -> bool:
    """Tell whether the rule occurs on a day."""
    first = first or _EPOCH
    rule = rule.anchored(first)
    if rule.unit == "day":
        return (day - first).days % rule.interval == 0
    if rule.unit == "week":
        weeks = (_monday_of(day) - _monday_of(first)).days // _WEEK
        return day.weekday() in rule.weekdays and weeks % rule.interval == 0
    months = 12 * (day.year - first.year) + day.month - first.month
    if rule.unit == "year":
        is_due = day.month == rule.month and (day.year - first.year) % rule.interval == 0
    else:
        is_due = months % rule.interval == 0
    return is_due and _is_day_of_month(rule, day)


def _is_day_of_month(rule: Recurrence, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if rule.nth:
        nth = 1 + (day.day - 1) // _WEEK
        is_last = day.day + _WEEK > length
        return day.weekday() in rule.weekdays and (is_last if rule.nth == LAST else nth == rule.nth)
    return day.day == (length if rule.day == LAST else min(rule.day, length))


def _monday_of(day: date) -> date:
    return day - timedelta(days=day.weekday())
