"""`Consolidator`: days from sessions, weeks from days, months from weeks, years from months."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field, to_builtins

from familiar_cli.base import errors
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.times.clock import iso
from familiar_cli.store.journal.history import SHORT, History
from familiar_cli.store.journal.repository import Commit, Repository
from familiar_cli.store.memory.layout import DAILY_DIR
from familiar_cli.store.memory.pages.lines import TurnRange
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.consolidation import composing, periods
from familiar_cli.writing.consolidation.composing import as_items
from familiar_cli.writing.consolidation.digests import hold_back
from familiar_cli.writing.consolidation.engine import FileMaker
from familiar_cli.writing.consolidation.library import (
    Cache,
    FinishedYear,
    LibraryFile,
    PrivateShelf,
    Tiers,
    entries_in,
    facts_of,
    look_at_library,
)
from familiar_cli.writing.consolidation.pages import (
    EventBullet,
    MadePage,
    Record,
    below_title,
    bullets_from_session,
    bullets_of,
    merge_bullets,
    page_text,
    read_page,
    readable_text,
)
from familiar_cli.writing.consolidation.period_states import (
    PeriodState,
    PeriodStates,
    Today,
    coverage,
    coverage_by_year,
)
from familiar_cli.writing.pending import Plans

BUDGETS: Final[dict[periods.Tier, int]] = {"weekly": 600, "monthly": 900, "yearly": 1200}
_GUIDANCE: Final[dict[periods.Tier, str]] = {
    "weekly": composing.WEEK,
    "monthly": composing.MONTH,
    "yearly": composing.YEAR,
}
# After these the next period may succeed; after any other model failure none would.
_OF_ONE_PERIOD: Final = (errors.UnusableReplyError, errors.CutOffError, errors.PromptTooLongError)

MOST_BAD_REPLIES: Final = 3
"""After so many replies in a row that are no use, a pass ends and is tried later."""


class MadeFile(Struct, frozen=True):
    """A file that was made, or would be made.

    Args:
        period: Name of its period.
        sources: The files it was made from.
        again: Whether it replaces a stale file.
        changed: Whether its text differs from before.
        before: The previous file, or None.
        after: The new file; None if it would take a model to make it.
    """

    period: str
    rel_path: str
    sources: tuple[str, ...]
    again: bool = False
    changed: bool = True
    before: str | None = None
    after: str | None = None


class ConsolidationReport(Struct):
    """Result of a run, updated while it goes on.

    Attributes:
        done: The files made, in order.
        waiting: The reason for each period that was not made, by name.
        stale: Periods whose sources have changed since they were made.
        held: Plans that await approval, by period.
        refused: Proposals rejected by the rules, by period.
        coverage: The days covered by the files of each tier; empty until the end of the run.
        problems: Unreadable files, and why.
        failed: Model failures.
    """

    done: list[MadeFile] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    refused: dict[str, tuple[periods.Rejection, ...]] = field(default_factory=dict)
    coverage: Tiers = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failed: list[errors.FamiliarError] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the report as `--json` shows it."""
        return {
            "done": [
                {
                    "period": d.period,
                    "rel_path": d.rel_path,
                    "sources": list(d.sources),
                    "again": d.again,
                    "changed": d.changed,
                }
                for d in self.done
            ],
            "waiting": [{"period": p, "reason": reason} for p, reason in self.waiting.items()],
            "stale": self.stale,
            "held": [{"period": p, "plan_id": plan} for p, plan in self.held.items()],
            "refused": [
                {"period": p, "rail": r.rail, "reason": r.reason}
                for p, refused in self.refused.items()
                for r in refused
            ],
            "coverage": to_builtins(self.coverage),
            "problems": self.problems,
        }


