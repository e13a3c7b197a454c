"""What day or period a memory is about, as its path or its front matter tells."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import Final

_DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_PERIOD: Final = re.compile(
    r"(?:weekly/(\d{4})-W(\d{2})|monthly/(\d{4})-(\d{2})|yearly/(\d{4}))\.md", re.ASCII
)


def day_in(text: str) -> date | None:
    """Return the first day that `text` names as `2026-01-31`, or None."""
    for found in _DAY.finditer(text):
        try:
            return date(*map(int, found.groups()))
        except ValueError:
            continue
    return None


def last_day(rel_path: str) -> str:
    """Return the last day of the week, month or year that a file is about, else an empty string."""
    found = _PERIOD.fullmatch(rel_path)
    if found is None:
        return ""
    week_year, week, month_year, month, year = (int(part or 0) for part in found.groups())
    try:
        if week:
            return date.fromisocalendar(week_year, week, 7).isoformat()
        if month:
            return date(month_year, month, monthrange(month_year, month)[1]).isoformat()
        return date(year, 12, 31).isoformat()
    except ValueError:  # `IllegalMonthError` is one, too
        return ""


def instance_in(rel_path: str) -> str:
    """Return which instance wrote `daily/2026-01-31_laptop.md`, or an empty string."""
    stem = rel_path.rpartition("/")[2].rpartition(".")[0]
    found = _DAY.match(stem)
    return stem[found.end() + 1 :] if found and stem[found.end() :].startswith("_") else ""
