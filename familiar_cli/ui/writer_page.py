"""The pages of `familiar write-memory`, `review` and `daemon`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from familiar_cli.text import counted, one_line
from familiar_cli.ui.terminal import local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from familiar_cli.llm.asking import Spent
    from familiar_cli.review.pending import ReviewPlan
    from familiar_cli.ui.emit import Output
    from familiar_cli.writer.contract import Refusal, WriterReport

_MOST_REFUSALS = 10


@contextmanager
def progress(out: Output) -> Iterator[Callable[[WriterReport], None]]:
    """Show how many turns are done while a pass goes on."""
    if out.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from familiar_cli.ui.terminal import console, plain

    with console(sys.stderr).status(plain("writing memory …")) as status:
        yield lambda report: status.update(
            plain(f"writing memory: {report.turns_covered:,} turns done …")
        )


def report_text(report: WriterReport) -> str:
    """Return the files that changed, one a line: `update people/discord-42.md +3 -1`."""
    return "".join(
        f"{f.operation} {f.rel_path} +{f.added} -{f.removed}\n" for f in report.files.values()
    )


def told_after(report: WriterReport, *, dry_run: bool = False) -> list[str]:
    """Return what a person should know of a pass beside the files."""
    told = [*report.notices, *map(_refusal, report.refused[:_MOST_REFUSALS])]
    more = len(report.refused) - _MOST_REFUSALS
    if more > 0:
        told.append(f"{more} more refusals are in the record of run {report.run}.")
    told.append(_covered(report, dry_run=dry_run))
    if report.newest_left:
        told.append(
            "The newest exchange was skipped, since its reply may still change; "
            "`familiar write-memory --newest` reads it now."
        )
    if report.spent.calls:
        told.append(_cost(report.spent, report.turns_covered))
    if report.held:
        told.append(f"Held for review: {', '.join(report.held)}.")
    if report.pending:
        told.append(f"A plan awaits review: `familiar review show {report.pending}`.")
    if dry_run:
        told.append("Nothing was changed (--dry-run).")
    return told


def estimate_text(told: dict[str, Any]) -> str:
    """Return what a pass would ask."""
    if not told["turns"]:
        return "No turns are waiting.\n"
    return (
        f"{counted(told['turns'], 'turn')} in {counted(told['batches'], 'question')}: about "
        f"{told['estimated_tokens']:,} tokens to read ({told['estimated_tokens_per_turn']} a turn) "
        f"and at most {told['most_reply_tokens']:,} to write\n"
    )


def plan_line(plan: ReviewPlan, zone: tzinfo | None) -> str:
    """Return a plan in one line."""
    files = ", ".join(file.rel_path for file in plan.files)
    return (
        f"{plan.id}  {one_line(local(plan.created, zone))}  {rests_on(plan)}  "
        f"{counted(len(plan.hunks), 'piece')}  {one_line(files)}  ({why(plan)})\n"
    )


def rests_on(plan: ReviewPlan) -> str:
    """Return what a plan rests on: `turns 1-9`, or `2026-W15 from 7 files`."""
    turns = f"turns {plan.turns[0]}-{plan.turns[1]}" if any(plan.turns) else "no turns"
    return one_line(plan.rests_on) or turns


def why(plan: ReviewPlan) -> str:
    """Return why a plan waits."""
    if plan.why == "held":
        return "a rule requires your review"
    asked = (any(plan.turns) or plan.rests_on) and not plan.source.startswith("mcp:")
    return "made with --review" if asked else f"proposed by {plan.source}"


def plan_text(plan: ReviewPlan) -> str:
    """Return a plan piece by piece, numbered as `--hunk` takes them."""
    parts = []
    for number, (file, hunk) in enumerate(plan.hunks, 1):
        new = " (new file)" if file.before is None else " (deleted)" if file.deletes else ""
        parts.append(f"[{number}] {file.rel_path}{new}\n{hunk.text}")
    return "\n".join(parts)


def _covered(report: WriterReport, *, dry_run: bool) -> str:
    if not report.turns_covered:
        waiting = counted(report.remaining, "turn") if report.remaining else "No turn"
        return f"{waiting} {'waits' if report.remaining <= 1 else 'wait'} to be processed."
    verb = "would be done" if dry_run else "done"
    nothing = "; nothing in them worth remembering" if not report.files else ""
    left = f"; {counted(report.remaining, 'turn')} left" if report.remaining and not dry_run else ""
    return f"{counted(report.turns_covered, 'turn')} {verb}{nothing}{left}."


def _cost(spent: Spent, turns: int) -> str:
    each = f" ({spent.estimated_tokens / turns:.0f} a turn)" if turns else ""
    repairs = f", {counted(spent.repairs, 'repair')} among them" if spent.repairs else ""
    cost = f", cost {spent.cost:.4f}" if spent.cost is not None else ""
    return (
        f"{counted(spent.calls, 'question')}{repairs}; about {spent.estimated_tokens:,} tokens "
        f"read{each}{cost}; the model took {spent.model_s:.1f} s."
    )


def _refusal(refusal: Refusal) -> str:
    what = f" {refusal.text!r:.80}" if refusal.text else ""
    where = refusal.rel_path or "a nameless file"
    return f"refused ({refusal.rail}) for {where}: {one_line(refusal.reason, 160)};{what}"
