"""Moments as people type them: `2026-01-31`, `2026-01-31T14:00`, `7d`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import Final

from familiar_cli.clock import to_ms
from familiar_cli.errors import UsageError

_AGO: Final = re.compile(r"(\d{1,6})([mhdw])", re.ASCII)
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_when(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return the moment that `text` means, in UTC.

    Args:
        text: A date, a date and time, or how long ago: `90m`, `12h`, `7d`, `2w`.
        now: The present.
        zone: The timezone of a date without one; None: the system's.

    Raises:
        UsageError: It means none.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            return to_ms(now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
        return to_ms(moment)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{text!r} is no date or time", hint="Write 2026-01-31, 2026-01-31T14:00, or 7d."
        ) from error
