"""When something was said, in all the ways that chat files write it; else a guess."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.chats.types import Message, Skip
from familiar_cli.clock import in_zone, to_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_UNDATED: Final = 10_000
"""Lines without a time that are held back until the next one with a time."""

_STEP: Final = timedelta(seconds=1)  # between lines that have a neighbour on one side only
_MILLISECONDS_FROM: Final = 10**11  # seconds reach this in the year 5138
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
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
    """Return the moment that `value` means, in UTC; None when it means none.

    Read are ISO 8601, seconds and milliseconds since 1970, `June 19, 2023 2:20pm` and
    `2023-6-19 @14h 20m 05s 123ms`. Zero means that the time is not known.

    Args:
        value: What the source says.
        zone: The timezone of a time that has none; None: the system's.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _counted(value)
    return _written(value, zone) if isinstance(value, str) and value.strip() else None


def stated_time(value: object) -> str:
    """Return a time as the source writes it, by which a line is known again."""
    if value is None or isinstance(value, bool | dict | list):
        return ""
    return str(value).strip()


def dated(lines: Iterable[Message | Skip], start: datetime) -> Iterator[Message | Skip]:
    """Yield `lines` so that every message has a time, marked as estimated where it had none.

    A run without times is spread between its neighbours.

    Args:
        lines: The lines, in order.
        start: A time for the case that no line has one.
    """
    before: datetime | None = None
    waiting: list[Message | Skip] = []
    undated = 0
    for line in lines:
        if isinstance(line, Message) and line.at is not None:
            if waiting:
                yield from _spread(waiting, undated, before, line.at)
                waiting, undated = [], 0
            before = line.at
            yield line
        elif isinstance(line, Message) or waiting:
            waiting.append(line)
            undated += isinstance(line, Message)
            if undated >= MAX_UNDATED:
                yield from _spread(waiting, undated, before or start, None)
                before = _moved(before or start, undated * _STEP)
                waiting, undated = [], 0
        else:
            yield line
    if waiting:
        yield from _spread(waiting, undated, before or start, None)


def _spread(
    lines: list[Message | Skip], count: int, before: datetime | None, after: datetime | None
) -> Iterator[Message | Skip]:
    """Yield `lines` with times between `before` and `after`, at least one of which is given."""
    step = _STEP
    if before is None:
        assert after is not None
        before = _moved(after, -(count + 1) * _STEP)
    elif after is not None:
        step = max((after - before) / (count + 1), timedelta(0))
    number = 0
    for line in lines:
        if isinstance(line, Skip):
            yield line
            continue
        number += 1
        yield replace(line, at=to_ms(_moved(before, number * step)), estimated=True)


def _moved(moment: datetime, by: timedelta) -> datetime:
    """Return a moment so much later; the same where the calendar ends before that."""
    try:
        return moment + by
    except OverflowError:
        return moment


def _counted(number: float) -> datetime | None:
    if not number or not math.isfinite(number):
        return None
    milliseconds = number if abs(number) >= _MILLISECONDS_FROM else number * 1000
    try:
        return _EPOCH + timedelta(milliseconds=math.floor(milliseconds))
    except OverflowError:
        return None


@lru_cache(maxsize=1024)
def _written(text: str, zone: tzinfo | None) -> datetime | None:
    found = text.strip()
    try:
        return in_utc(datetime.fromisoformat(found), zone)
    except (ValueError, OverflowError, OSError):
        pass
    if _NUMBER.fullmatch(found):
        return _counted(float(found))
    match = _HUMANIZED.fullmatch(found) or next(
        filter(None, (p.fullmatch(found) for p in _WORDED)), None
    )
    try:
        return in_utc(_built(match), zone) if match else None
    except (ValueError, OverflowError, OSError):
        return None


def _built(match: re.Match[str]) -> datetime:
    parts = match.groupdict()
    hour = int(parts["hour"])
    half = (parts.get("half") or "").lower()
    if half:
        if not 1 <= hour <= 12:  # noqa: PLR2004
            raise ValueError("no such hour")
        hour = hour % 12 + (12 if half == "pm" else 0)
    return datetime(  # noqa: DTZ001  # `in_utc` gives it its zone
        int(parts["year"]),
        _month(parts["month"]),
        int(parts["day"]),
        hour,
        int(parts["minute"]),
        int(parts["second"] or 0),
        int(parts.get("milli") or 0) * 1000,
    )


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _MONTHS.index(text[:3].lower()) + 1


def in_utc(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return `moment` in UTC; one without a zone is in `zone`, None being the system's."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone else in_zone(moment, None)
    return to_ms(moment)
