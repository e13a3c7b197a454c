"""What the name of a file says: the day of a session, the period of a daily, weekly … file."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.consolidation.periods import CUTOFF_HOUR, TIERS, read_period, year_of
from familiar_cli.languages.phrases import SLOTS
from familiar_cli.memory.layout import DAILY_DIR, SESSIONS_DIR

if TYPE_CHECKING:
    from familiar_cli.consolidation.periods import Period

_SESSION: Final = re.compile(
    rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:-({'|'.join(SLOTS)}))?(?!\d).*", re.ASCII
)
_DAILY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_(.+))?", re.ASCII | re.DOTALL)
_MIDDLE_OF_NIGHT: Final = 3  # the night is from midnight to six
# The days on which a year of weeks and a year of days may be two different ones.
_TURN_OF_THE_YEAR: Final = frozenset({"12-2", "12-3", "01-0"})
_OF_DAYS: Final = frozenset({SESSIONS_DIR, DAILY_DIR})


MONTH_CHARS: Final = len("2026-04")
_INSIDE: Final = re.compile(r"\d{4}-(?:0[2-9]|1[01])-", re.ASCII)


def is_inside_a_year(name: str) -> bool:
    """Return whether all names with the same first `MONTH_CHARS` lie in one year: in no winter."""
    return bool(_INSIDE.match(name))


def session_day(rel_path: str, cutoff_hour: int = CUTOFF_HOUR) -> tuple[date, int] | None:
    """Return the day that a session file belongs to, and its place in it; None: no session file.

    A night belongs to the day before if most of it lies before the cut-off hour.
    """
    found = _SESSION.fullmatch(rel_path.removeprefix(f"{SESSIONS_DIR}/").removesuffix(".md"))
    period = read_period(found[1]) if found else None
    if found is None or period is None or not rel_path.endswith(".md"):
        return None
    if found[2] == "night" and cutoff_hour > _MIDDLE_OF_NIGHT and period.first > date.min:
        return period.first - timedelta(days=1), len(SLOTS)
    return period.first, SLOTS.index(found[2]) if found[2] else -1


def period_in(rel_path: str) -> tuple[Period, str] | None:
    """Return the period that a file of a tier is about, and its instance; None: it is none."""
    directory, _, name = rel_path.partition("/")
    stem = name.removesuffix(".md")
    if directory not in TIERS or not name.endswith(".md"):
        return None
    instance = ""
    if directory == DAILY_DIR:
        found = _DAILY.fullmatch(stem)
        if found is None or "/" in stem:
            return None
        stem, instance = found[1], found[2] or ""
    period = read_period(stem)
    return (period, instance) if period is not None and period.tier == directory else None


def year_in(rel_path: str, cutoff_hour: int = CUTOFF_HOUR) -> str | None:
    """Return the name of the ISO year that a file lies in; None: it is none of these files.

    Quick, for it is asked of every file there is: only at the turn of the year does it take more
    than the first four characters.
    """
    directory, _, name = rel_path.partition("/")
    if name[5:9] in _TURN_OF_THE_YEAR and directory in _OF_DAYS:
        return _year_of_day(rel_path, cutoff_hour)
    return name[:4] if name[:4].isdecimal() else None


def _year_of_day(rel_path: str, cutoff_hour: int) -> str | None:
    named = period_in(rel_path)
    placed = session_day(rel_path, cutoff_hour)
    day = named[0].first if named else placed[0] if placed else None
    return year_of(day).name if day else None
