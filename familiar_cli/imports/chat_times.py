"""Parse dates and times in the forms that people and programs write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from familiar_cli.base.times.clock import in_zone, to_ms
from familiar_cli.imports.contract import ForeignMessage
from familiar_cli.imports.source import Skip

MAX_UNDATED: Final = 10_000
"""Lines without a time that are held back until the next one with a time."""

_STEP: Final = timedelta(seconds=1)  # between lines that have a dated neighbour on one side only
_UNKNOWN: Final = (0, -1)  # what programs write that know no time
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
    if number in _UNKNOWN:
        return None
    milliseconds = number if abs(number) >= _MILLISECONDS_FROM else number * 1000
    try:
        return _EPOCH + timedelta(milliseconds=math.floor(milliseconds))
    except (OverflowError, ValueError):  # out of range, or no number
        return None


@lru_cache(maxsize=1024)
def _parse_iso(text: str, zone: tzinfo | None) -> datetime | None:
    result = text.strip()
    try:
        return in_utc(datetime.fromisoformat(result), zone)
    except (ValueError, OverflowError, OSError):
        pass
    if _NUMBER.fullmatch(result):
        return _from_epoch(float(result))
    match = _HUMANIZED.fullmatch(result) or next(
        filter(None, (p.fullmatch(result) for p in _WORDED)), None
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
