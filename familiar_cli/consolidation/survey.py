"""Look at how everything stands, as shortly as may be: what is done with is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.consolidation.cache import Cache, Settled
from familiar_cli.consolidation.coverage import coverage_by_year
from familiar_cli.consolidation.library import look
from familiar_cli.consolidation.period_states import PeriodStates
from familiar_cli.consolidation.periods import year_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date
    from pathlib import Path

    from familiar_cli.consolidation.period_states import Today
    from familiar_cli.consolidation.periods import Period
    from familiar_cli.memory.store.store import MemoryStore


def survey(
    store: MemoryStore,
    today: Today,
    instance: str,
    cache_path: Path | None = None,
    *,
    unwritten: Collection[date] = frozenset(),
    only: Period | None = None,
    everything: bool = False,
) -> PeriodStates:
    """Return how the periods stand.

    A year in which nothing was left to do at the last look is left out, unless a file in it has
    come, gone or changed since, or one of the arguments is about it. Its coverage is kept.

    Args:
        store: The memory.
        today: When.
        instance: Which instance looks.
        cache_path: Where what was seen is kept; None: nowhere, and so nothing is left out.
        unwritten: Days of which turns are not written into sessions yet.
        only: A period that somebody wants to know of.
        everything: Leave no year out.

    Raises:
        FamiliarError: The memory cannot be listed.
    """
    awake = {year_of(day).name for day in unwritten}
    if only is not None:
        awake.add(year_of(only.first).name)
    cache = Cache.read(cache_path, f"{instance} {today.cutoff_hour} {today.zone}")
    library = look(store, today.cutoff_hour, cache, awake=None if everything else awake)
    states = PeriodStates(library, today, instance, unwritten)
    coverage = coverage_by_year(library)
    for year in states.settled() & coverage.keys():
        cache.settled[year] = Settled(library.stamps[year], coverage[year])
    cache.write()
    return states