class Consolidator(Struct):
    """Makes the files of all due periods.

    Args:
        states: The states of the periods.
        engine: Makes the files.
        chats_of: Returns the channels of a session's turns.
        plans: Existing plans.
        wanted_tiers: Restrict the run to these tiers.
        only: Restrict the run to this period.
        phrases: Titles for the files.
        tried_before: Number of consecutive failed passes. The run starts at a different period
            accordingly, so that periods with unusable replies do not block the others.
        report: The report of other scopes in the same run, to be extended.
        stopped: Why the model is not asked any more; empty: it is. A run may set it.
    """

    states: PeriodStates
    engine: FileMaker
    chats_of: Callable[[str, Sequence[TurnRange]], tuple[str, ...]] = lambda *_: ()
    plans: Plans = Plans()
    wanted_tiers: Collection[periods.Tier] = periods.TIERS
    only: periods.Period | None = None
    phrases: Phrases = ENGLISH
    tried_before: int = 0
    report: ConsolidationReport = field(default_factory=ConsolidationReport)
    stopped: str = ""
    _bad_replies: int = 0  # in a row
    _drafts: dict[str, str] = field(default_factory=dict)  # of a dry run

    async def run(
        self, on_step: Callable[[ConsolidationReport], None] = lambda _: None
    ) -> ConsolidationReport:
        """Make the files of all due periods, days first, and return the report.

        A period that fails does not stop the others. Model failures are reported, not raised; their
        periods stay due.

        Raises:
            FamiliarError: The memory cannot be written.
        """
        for tier in periods.TIERS:
            if tier in self.wanted_tiers:
                for period in self._periods(tier):
                    await self._one(self.states.of(period))
                    on_step(self.report)
                    await asyncio.sleep(0)  # a point for cancellation, since days need no model
        if self.engine.shelf is None:
            self.report.coverage = coverage(self.states.library)
        self.report.problems += self.states.library.problems
        return self.report

    def _label(self, period: str) -> str:
        """Return the name of a period in the report; with its folder in a private scope."""
        shelf = self.engine.shelf
        return f"{period} in {shelf.folder}" if shelf else period

    def _periods(self, tier: periods.Tier) -> list[periods.Period]:
        found = self.states.periods(tier)
        if self.only is None and (not self.tried_before or tier == "daily"):
            return found
        if self.only is None:
            due = [period for period in found if self.states.of(period).wants_work]
            at = MOST_BAD_REPLIES * self.tried_before % len(due) if due else 0
            return sorted(found, key=due[:at].__contains__)
        return [self.only] if self.only.tier == tier else []

    async def _one(self, period_state: PeriodState) -> None:
        name = self._label(period_state.period.name)
        if period_state.state == "waits":
            self.report.waiting[name] = period_state.reason
            return
        if period_state.state == "by_hand" and self.only is not None:
            self.report.waiting[name] = "its file was not generated by this program, so it is kept"
        if not period_state.wants_work:
            return
        by_model = period_state.period.tier != "daily"
        reason = hold_back(self.plans, period_state, self.engine.tag)
        reason = reason or (self.stopped if by_model else "")
        if not reason:
            reason = await self._make(period_state)
        if reason:
            self.report.waiting[name] = reason
            if period_state.state == "stale":
                self.report.stale.append(name)

    async def _make(self, period_state: PeriodState) -> str:
        """Make one file; return why it was not made, or an empty string."""
        try:
            digest = self._plan_period(period_state)
            if self.engine.dry_run and digest.body is None:
                self._note(period_state, digest, None)
                return ""
            page = await self.engine.make(digest)
        except errors.ConfigError as error:  # no suitable model: the others wait, too
            self.stopped = f"{error}"
            return self.stopped
        except errors.ModelError as error:
            self._note_failure(error)
            return f"{error}"
        except errors.FamiliarError as error:
            self.report.failed.append(error)
            return f"{error}"
        if digest.body is None:
            self._bad_replies = 0
        if page.refused:
            self.report.refused[self._label(digest.name)] = page.refused
        if page.held:
            self.report.held[self._label(digest.name)] = page.held
            return f"a plan for it awaits review: `familiar review show {page.held}`"
        self._note(period_state, digest, page)
        return ""

    def _note_failure(self, error: errors.ModelError) -> None:
        """Report a model failure, an unusable reply only once; stop after three of these."""
        if not isinstance(error, _OF_ONE_PERIOD):
            self.stopped = f"{error}"
        is_known = isinstance(error, _OF_ONE_PERIOD) and any(
            isinstance(known, _OF_ONE_PERIOD) for known in self.report.failed
        )
        if not is_known:
            self.report.failed.append(error)
        self._bad_replies += 1
        if self._bad_replies >= MOST_BAD_REPLIES and not self.stopped:
            self.stopped = (
                f"{MOST_BAD_REPLIES} replies in a row were unusable; it will be retried later"
            )

    def _note(
        self,
        period_state: PeriodState,
        wanted: periods.PlannedDigest,
        page: periods.FileResult | None,
    ) -> None:
        """Record a new file in the report, and in the library for later tiers."""
        before, after = (page.file.before, page.file.after) if page else (None, None)
        old = read_page(before).digest if before is not None else ""
        changed = after is None or read_page(after).digest != old
        again = period_state.state == "stale"
        sources = tuple(sorted(wanted.sources))
        self.report.done.append(
            MadeFile(
                wanted.name,
                self.engine.place(wanted.rel_path),
                sources,
                again,
                changed,
                before,
                after,
            )
        )
        text = after if after is not None else _stand_in(wanted)
        if self.engine.dry_run:
            self._drafts[wanted.rel_path] = text
        instance = self.states.instance if period_state.period.tier == "daily" else ""
        file = facts_of(wanted.rel_path, text, instance)
        self.states.library.put(period_state.period, file)
        self.states.forget(period_state.period)

    def _plan_period(self, period_state: PeriodState) -> periods.PlannedDigest:
        period = period_state.period
        if period.tier == "daily":
            return self._daily(period, period_state.sources)
        texts = {file.rel_path: self._text(file) for file in period_state.sources}
        title = period.title(self.phrases)
        return periods.PlannedDigest(
            period.name,
            f"{period.tier}/{period.name}.md",
            title,
            {path: read_page(text).digest for path, text in texts.items()},
            as_items(self._label_parts(period, texts)),
            body=None if texts else f"# {title}\n",
            guidance=_GUIDANCE[period.tier].format(title=period.title()),
            budget_tokens=BUDGETS[period.tier],
        )

    def _daily(self, day: periods.Period, sessions: Sequence[LibraryFile]) -> periods.PlannedDigest:
        instance = self.states.instance
        bodies = {f.rel_path: read_page(self._text(f)) for f in sessions}
        bullets = merge_bullets(
            bullets_from_session(
                page.body,
                _file_stem(path),
                instance,
                partial(self.chats_of, path),
                self.phrases.code_block,
            )
            for path, page in bodies.items()
        )
        others = self._of_others(day)
        both = merge_bullets([others, bullets])
        own = [bullet for bullet in bullets if bullet in both and bullet not in others]
        text = "".join(bullet.markdown() for bullet in own)
        title = day.title(self.phrases)
        body = f"# {title}\n" + (f"\n{text}" if text else "")
        sources = {path: page.digest for path, page in bodies.items()}
        rel_path = f"{DAILY_DIR}/{day.name}_{instance}.md"
        return periods.PlannedDigest(day.name, rel_path, title, sources, body=body)

    def _of_others(self, day: periods.Period) -> list[EventBullet]:
        """Return the bullets for a day from instances that sort before this one.

        Only from those: if two instances left out each other's bullets, both would be lost.
        """
        files = self.states.library.daily.get(day, ())
        before = [f for f in files if f.instance < self.states.instance and not f.problem]
        return [b for f in before for b in bullets_of(read_page(self._text(f)).body)]

    def _label_parts(
        self, period: periods.Period, texts: dict[str, str]
    ) -> Iterable[tuple[str, str]]:
        """Yield the parts of a period with their names, as the model's input."""
        for part in periods.period_parts(period):
            paths = [path for path in texts if _is_of(path, part)]
            if period.tier == "weekly":
                days = [bullets_of(read_page(texts[path]).body) for path in paths]
                yield part.name, "\n".join(f"- {bullet.text}" for bullet in merge_bullets(days))
            else:
                yield (
                    part.name,
                    "\n".join(below_title(readable_text(texts[path])) for path in paths),
                )

    def _text(self, file: LibraryFile) -> str:
        drafted = self._drafts.get(file.rel_path)
        return drafted if drafted is not None else self.engine.pages.read_file(file.rel_path)


