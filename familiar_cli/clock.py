"""Tell the time. Nothing else in the program asks the system for it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import tzinfo

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ROUND_YEARS: Final = 400  # after which the Gregorian calendar repeats, weekdays too
_ROUND_DAYS: Final = 146_097


def now() -> datetime:
    """Return the present in UTC, cut to milliseconds."""
    return to_ms(datetime.now(UTC))


def to_ms(moment: datetime) -> datetime:
    """Return `moment` in UTC, cut to milliseconds.

    Raises:
        ValueError: `moment` has no timezone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no timezone")
    utc = moment.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def since_1970(seconds: float) -> datetime:
    """Return the moment so many seconds after 1970; below 0, before it, on every system.

    Raises:
        OverflowError: No calendar holds it.
    """
    return _EPOCH + timedelta(seconds=seconds)


def to_utc(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return a moment in UTC; one without a timezone is local.

    Of an hour that comes twice, the first is meant. What no calendar holds becomes the nearest that
    one does.
    """
    try:
        if moment.tzinfo is not None or zone is None:
            return in_zone(moment, UTC)
        return moment.replace(tzinfo=zone).astimezone(UTC)
    except (OverflowError, ValueError, OSError):
        far = datetime.max if moment.year > 2000 else datetime.min  # noqa: DTZ901, PLR2004
        return far.replace(tzinfo=UTC)


def to_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return a moment as clocks show it there; in UTC where their calendar ends before it.

    Args:
        moment: A moment with a timezone.
        zone: The timezone; None: the system's.
    """
    try:
        return in_zone(moment, zone)
    except (OverflowError, ValueError, OSError):
        return moment.astimezone(UTC)


def in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return what `astimezone` does, also where the system's zone knows nothing before 1970.

    Windows then raises OSError; the same day of a later round of the calendar has the same offset.
    """
    try:
        return moment.astimezone(zone)
    except OSError:
        if moment.year > _EPOCH.year:
            raise
    rounds = 1 + (_EPOCH.year - moment.year) // _ROUND_YEARS
    later = rounds * timedelta(days=_ROUND_DAYS)
    return (moment + later).astimezone(zone) - later


def iso(moment: datetime) -> str:
    """Return `moment` as `2026-01-31T23:59:59.123Z`, which sorts as it happened."""
    return to_ms(moment).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_iso(text: str) -> datetime:
    """Return the moment that `iso` wrote; a time without a zone is taken as UTC.

    Raises:
        ValueError: `text` is not an ISO 8601 time.
    """
    moment = datetime.fromisoformat(text)
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def stopwatch_s() -> float:
    """Return seconds from an arbitrary start, for measuring how long a thing takes."""
    return time.perf_counter()


def wall_ns() -> int:
    """Return nanoseconds since 1970, as the times of files are told."""
    return time.time_ns()
