"""The clock: the only module that asks the system for the time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from familiar_cli.base.errors import OutOfTimeError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ROUND_YEARS: Final = 400  # period of the Gregorian calendar, including weekdays
_ROUND_DAYS: Final = 146_097
_TOLERANCE_S: Final = 60.0  # a clock may be set back a little


def now() -> datetime:
    """Return the present in UTC, truncated to milliseconds."""
    return to_ms(datetime.now(UTC))


def elapsed_s(moment: datetime) -> float:
    """Return the seconds since a stored moment; infinite if it lies in the future.

    Such a moment was stored while the clock was wrong; what waits for it must not wait until then.
    """
    seconds = (now() - moment).total_seconds()
    return seconds if seconds > -_TOLERANCE_S else math.inf


def to_ms(moment: datetime) -> datetime:
    """Return `moment` in UTC, truncated to milliseconds.

    Raises:
        ValueError: `moment` has no timezone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no timezone")
    utc = moment.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def since_1970(seconds: float) -> datetime:
    """Convert seconds since 1970 to a moment; negative values work on every system.

    Raises:
        OverflowError: It is out of the calendar's range.
    """
    return _EPOCH + timedelta(seconds=seconds)


def to_utc(moment: datetime, zone: tzinfo | None) -> datetime:
    """Convert a moment to UTC; without a timezone it is local.

    An ambiguous local time means the first occurrence. Moments out of range are clamped.
    """
    try:
        if moment.tzinfo is not None or zone is None:
            return in_zone(moment, UTC)
        return moment.replace(tzinfo=zone).astimezone(UTC)
    except (OverflowError, ValueError, OSError):
        far = datetime.max if moment.year > 2000 else datetime.min  # noqa: DTZ901, PLR2004
        return far.replace(tzinfo=UTC)


def to_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Convert a moment to a timezone; to UTC if out of that timezone's range.

    Args:
        moment: A moment with a timezone.
        zone: The timezone; None for the system's.
    """
    try:
        return in_zone(moment, zone)
    except (OverflowError, ValueError, OSError):
        return moment.astimezone(UTC)


def in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Like `astimezone`, but also for times before 1970 in the system's timezone.

    Windows raises OSError there; the same day in a later calendar cycle has the same offset.
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
    """Format `moment` as `2026-01-31T23:59:59.123Z`, which sorts chronologically."""
    return to_ms(moment).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_iso(text: str) -> datetime:
    """Parse a time formatted by `iso`; without a timezone it is UTC.

    Raises:
        ValueError: `text` is not an ISO 8601 time.
    """
    moment = datetime.fromisoformat(text)
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def stopwatch_s() -> float:
    """Return seconds from an arbitrary start, for measuring durations."""
    return time.perf_counter()


def wall_ns() -> int:
    """Return nanoseconds since 1970, comparable to file times."""
    return time.time_ns()


class WorkLimit:
    """Time limit and cancellation of some work. Thread-safe.

    Args:
        seconds: From now on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until_s = stopwatch_s() + seconds
        self._is_cancelled = False

    def cancel(self) -> None:
        """Cancel the work at its next check."""
        self._is_cancelled = True

    def check(self) -> None:
        """Check that the work is not cancelled and has time left.

        Raises:
            OutOfTimeError: It is not, or has not.
        """
        if self._is_cancelled:
            raise OutOfTimeError("The client has disconnected")
        if stopwatch_s() > self._until_s:
            raise OutOfTimeError(
                f"The request takes longer than {self._seconds:g} s; nothing was changed",
                hint="Send less at once.",
            )


_work_limit: ContextVar[WorkLimit | None] = ContextVar("work_limit", default=None)


@contextmanager
def limited(limit: WorkLimit) -> Iterator[None]:
    """Apply a limit to the work of this block, and of threads started by `work.jobs`."""
    token = _work_limit.set(limit)
    try:
        yield
    finally:
        _work_limit.reset(token)


def check_work_limit() -> None:
    """Raise `OutOfTimeError` if the current work was cancelled or ran out of time."""
    limit = _work_limit.get()
    if limit is not None:
        limit.check()
