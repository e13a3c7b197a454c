"""Which days a week, a month and a year rest on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from familiar_cli.consolidation.library import period_in
from familiar_cli.consolidation.periods import TIERS, day_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from familiar_cli.consolidation.library import File, Library
    from familiar_cli.consolidation.periods import Period, Tier
    from familiar_cli.consolidation.standing import Standings


def coverage(standings: Standings) -> dict[str, Any]:
    """Return for each tier how many of the days with sessions it covers, and which each file does.

    Days are told in runs: `2026-04-06..2026-04-09`.
    """
    library = standings.library
    known = {day.first for day in library.daily} | {
        day.first for day, files in library.sessions.items() if any(f.says for f in files)
    }
    return {tier: _of_tier(library, tier, known) for tier in TIERS}


def days_of(library: Library, period: Period) -> frozenset[date]:
    """Return the days that the file of a period rests on."""
    if period.tier == "daily":
        says = any(file.says for file in library.daily.get(period, ()))
        return frozenset({period.first} if says else ())
    there = library.above.get(period)
    if there is None:
        return frozenset()
    if there.sources is None:  # made by hand: it is about all that there was
        return frozenset(day for day in period.days if _day_is_there(library, day))
    named = [found[0] for path in there.sources if (found := period_in(path))]
    below: set[date] = set()
    for part in named:
        below |= {part.first} if part.tier == "daily" else days_of(library, part)
    return frozenset(below)


def runs_of(days: Iterable[date]) -> list[str]:
    """Return days as runs, e.g. `2026-04-06..2026-04-09` and `2026-04-12`."""
    runs: list[list[date]] = []
    for day in sorted(days):
        if runs and day - runs[-1][1] == timedelta(days=1):
            runs[-1][1] = day
        else:
            runs.append([day, day])
    return [f"{a}" if a == b else f"{a}..{b}" for a, b in runs]


def _of_tier(library: Library, tier: Tier, known: set[date]) -> dict[str, Any]:
    made: dict[Period, File] = {p: f for p, f in library.above.items() if p.tier == tier}
    rests_on = {period.name: days_of(library, period) for period in sorted(made)}
    if tier == "daily":
        covered = {day.first for day in library.daily if days_of(library, day)}
    else:
        covered = {day for days in rests_on.values() for day in days}
    return {
        "days": len(covered & known),
        "of": len(known),
        "missing": runs_of(known - covered),
        "rests_on": {name: runs_of(days) for name, days in rests_on.items()},
    }


def _day_is_there(library: Library, day: date) -> bool:
    return any(file.says for file in library.daily.get(day_of(day), ()))
