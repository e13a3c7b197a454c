"""State of each period: made, due, stale, or blocked. Pure functions of a library.

A period is due when its last day is over and all of its sources exist and are up to date. It is
stale when sources have changed since it was made, or arrived late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Literal

from msgspec import Struct, field

from familiar_cli.base.text import shorten_list
from familiar_cli.writing.consolidation.library import (
    Coverage,
    Library,
    LibraryFile,
    Tiers,
    run_names,
    run_of,
)
from familiar_cli.writing.consolidation.periods import (
    CUTOFF_HOUR,
    TIERS,
    Period,
    Tier,
    day_of,
    is_over,
    period_in,
    period_of,
    period_parts,
    read_period,
    session_day,
    year_of,
)


class _Year(Struct):
    """The known days of a year, and the files of its periods."""

    days: set[date] = field(default_factory=set)
    made: list[Period] = field(default_factory=list)


def coverage(library: Library) -> Tiers:
    """Return the coverage of each tier."""
    settled = [year.coverage for year in library.settled.values()]
    return _join_years([*settled, *coverage_by_year(library).values()])


def coverage_by_year(library: Library) -> dict[str, Tiers]:
    """Return the coverage of each unfinished year, by its name."""
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
    """Return the days covered by the file of a period."""
    if period.tier == "daily":
        says = any(file.says for file in library.daily.get(period, ()))
        return frozenset({period.first} if says else ())
    there = library.above.get(period)
    if there is None:
        return frozenset()
    if there.sources is None:  # written by hand: counts as covering everything
        return frozenset(day for day in period.days if _day_is_there(library, day))
    periods = [found[0] for path in there.sources if (found := period_in(path))]
    below: set[date] = set()
    for part in periods:
        below |= {part.first} if part.tier == "daily" else days_of(library, part)
    return frozenset(below)


def runs_of(days: Iterable[date]) -> tuple[str, ...]:
    """Format days as runs, e.g. `2026-04-06..2026-04-09` and `2026-04-12`."""
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


def _join_years(years: Sequence[Tiers]) -> Tiers:
    """Merge the coverage of several years."""
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


State = Literal["nothing", "made", "by_hand", "due", "stale", "waits"]
_DONE = frozenset({"nothing", "made", "by_hand"})


class PeriodState(Struct, frozen=True):
    """State of one period.

    Args:
        state: `nothing` if nothing is known of it; `by_hand` if a person wrote its file.
        sources: Its actual or potential sources.
        reason: What blocks it, or why it is remade.
    """

    period: Period
    state: State
    sources: tuple[LibraryFile, ...] = ()
    reason: str = ""

    @property
    def wants_work(self) -> bool:
        """Whether it is due or stale, and can be made now."""
        return self.state in {"due", "stale"}


class Today(Struct, frozen=True):
    """The current moment and day boundaries.

    Args:
        now: The time.
        zone: The person's timezone; None: the system's.
        cutoff_hour: When the night ends.
    """

    now: datetime
    zone: tzinfo | None = None
    cutoff_hour: int = CUTOFF_HOUR

    def is_over(self, period: Period) -> bool:
        """Tell whether the last day of a period is over."""
        return is_over(period, self.now, self.zone, self.cutoff_hour)


class PeriodStates(Struct):
    """States of all periods.

    Args:
        today: The current moment.
        instance: This instance's name.
        unwritten: Days with turns that are not in session files yet.
    """

    library: Library
    today: Today
    instance: str
    unwritten: Collection[date] = frozenset()
    _again: frozenset[Period] = frozenset()
    _known: dict[Period, PeriodState] = field(default_factory=dict)

    def make_again(self, periods: Iterable[Period]) -> None:
        """Treat these periods as stale until they are made."""
        self._again |= frozenset(periods)
        self._known.clear()

    def forget(self, period: Period) -> None:
        """Invalidate the cached states of a period that was made, and of those containing it."""
        self._again -= {period}
        for tier in TIERS[TIERS.index(period.tier) :]:
            self._known.pop(period_of(period.first, tier), None)

    def periods(self, tier: Tier) -> list[Period]:
        """Return every known period of a tier, oldest first.

        Those of finished years are left out.
        """
        days = self.library.sessions.keys() | self.library.daily.keys()
        found = {period_of(day.first, tier) for day in days}
        found |= {
            period_of(p.first, tier)
            for p in self.library.above
            if TIERS.index(p.tier) <= TIERS.index(tier)
        }
        return sorted(found)

    def settled(self) -> frozenset[str]:
        """Return the years with nothing left to do until one of their files changes."""
        open_ = {
            year_of(period.first).name
            for tier in TIERS
            for period in self.periods(tier)
            if self.of(period).state not in _DONE or self._has_problem(period)
        }
        names = (name for name, stamp in self.library.stamps.items() if stamp and name not in open_)
        years = (year for name in names if (year := read_period(name)) is not None)
        return frozenset(year.name for year in years if self.today.is_over(year))

    def of(self, period: Period) -> PeriodState:
        """Return the state of a period."""
        if period not in self._known:
            look = self._daily if period.tier == "daily" else self._above
            self._known[period] = look(period)
        return self._known[period]

    def own_daily(self, day: Period) -> LibraryFile | None:
        """Return this instance's daily file."""
        files = self.library.daily.get(day, ())
        return next((f for f in files if f.instance == self.instance), None)

    def _daily(self, day: Period) -> PeriodState:
        everything = self.library.sessions.get(day, ())
        sessions = tuple(file for file in everything if file.says)
        own = self.own_daily(day)
        broken = [f for f in (*everything, *self.library.daily.get(day, ())) if f.problem]
        if broken:
            return PeriodState(day, "waits", sessions, broken[0].problem)
        if not sessions and own and self._was_emptied(day, own):
            return PeriodState(
                day, "stale", (), "its sessions are now empty or belong to another day"
            )
        if not sessions:
            is_there = any(file.says for file in self.library.daily.get(day, ()))
            return PeriodState(day, "made" if is_there else "nothing")
        state, reason = self._daily_state(day, sessions, own)
        if state in {"due", "stale"} and not self.today.is_over(day):
            return PeriodState(day, "waits", sessions, "the day is not over yet")
        return PeriodState(day, state, self.mine(day), reason)

    def _daily_state(
        self, day: Period, sessions: Sequence[LibraryFile], own: LibraryFile | None
    ) -> tuple[State, str]:
        if day in self._again:
            return "stale", "redone on request"
        fresh = [f.rel_path for f in sessions if f.digest not in self._taken_in(day, f.rel_path)]
        if own is None or own.sources is None:
            return ("due", "") if fresh else ("made", "")
        now = {file.rel_path: file.digest for file in sessions}
        changed = sorted(path for path, was in (own.sources or {}).items() if now.get(path) != was)
        return ("stale", _what_changed(changed or fresh)) if fresh or changed else ("made", "")

    def _was_emptied(self, day: Period, own: LibraryFile) -> bool:
        """Tell whether all recorded sessions of a day are now empty or belong to another day.

        The day boundary may have changed. Sessions that no longer exist do not count: the day keeps
        its text about them.
        """
        for path in own.sources or ():
            placed = session_day(path, self.today.cutoff_hour)
            there = day_of(placed[0]) if placed else day
            if any(f.rel_path == path for f in self.library.sessions.get(there, ())):
                return True
        return False

    def mine(self, day: Period) -> tuple[LibraryFile, ...]:
        """Return the sessions for this instance: its own, and unclaimed ones."""
        own = self.own_daily(day)
        had = (own.sources if own else None) or {}
        return tuple(
            file
            for file in self.library.sessions.get(day, ())
            if file.says
            and (file.rel_path in had or file.digest not in self._taken_in(day, file.rel_path))
        )

    def _taken_in(self, day: Period, session: str) -> set[str]:
        """Return the hashes of a session recorded in the files of its day."""
        items = [file.sources for file in self.library.daily.get(day, ()) if file.sources]
        return {sources[session] for sources in items if session in sources}

    def _above(self, period: Period) -> PeriodState:
        below = [self.of(part) for part in period_parts(period)]
        sources = tuple(file for part in below for file in self._files(part.period) if file.says)
        there = self.library.above.get(period)
        made_of = (there.sources if there else None) or {}
        are_there = {file.rel_path for part in below for file in self._files(part.period)}
        is_emptied = not are_there.isdisjoint(made_of)  # a missing session does not count
        if not (sources or is_emptied) and all(p.state in {"nothing", "made"} for p in below):
            return PeriodState(period, "made" if there else "nothing")
        if there is not None and there.sources is None and not there.problem:
            return PeriodState(period, "by_hand", sources)
        if not self.today.is_over(period):
            last = f"its last day, {period.last}, is not over yet"
            return PeriodState(period, "waits", sources, last)
        reason = self._waits_for(below, there)
        if reason:
            return PeriodState(period, "waits", sources, reason)
        return self._made_or_not(period, sources, there)

    def _made_or_not(
        self, period: Period, sources: tuple[LibraryFile, ...], there: LibraryFile | None
    ) -> PeriodState:
        if there is None or there.sources is None:
            return PeriodState(period, "due", sources)
        changed = _changed_sources(there.sources, sources)
        if period in self._again:
            return PeriodState(period, "stale", sources, "redone on request")
        if changed:
            return PeriodState(period, "stale", sources, _what_changed(changed))
        return PeriodState(period, "made", sources)

    def _waits_for(self, below: Sequence[PeriodState], there: LibraryFile | None) -> str:
        if there is not None and there.problem:
            return there.problem
        broken = [f for part in below for f in self._files(part.period) if f.problem]
        if broken:
            return broken[0].problem
        open_ = [part.period.name for part in below if part.state in {"due", "stale", "waits"}]
        if open_:
            return f"{shorten_list(open_, 1)} must be made first"
        days = [d for part in below for d in part.period.days if d in self.unwritten]
        if days:
            return f"turns of {min(days)} are not processed yet: run `familiar write-memory`"
        return ""

    def _has_problem(self, period: Period) -> bool:
        return any(file.problem for file in self._files(period))

    def _files(self, period: Period) -> tuple[LibraryFile, ...]:
        if period.tier == "daily":
            return self.library.daily.get(period, ())
        there = self.library.above.get(period)
        return (there,) if there else ()


def _changed_sources(made_of: Mapping[str, str], sources: Sequence[LibraryFile]) -> list[str]:
    """Return the sources added, removed or changed since a file was made."""
    now = {file.rel_path: file.digest for file in sources}
    return sorted(path for path in made_of.keys() | now if made_of.get(path) != now.get(path))


def _what_changed(paths: Sequence[str]) -> str:
    return f"{shorten_list(paths, 1)} changed since"
