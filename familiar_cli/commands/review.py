"""`familiar review`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import familiar_of, group, output

if TYPE_CHECKING:
    from familiar_cli.memory.store import MemoryStore
    from familiar_cli.ui.emit import Output
    from familiar_cli.writer.pending import Pending

app = group("Look at changes of memory that wait for your yes, and take or reject them.")

PlanId = Annotated[
    str | None, typer.Argument(metavar="[PLAN]", help="Its name; default: the oldest that waits.")
]
Hunks = Annotated[
    list[int] | None,
    typer.Option("--hunk", metavar="N", help="Only this piece; may be given several times."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and tell; change nothing.")]


@app.command("list")
def list_(ctx: typer.Context) -> None:
    """List the plans that wait, oldest first.

    \b
    familiar review list
    """
    from familiar_cli.errors import BadInputError
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.writer_page import plan_line
    from familiar_cli.writer.pending import pending_ids, read_pending

    out = output(ctx)
    memory = familiar_of(ctx).memory
    plans = []
    for plan_id in pending_ids(memory):
        try:
            plans.append(read_pending(memory, plan_id))
        except BadInputError as error:
            out.warn(f"{error}. {error.hint}")
    data = {"plans": [_summary(plan) for plan in plans]}
    out.answer(data, lambda: exact("".join(map(plan_line, plans))))
    if not plans:
        out.note("Nothing waits. `familiar write-memory --review` makes a plan.")


@app.command()
def show(ctx: typer.Context, plan: PlanId = None) -> None:
    """Show a plan, piece by piece; pieces are numbered as --hunk takes them.

    \b
    familiar review show
    familiar review show 20260407T180000-a1b2c3
    """
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.writer_page import plan_text

    out = output(ctx)
    found = _plan(familiar_of(ctx).memory, plan)
    diffs = [{"rel_path": f.rel_path, "diff": f.diff} for f in found.files]
    out.answer({**_summary(found), "files": diffs}, lambda: exact(plan_text(found)))


@app.command()
def apply(
    ctx: typer.Context, plan: PlanId = None, *, hunk: Hunks = None, dry_run: DryRun = False
) -> None:
    """Make the changes of a plan: on a terminal it asks piece by piece, else all at once.

    Pieces that you neither take nor reject go on waiting. A file that was changed since, in the
    same place, is a conflict: nothing is changed then.

    \b
    familiar review apply
    familiar review apply 20260407T180000-a1b2c3 --hunk 1 --hunk 3
    """
    import sys

    out = output(ctx)
    memory = familiar_of(ctx).memory
    found = _plan(memory, plan)
    take, drop = set(hunk or range(1, len(found.hunks) + 1)), set[int]()
    if hunk is None and not out.as_json and sys.stdin.isatty() and sys.stdout.isatty():
        take, drop = _asked(found)
    _decide(out, memory, found, take, drop, dry_run=dry_run)


@app.command()
def reject(
    ctx: typer.Context, plan: PlanId = None, *, hunk: Hunks = None, dry_run: DryRun = False
) -> None:
    """Throw a plan away, or some of its pieces. The turns that it rests on stay in the history.

    \b
    familiar review reject
    familiar review reject 20260407T180000-a1b2c3 --hunk 2
    """
    from familiar_cli.errors import BadInputError
    from familiar_cli.writer.pending import drop_damaged

    out = output(ctx)
    memory = familiar_of(ctx).memory
    try:
        found = _plan(memory, plan)
    except BadInputError:
        if plan is None or dry_run:
            raise
        drop_damaged(memory, plan)
        return out.answer({"plan": plan, "changed": [], "left": 0}, f"thrown away: {plan}")
    drop = set(hunk or range(1, len(found.hunks) + 1))
    return _decide(out, memory, found, set(), drop, dry_run=dry_run)


def _decide(
    out: Output,
    memory: MemoryStore,
    plan: Pending,
    take: set[int],
    drop: set[int],
    *,
    dry_run: bool,
) -> None:
    from familiar_cli.ui.emit import exact
    from familiar_cli.writer.pending import decide

    if not take and not drop:
        none = {"plan": plan.id, "changed": [], "left": len(plan.hunks), "dry_run": dry_run}
        return out.answer(none, lambda: None)
    done = decide(memory, plan, apply=take, reject=drop, dry_run=dry_run)
    left = len(done.rest.hunks) if done.rest else 0
    data = {"plan": plan.id, "changed": list(done.changed), "left": left, "dry_run": dry_run}
    verb = "would write" if dry_run else "wrote"
    out.answer(data, lambda: exact("".join(f"{verb} {path}\n" for path in done.changed)))
    out.note(f"{left} pieces of plan {plan.id} go on waiting." if left else "The plan is settled.")
    if dry_run:
        out.note("Nothing was changed (--dry-run).")
    return None


def _asked(plan: Pending) -> tuple[set[int], set[int]]:
    """Ask about each piece; return which to take and which to reject."""
    from familiar_cli.text import harmless

    take, drop = set[int](), set[int]()
    for number, (file, hunk) in enumerate(plan.hunks, 1):
        typer.echo(harmless(f"\n[{number}/{len(plan.hunks)}] {file.rel_path}\n{hunk.text}"))
        answer = ""
        while answer not in {"y", "n", "l", "q", "a"}:
            question = "Take it? y yes, n reject, l later, a this and all others, q stop"
            answer = typer.prompt(question, default="l").strip().lower()[:1]
        if answer == "q":
            break
        if answer == "a":
            take |= set(range(number, len(plan.hunks) + 1))
            break
        take |= {number} if answer == "y" else set()
        drop |= {number} if answer == "n" else set()
    return take, drop


def _plan(memory: MemoryStore, plan_id: str | None) -> Pending:
    from familiar_cli.errors import NotFoundError
    from familiar_cli.writer.pending import pending_ids, read_pending

    known = pending_ids(memory)
    if plan_id is None and not known:
        raise NotFoundError(
            "No plan waits for review", hint="`familiar write-memory --review` makes one."
        )
    return read_pending(memory, plan_id or known[0])


def _summary(plan: Pending) -> dict[str, object]:
    return {
        "id": plan.id,
        "run": plan.run,
        "created": plan.created,
        "why": plan.why,
        "turns": list(plan.turns),
        "hunks": len(plan.hunks),
        "files": [file.rel_path for file in plan.files],
    }
