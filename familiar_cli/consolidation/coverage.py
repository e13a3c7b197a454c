"""Which days a week, month or year rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from familiar_cli.consolidation.periods import TIERS, day_of, period_in, year_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from familiar_cli.consolidation.library import Library
    from familiar_cli.consolidation.periods import Period, Tier

from familiar_cli.consolidation.library import Coverage, Tiers, run_names, run_of


@dataclass(slots=True)
class _Year:
    """The days of a year of which anything is known, and the files of its periods."""

    days: set[date] = field(default_factory=set)
    made: list[Period] = field(default_factory=list)


def coverage(library: Library) -> Tiers:
    """Return the coverage of each tier."""
    settled = [year.coverage for year in library.settled.values()]
    return _joined([*settled, *coverage_by_year(library).values()])


def coverage_by_year(library: Library) -> dict[str, Tiers]:
    """Return the same for each year that is not settled, by its name."""
    years: dict[str, _Year] = {}
    for day, files in library.sessions.items():
        if any(file.says for file in files):
            years.setdefault(year_of(day.first).name, _Year()).days.add(day.first)
    for day in library.daily:
        years.setdefault(year_of(day.first).name, _Year()).days.add(day.first)
    for period in sorted(library.above):
        years.setdefault(year_of(period.first).name, _Year()).made.append(period)
    return {
        name: {tier: _of_tier(library, tier, year) for tier in TIERS}
        for name, year in years.items()
    }


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


def runs_of(days: Iterable[date]) -> tuple[str, ...]:
    """Return days as runs, e.g. `2026-04-06..2026-04-09` and `2026-04-12`."""
    return run_names((day, day) for day in days)


def _of_tier(library: Library, tier: Tier, year: _Year) -> Coverage:
    rests_on = {p.name: days_of(library, p) for p in year.made if p.tier == tier}
    if tier == "daily":
        covered = {day for day in year.days if _day_is_there(library, day)}
    else:
        covered = {day for days in rests_on.values() for day in days}
    return Coverage(
        len(covered & year.days),
        len(year.days),
        runs_of(year.days - covered),
        {name: runs_of(days) for name, days in rests_on.items()},
    )


def _joined(years: Sequence[Tiers]) -> Tiers:
    """Return the coverage of several years as one."""
    return {tier: _joined_tier([year[tier] for year in years]) for tier in TIERS}


def _joined_tier(years: Sequence[Coverage]) -> Coverage:
    return Coverage(
        sum(year.days for year in years),
        sum(year.of for year in years),
        run_names(run_of(run) for year in years for run in year.missing),
        dict(sorted(item for year in years for item in year.rests_on.items())),
    )


def _day_is_there(library: Library, day: date) -> bool:
    return any(file.says for file in library.daily.get(day_of(day), ()))
