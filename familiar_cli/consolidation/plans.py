"""Plans for the files of periods and digests, and why a plan keeps a period from being made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.clock import iso, now
from familiar_cli.consolidation.pages import Record, read_page
from familiar_cli.memory.sources import CONSOLIDATION
from familiar_cli.review.pending import ReviewPlan

if TYPE_CHECKING:
    from familiar_cli.consolidation.period_states import PeriodState
    from familiar_cli.review.pending import PlannedFile, Why
    from familiar_cli.review.plans import Plans


def plan_id(name: str) -> str:
    """Return the name of the plan for a period or a digest."""
    return f"consolidate-{name}"


def plan_for(name: str, file: PlannedFile, why: Why, *, model: str, run: str) -> ReviewPlan:
    """Return the plan for the file of a period or a digest.

    Args:
        name: Of the period or digest.
        file: The file before and after.
        why: Why it waits.
        model: Who wrote it.
        run: The run that made it.
    """
    made_of = read_page(file.after).record or Record({})
    return ReviewPlan(
        id=plan_id(name),
        run=run,
        created=iso(now()),
        why=why,
        model=model,
        turns=(0, 0),
        files=(file,),
        source=CONSOLIDATION,
        rests_on=made_from(name, len(made_of.sources)),
        grounds=made_of.input_hash,
    )


def made_from(name: str, sources: int) -> str:
    """Return in words what a period or a digest is made from."""
    return f"{name} from {sources} {'file' if sources == 1 else 'files'}"


def hold_back(plans: Plans, period_state: PeriodState) -> str:
    """Return why a plan keeps a period from being made now, or an empty string."""
    name = period_state.period.name
    if period_state.period.tier == "daily":
        return ""
    if plan_id(name) in plans.waiting:
        return f"a plan for it awaits review: `familiar review show {plan_id(name)}`"
    sources = Record({file.rel_path: file.digest for file in period_state.sources})
    if not plans.is_rejected(plan_id(name), sources.input_hash):
        return ""
    return (
        "you rejected the plan from these sources; "
        f"`familiar consolidate --period {name} --redo` asks again"
    )
