"""`familiar review`: parse, call, render."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.base.errors import BadInputError, NotFoundError, UsageError
from familiar_cli.base.text import counted
from familiar_cli.cli.commands._base import familiar_of, group, output
from familiar_cli.cli.commands._options import DryRun
from familiar_cli.pages.emit import Output, exact, is_terminal
from familiar_cli.pages.writing_pages import plan_text, plans_page, rests_on, waiting_reason

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.writing.pending import PieceRef, ReviewPlan

app = group("Show memory changes that await your review, and apply or reject them.")

PlanId = Annotated[
    str | None, typer.Argument(metavar="[PLAN]", help="Plan id; default: the oldest plan.")
]
Hunks = Annotated[
    list[str] | None,
    typer.Option(
        "--hunk",
        metavar="N[.LINE]",
        help="Only this piece, or one of its - and + lines; may be repeated.",
    ),
]


@app.command("list")
def list_plans(ctx: typer.Context) -> None:
    """List plans awaiting review, oldest first.

    \b
    familiar review list
    """
    from familiar_cli.writing.pending import read_pending

    out = output(ctx)
    familiar = familiar_of(ctx)
    memory, zone = familiar.memory, familiar.zone
    plans = []
    for plan_id in memory.plan_ids():
        try:
            plans.append(read_pending(memory, plan_id))
        except BadInputError as error:
            out.warn(f"{error}. {error.hint}")
    data = {"plans": [_summary(plan) for plan in plans]}
    out.answer(data, plans_page(plans, zone) if plans else None)
    if not plans:
        out.note("No plans await review. `familiar write-memory --review` makes one.")


@app.command()
def show(ctx: typer.Context, plan: PlanId = None) -> None:
    """Show a plan piece by piece, numbered for --hunk.

    \b
    familiar review show
    familiar review show 20260407T180000-a1b2c3
    """
    out = output(ctx)
    result = _plan(familiar_of(ctx).memory, plan)
    diffs = [{"rel_path": f.rel_path, "diff": f.diff} for f in result.files]
    out.answer({**_summary(result), "files": diffs}, lambda: exact(plan_text(result)))
    out.note(f"{result.id} is based on {rests_on(result)}; {waiting_reason(result)}.")


@app.command()
def apply(
    ctx: typer.Context,
    plan: PlanId = None,
    *,
    hunk: Hunks = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    dry_run: DryRun = False,
) -> None:
    """Apply a plan: piece by piece on a terminal, otherwise all at once.

    Pieces you neither apply nor reject stay in the plan. If a file was changed in the same place
    since, that is a conflict, and nothing is changed.

    \b
    familiar review apply
    familiar review apply --all
    familiar review apply 20260407T180000-a1b2c3 --hunk 1

    Args:
        everything: Apply all pieces without asking.
    """
    from familiar_cli.cli.terminal.prompts import ask_pieces

    out = output(ctx)
    if hunk and everything:
        raise UsageError("--hunk and --all cannot be combined", hint="Use only one.")
    familiar = familiar_of(ctx)
    result = _plan(familiar.memory, plan)
    take = _refs(hunk, result)
    drop: set[PieceRef] = set()
    if not hunk and not everything and not out.as_json and is_terminal():
        try:
            take, drop = ask_pieces(result)
        except KeyboardInterrupt:
            out.note("\nNothing was changed; the plan is kept.")
            raise
    _decide(out, familiar, result, take, drop, dry_run=dry_run)


@app.command()
def reject(
    ctx: typer.Context, plan: PlanId = None, *, hunk: Hunks = None, dry_run: DryRun = False
) -> None:
    """Reject a plan, or some of its pieces. Its sources are kept.

    A rejected period, digest or repair is not proposed again until its sources change, or you ask
    for it with --redo.

    \b
    familiar review reject
    familiar review reject 20260407T180000-a1b2c3 --hunk 2
    familiar review reject 20260407T180000-a1b2c3 --hunk 4.7
    """
    from familiar_cli.writing.pending import drop_damaged

    out = output(ctx)
    familiar = familiar_of(ctx)
    memory = familiar.memory
    try:
        result = _plan(memory, plan)
    except BadInputError:
        if plan is None or dry_run:
            raise
        drop_damaged(memory, plan)
        data = {"plan": plan, "changed": [], "deleted": [], "withdrawn": [], "left": 0}
        return out.answer(data, f"thrown away: {plan}")
    drop = _refs(hunk, result)
    return _decide(out, familiar, result, set(), drop, dry_run=dry_run)


def _decide(
    out: Output,
    familiar: Familiar,
    plan: ReviewPlan,
    take: set[PieceRef],
    drop: set[PieceRef],
    *,
    dry_run: bool,
) -> None:
    from familiar_cli.actions.memory.due_work import waiting_words
    from familiar_cli.writing.pending import decide_plan

    decisions = decide_plan(
        familiar.memory,
        plan,
        apply=take,
        reject=drop,
        dry_run=dry_run,
        history=familiar.history,
        numbering=familiar.numbering,
    )
    left = len(decisions.rest.hunks) if decisions.rest else 0
    data = {
        "plan": plan.id,
        "changed": list(decisions.changed),
        "deleted": list(decisions.deleted),
        "withdrawn": list(decisions.withdrawn),
        "left": left,
        "dry_run": dry_run,
    }
    wrote, deleted = ("would write", "would delete") if dry_run else ("wrote", "deleted")
    lines = [f"{wrote} {path}\n" for path in decisions.changed]
    lines += [f"{deleted} {path}\n" for path in decisions.deleted]
    if decisions.withdrawn:
        verb = "would withdraw" if dry_run else "withdrew"
        lines.append(f"{verb} {counted(len(decisions.withdrawn), 'turn')}\n")
    out.answer(data, lambda: exact("".join(lines)))
    out.note(*_outcome_lines(plan, drop, left, dry_run=dry_run))
    others = len(set(familiar.memory.plan_ids()) - {plan.id})
    if others and not left and not dry_run:
        out.note(f"{waiting_words(others)}.")


def _refs(hunk: list[str] | None, plan: ReviewPlan) -> set[PieceRef]:
    """Parse the named pieces and lines; all pieces if none is named."""
    import re

    items: set[PieceRef] = set()
    for text in hunk or map(str, range(1, len(plan.hunks) + 1)):
        match = re.fullmatch(r"(\d{1,6})(?:\.(\d{1,6}))?", text, re.ASCII)
        if match is None or int(match[2] or 1) < 1:
            raise UsageError(
                f"{text!r} is neither a piece nor a line of one; nothing was changed",
                hint=f"Use `4` or `4.7`; see `familiar review show {plan.id}`.",
            )
        items.add((int(match[1]), int(match[2])) if match[2] else int(match[1]))
    return items


def _outcome_lines(
    plan: ReviewPlan, drop: set[PieceRef], left: int, *, dry_run: bool
) -> Iterator[str]:
    verb = "would be rejected" if dry_run else "rejected"
    lines = sum(isinstance(ref, tuple) for ref in drop)
    if len(drop) > lines:
        yield f"{len(drop) - lines} of {counted(len(plan.hunks), 'piece')} {verb}."
    if lines:
        yield f"{counted(lines, 'line')} {verb}."
    if left:
        awaits = "awaits" if left == 1 else "await"
        pieces = counted(len(plan.hunks), "piece")
        yield f"{left} of {pieces} of plan {plan.id} still {awaits} review."
    elif not dry_run:
        yield "The plan is complete."
    if dry_run:
        yield "Nothing was changed (--dry-run)."


def _plan(memory: MemoryStore, plan_id: str | None) -> ReviewPlan:
    from familiar_cli.writing.pending import read_pending

    known = memory.plan_ids()
    if plan_id is None and not known:
        raise NotFoundError(
            "No plan waits for review", hint="`familiar write-memory --review` makes one."
        )
    return read_pending(memory, plan_id or known[0])


def _summary(plan: ReviewPlan) -> dict[str, object]:
    return {
        "id": plan.id,
        "run": plan.run,
        "created": plan.created,
        "why": plan.why,
        "source": plan.source,
        "turns": list(plan.turns) if any(plan.turns) else None,
        "rests_on": plan.rests_on or None,
        "hunks": len(plan.hunks),
        "files": [file.rel_path for file in plan.files],
    }
