"""Moments as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from familiar_cli.clock import to_ms
from familiar_cli.errors import UsageError

_AGO = re.compile(r"(\d{1,6}) ?(m|min|h|d|w)(?: ago)?")
_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, now: datetime) -> datetime:
    """Return the moment that `text` means: `3d`, `2h`, `2026-01-31`, `2026-01-31T18:00`.

    A time without a zone is meant in the machine's own.

    Raises:
        UsageError: It means none.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return to_ms(datetime.fromisoformat(text.strip()).astimezone(UTC))
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{text!r} is no time", hint="Write `3d`, `2h`, `2026-01-31` or `2026-01-31T18:00`."
        ) from error