def _stand_in(digest: periods.PlannedDigest) -> str:
    """Return placeholder text for a model's reply, so that a dry run reaches higher tiers."""
    return page_text(MadePage(f"# {digest.title}\n\nNot written yet.\n", Record(digest.sources)))


def _is_of(rel_path: str, part: periods.Period) -> bool:
    period = periods.period_in(rel_path)
    return period is not None and period[0] == part


def _file_stem(rel_path: str) -> str:
    return rel_path.rpartition("/")[2].removesuffix(".md")


def survey_periods(
    store: MemoryStore | PrivateShelf,
    today: Today,
    instance: str,
    cache_path: Path | None = None,
    *,
    unwritten: Collection[date] = frozenset(),
    only: periods.Period | None = None,
    everything: bool = False,
) -> PeriodStates:
    """Determine the states of all periods.

    A year with nothing left to do at the last survey is skipped, except if one of its files was
    added, removed or changed since, or an argument concerns it. Its coverage is cached.

    Args:
        today: The current moment.
        instance: This instance's name.
        cache_path: Path of the cache; None: no cache, so nothing is skipped.
        unwritten: Days with turns that are not in session files yet.
        only: A period that must not be skipped.
        everything: Skip no year.

    Raises:
        FamiliarError: The memory cannot be listed.
    """
    awake = {periods.year_of(day).name for day in unwritten}
    if only is not None:
        awake.add(periods.year_of(only.first).name)
    cache = Cache.read(cache_path, f"{instance} {today.cutoff_hour} {today.zone}")
    library = look_at_library(store, today.cutoff_hour, cache, awake=None if everything else awake)
    states = PeriodStates(library, today, instance, unwritten)
    coverage = coverage_by_year(library)
    for year in states.settled() & coverage.keys():
        cache.settled[year] = FinishedYear(library.stamps[year], coverage[year])
    cache.write()
    return states


