"""Housekeeping: findings, and plans to fix them, which a person applies."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.jobs import in_thread
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.text import counted, sha256_of
from familiar_cli.base.times.clock import iso, now, to_zone
from familiar_cli.familiar import Familiar
from familiar_cli.llm.asking import Asker
from familiar_cli.store.history.imports import DoubledChannel, find_doubles
from familiar_cli.store.history.marks import removed_turns
from familiar_cli.store.memory.layout import HOUSEKEEPING, new_run_id, pass_trailers
from familiar_cli.store.memory.pages.lines import Numbering
from familiar_cli.store.memory.store.files import Omission
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.housekeeping.lines import Finding, Options, quotes_private
from familiar_cli.writing.housekeeping.run import (
    REPLY_TOKENS,
    CheckResults,
    Judgement,
    judge_findings,
    look_through,
)
from familiar_cli.writing.pending import Plans, ReviewPlan, read_plans, stage_plan

T = TypeVar("T")
SLOT: Final = "consolidation"
_ID_CHARS: Final = 8


class FindingWithPlan(Struct, frozen=True):
    """A finding with its plan and a model's judgement.

    Args:
        plan_id: The pending plan, if any.
        rejected: A person rejected the plan, so it is not made again.
        judgement: The model's judgement, if it was asked and gave one.
    """

    finding: Finding
    plan_id: str | None = None
    rejected: bool = False
    judgement: Judgement | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as `--json` shows it."""
        found, judged = self.finding, self.judgement
        return {
            "check": found.check,
            "paths": list(found.paths),
            "message": found.message,
            "evidence": list(map(asdict, found.evidence)),
            "hint": found.hint,
            "can_propose": bool(found.repair),
            "plan_id": self.plan_id,
            "rejected": self.rejected,
            "judgement": judged and asdict(judged),
        }


class HousekeepingResult(Struct, frozen=True):
    """The result of a housekeeping run.

    Args:
        found: The findings, most urgent first.
        checks: The checks made.
        files: Number of files checked.
        proposed: New plans.
        skipped: Unreadable files.
        problem: Why the model's judgement is missing or incomplete.
    """

    found: tuple[FindingWithPlan, ...]
    checks: tuple[str, ...]
    files: int
    proposed: tuple[str, ...]
    skipped: tuple[Omission, ...]
    problem: FamiliarError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as `--json` shows it."""
        return {
            "findings": [one.to_json() for one in self.found],
            "checks": list(self.checks),
            "files": self.files,
            "proposed": list(self.proposed),
            "skipped": list(map(asdict, self.skipped)),
        }


async def tidy_up(
    familiar: Familiar,
    names: Sequence[str] = (),
    *,
    since: datetime | None = None,
    propose: bool = False,
    again: bool = False,
    ask_model: bool = False,
    on_wait: Callable[[str], None] = lambda _: None,
    on_step: Callable[[str, int], None] = lambda _step, _done: None,
) -> HousekeepingResult:
    """Check a familiar's memory; with `propose`, make a plan for each fixable finding.

    Args:
        names: The checks; all if empty.
        since: Only findings about files changed at or after this time.
        propose: Make plans, which await `familiar review`.
        again: Include plans that a person rejected.
        ask_model: Have the model of the slot `consolidation` judge each finding.
        on_wait: Called with a message before a busy server is retried.
        on_step: Called with the current step and the number of files read.

    Raises:
        NotFoundError: No such check.
        FamiliarError: The memory cannot be used.
    """
    looked = await in_thread(lambda: check_memory(familiar, names, since=since, on_step=on_step))
    run = new_run_id()
    judged: dict[int, Judgement] = {}
    problem = None
    if ask_model:
        on_step("asking the model", looked.files)
        judged, problem = await _judge_findings(familiar, looked.findings, run, on_wait)
    plans = read_plans(familiar.memory, again=again)
    repairs = [plan_of(finding) for finding in looked.findings]
    new = _new_plans(repairs, plans) if propose else {}
    _propose_plans(familiar.memory, new.values(), run)
    items, waiting = [], {*plans.waiting, *new}
    for number, (finding, repair) in enumerate(zip(looked.findings, repairs, strict=True)):
        plan_id = repair.id if repair and repair.id in waiting else None
        rejected = repair is not None and plans.is_rejected(repair.id, repair.grounds)
        items.append(FindingWithPlan(finding, plan_id, rejected, judged.get(number)))
    return HousekeepingResult(
        tuple(items), looked.checks, looked.files, tuple(new), looked.skipped, problem
    )


def check_memory(
    familiar: Familiar,
    names: Sequence[str] = (),
    *,
    since: datetime | None = None,
    on_step: Callable[[str, int], None] = lambda _step, _done: None,
) -> CheckResults:
    """Run the checks with `names`, or all, on a familiar's memory."""
    past = _Past(familiar)
    options = Options(
        today=now().astimezone(familiar.zone).date(),
        max_file_bytes=familiar.config.memory.max_file_bytes,
        day_of_turn=past.day_of,
        fallen=past.fallen,
        numbering=past.numbering(),
        doubles=past.doubles,
        phrases=past.phrases(),
    )
    looked = look_through(familiar.memory, options, names, since=since, on_step=on_step)
    return replace(looked, skipped=(*looked.skipped, *past.skipped))


