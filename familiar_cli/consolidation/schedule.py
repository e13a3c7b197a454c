"""When something is to happen: `daily 03:00`, `weekly sun 03:30`, `monthly 1 04:00`, local time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORM: Final = re.compile(
    r"(?:daily|weekly (mon|tue|wed|thu|fri|sat|sun)|monthly (\d{1,2})) (\d{1,2}):(\d{2})", re.ASCII
)
_DAY: Final = timedelta(days=1)
_MOST_DAYS: Final = 70  # the longest way back to the 31st of a month
_LAST_HOUR, _LAST_MINUTE, _LAST_DAY = 23, 59, 31


@dataclass(frozen=True, slots=True)
class Schedule:
    """A time of day, and on which days.

    Args:
        at: The time of day.
        weekday: Monday is 0; None: on any.
        month_day: The day of the month; None: on any. A shorter month has its last day.
    """

    at: time
    weekday: int | None = None
    month_day: int | None = None

    def last_before(self, now: datetime, zone: tzinfo | None) -> datetime:
        """Return the latest scheduled moment that is not after `now`, in UTC."""
        today = now.astimezone(zone).date()
        moments = (self._on(day, zone) for day in _back_from(today + _DAY) if self._fits(day))
        return next(moment for moment in moments if moment <= now)

    def _fits(self, day: date) -> bool:
        if self.weekday is not None and day.weekday() != self.weekday:
            return False
        if self.month_day is None or day.day == self.month_day:
            return True
        return day.day < self.month_day and (day + _DAY).day == 1

    def _on(self, day: date, zone: tzinfo | None) -> datetime:
        """Return the moment on a day; the later one where the clocks skip it or show it twice."""
        wall = datetime.combine(day, self.at, zone)
        return max(wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


def read_schedule(text: str, key: str) -> Schedule:
    """Return the schedule that the setting `key` says.

    Raises:
        ConfigError: It says none.
    """
    found = _FORM.fullmatch(" ".join(text.lower().split()))
    hour, minute = (int(found[3]), int(found[4])) if found else (99, 0)
    month_day = int(found[2]) if found and found[2] else None
    if (
        found is None
        or hour > _LAST_HOUR
        or minute > _LAST_MINUTE
        or not 1 <= (month_day or 1) <= _LAST_DAY
    ):
        raise ConfigError(
            f"{key!r} is {text!r}, which is no schedule",
            hint=f"`familiar config set {key} 'weekly sun 03:30'`; or `daily 03:00`, "
            "`monthly 1 04:00`.",
        )
    weekday = _DAYS.index(found[1]) if found[1] else None
    return Schedule(time(hour, minute), weekday, month_day)


def _back_from(day: date) -> Iterator[date]:
    for n in range(_MOST_DAYS):
        yield day - n * _DAY
