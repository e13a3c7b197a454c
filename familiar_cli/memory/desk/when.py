"""What people type for a time: `tomorrow 9:00`, `in 2 hours`, `friday`, `2026-11-30`.

docs/how-to/reminders-and-tasks.md lists the forms.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import UsageError
from familiar_cli.memory.desk.due import Due, due_of, read_due, to_utc

if TYPE_CHECKING:
    from datetime import date, tzinfo

FORMS: Final = (
    "`2026-11-30`, `2026-11-30 09:00`, `9:00`, `tomorrow`, `tomorrow 9:00`, `friday 9am`, "
    "`in 2 hours`, `in 3 days`"
)
DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT: Final = {"tues": 1, "wednes": 2, "thur": 3, "thurs": 3}
_WEEKDAYS: Final = {
    **{name: n for n, name in enumerate(DAYS)},
    **{name[:3]: n for n, name in enumerate(DAYS)},
    **_SHORT,
}
_MINUTES: Final = {"minute": 1, "minutes": 1, "min": 1, "mins": 1, "hour": 60, "hours": 60, "h": 60}
_DAYS_OF: Final = {"day": 1, "days": 1, "week": 7, "weeks": 7}
_IN: Final = re.compile(r"in (\d{1,9}|an?) ?([a-z]+)", re.ASCII)
_CLOCK: Final = re.compile(r"(\d{1,2})(?:[:.](\d{2}))? ?([ap]m)?", re.ASCII)
_NOON: Final = 12


def parse_when(text: str, now: datetime, zone: tzinfo | None) -> Due:
    """Return the time that `text` means.

    A day alone is that day, from its beginning on; an hour alone is the next time it comes. Days
    and weeks keep the time of day, also where a clock is put forward or back between; hours and
    minutes are counted.

    Args:
        text: What somebody typed.
        now: The present, with a timezone.
        zone: Where the familiar lives; None: the system's.

    Raises:
        UsageError: It is no time, or no calendar holds it.
    """
    words = " ".join(text.split())
    try:
        due = _iso(words) or _relative(words.lower(), now, zone) or _named(words.lower(), now, zone)
    except OverflowError:
        due = None
    if due is None or due.moment is None:
        raise UsageError(f"{text!r} is no time that is understood", hint=f"Write {FORMS}.")
    return due


def _iso(words: str) -> Due | None:
    due = read_due(words)
    if due is None or due.moment is None or not due.has_time:
        return due
    shown = due.moment.isoformat(" ", "seconds" if due.moment.second else "minutes")
    return Due(shown, due.moment, has_time=True)


def _relative(words: str, now: datetime, zone: tzinfo | None) -> Due | None:
    found = _IN.fullmatch(words)
    if found is None:
        return None
    count = int(found[1]) if found[1].isdigit() else 1
    if found[2] in _MINUTES:
        return due_of(now.astimezone(UTC) + timedelta(minutes=count * _MINUTES[found[2]]), zone)
    if found[2] not in _DAYS_OF:
        return None
    there = _wall(now, zone) + timedelta(days=count * _DAYS_OF[found[2]])
    return due_of(to_utc(there, zone), zone)


def _named(words: str, now: datetime, zone: tzinfo | None) -> Due | None:
    first, _, rest = words.removeprefix("on ").removeprefix("next ").partition(" ")
    day = _day(first, _wall(now, zone).date())
    if day is None:
        hour = _hour(words.removeprefix("at "))
        return _next(hour, now, zone) if hour else None
    if not rest:
        return Due(day.isoformat(), datetime.combine(day, time()), has_time=False)
    hour = _hour(rest.removeprefix("at "))
    return _at(day, hour) if hour else None


def _day(word: str, today: date) -> date | None:
    """Return the day a word names; a weekday is the next one, and never today."""
    word = word.rstrip(",")
    if word in {"today", "tomorrow"}:
        return today + timedelta(days=word == "tomorrow")
    if word not in _WEEKDAYS:
        return None
    return today + timedelta(days=(_WEEKDAYS[word] - today.weekday() - 1) % 7 + 1)


def _hour(text: str) -> time | None:
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


def _next(hour: time, now: datetime, zone: tzinfo | None) -> Due:
    here = _wall(now, zone)
    today = datetime.combine(here.date(), hour)
    is_ahead = to_utc(today, zone) > now
    return _at(here.date() if is_ahead else here.date() + timedelta(days=1), hour)


def _at(day: date, hour: time) -> Due:
    moment = datetime.combine(day, hour)
    return Due(moment.isoformat(" ", "minutes"), moment, has_time=True)


def _wall(now: datetime, zone: tzinfo | None) -> datetime:
    """Return what the clock on the wall shows."""
    return now.astimezone(zone).replace(tzinfo=None, fold=0)
