"""The pages of `familiar write-memory`, `review`, `daemon`, `consolidate` and `distill`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from familiar_cli.base.text import counted, harmless, one_line, whole_line
from familiar_cli.pages.page import Columns, Name, PagePart, local_time, plain
from familiar_cli.store.memory.layout import digest_path
from familiar_cli.writing.consolidation.pages import read_page

if TYPE_CHECKING:
    from familiar_cli.llm.asking import Spent
    from familiar_cli.pages.emit import Output
    from familiar_cli.writing.consolidation.calendar import ConsolidationReport, MadeFile, Rewritten
    from familiar_cli.writing.consolidation.digests import DigestResult, DigestStatus
    from familiar_cli.writing.consolidation.periods import Rejection
    from familiar_cli.writing.pending import ReviewPlan
    from familiar_cli.writing.writer.contract import Refusal, WriterReport

_MOST_REFUSALS = 10


def pass_text(report: WriterReport) -> str:
    """List the changed files, one per line: `update people/discord-42.md +3 -1`."""
    return "".join(
        f"{f.operation} {f.rel_path} +{f.added} -{f.removed}\n" for f in report.files.values()
    )


def pass_notices(report: WriterReport, *, dry_run: bool = False) -> list[str]:
    """Return notices about a pass besides its files."""
    refused = list(dict.fromkeys(map(_refusal_words, report.refused)))  # each batch may try again
    parts = [*report.notices, *refused[:_MOST_REFUSALS]]
    more = len(refused) - _MOST_REFUSALS
    if more > 0:
        parts.append(f"{more} more refusals are in the record of run {report.run}.")
    parts.append(_covered_words(report, dry_run=dry_run))
    if report.newest_left:
        parts.append(
            "The newest exchange was skipped, since its reply may still change; "
            "`familiar write-memory --newest` reads it now."
        )
    if report.spent.calls:
        parts.append(_cost_words(report.spent, report.turns_covered))
    if report.held:
        parts.append(f"Held for review: {', '.join(report.held)}.")
    if report.pending:
        parts.append(f"A plan awaits review: `familiar review show {report.pending}`.")
    if dry_run:
        parts.append("Nothing was changed (--dry-run).")
    return parts


def estimate_text(told: dict[str, Any]) -> str:
    """Describe the requests that a pass would make."""
    if not told["turns"]:
        return "No turns are waiting.\n"
    return (
        f"{counted(told['turns'], 'turn')} in {counted(told['batches'], 'question')}: about "
        f"{told['estimated_tokens']:,} tokens to read ({told['estimated_tokens_per_turn']} a turn) "
        f"and at most {told['most_reply_tokens']:,} to write\n"
    )


def plans_page(plans: Sequence[ReviewPlan], zone: tzinfo | None) -> PagePart:
    """List plans, a row each."""
    rows = [
        [
            plain(plan.id, "bold"),
            local_time(plan.created, zone),
            rests_on(plan),
            len(plan.hunks),
            Name(", ".join(file.rel_path for file in plan.files)),
            waiting_reason(plan),
        ]
        for plan in plans
    ]
    return Columns(rows, ("plan", "made", "from", "pieces", "files", "why"), right=(3,))


def rests_on(plan: ReviewPlan) -> str:
    """Describe the sources of a plan: `turns 1-9`, or `2026-W15 from 7 files`."""
    first, last = plan.turns
    turns = f"turns {first}-{last}" if first != last else f"turn {first}" if first else "no turns"
    return one_line(plan.rests_on) or turns


def waiting_reason(plan: ReviewPlan) -> str:
    """Explain why a plan is pending."""
    if plan.why == "held":
        return "a rule requires your review"
    asked = (any(plan.turns) or plan.rests_on) and not plan.source.startswith("mcp:")
    return "proposed for review" if asked else f"proposed by {plan.source}"


def plan_text(plan: ReviewPlan) -> str:
    """Render a plan piece by piece, numbered for `--hunk`."""
    parts = []
    for number, (file, hunk) in enumerate(plan.hunks, 1):
        new = " (new file)" if file.before is None else " (deleted)" if file.deletes else ""
        parts.append(f"[{number}] {file.rel_path}{new}\n{hunk.text}")
    return "\n".join(parts)


def _covered_words(report: WriterReport, *, dry_run: bool) -> str:
    if not report.turns_covered:
        waiting = counted(report.remaining, "turn") if report.remaining else "No turn"
        return f"{waiting} {'waits' if report.remaining <= 1 else 'wait'} to be processed."
    verb = "would be read" if dry_run else "read"
    nothing = "; nothing in them worth remembering" if not (report.files or report.held) else ""
    left = f"; {counted(report.remaining, 'turn')} left" if report.remaining and not dry_run else ""
    return f"{counted(report.turns_covered, 'turn')} {verb}{nothing}{left}."


def _cost_words(spent: Spent, turns: int) -> str:
    each = f" ({spent.estimated_tokens / turns:.0f} a turn)" if turns else ""
    repairs = f", {counted(spent.repairs, 'repair')} among them" if spent.repairs else ""
    cost = f", cost {spent.cost:.4f}" if spent.cost is not None else ""
    return (
        f"{counted(spent.calls, 'question')}{repairs}; about {spent.estimated_tokens:,} tokens "
        f"read{each}{cost}; the model took {spent.model_s:.1f} s."
    )


def _refusal_words(refusal: Refusal) -> str:
    what = f" {refusal.text!r:.80}" if refusal.text else ""
    where = refusal.rel_path or "a nameless file"
    return f"refused ({refusal.rail}) for {where}: {one_line(refusal.reason, 160)};{what}"


_MOST_LINES = 10
_NO_SESSIONS = "there are no sessions yet; `familiar write-memory` makes them"
_REASON_CHARS = 160


def make_narrator(out: Output) -> Callable[[ConsolidationReport], None]:
    """Return a callback that reports each file of a long run on a terminal."""
    told = [0]

    def tell(report: ConsolidationReport) -> None:
        if len(report.done) > told[0] and sys.stderr.isatty():
            out.note(f"{report.done[-1].period} …")
        told[0] = len(report.done)

    return tell


def consolidation_text(report: ConsolidationReport, *, dry_run: bool = False) -> str:
    """List the files that were made: `made weekly/2026-W15.md from 7 files`."""
    lines = (
        f"{_outcome_verb(one, dry_run=dry_run)} {one.rel_path} from "
        f"{len(one.sources)} {'file' if len(one.sources) == 1 else 'files'}\n"
        for one in report.done
    )
    return harmless("".join(lines))


def consolidation_notices(report: ConsolidationReport, *, dry_run: bool = False) -> Iterator[str]:
    """Yield notices about a run besides its files."""
    waiting = list(report.waiting.items())
    for name, reason in waiting[:_MOST_LINES]:
        yield f"{name} waits: {whole_line(reason)}"
    if len(waiting) > _MOST_LINES:
        yield f"{len(waiting) - _MOST_LINES} more are waiting; see --json."
    for name, refused in report.refused.items():
        yield from _refusal_lines(name, refused)
    for problem in report.problems:
        yield f"warning: {whole_line(problem)}"
    if not report.done and not report.failed:
        is_empty = not report.coverage["daily"].of
        yield f"Nothing is due: {_NO_SESSIONS}." if is_empty else "Nothing is due."
    if dry_run and report.done:
        yield "Nothing was changed (--dry-run)."


def yours_told(yours: Sequence[Rewritten], zone: tzinfo | None) -> Iterator[str]:
    """Yield the files a person rewrote, since when, and how to give them back."""
    for one in yours[:_MOST_LINES]:
        what = (
            f"{one.rel_path} has been yours since {local_time(one.since, zone)} and is no "
            "longer updated"
        )
        yield f"{what}; to give it back to the program: `{one.give_back}`"
    if len(yours) > _MOST_LINES:
        yield f"{len(yours) - _MOST_LINES} more are yours; see --json."


def digests_page(tiers: Sequence[DigestStatus], zone: tzinfo | None) -> PagePart:
    """Render the state of the digests; times are in `zone`."""
    rows = [
        [
            digest_path(tier.name),
            f"{tier.tokens:,} of {tier.budget_tokens:,} tokens",
            plain(local_time(tier.made_at, zone) or "never", "dim"),
            digest_state(tier),
        ]
        for tier in tiers
    ]
    return Columns(rows, right=(1,))


def digest_text(digest: DigestResult, *, dry_run: bool = False) -> str:
    """Describe the outcome for a digest in one line."""
    match digest.outcome:
        case "made":
            verb = "would make" if dry_run else "made"
            size = "" if dry_run and digest.after is None else f", {digest.tokens:,} tokens"
            return f"{verb} {digest.rel_path}{size}\n"
        case "held":
            return f"{digest.rel_path} awaits review: familiar review show {digest.plan_id}\n"
        case "rejected":
            again = f"familiar distill {digest.name} --redo"
            return f"{digest.rel_path}: you rejected the plan from these sources; {again}\n"
        case "unchanged":
            return f"{digest.rel_path} is up to date\n"
        case _:
            return ""


def digest_notes(digest: DigestResult, *, dry_run: bool = False) -> Iterator[str]:
    """Yield further notices about a digest."""
    if digest.outcome == "nothing":
        below = {"mid": "short", "long": "mid"}.get(digest.name)
        what = _NO_SESSIONS
        if below:
            what = f"{digest_path(below)} does not exist yet: `familiar distill {below}`"
        yield f"No sources: {what}."
    before = read_page(digest.before or "")
    if before.record is None and before.body.strip():
        yield f"{digest.rel_path} contains text of yours, which is kept until you delete it."
    yield from _refusal_lines(digest.name, digest.refused)
    if dry_run:
        yield "Nothing was changed (--dry-run)."


def _refusal_lines(name: str, refused: Sequence[Rejection]) -> Iterator[str]:
    for one in refused[:_MOST_LINES]:
        yield f"{name}: left out, {one.reason}: {one_line(one.text, 60)!r}"
    if len(refused) > _MOST_LINES:
        yield f"{name}: {len(refused) - _MOST_LINES} more were left out."


def digest_state(tier: DigestStatus) -> str:
    """Describe the state of a digest."""
    if tier.problem:
        return one_line(tier.problem, _REASON_CHARS)
    if tier.plan_id or tier.rejected:
        return f"{tier.plan_id} awaits review" if tier.plan_id else "you rejected its plan"
    state = "due" if tier.due else "up to date" if tier.fresh else "older than its sources"
    if not tier.fresh and not tier.made_at and not tier.due:
        state = "not made"
    return state if tier.scheduled else f"{state}, not on the schedule"


def _outcome_verb(file: MadeFile, *, dry_run: bool) -> str:
    if dry_run:
        return "would make again" if file.again else "would make"
    return "made again" if file.again else "made"