class Rewritten(Struct, frozen=True):
    """A generated file that a person has rewritten.

    Args:
        since: When the journal first saw it without its record, else its last change.
        give_back: Command line that restores its last version with a record.
    """

    rel_path: str
    since: str
    give_back: str


def rewritten_files(store: MemoryStore, journal: Path) -> tuple[Rewritten, ...]:
    """Return the generated files that a person took over, sorted by path.

    Files that were never generated, such as an imported week, are not included.

    Args:
        journal: Path of the journal, which is only read.
    """
    modified = _without_record(store)
    without = set(modified)
    repository = Repository(journal)
    if not without or not repository.exists:
        return ()
    rewrittens: list[Rewritten] = []
    later: dict[str, Commit] = {}
    with closing(repository):
        history = History(repository)
        for commit in history.commits():
            for rel_path in sorted(
                without.intersection(t.rel_path for t in history.touched(commit))
            ):
                if not _has_record(repository.file_at(commit.id, rel_path)):
                    later[rel_path] = commit
                    continue
                without.discard(rel_path)
                since = iso(later[rel_path].time if rel_path in later else modified[rel_path])
                back = f"familiar memory restore {shlex.quote(rel_path)} --at {commit.id[:SHORT]}"
                rewrittens.append(Rewritten(rel_path, since, back))
            if not without:
                break
    return tuple(sorted(rewrittens, key=lambda one: one.rel_path))


def _without_record(store: MemoryStore) -> dict[str, datetime]:
    """Return the weeks, months and years without a record, with their modification times."""
    moments: dict[str, datetime] = {}
    for tier in periods.TIERS[1:]:
        for entry in entries_in(store, tier, []):
            if periods.period_in(entry.rel_path) is None:
                continue
            page = read_page(store.readable(entry.rel_path))
            if page.record is None and page.body.strip():
                moments[entry.rel_path] = entry.modified
    return moments


def _has_record(content: bytes | None) -> bool:
    return content is not None and read_page(content.decode("utf-8", "replace")).record is not None
