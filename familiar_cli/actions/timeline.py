"""The past as a picture of time: turns a day, sessions, what they fold into, and who spoke when."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now, to_zone
from familiar_cli.consolidation.periods import TIERS, day_of, period_in, session_day
from familiar_cli.errors import NotFoundError
from familiar_cli.history.statistics import count_up_to, first_and_last, said_between
from familiar_cli.identity import Author
from familiar_cli.memory.layout import SESSIONS_DIR, SIGNIFICANT_DIR, people_path
from familiar_cli.visibility import OWNER
from familiar_cli.when import read_day

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from familiar_cli.familiar import Familiar

SPANS: Final = ("year", "quarter", "month")
_MONTHS: Final = {"year": 12, "quarter": 3, "month": 1}
_MOST_TURNS: Final = 50_000  # that a span may hold which nobody asked for
_MOST_LANES: Final = 12
_LAST_YEAR: Final = 9998
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DayCount:
    """What was said on a day: how many turns, and the number of one of the first."""

    day: date
    turns: int
    first: int


@dataclass(frozen=True, slots=True)
class DatedFile:
    """A file that is about a span of days; both ends belong to it."""

    rel_path: str
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Lane:
    """A person, and the days on which they spoke.

    Args:
        name: What they are called.
        rel_path: Their file; empty: there is none.
        days: The days.
        turns: How many turns they said.
    """

    name: str
    rel_path: str
    days: tuple[DayCount, ...]
    turns: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A span of the past.

    Args:
        span: `year`, `quarter` or `month`.
        first: Its first day.
        last: Its last day.
        days: The days on which something was said.
        rows: By directory (`sessions`, `daily` … `significant`), the files about days in it.
        lanes: Those who spoke most, the familiar left out.
        others: How many more spoke.
        begins: The day of the first turn of all; None: there is none.
        ends: The day of the last.
    """

    span: str
    first: date
    last: date
    days: tuple[DayCount, ...]
    rows: dict[str, tuple[DatedFile, ...]]
    lanes: tuple[Lane, ...]
    others: int
    begins: date | None
    ends: date | None

    @property
    def before(self) -> date:
        """A day of the span before."""
        return self.first - _DAY

    @property
    def after(self) -> date:
        """A day of the span behind it."""
        return self.last + _DAY


def timeline(familiar: Familiar, at: str = "", span: str = "") -> Timeline:
    """Return the span of time in which a day lies.

    Args:
        familiar: Whose past.
        at: The day, or the month or year, as a person writes it; empty: the last day on which
            something was said.
        span: One of `SPANS`; empty: the longest that can be drawn at once.

    Raises:
        UsageError: `at` is not a day.
    """
    zone = familiar.zone
    ends = first_and_last(familiar.history)
    begun, ended = (to_zone(moment, zone).date() for moment in ends) if ends else (None, None)
    today = to_zone(now(), zone).date()
    day = _within(read_day(at, now(), zone)) if at else _within(ended or today)
    if span not in SPANS:
        span = next((s for s in SPANS if _is_light(familiar, *_ends(day, s))), SPANS[-1])
    first, last = _ends(day, span)
    whole_hours = _whole_hours(first, zone) and _whole_hours(last, zone)
    said = said_between(familiar.history, *_moments(first, last, zone), whole_hours=whole_hours)
    per_day: Counter[date] = Counter()
    first_of: dict[date, int] = {}
    spoken: dict[tuple[str, str], list[tuple[date, int, int]]] = defaultdict(list)
    for one in said:
        on = to_zone(one.at, zone).date()
        per_day[on] += one.turns
        first_of[on] = min(one.first, first_of.get(on, one.first))
        if one.account:
            spoken[one.account].append((on, one.turns, one.first))
    lanes = _lanes(familiar, spoken)
    return Timeline(
        span,
        first,
        last,
        tuple(DayCount(on, per_day[on], first_of[on]) for on in sorted(per_day)),
        _rows(familiar, first, last),
        lanes,
        max(len(spoken) - len(lanes), 0),
        begun,
        ended,
    )


def _lanes(
    familiar: Familiar, spoken: dict[tuple[str, str], list[tuple[date, int, int]]]
) -> tuple[Lane, ...]:
    most = sorted(spoken, key=lambda account: (-sum(s[1] for s in spoken[account]), account))
    authors = [Author(*account) for account in most[:_MOST_LANES]]
    known = {speaker.author.slug: speaker.author for speaker in familiar.history.speakers(OWNER)}
    authors = [known.get(author.slug, author) for author in authors]
    labels = familiar.labels(authors)
    found = []
    for author, account in zip(authors, most, strict=False):
        days: dict[date, DayCount] = {}
        for on, turns, first in spoken[account]:
            old = days.get(on, DayCount(on, 0, first))
            days[on] = DayCount(on, old.turns + turns, min(old.first, first))
        path = people_path(author.slug)
        has_file = familiar.memory.exists(path)
        turns = sum(day.turns for day in days.values())
        listed = tuple(days[on] for on in sorted(days))
        found.append(Lane(labels.of(author), path if has_file else "", listed, turns))
    return tuple(found)


def _rows(familiar: Familiar, first: date, last: date) -> dict[str, tuple[DatedFile, ...]]:
    found: dict[str, tuple[DatedFile, ...]] = {}
    for directory in (SESSIONS_DIR, *TIERS, SIGNIFICANT_DIR):
        marks = (_mark(path) for path in _files(familiar, directory))
        inside = [m for m in marks if m and m.first <= last and m.last >= first]
        found[directory] = tuple(sorted(inside, key=lambda m: (m.first, m.rel_path)))
    return found


def _files(familiar: Familiar, directory: str) -> Iterator[str]:
    try:
        yield from (entry.rel_path for entry in familiar.memory.walk(directory).files)
    except NotFoundError:
        return


def _mark(rel_path: str) -> DatedFile | None:
    named = period_in(rel_path)
    if named:
        return DatedFile(rel_path, named[0].first, named[0].last)
    placed = session_day(rel_path)
    if placed:
        return DatedFile(rel_path, placed[0], placed[0])
    if rel_path.startswith(f"{SIGNIFICANT_DIR}/"):
        try:
            on = day_of(date.fromisoformat(rel_path.removeprefix(f"{SIGNIFICANT_DIR}/")[:10]))
        except ValueError:
            return None
        return DatedFile(rel_path, on.first, on.last)
    return None


def _within(day: date) -> date:
    """Return a day that has a year on both sides of it."""
    return day.replace(year=min(max(day.year, 2), _LAST_YEAR), day=min(day.day, 28))


def _ends(day: date, span: str) -> tuple[date, date]:
    months = _MONTHS[span]
    begins = (day.month - 1) // months * months + 1
    first = date(day.year, begins, 1)
    year, month = divmod(day.year * 12 + begins - 1 + months, 12)
    return first, date(year, month + 1, 1) - _DAY


def _moments(first: date, last: date, zone: tzinfo | None) -> tuple[datetime, datetime]:
    return _midnight(first, zone), _midnight(last + _DAY, zone)


def _midnight(day: date, zone: tzinfo | None) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(zone)


def _whole_hours(day: date, zone: tzinfo | None) -> bool:
    offset = _midnight(day, zone).utcoffset()
    return offset is not None and not offset % _HOUR


def _is_light(familiar: Familiar, first: date, last: date) -> bool:
    since, until = _moments(first, last, familiar.zone)
    return count_up_to(familiar.history, since, until, _MOST_TURNS + 1) <= _MOST_TURNS
