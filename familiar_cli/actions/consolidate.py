"""When and how days become years: on a command, and by whoever watches."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now as clock_now
from familiar_cli.config.machine import instance_id
from familiar_cli.config.schedule import read_schedule
from familiar_cli.consolidation.calendar import Consolidator
from familiar_cli.consolidation.composing import Composer
from familiar_cli.consolidation.digests import NAMES, Digest, Distiller
from familiar_cli.consolidation.engine import Engine
from familiar_cli.consolidation.library import newest_sessions
from familiar_cli.consolidation.notify import notify
from familiar_cli.consolidation.period_states import Today
from familiar_cli.consolidation.periods import TIERS, day_at
from familiar_cli.consolidation.plans import hold_back
from familiar_cli.consolidation.replies import Replies
from familiar_cli.consolidation.survey import survey
from familiar_cli.errors import ConfigError, FamiliarError
from familiar_cli.passes.lapses import CONSOLIDATING, DISTILLING
from familiar_cli.passes.turnstile import one_at_a_time
from familiar_cli.review.plans import read_plans
from familiar_cli.when import read_day
from familiar_cli.writer.runs import new_run_id
from familiar_cli.writer.slots import session_path, slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence
    from datetime import date, datetime
    from typing import Any, TypeVar

    from familiar_cli.config.schema import DistillSettings
    from familiar_cli.consolidation.calendar import Report
    from familiar_cli.consolidation.digests import Distilled, Name
    from familiar_cli.consolidation.period_states import PeriodStates
    from familiar_cli.consolidation.periods import Period, Tier
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot

    T = TypeVar("T")

SLOT: Final = "consolidation"
RETRY_AFTER_S: Final = 900.0
"""What failed is not tried again more often than this by whoever watches."""

LOOK_S: Final = 60.0
"""How often whoever watches looks whether something is due."""

_PATIENCE_S: Final = 3600.0  # with another process that consolidates
_REPLY_TOKENS: Final = 1600  # of a reply that is a plan


@dataclass(frozen=True, slots=True)
class How:
    """How work is done.

    Args:
        dry_run: Nothing is written, and no model is asked.
        review: Everything that a model writes waits for a person.
        on_wait: Told in one line what is waited for.
    """

    dry_run: bool = False
    review: bool = False
    on_wait: Callable[[str], None] = lambda _: None


class Consolidating:
    """One familiar's consolidation.

    Args:
        familiar: Whose.
        now: The moment to look from; None: the present.
    """

    def __init__(self, familiar: Familiar, now: datetime | None = None) -> None:
        self._familiar = familiar
        set_to = familiar.config.consolidation
        self.today = Today(now or clock_now(), familiar.zone, set_to.cutoff_hour)
        self._composers: dict[str, Composer] = {}
        self._run = new_run_id()

    async def consolidate(
        self,
        how: How,
        *,
        tiers: Collection[Tier] = TIERS,
        only: Period | None = None,
        again: bool = False,
        on_step: Callable[[Report], None] = lambda _: None,
    ) -> Report:
        """Make the days, weeks, months and years that are due; see `Consolidator.run`.

        Args:
            how: How.
            tiers: Only these.
            only: Only this period.
            again: Also what is up to date.
            on_step: Told after each period.

        Raises:
            LockedError: Another process is still at it.
            FamiliarError: The memory or the history cannot be read.
        """

        async def run() -> Report:
            states = self._states(only, everything=again and only is None)
            if again:
                named = [only] if only else [p for tier in tiers for p in states.periods(tier)]
                states.make_again(named)
            consolidator = Consolidator(
                states,
                self._engine(SLOT, how),
                chats_of=self._chats_of,
                plans=read_plans(self._familiar.memory, again=again),
                wanted_tiers=tiers,
                only=only,
            )
            return await consolidator.run(on_step)

        report = await self._alone(how, run(), CONSOLIDATING)
        is_whole = only is None and set(tiers) == set(TIERS)
        if not how.dry_run and (report.failed or is_whole):
            failed = report.failed[0] if report.failed else None
            self._familiar.runs.lapses.note(CONSOLIDATING, failed)
        return report

    async def distill(self, name: Name, how: How, *, again: bool = False) -> tuple[Distilled, str]:
        """Make a digest, and tell the person's own program; return it, and what went wrong there.

        Raises:
            FamiliarError: As `Distiller.make`.
        """
        work = DISTILLING.format(name=name)
        made = await self._alone(how, self._distiller(how).make(name, again=again), work)
        if not how.dry_run:
            self._familiar.runs.lapses.note(work, None)
        problem = ""
        set_to = self._familiar.config.distill
        if made.outcome in {"made", "held"} and name != "short" and not how.dry_run:
            what = "waits for your yes" if made.outcome == "held" else f"{made.tokens:,} tokens"
            problem = await asyncio.to_thread(
                notify,
                set_to.notify,
                f"{self._familiar.name}: the {name} digest was made ({what})",
                timeout_s=set_to.notify_timeout_s,
            )
        return made, problem

    def distiller(self) -> Distiller:
        """Return what tells how the digests stand."""
        return self._distiller(How())

    def due_work(self) -> list[str]:
        """Return what is to be done now: periods by their names, and digests by theirs.

        Raises:
            FamiliarError: The memory or the history cannot be read.
        """
        found: list[str] = []
        if self._familiar.config.consolidation.auto == "on":
            states = self._states()
            plans = read_plans(self._familiar.memory)
            found += [
                period.name
                for tier in TIERS
                for period in states.periods(tier)
                if (one := states.of(period)).wants_work and not hold_back(plans, one)
            ]
        if self._familiar.config.distill.auto == "on":
            found += self.distiller().due()
        return found

    async def run_due(self, how: How | None = None) -> list[str]:
        """Do what is due, and return in lines what came of it. A failure leaves it due.

        Raises:
            LockedError: Another process is still at it.
            FamiliarError: The memory or the history cannot be read.
        """
        how = how or How()
        told: list[str] = []
        if self._familiar.config.consolidation.auto == "on":
            report = await self.consolidate(how)
            told += [f"made {done.rel_path}" for done in report.done]
            told += [f"{name} waits for your yes: {plan}" for name, plan in report.held.items()]
            told += [f"error: {error}" for error in report.failed]
        if self._familiar.config.distill.auto == "on":
            for name in NAMES:  # each may make the next one due
                if name in self.distiller().due():
                    told += await self._distilled(name, how)
        return told

    async def _distilled(self, name: Name, how: How) -> list[str]:
        try:
            made, problem = await self.distill(name, how)
        except FamiliarError as error:
            return [f"error: {error}"]
        return [f"{made.outcome} {made.rel_path}", *([problem] if problem else [])]

    async def _alone(self, how: How, work: Coroutine[Any, Any, T], name: str) -> T:
        """Do some work while no other process does; a failure is remembered by `name`."""
        if how.dry_run:
            return await work
        lock = self._familiar.paths.root / ".consolidation.lock"
        try:
            async with one_at_a_time(lock, _PATIENCE_S, how.on_wait):
                with self._familiar.runs.lapses.noting(name):
                    return await work
        finally:
            work.close()

    def _states(self, only: Period | None = None, *, everything: bool = False) -> PeriodStates:
        return survey(
            self._familiar.memory,
            self.today,
            instance_id(self._familiar.config.instance.id),
            self._familiar.paths.root / ".consolidation.json",
            unwritten=self._unwritten(),
            only=only,
            everything=everything,
        )

    def _unwritten(self) -> frozenset[date]:
        zone, cutoff = self.today.zone, self.today.cutoff_hour
        times = self._familiar.history.unsummarised_times()
        return frozenset(day_at(at, zone, cutoff) for at in times)

    def _chats_of(self, session: str, turns: Sequence[int]) -> tuple[str, ...]:
        """Return the channels of turns that were said in a session, as far as this history knows.

        In another machine's session the same numbers mean other turns.
        """
        found = (self._familiar.history.turn(number) for number in turns)
        here = [t for t in found if t and session_path(slot_of(t.at, self.today.zone)) == session]
        return tuple(dict.fromkeys(turn.channel_id for turn in here))

    def _distiller(self, how: How) -> Distiller:
        set_to = self._familiar.config.distill
        slots = {"short": SLOT, "mid": set_to.mid_slot, "long": set_to.long_slot}
        return Distiller(
            newest_sessions(self._familiar.memory, self.today.cutoff_hour),
            {name: _digest(set_to, name) for name in NAMES},
            self._familiar.counter.count,
            lambda name: self._engine(slots[name], how),
            self.today,
            name=self._familiar.name,
            plans=read_plans(self._familiar.memory),
        )

    def _engine(self, slot: str, how: How) -> Engine:
        def composer() -> Composer:
            if slot not in self._composers:
                self._composers[slot] = self._composer(slot, how)
            return self._composers[slot]

        return Engine(self._familiar.memory, composer, self._run, how.review, how.dry_run)

    def _composer(self, slot: str, how: How) -> Composer:
        from familiar_cli.llm.asking import Asker  # days need no model
        from familiar_cli.llm.slots import check_usable, for_plans

        familiar = self._familiar
        settings = familiar.slot(slot)
        check_usable(settings)
        _check_on_disk(settings)
        reply_tokens, temperature = for_plans(settings, familiar.config.llm, _REPLY_TOKENS)
        set_to = familiar.config.consolidation
        asker = Asker(
            familiar.model(slot, on_wait=how.on_wait),
            familiar.counter.count,
            partial(familiar.runs.keep_reply, self._run),
            slot,
            reply_tokens=reply_tokens,
            temperature=temperature,
            structured=set_to.structured,
        )
        replies = Replies(familiar.paths.root / ".consolidation-parts")
        return Composer(asker, familiar.who, set_to.part_tokens, replies)


def day_named(familiar: Familiar, name: str | None) -> date:
    """Return the day that `name` means; today, by the person's own clock, when there is none.

    Raises:
        UsageError: It is no day.
    """
    cutoff_hour = familiar.config.consolidation.cutoff_hour
    if name is None:
        return day_at(clock_now(), familiar.zone, cutoff_hour)
    return read_day(name, clock_now() - timedelta(hours=cutoff_hour), familiar.zone)


def due_work(familiar: Familiar, now: datetime | None = None) -> list[str]:
    """Return what is to be done now; see `Consolidating.due_work`."""
    return Consolidating(familiar, now).due_work()


async def run_due(
    familiar: Familiar, now: datetime | None = None, how: How | None = None
) -> list[str]:
    """Do what is due now; see `Consolidating.run_due`."""
    return await Consolidating(familiar, now).run_due(how)


async def tend(
    familiar: Familiar,
    stop: asyncio.Event,
    *,
    once: bool = False,
    is_busy: Callable[[], bool] = lambda: False,
    on_note: Callable[[str], None],
) -> None:
    """Do what is due now, and whenever something is, until `stop` is set.

    What failed stays due, and is tried again after `RETRY_AFTER_S`.

    Args:
        familiar: Whose memory.
        stop: Ends it.
        once: Catch up and end.
        is_busy: Whether memory is being written just now; then it waits.
        on_note: Told what was made and what went wrong.
    """
    while not stop.is_set():
        wait_s = LOOK_S
        if not is_busy():
            told = await _told_of(familiar, on_note)
            wait_s = RETRY_AFTER_S if any(line.startswith("error: ") for line in told) else LOOK_S
            for line in told:
                on_note(line)
        if once:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), wait_s)


async def _told_of(familiar: Familiar, on_note: Callable[[str], None]) -> list[str]:
    try:
        return await run_due(familiar, how=How(on_wait=on_note))
    except FamiliarError as error:
        return [f"error: {error}"]


def _check_on_disk(slot: ResolvedSlot) -> None:
    """Make sure that the model inside the program has been fetched.

    Raises:
        ConfigError: It has not, so there is no model.
    """
    from familiar_cli.config.home import cache_dir
    from familiar_cli.models.catalog import CATALOG
    from familiar_cli.models.store import path_of

    if slot.preset != "local" or slot.model not in CATALOG:
        return
    if path_of(slot.model, cache_dir()) is None:
        raise ConfigError(
            f"The model {slot.model!r} is not on this machine yet",
            hint=f"Run `familiar model pull {slot.model}`, or set another one: "
            "`familiar config set llm.preset ollama`.",
        )


def _digest(set_to: DistillSettings, name: Name) -> Digest:
    at, key = getattr(set_to, f"{name}_at"), f"distill.{name}_at"
    budget: int = getattr(set_to, f"{name}_tokens")
    return Digest(name, budget, read_schedule(at, key), getattr(set_to, name) == "on")
