"""When a memory was: the day or period of a file, and the times that its lines speak of."""

from __future__ import annotations

import re
from calendar import monthrange
from contextlib import suppress
from datetime import date
from math import exp
from typing import TYPE_CHECKING, Final

from familiar_cli.spans import Span, Yearly, days_between, spans_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_AFTER_DAYS: Final = 10
_BEFORE_DAYS: Final = 5
_BEFORE: Final = 0.6
_OF_FILE: Final = 0.8
_SHORT_DAYS: Final = 7  # what is no longer says of each of its days that it was then

_DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_PERIOD: Final = re.compile(
    r"(?:weekly/(\d{4})-W(\d{2})|monthly/(\d{4})-(\d{2})|yearly/(\d{4}))\.md", re.ASCII
)


def day_in(text: str) -> date | None:
    """Return the first day that `text` names as `2026-01-31`, or None."""
    for found in _DAY.finditer(text):
        try:
            return date(*map(int, found.groups()))
        except ValueError:
            continue
    return None


def period_of(rel_path: str) -> Span | None:
    """Return the week, month or year that a file is about; None for any other file."""
    found = _PERIOD.fullmatch(rel_path)
    if found is None:
        return None
    week_year, week, month_year, month, year = (int(part or 0) for part in found.groups())
    try:
        if week:
            days = (date.fromisocalendar(week_year, week, day) for day in (1, 7))
            return Span(*days)
        if month:
            last = monthrange(month_year, month)[1]
            return Span(date(month_year, month, 1), date(month_year, month, last))
        return Span(date(year, 1, 1), date(year, 12, 31))
    except ValueError:  # `IllegalMonthError` is one, too
        return None


def last_day(rel_path: str) -> str:
    """Return the last day of the week, month or year that a file is about, else an empty string."""
    period = period_of(rel_path)
    return period.last.isoformat() if period else ""


def times_of(text: str, day: date | None) -> list[Span]:
    """Return the times that a line speaks of.

    Args:
        text: The line.
        day: When it was written: what `yesterday` in it is counted from; None: nobody knows.
    """
    found = []
    for span in spans_in(text, day):
        if isinstance(span, Span):
            found.append(span)
        elif day:
            with suppress(ValueError):
                found.append(span.near(day))
    return [span for span in found if span != Span(day or date.min, day or date.min)]


def day_span(day: date) -> Span:
    """Return one day as a span."""
    return Span(day, day)


def time_of(
    wanted: Sequence[Span | Yearly], held: Span | None, spoken_of: Iterable[Span] = ()
) -> float:
    """Return how near a line is to the times that a question names, in [0, 1].

    Args:
        wanted: The times.
        held: The day or period of the line's file; None: it has none.
        spoken_of: The times that the line speaks of itself, which count more.
    """
    of_file = _OF_FILE * closeness(wanted, held) if held else 0.0
    return max([of_file, *(closeness(wanted, span) for span in spoken_of)])


def closeness(wanted: Sequence[Span | Yearly], held: Span) -> float:
    """Return how near in time something is to what a question asks for, in [0, 1].

    It is 1 within it. What came after is nearer than what came before, since a thing is told of
    when it has happened. Something long that holds a short time says little of that time.
    """
    return max((_closeness(one, held) for one in wanted), default=0.0)


def _closeness(wanted: Span | Yearly, held: Span) -> float:
    if isinstance(wanted, Yearly):
        try:
            wanted = wanted.near(held.first)
        except ValueError:
            return 0.0
    gap = days_between(wanted, held)
    if gap > 0:
        return exp(-gap / _AFTER_DAYS)
    if gap < 0:
        return _BEFORE * exp(gap / _BEFORE_DAYS)
    days, asked = (held.last - held.first).days, (wanted.last - wanted.first).days
    return 1.0 if days <= max(asked, _SHORT_DAYS) else max(asked, _SHORT_DAYS) / days


def instance_in(rel_path: str) -> str:
    """Return which instance wrote `daily/2026-01-31_laptop.md`, or an empty string."""
    stem = rel_path.rpartition("/")[2].rpartition(".")[0]
    found = _DAY.match(stem)
    return stem[found.end() + 1 :] if found and stem[found.end() :].startswith("_") else ""
