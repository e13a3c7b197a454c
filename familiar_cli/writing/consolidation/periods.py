"""Days, weeks, months and years, their file names, and the values of consolidation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from familiar_cli.base.errors import UsageError
from familiar_cli.base.languages import ENGLISH, SLOTS, Phrases
from familiar_cli.base.times.clock import to_zone
from familiar_cli.store.memory.layout import DAILY_DIR, SESSIONS_DIR

if TYPE_CHECKING:
    from familiar_cli.writing.pending import PlannedFile


Tier = Literal["daily", "weekly", "monthly", "yearly"]
TIERS: Final[tuple[Tier, ...]] = ("daily", "weekly", "monthly", "yearly")
CUTOFF_HOUR: Final = 5
_FORMS: Final[dict[Tier, str]] = {
    "daily": r"\d{4}-\d{2}-\d{2}",
    "weekly": r"\d{4}-W\d{2}",
    "monthly": r"\d{4}-\d{2}",
    "yearly": r"\d{4}",
}
# Python's calendar ends on 31 December 9999, which is in the middle of a week.
_FIRST_YEAR: Final = 1
_LAST_YEAR: Final = 9998
_REMEMBERED: Final = 16_384  # days of many years
_DECEMBER: Final = 12
_WEEK: Final = timedelta(days=7)
_FIRST_DAY: Final = date(2, 1, 1)
_LAST_DAY: Final = date(9998, 12, 31)
_DAY: Final = timedelta(days=1)
_THURSDAY: Final = timedelta(days=3)


class Period(Struct, frozen=True, order=True):
    """One day, week, month or year.

    Args:
        first: Its first day.
        last: Its last day.
        name: Its file name without suffix: `2026-04-07`, `2026-W15`, `2026-04`, `2026`.
    """

    first: date
    last: date
    tier: Tier
    name: str

    @property
    def days(self) -> tuple[date, ...]:
        """All its days, in order."""
        return tuple(self.first + n * _DAY for n in range((self.last - self.first).days + 1))

    def title(self, phrases: Phrases = ENGLISH) -> str:
        """Return the display title: `2026-W15, 6 April 2026 to 12 April 2026`."""
        is_day = self.tier == "daily"
        when = phrases.day(self.first) if is_day else phrases.days(self.first, self.last)
        return f"{self.name}{phrases.comma}{when}"


def day_of(day: date) -> Period:
    """Return a day as a period."""
    return Period(day, day, "daily", day.isoformat())


@lru_cache(_REMEMBERED)
def week_of(day: date) -> Period:
    """Return the ISO week that `day` lies in."""
    year, week, weekday = day.isocalendar()
    monday = day - (weekday - 1) * _DAY
    return Period(monday, monday + 6 * _DAY, "weekly", f"{year:04}-W{week:02}")


@lru_cache(_REMEMBERED)
def month_of(day: date) -> Period:
    """Return the month that the week of `day` belongs to: that of its Thursday."""
    thursday = week_of(day).first + _THURSDAY
    after = _next_month(thursday.year, thursday.month)
    first = _first_monday(thursday.year, thursday.month)
    name = f"{thursday.year:04}-{thursday.month:02}"
    return Period(first, _first_monday(*after) - _DAY, "monthly", name)


@lru_cache(_REMEMBERED)
def year_of(day: date) -> Period:
    """Return the ISO year that `day` lies in."""
    year = day.isocalendar().year
    first, after = _first_monday(year, 1), _first_monday(year + 1, 1)
    return Period(first, after - _DAY, "yearly", f"{year:04}")


_OF: Final[dict[Tier, Callable[[date], Period]]] = {
    "daily": day_of,
    "weekly": week_of,
    "monthly": month_of,
    "yearly": year_of,
}


def period_of(day: date, tier: Tier) -> Period:
    """Return the period of a tier that `day` lies in."""
    return _OF[tier](day)


def period_parts(period: Period) -> tuple[Period, ...]:
    """Return the parts of a period in order: a week's days, a month's weeks, a year's months.

    A day has no parts.
    """
    if period.tier == "daily":
        return ()
    below = TIERS[TIERS.index(period.tier) - 1]
    periods: list[Period] = []
    day = period.first
    while day <= period.last:
        periods.append(period_of(day, below))
        day = periods[-1].last + _DAY
    return tuple(periods)


def parse_tier(name: str) -> Tier:
    """Parse the name of a tier.

    Raises:
        UsageError: There is no such tier.
    """
    for tier in TIERS:
        if name == tier:
            return tier
    raise UsageError(
        f"{name!r} is not a kind of period", hint=f"Known: {', '.join(TIERS)}; omit it for all."
    )


def parse_period(name: str, tier: Tier | None = None) -> Period:
    """Parse the name of a period; its form implies the tier.

    Raises:
        UsageError: It is not a period, or not of `tier`.
    """
    period = read_period(name)
    if period is None:
        raise UsageError(
            f"{name!r} is not a valid day, week, month or year",
            hint="Use e.g. 2026-04-07, 2026-W15, 2026-04 or 2026.",
        )
    if tier is not None and period.tier != tier:
        raise UsageError(
            f"{name!r} is {_ARTICLES[period.tier]}, not {_ARTICLES[tier]}",
            hint=f"Run `familiar consolidate {period.tier} --period {period.name}`.",
        )
    return period


_ARTICLES: Final = {"daily": "a day", "weekly": "a week", "monthly": "a month", "yearly": "a year"}


@lru_cache(_REMEMBERED)
def read_period(name: str) -> Period | None:
    """Parse the exact name of a period, or return None."""
    tier = next((t for t, form in _FORMS.items() if re.fullmatch(form, name, re.ASCII)), None)
    if tier is None or not _FIRST_YEAR <= int(name[:4]) <= _LAST_YEAR:
        return None
    try:
        match tier:
            case "daily":
                return day_of(date.fromisoformat(name))
            case "weekly":
                return week_of(date.fromisocalendar(int(name[:4]), int(name[6:]), 1))
            case "monthly":
                return month_of(_first_thursday(int(name[:4]), int(name[5:])))
            case _:
                return year_of(_first_thursday(int(name), 1))
    except ValueError:
        return None


def end_of(day: date, zone: tzinfo | None, cutoff_hour: int = CUTOFF_HOUR) -> datetime:
    """Return when `day` is over: the cut-off hour of the next morning, in UTC.

    If daylight saving repeats or skips that hour, the later reading holds.

    Args:
        zone: The person's timezone; None: the system's.
        cutoff_hour: When the night ends, 0 to 12.
    """
    try:
        wall = datetime.combine(day + _DAY, time(cutoff_hour), zone)
        return max(wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    except OverflowError:  # the calendar ends before that, or begins after it
        return datetime.combine(day, time(cutoff_hour), UTC)


def is_over(
    period: Period, now: datetime, zone: tzinfo | None, cutoff_hour: int = CUTOFF_HOUR
) -> bool:
    """Tell whether the last day of a period is over."""
    return now >= end_of(period.last, zone, cutoff_hour)


def day_at(now: datetime, zone: tzinfo | None, cutoff_hour: int = CUTOFF_HOUR) -> date:
    """Return the day that a moment belongs to; the night belongs to the day before it.

    The result is clamped so that its week, month and year are within Python's calendar.
    """
    day = min(max(to_zone(now, zone).date(), _FIRST_DAY), _LAST_DAY)
    while day < _LAST_DAY and now >= end_of(day, zone, cutoff_hour):
        day += _DAY
    while day > _FIRST_DAY and now < end_of(day - _DAY, zone, cutoff_hour):
        day -= _DAY
    return day


def _next_month(year: int, month: int) -> tuple[int, int]:
    return (year + 1, 1) if month == _DECEMBER else (year, month + 1)


def _first_thursday(year: int, month: int) -> date:
    first = date(year, month, 1)
    return first + ((_THURSDAY.days - first.weekday()) % _WEEK.days) * _DAY


def _first_monday(year: int, month: int) -> date:
    """Return the Monday of the first week that belongs to a month."""
    return _first_thursday(year, month) - _THURSDAY


_SESSION: Final = re.compile(
    rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:-({'|'.join(SLOTS)}))?(?!\d).*", re.ASCII
)
_DAILY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_(.+))?", re.ASCII | re.DOTALL)
_MIDDLE_OF_NIGHT: Final = 3  # the night is from midnight to six
# The days on which a year of weeks and a year of days may be two different ones.
_TURN_OF_THE_YEAR: Final = frozenset({"12-2", "12-3", "01-0"})
_OF_DAYS: Final = frozenset({SESSIONS_DIR, DAILY_DIR})


MONTH_CHARS: Final = len("2026-04")
_INSIDE: Final = re.compile(r"\d{4}-(?:0[2-9]|1[01])-", re.ASCII)


def is_inside_a_year(name: str) -> bool:
    """Tell whether all names with these `MONTH_CHARS` characters are in a single ISO year."""
    return bool(_INSIDE.match(name))


def session_day(rel_path: str, cutoff_hour: int = CUTOFF_HOUR) -> tuple[date, int] | None:
    """Return the day of a session file and its order in it; None for other files.

    A night belongs to the day before if most of it is before the cut-off hour.
    """
    match = _SESSION.fullmatch(rel_path.removeprefix(f"{SESSIONS_DIR}/").removesuffix(".md"))
    period = read_period(match[1]) if match else None
    if match is None or period is None or not rel_path.endswith(".md"):
        return None
    if match[2] == "night" and cutoff_hour > _MIDDLE_OF_NIGHT and period.first > date.min:
        return period.first - timedelta(days=1), len(SLOTS)
    return period.first, SLOTS.index(match[2]) if match[2] else -1


def period_in(rel_path: str) -> tuple[Period, str] | None:
    """Return the period and instance of a tier's file; None for other files."""
    directory, _, name = rel_path.partition("/")
    stem = name.removesuffix(".md")
    if directory not in TIERS or not name.endswith(".md"):
        return None
    instance = ""
    if directory == DAILY_DIR:
        match = _DAILY.fullmatch(stem)
        if match is None or "/" in stem:
            return None
        stem, instance = match[1], match[2] or ""
    period = read_period(stem)
    return (period, instance) if period is not None and period.tier == directory else None


