"""When something is to happen: `daily 03:00`, `weekly sun 03:30`, `monthly 1 04:00`, local time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConfigError
from familiar_cli.when import WEEKDAY_OF, read_hour

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, time, tzinfo

_MONTH_DAY: Final = re.compile(r"0?[1-9]|[12]\d|3[01]", re.ASCII)
_DAY: Final = timedelta(days=1)
_MOST_DAYS: Final = 70  # the longest way back to the 31st of a month


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
    found = parse_schedule(text)
    if found is None:
        raise ConfigError(
            f"{key!r} is {text!r}, which is not a valid schedule",
            hint=f"`familiar config set {key} 'weekly sun 03:30'`; or `daily 03:00`, "
            "`monthly 1 04:00`.",
        )
    return found


def parse_schedule(text: str) -> Schedule | None:
    """Return the schedule that `text` says, or None."""
    *days, hour = text.lower().split() or [""]
    at = read_hour(hour)
    match days:
        case _ if at is None:
            return None
        case ["daily"]:
            return Schedule(at)
        case ["weekly", name] if name in WEEKDAY_OF:
            return Schedule(at, weekday=WEEKDAY_OF[name])
        case ["monthly", day] if _MONTH_DAY.fullmatch(day):
            return Schedule(at, month_day=int(day))
    return None


def _back_from(day: date) -> Iterator[date]:
    for n in range(_MOST_DAYS):
        yield day - n * _DAY