class _Past:
    """What is known of cited turns; an unreadable history is reported."""

    def __init__(self, familiar: Familiar) -> None:
        self._familiar = familiar
        self.skipped: tuple[Omission, ...] = ()

    def day_of(self, turn_id: int) -> date | None:
        """Return the day of a turn; None if unknown."""
        turn = self._read(lambda: self._familiar.history.turn(turn_id), None)
        return to_zone(turn.at, self._familiar.zone).date() if turn else None

    def fallen(self, turn_ids: Collection[int]) -> dict[int, str]:
        """Return which turns were replaced or withdrawn, and why."""
        return self._read(lambda: removed_turns(self._familiar.history, turn_ids), {})

    def doubles(self) -> list[DoubledChannel]:
        """Return the channels that repeat other channels' turns."""
        return self._read(lambda: find_doubles(self._familiar.history), [])

    def numbering(self) -> Numbering:
        """Return the mapping of citations to turns, including other machines' as far as known."""
        numbering = self._familiar.numbering

        def find(instance: str, numbers: Collection[int]) -> Mapping[int, int]:
            nothing: Mapping[int, int] = {}
            return self._read(lambda: numbering.find(instance, numbers), nothing)

        return replace(numbering, find=find)

    def phrases(self) -> Phrases:
        """Return the phrases of the familiar's language; English if it is unknown."""
        return self._read(lambda: self._familiar.phrases, ENGLISH)

    def _read(self, read: Callable[[], T], otherwise: T) -> T:
        if self.skipped:
            return otherwise
        try:
            return read()
        except FamiliarError as error:
            self.skipped = (Omission(self._familiar.history.path.name, str(error)),)
            return otherwise


def plan_of(finding: Finding) -> ReviewPlan | None:
    """Make the plan that fixes a finding; None if it takes a person's judgement.

    The same finding always gives a plan with the same name, so that there is only one.
    """
    if not finding.repair:
        return None
    text = json.dumps([[f.rel_path, f.before, f.after] for f in finding.repair])
    digest = sha256_of(text)[:_ID_CHARS]
    return ReviewPlan(
        id=f"{HOUSEKEEPING}-{finding.check}-{digest}",
        run=HOUSEKEEPING,
        created=iso(now()),
        why="review",
        model=HOUSEKEEPING,
        turns=(0, 0),
        files=finding.repair,
        source=HOUSEKEEPING,
        grounds=digest,
    )


def _new_plans(repairs: Iterable[ReviewPlan | None], plans: Plans) -> dict[str, ReviewPlan]:
    """Return the plans, by name, that are neither pending nor rejected."""
    return {
        plan.id: plan
        for plan in repairs
        if plan and plan.id not in plans.waiting and not plans.is_rejected(plan.id, plan.grounds)
    }


def _propose_plans(store: MemoryStore, new: Collection[ReviewPlan], run: str) -> None:
    """Store plans for review in one transaction."""
    if not new:
        return
    message = f"propose {counted(len(new), 'repair')}"
    with store.transaction(HOUSEKEEPING, message, trailers=pass_trailers(run)) as tx:
        for plan in new:
            stage_plan(tx, store, replace(plan, run=run))


async def _judge_findings(
    familiar: Familiar, findings: Sequence[Finding], run: str, on_wait: Callable[[str], None]
) -> tuple[dict[int, Judgement], FamiliarError | None]:
    """Ask the model to judge the findings. If it fails, all of them stay.

    Findings that quote private text are not sent to it.
    """
    from familiar_cli.llm.slots import check_usable
    from familiar_cli.store.passes import JUDGING

    store = familiar.memory
    try:
        check_usable(familiar.models.slot(SLOT))
        model = familiar.models.open(SLOT, on_wait=on_wait)
        asker = Asker(
            model,
            familiar.counter.count,
            partial(familiar.runs.keep_reply, run),
            SLOT,
            reply_tokens=min(REPLY_TOKENS, model.max_tokens),
            temperature=0.0,
            structured=familiar.config.consolidation.structured,
            unchanged="the findings are unchanged",
            on_answer=partial(familiar.costs.add, JUDGING),
        )
        shares = familiar.config.memory_writer.dm == "share"
        shown = [n for n, f in enumerate(findings) if shares or not quotes_private(store, f)]
        told = await judge_findings(asker, [findings[n] for n in shown])
    except FamiliarError as error:
        return {}, error
    return {shown[n]: judgement for n, judgement in told.judgements.items()}, told.problem
