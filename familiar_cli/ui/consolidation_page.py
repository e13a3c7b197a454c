"""The pages of `familiar consolidate` and `familiar distill`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.consolidation.pages import read_page
from familiar_cli.memory.layout import digest_path
from familiar_cli.text import harmless, one_line
from familiar_cli.ui.terminal import columns, local, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from rich.console import RenderableType

    from familiar_cli.consolidation.calendar import ConsolidationReport, MadeFile, Rewritten
    from familiar_cli.consolidation.digests import DigestStatus, Distilled
    from familiar_cli.consolidation.periods import Refused
    from familiar_cli.ui.emit import Output

_MOST_LINES = 10
_NO_SESSIONS = "there are no sessions yet; `familiar write-memory` makes them"
_REASON_CHARS = 160


def narrator(out: Output) -> Callable[[ConsolidationReport], None]:
    """Return what tells of each file of a long run as it is made, where a person watches."""
    import sys

    told = [0]

    def tell(report: ConsolidationReport) -> None:
        if len(report.done) > told[0] and sys.stderr.isatty():
            out.note(f"{report.done[-1].period} …")
        told[0] = len(report.done)

    return tell


def report_text(report: ConsolidationReport, *, dry_run: bool = False) -> str:
    """Return what was made, one a line: `made weekly/2026-W15.md from 7 files`."""
    return harmless("".join(f"{_verb(d, dry_run=dry_run)} {_made(d)}\n" for d in report.done))


def told_after(report: ConsolidationReport, *, dry_run: bool = False) -> Iterator[str]:
    """Yield what a person should know of a run beside the files."""
    waiting = list(report.waiting.items())
    for name, reason in waiting[:_MOST_LINES]:
        yield f"{name} waits: {one_line(reason, _REASON_CHARS)}"
    if len(waiting) > _MOST_LINES:
        yield f"{len(waiting) - _MOST_LINES} more are waiting; see --json."
    for name, refused in report.refused.items():
        yield from _refusals(name, refused)
    for problem in report.problems:
        yield f"warning: {one_line(problem, _REASON_CHARS)}"
    if not report.done and not report.failed:
        is_empty = not report.coverage["daily"].of
        yield f"Nothing is due: {_NO_SESSIONS}." if is_empty else "Nothing is due."
    if dry_run and report.done:
        yield "Nothing was changed (--dry-run)."


def yours_told(yours: Sequence[Rewritten], zone: tzinfo | None) -> Iterator[str]:
    """Yield what a person rewrote, since when, and how to give it back."""
    for one in yours[:_MOST_LINES]:
        what = f"{one.rel_path} is yours since {local(one.since, zone)} and no longer updated"
        yield f"{what}; to hand it back: `{one.give_back}`"
    if len(yours) > _MOST_LINES:
        yield f"{len(yours) - _MOST_LINES} more are yours; see --json."


def status_page(tiers: Sequence[DigestStatus], zone: tzinfo | None) -> RenderableType:
    """Return how the digests stand; times are told in `zone`."""
    rows = [
        [
            plain(digest_path(tier.name)),
            plain(f"{tier.tokens:,} of {tier.budget_tokens:,} tokens"),
            plain(local(tier.made_at, zone) or "never", "dim"),
            plain(digest_state(tier)),
        ]
        for tier in tiers
    ]
    return columns(rows, right=(1,))


def digest_text(made: Distilled, *, dry_run: bool = False) -> str:
    """Return what became of a digest, in a line."""
    match made.outcome:
        case "made":
            verb = "would make" if dry_run else "made"
            size = "" if dry_run and made.after is None else f", {made.tokens:,} tokens"
            return f"{verb} {made.rel_path}{size}\n"
        case "held":
            return f"{made.rel_path} awaits review: familiar review show {made.plan_id}\n"
        case "rejected":
            again = f"familiar distill {made.name} --redo"
            return f"{made.rel_path}: you rejected the plan from these sources; {again}\n"
        case "unchanged":
            return f"{made.rel_path} is up to date\n"
        case _:
            return ""


def digest_notes(made: Distilled, *, dry_run: bool = False) -> Iterator[str]:
    """Yield what a person should know beside that."""
    if made.outcome == "nothing":
        below = {"mid": "short", "long": "mid"}.get(made.name)
        what = _NO_SESSIONS
        if below:
            what = f"{digest_path(below)} does not exist yet: `familiar distill {below}`"
        yield f"No sources: {what}."
    before = read_page(made.before or "")
    if before.record is None and before.body.strip():
        yield f"{made.rel_path} contains text of yours. It is kept until you delete it."
    yield from _refusals(made.name, made.refused)
    if dry_run:
        yield "Nothing was changed (--dry-run)."


def _refusals(name: str, refused: Sequence[Refused]) -> Iterator[str]:
    for one in refused[:_MOST_LINES]:
        yield f"{name}: left out, {one.reason}: {one_line(one.text, 60)!r}"
    if len(refused) > _MOST_LINES:
        yield f"{name}: {len(refused) - _MOST_LINES} more were left out."


def digest_state(tier: DigestStatus) -> str:
    """Return in words how a digest stands."""
    if tier.problem:
        return one_line(tier.problem, _REASON_CHARS)
    if tier.plan_id or tier.rejected:
        return f"{tier.plan_id} awaits review" if tier.plan_id else "you rejected its plan"
    state = "due" if tier.due else "up to date" if tier.fresh else "older than its sources"
    if not tier.fresh and not tier.made_at and not tier.due:
        state = "not made"
    return state if tier.switched_on else f"{state}, not on the schedule"


def _verb(done: MadeFile, *, dry_run: bool) -> str:
    if dry_run:
        return "would make again" if done.again else "would make"
    return "made again" if done.again else "made"


def _made(done: MadeFile) -> str:
    count = len(done.sources)
    return f"{done.rel_path} from {count} {'file' if count == 1 else 'files'}"
