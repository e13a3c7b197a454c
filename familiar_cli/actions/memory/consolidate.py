"""Write days, weeks, months, years and digests: by command, in the background, or for a program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.times import clock
from familiar_cli.base.times.when import read_day
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.layout import new_run_id, path_in_scope, scope_of_path
from familiar_cli.store.passes import CONSOLIDATING, DISTILLING, Event, as_failure, failed
from familiar_cli.writing.consolidation import calendar, digests, library, periods
from familiar_cli.writing.consolidation.composing import Composer, Replies
from familiar_cli.writing.consolidation.engine import FileMaker
from familiar_cli.writing.consolidation.period_states import PeriodStates, Today
from familiar_cli.writing.pending import read_plans
from familiar_cli.writing.writer.grounds import session_path, slot_of

if TYPE_CHECKING:
    from familiar_cli.base.config.schema import DistillSettings
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.store.memory.pages.lines import TurnRange


SLOT: Final = "consolidation"


class ConsolidationOptions(Struct, frozen=True):
    """Options of a consolidation.

    Args:
        dry_run: Write nothing, and ask no model.
        review: Everything written by a model awaits review.
        on_wait: Called with a one-line message during waits.
    """

    dry_run: bool = False
    review: bool = False
    on_wait: Callable[[str], None] = lambda _: None


_AS_USUAL: Final = ConsolidationOptions()


class Consolidation:
    """The consolidation of one familiar.

    Args:
        now: The current time; None for the real one.
        shelf: The private scope whose digests are made; None for the public ones.
        notifies: Whether `distill.notify` is run.
    """

    def __init__(
        self,
        familiar: Familiar,
        now: datetime | None = None,
        shelf: library.PrivateShelf | None = None,
        *,
        notifies: bool = True,
    ) -> None:
        self._familiar = familiar
        self._shelf = shelf
        self._notifies = notifies
        set_to = familiar.config.consolidation
        self.today = Today(now or clock.now(), familiar.zone, set_to.cutoff_hour)
        self._composers: dict[tuple[str, str], Composer] = {}
        self._run = new_run_id()

    @classmethod
    def for_viewer(cls, familiar: Familiar, viewer: Viewer) -> Consolidation:
        """Build the consolidation of plain paths, as a viewer knows them."""
        everyone = familiar.privacy.program()
        shelf = None if viewer.is_owner else library.public_view(familiar.memory, everyone)
        return cls(familiar, shelf=shelf)

    async def consolidate(
        self,
        how: ConsolidationOptions,
        *,
        tiers: Collection[periods.Tier] = periods.TIERS,
        only: periods.Period | None = None,
        again: bool = False,
        on_step: Callable[[calendar.ConsolidationReport], None] = lambda _: None,
    ) -> calendar.ConsolidationReport:
        """Make the days, weeks, months and years that are due; see `Consolidator.run`.

        Public ones come first, then those of each private scope.

        Args:
            how: Options of the pass.
            tiers: Only these granularities.
            only: Only this period.
            again: Include periods that are up to date.
            on_step: Called after each period.

        Raises:
            LockedError: Another process is consolidating.
            FamiliarError: The memory or the history cannot be read.
        """

        async def run() -> calendar.ConsolidationReport:
            report, stopped = calendar.ConsolidationReport(), ""
            plans = read_plans(self._familiar.memory, again=again)
            for shelf in (None, *self._shelves()):
                states = self._states(shelf, only, everything=again and only is None)
                if again:
                    named = [only] if only else [p for tier in tiers for p in states.periods(tier)]
                    states.make_again(named)
                consolidator = calendar.Consolidator(
                    states,
                    self._engine(SLOT, how, shelf, CONSOLIDATING),
                    chats_of=self._chats_of,
                    plans=plans,
                    wanted_tiers=tiers,
                    only=only,
                    phrases=self._familiar.phrases,
                    tried_before=failure.attempts if (failure := passes.failure) else 0,
                    report=report,
                    stopped=stopped,
                )
                await consolidator.run(on_step)
                stopped = consolidator.stopped
            return report

        passes = self._familiar.passes.named(CONSOLIDATING)
        if how.dry_run:
            return await run()
        return await passes.run(
            run,
            on_wait=how.on_wait,
            error_in=lambda report: next(iter(report.failed), None),
            is_whole=only is None and set(tiers) == set(periods.TIERS),
        )

    async def distill(
        self, name: digests.Name, how: ConsolidationOptions, *, again: bool = False
    ) -> tuple[digests.DigestResult, str]:
        """Make a digest and run the person's hook; return the digest, and the hook's error.

        The hook is not run for the digests of `private`.

        Raises:
            FamiliarError: As `Distiller.make`.
        """

        async def make() -> digests.DigestResult:
            return await self.distiller(how).make(name, again=again)

        distilling = self._familiar.passes.named(DISTILLING.format(name=name))
        digest = await (make() if how.dry_run else distilling.run(make, on_wait=how.on_wait))
        problem = ""
        if self._shelf:
            digest = replace(digest, rel_path=path_in_scope(digest.rel_path, self._shelf.scope))
        is_new = digest.outcome in {"made", "held"} and name != "short" and not how.dry_run
        if is_new and self._notifies:
            what = "awaits review" if digest.outcome == "held" else f"{digest.tokens:,} tokens"
            problem = await asyncio.to_thread(
                digests.run_notifier,
                self._familiar.config.distill.notify,
                f"{self._familiar.name}: the {name} digest was made ({what})",
            )
        return digest, problem

    def private(self) -> list[Consolidation]:
        """Return an instance for each private scope."""
        now = self.today.now
        return [Consolidation(self._familiar, now, s, notifies=False) for s in self._shelves()]

    def _shelves(self) -> list[library.PrivateShelf]:
        return library.private_shelves(self._familiar.memory, self._familiar.privacy.program())

    def rewritten(self) -> tuple[calendar.Rewritten, ...]:
        """List the files that a person rewrote, which are not made again."""
        with suppress(FamiliarError):  # `familiar doctor` reports problems of the journal
            return calendar.rewritten_files(self._familiar.memory, self._familiar.paths.journal)
        return ()

    async def run_due(
        self, how: ConsolidationOptions, *, at_once: bool = True
    ) -> dict[str, list[Event]]:
        """Do what is due, and return the events of each command. What failed stays due.

        Args:
            how: Options of the pass.
            at_once: Include what failed a short time ago.
        """
        work: dict[str, Callable[[], Awaitable[list[Event]]]] = {}
        if self._familiar.config.consolidation.auto == "on":
            work[CONSOLIDATING] = partial(self._made, how)
        if self._familiar.config.distill.auto == "on":
            for name in digests.NAMES:  # each may make the next one due
                work[DISTILLING.format(name=name)] = partial(self._all_distilled, name, how)
        passes = self._familiar.passes
        return {
            command: await self._attempt(command, do)
            for command, do in work.items()
            if at_once or not passes.named(command).retry_in_s
        }

    async def _attempt(
        self, command: str, work: Callable[[], Awaitable[list[Event]]]
    ) -> list[Event]:
        """Do one kind of work; its failure becomes an event."""
        try:
            return await work()
        except Exception as error:  # noqa: BLE001  # an error of one kind does not stop the others
            retry_in_s = self._familiar.passes.named(command).retry_in_s
            return [failed(command, as_failure(error), retry_in_s)]

    async def _made(self, how: ConsolidationOptions) -> list[Event]:
        report = await self.consolidate(how)
        retry_in_s = self._familiar.passes.named(CONSOLIDATING).retry_in_s
        made = [
            Event("made", f"made {file.rel_path}", CONSOLIDATING, {"rel_path": file.rel_path})
            for file in report.done
        ]
        events = [
            Event("held", f"{period} awaits review: {plan}", CONSOLIDATING, {"plan_id": plan})
            for period, plan in report.held.items()
        ]
        return [*made, *events, *(failed(CONSOLIDATING, e, retry_in_s) for e in report.failed)]

    async def _all_distilled(self, name: digests.Name, how: ConsolidationOptions) -> list[Event]:
        events = await self._distill_digest(name, how)
        for one in self.private():
            events += await one._distill_digest(name, how)  # noqa: SLF001  # same class
        return events

    async def _distill_digest(self, name: digests.Name, how: ConsolidationOptions) -> list[Event]:
        command = DISTILLING.format(name=name)
        with self._familiar.passes.named(command).recording():
            if name not in self.distiller().due():
                return []
        digest, problem = await self.distill(name, how)
        message = f"{digest.outcome} {digest.rel_path}"
        notes = [Event("note", problem, command)] if problem else []
        if digest.outcome == "made":
            return [Event("made", message, command, {"rel_path": digest.rel_path}), *notes]
        if digest.outcome == "held":
            return [Event("held", message, command, {"plan_id": digest.plan_id}), *notes]
        return [Event("note", message, command), *notes]

    def _states(
        self,
        shelf: library.PrivateShelf | None,
        only: periods.Period | None = None,
        *,
        everything: bool = False,
    ) -> PeriodStates:
        tag = shelf.tag if shelf else ""
        return calendar.survey_periods(
            shelf or self._familiar.memory,
            self.today,
            self._familiar.days_name,
            self._familiar.paths.root / f".consolidation{tag}.json",
            unwritten=self._unwritten(),
            only=only,
            everything=everything,
        )

    def _unwritten(self) -> frozenset[date]:
        zone, cutoff = self.today.zone, self.today.cutoff_hour
        times = self._familiar.history.unsummarised_times()
        return frozenset(periods.day_at(at, zone, cutoff) for at in times)

    def _chats_of(self, session: str, turns: Sequence[TurnRange]) -> tuple[str, ...]:
        """Return the channels of a session's turns, if they are in this history.

        In a session of another machine, the same numbers mean other turns.
        """
        local = (self._familiar.numbering.local(one).values() for one in turns)
        found = (self._familiar.history.turn(turn_id) for ids in local for turn_id in ids)
        here = [t for t in found if t and session_path(slot_of(t.at, self.today.zone)) == session]
        return tuple(dict.fromkeys(turn.channel_id for turn in here))

    def distiller(self, how: ConsolidationOptions = _AS_USUAL) -> digests.Distiller:
        """Build the distiller, which knows the states of the digests."""
        set_to = self._familiar.config.distill
        slots = {"short": SLOT, "mid": set_to.mid_slot, "long": set_to.long_slot}
        return digests.Distiller(
            library.newest_sessions(self._shelf or self._familiar.memory, self.today.cutoff_hour),
            {name: _find_digest(set_to, name) for name in digests.NAMES},
            self._familiar.counter.count,
            lambda name: self._engine(slots[name], how, self._shelf, DISTILLING.format(name=name)),
            self.today,
            name=self._familiar.name,
            plans=read_plans(self._familiar.memory),
            phrases=self._familiar.phrases,
        )

    def _engine(
        self, slot: str, how: ConsolidationOptions, shelf: library.PrivateShelf | None, command: str
    ) -> FileMaker:
        def composer() -> Composer:
            if (slot, command) not in self._composers:
                self._composers[slot, command] = self._composer(slot, how, command)
            return self._composers[slot, command]

        memory = self._familiar.memory
        return FileMaker(memory, composer, self._run, how.review, how.dry_run, shelf)

    def _composer(self, slot: str, how: ConsolidationOptions, command: str) -> Composer:
        from familiar_cli.llm.asking import Asker  # days need no model
        from familiar_cli.llm.slots import PLAN_TOKENS, check_on_disk, check_usable, for_plans

        familiar = self._familiar
        settings = familiar.models.slot(slot)
        check_usable(settings)
        check_on_disk(settings)
        reply_tokens, temperature = for_plans(settings, familiar.config.llm, PLAN_TOKENS[SLOT])
        set_to = familiar.config.consolidation
        asker = Asker(
            familiar.models.open(slot, on_wait=how.on_wait),
            familiar.counter.count,
            partial(familiar.runs.keep_reply, self._run),
            slot,
            reply_tokens=reply_tokens,
            temperature=temperature,
            structured=set_to.structured,
            on_answer=partial(familiar.costs.add, command),
        )
        replies = Replies(familiar.paths.root / ".consolidation-parts")
        return Composer(asker, familiar.who, set_to.part_tokens, replies)


def day_named(familiar: Familiar, name: str | None) -> date:
    """Parse a day; today by the owner's clock if empty.

    Raises:
        UsageError: It is not a day.
    """
    cutoff_hour = familiar.config.consolidation.cutoff_hour
    if name is None:
        return periods.day_at(clock.now(), familiar.zone, cutoff_hour)
    return read_day(name, clock.now() - timedelta(hours=cutoff_hour), familiar.zone)


def _find_digest(set_to: DistillSettings, name: digests.Name) -> digests.Digest:
    at, key = getattr(set_to, f"{name}_at"), f"distill.{name}_at"
    budget: int = getattr(set_to, f"{name}_tokens")
    return digests.Digest(
        name, budget, digests.read_schedule(at, key), getattr(set_to, name) == "on"
    )


class Consolidated(Struct, frozen=True):
    """The result: files made, plans that await review by period, and failures."""

    made: tuple[str, ...]
    plans: dict[str, str]
    failed: tuple[str, ...]


async def consolidate_memories(
    familiar: Familiar, *, may_write: bool = False, granularity: str = "", period: str = ""
) -> Consolidated:
    """Make the weeks, months and years that are due, or one of them.

    Args:
        may_write: Write at once; otherwise what a model wrote awaits review.
        granularity: Only this one; empty for all. Private scopes are not mentioned.
        period: Only this period, e.g. `2026-W05`, even if it is up to date.

    Raises:
        UsageError: No such granularity or period.
        FamiliarError: No model can be asked, or the memory cannot be read.
    """
    tier = periods.parse_tier(granularity) if granularity else None
    only = periods.parse_period(period, tier) if period else None
    tiers = (only.tier,) if only else (tier,) if tier else periods.TIERS
    report = await Consolidation(familiar).consolidate(
        ConsolidationOptions(review=not may_write), tiers=tiers, only=only, again=bool(only)
    )
    public = [file.rel_path for file in report.done if not scope_of_path(file.rel_path)]
    held = {period: plan for period, plan in report.held.items() if periods.read_period(period)}
    return Consolidated(tuple(public), held, tuple(map(str, report.failed)))
