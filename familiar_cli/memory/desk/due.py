"""When an item is due, as its line says: `@2026-11-30 09:00`, or `(due 2026-11-30)`.

A time without an offset is what the clock on the wall shows where the familiar lives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_utc, to_zone
from familiar_cli.when import read_when

if TYPE_CHECKING:
    from datetime import tzinfo

_DATE: Final = r"\d{4}-\d{2}-\d{2}"
_TIME: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
_OFFSET: Final = r"Z|[+-]\d{2}:?\d{2}"
_MOMENT: Final = rf"({_DATE})(?:[T ]({_TIME})[ ]?({_OFFSET})?)?"
_MARKED: Final = re.compile(
    rf"(?<![\w@])@{_MOMENT}(?![\w:])|\(due:?[ ]+{_MOMENT}\)", re.ASCII | re.IGNORECASE
)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Due:
    """When something is due.

    Args:
        written: As it is written, e.g. `2026-11-30 09:00`.
        moment: What that means; without a timezone it is local. A date alone is its beginning. None
            when there is no such day or hour.
        has_time: It says an hour, not only a day.
    """

    written: str
    moment: datetime | None
    has_time: bool

    def at(self, zone: tzinfo | None) -> datetime | None:
        """Return when that is, in UTC. `zone` is where the familiar lives; None: the system's."""
        return to_utc(self.moment, zone) if self.moment else None


@dataclass(frozen=True, slots=True)
class FoundDue:
    """A time in a line, and where it stands, as characters from … to."""

    due: Due
    start: int
    end: int


def due_in(words: str) -> FoundDue | None:
    """Return the last time that `words` mark as one, or None."""
    every = list(_MARKED.finditer(words))
    if not every:
        return None
    found = every[-1]
    parts = found.groups()[:3] if found[1] else found.groups()[3:]
    return FoundDue(_due(*parts), found.start(), found.end())


def parse_due(text: str, now: datetime, zone: tzinfo | None) -> Due:
    """Return the time in the future that a person typed, as it is to be written down.

    Raises:
        UsageError: It is not a time; see `when.read_when`.
    """
    found = read_when(text, now, zone, ahead=True)
    moment = found.moment
    if found.is_counted:
        return due_of(moment, zone)
    if not found.has_time:
        return Due(moment.date().isoformat(), moment, has_time=False)
    shown = moment.isoformat(" ", "seconds" if moment.second else "minutes")
    return Due(shown, moment, has_time=True)


def due_of(moment: datetime, zone: tzinfo | None) -> Due:
    """Return how a moment is written down: to the minute, rounded up.

    The offset is written only where the clock on the wall shows the same time twice.
    """
    utc = moment.astimezone(UTC)
    whole = utc.replace(second=0, microsecond=0)
    utc = whole if whole == utc else whole + _MINUTE
    local = to_zone(utc, zone)
    plain = local.replace(tzinfo=None, fold=0)
    shown = plain.isoformat(" ", "minutes")
    if to_utc(plain, zone) == utc:
        return Due(shown, plain, has_time=True)
    return Due(f"{shown}{local.isoformat()[-6:]}", local, has_time=True)


def _due(date: str, time: str | None, offset: str | None) -> Due:
    shown = f"{date} {time}{offset or ''}" if time else date
    padded = time if time is None or time.index(":") == 2 else f"0{time}"  # noqa: PLR2004
    iso = f"{date}T{padded}{(offset or '').upper()}" if padded else date
    try:
        return Due(shown, datetime.fromisoformat(iso), has_time=time is not None)
    except ValueError:
        return Due(shown, None, has_time=time is not None)