def year_in(rel_path: str, cutoff_hour: int = CUTOFF_HOUR) -> str | None:
    """Return the name of the ISO year of a file; None for other files.

    Fast, since it is called for every file: only around the turn of the year does it look past the
    first four characters.
    """
    directory, _, name = rel_path.partition("/")
    if name[5:9] in _TURN_OF_THE_YEAR and directory in _OF_DAYS:
        return _year_of_day(rel_path, cutoff_hour)
    return name[:4] if name[:4].isdecimal() else None


def _year_of_day(rel_path: str, cutoff_hour: int) -> str | None:
    period = period_in(rel_path)
    placed = session_day(rel_path, cutoff_hour)
    day = period[0].first if period else placed[0] if placed else None
    return year_of(day).name if day else None


class SourceItem(Struct, frozen=True):
    """A text to read: a day, a week, a session, or a condensation of several.

    Args:
        label: Its label, e.g. `2026-04-07`.
        sources: The labels of its sources; empty: it is a source itself.
    """

    label: str
    text: str
    sources: tuple[str, ...] = ()

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The labels of the sources it represents."""
        return self.sources or (self.label,)


class Point(Struct, frozen=True):
    """A point to remember, with the labels of its sources."""

    text: str
    sources: tuple[str, ...]


class Rejection(Struct, frozen=True):
    """A proposal rejected by a rule.

    Args:
        rail: The rule's name.
        reason: Why, in words.
        text: The rejected text.
    """

    rail: str
    reason: str
    text: str = ""


class DraftedSummary(Struct, frozen=True):
    """A model's proposal.

    Args:
        summary: A few sentences.
        points: Further points to remember.
        refused: Proposals rejected by the rules.
    """

    summary: str
    points: tuple[Point, ...]
    refused: tuple[Rejection, ...] = ()


class PlannedDigest(Struct, frozen=True):
    """A file to be made.

    Args:
        name: Its name in reports, e.g. `2026-W15` or `mid`.
        title: Its H1.
        sources: The hash of each source file.
        items: The texts to read.
        body: The complete text, if no model is needed.
        guidance: Instructions for the model.
        budget_tokens: Token limit of the model's text.
        made_at: When it is made, ISO 8601; empty if irrelevant.
        may_shrink: Whether it may lose half of its text without approval.
    """

    name: str
    rel_path: str
    title: str
    sources: Mapping[str, str]
    items: tuple[SourceItem, ...] = ()
    body: str | None = None
    guidance: str = ""
    budget_tokens: int = 0
    made_at: str = ""
    may_shrink: bool = False


class FileResult(Struct, frozen=True):
    """Result of making a file.

    Args:
        file: The file before and after.
        expect: Its previous hash, or `MISSING`.
        refused: Proposals rejected by the rules.
        held: Id of the plan that awaits approval; empty: none.
    """

    file: PlannedFile
    expect: str
    refused: tuple[Rejection, ...] = ()
    held: str = field(default="")
