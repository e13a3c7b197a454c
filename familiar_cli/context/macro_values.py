"""The values of macros that depend on the turn: its time, and its messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Final

from familiar_cli.base.macros import macro_name
from familiar_cli.base.times.clock import to_zone

if TYPE_CHECKING:
    from familiar_cli.context.character import Character
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.store.history.rows import Turn

_DAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905
_MONTHS: Final = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_FORMAT: Final = re.compile(
    r"\[([^\]]*)\]|YYYY|YY|MMMM|MMM|MM|M|DD|D|dddd|ddd|HH|H|hh|h|mm|m|ss|s|A|a"
)
_OFFSET: Final = re.compile(r"time_utc\s*([+-]\d{1,2})", re.IGNORECASE)
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


class TurnValues:
    """Values of macros in one turn.

    Args:
        character: The character.
        request: The request.
        zone: The familiar's timezone.
        recent: Returns the newest turns before the message, oldest first.
    """

    def __init__(
        self,
        character: Character,
        request: ContextRequest,
        zone: tzinfo | None,
        recent: Callable[[], Sequence[Turn]],
    ) -> None:
        self._character = character
        self._request = request
        self._at = to_zone(request.at, zone)
        self._recent = recent

    def value(self, body: str) -> str | None:
        """Return the value of a macro; None if it has none of these."""
        name = macro_name(body)
        at, char = self._at, self._character.name
        plain: dict[str, Callable[[], str]] = {
            "time": lambda: format_time(at, "h:mm A"),
            "date": lambda: format_time(at, "MMMM D, YYYY"),
            "weekday": lambda: format_time(at, "dddd"),
            "isotime": lambda: format_time(at, "HH:mm"),
            "isodate": lambda: format_time(at, "YYYY-MM-DD"),
            "datetimeformat": lambda: format_time(at, body.strip()[len(name) :].strip(" :")),
            "time_utc": lambda: self._time_elsewhere(body),
            "newline": lambda: "\n",
            "noop": str,
            "group": lambda: char,
            "charifnotgroup": lambda: char,
            "char_version": lambda: self._character.version,
            "lastmessage": lambda: self._request.utterance or self._newest(),
            "lastusermessage": lambda: self._request.utterance or self._newest("user"),
            "lastcharmessage": lambda: self._newest("assistant"),
            "idle_duration": self._idle,
        }
        return plain[name]() if name in plain else None

    def _time_elsewhere(self, body: str) -> str:
        found = _OFFSET.match(body.strip())
        hours = max(-23, min(int(found[1]), 23)) if found else 0
        zone = timezone(timedelta(hours=hours))
        return format_time(to_zone(self._request.at, zone), "h:mm A")

    def _newest(self, role: str = "") -> str:
        turns = (turn for turn in reversed(self._recent()) if role in ("", turn.role))
        return next((turn.content for turn in turns), "")

    def _idle(self) -> str:
        turns = (turn for turn in reversed(self._recent()) if turn.role == "user")
        last = next(turns, None)
        return in_words(self._request.at - last.at) if last else "just now"


def format_time(at: datetime, pattern: str) -> str:
    """Write a time in a pattern such as `DD.MM.YYYY HH:mm`; text in brackets stays."""
    hour = at.hour % 12 or 12
    values = {
        "YYYY": f"{at.year:04}",
        "YY": f"{at.year % 100:02}",
        "MMMM": _MONTHS[at.month - 1],
        "MMM": _MONTHS[at.month - 1][:3],
        "MM": f"{at.month:02}",
        "M": str(at.month),
        "DD": f"{at.day:02}",
        "D": str(at.day),
        "dddd": _DAYS[at.weekday()],
        "ddd": _DAYS[at.weekday()][:3],
        "HH": f"{at.hour:02}",
        "H": str(at.hour),
        "hh": f"{hour:02}",
        "h": str(hour),
        "mm": f"{at.minute:02}",
        "m": str(at.minute),
        "ss": f"{at.second:02}",
        "s": str(at.second),
        "A": "AM" if at.hour < 12 else "PM",  # noqa: PLR2004
        "a": "am" if at.hour < 12 else "pm",  # noqa: PLR2004
    }
    return _FORMAT.sub(
        lambda match: match[1] if match[1] is not None else values[match[0]], pattern
    )


def in_words(duration: timedelta) -> str:
    """Write a duration in its largest unit, such as `3 hours`."""
    seconds = max(int(duration.total_seconds()), 0)
    for size, unit in _UNITS:
        if seconds >= size:
            number = seconds // size
            return f"{number} {unit}{'s' if number > 1 else ''}"
    return "a few seconds"
