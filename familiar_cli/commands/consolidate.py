"""`familiar consolidate`, `distill` and `remember`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import (
    App,
    familiar_of,
    group,
    output,
    run_async,
    text_or_stdin,
    with_models,
)
from familiar_cli.commands._options import DryRun, DryRunUnasked, Redo, Review

if TYPE_CHECKING:
    from familiar_cli.consolidation.calendar import ConsolidationReport, Rewritten
    from familiar_cli.consolidation.digests import Name
    from familiar_cli.ui.emit import Output


consolidate_app = App()


@consolidate_app.command()
def consolidate(
    ctx: typer.Context,
    tier: Annotated[
        str | None,
        typer.Argument(metavar="[PERIODS]", help="daily, weekly, monthly or yearly; default: all."),
    ] = None,
    *,
    period: Annotated[
        str | None,
        typer.Option(
            metavar="PERIOD", help="Only this period, e.g. 2026-04-07, 2026-W15, 2026-04 or 2026."
        ),
    ] = None,
    due: Annotated[
        bool,
        typer.Option("--due", help="Only what is due; it is not an error if a period has to wait."),
    ] = False,
    redo: Redo = False,
    dry_run: DryRunUnasked = False,
    review: Review = False,
) -> None:
    """Summarise sessions into days, days into weeks, weeks into months, months into years.

    A period is made once its last day is over and all its sources exist, and made again when they
    change. Text that you added to its file is kept. Days need no model.

    \b
    familiar consolidate
    familiar consolidate --dry-run
    familiar consolidate weekly --period 2026-W15 --redo
    familiar consolidate monthly --json
    """
    from familiar_cli.actions.consolidate import Consolidating, ConsolidationOptions
    from familiar_cli.consolidation.periods import TIERS, parse_period, parse_tier
    from familiar_cli.errors import UsageError
    from familiar_cli.ui.writing_pages import narrator, yours_told

    out = output(ctx)
    if dry_run and review:
        raise UsageError("--dry-run and --review cannot be combined", hint="Use only one.")
    wanted = parse_tier(tier) if tier else None
    only = parse_period(period, wanted) if period else None
    tiers = (only.tier,) if only else (wanted,) if wanted else TIERS
    how = ConsolidationOptions(dry_run=dry_run, review=review, on_wait=out.note)
    with with_models(familiar_of(ctx)) as familiar:
        work = Consolidating(familiar)
        report = run_async(
            work.consolidate(how, tiers=tiers, only=only, again=redo, on_step=narrator(out))
        )
        yours = work.rewritten()
    for line in yours_told(yours, familiar.zone):
        out.note(line)
    _answer(out, report, yours, named="" if due or only is None else only.name, dry_run=dry_run)


def _answer(
    out: Output,
    report: ConsolidationReport,
    yours: tuple[Rewritten, ...],
    *,
    named: str,
    dry_run: bool,
) -> None:
    from dataclasses import asdict

    from familiar_cli.errors import RefusedError
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.writing_pages import consolidation_notices, consolidation_text

    def render() -> None:
        exact(consolidation_text(report, dry_run=dry_run))

    yours_data = [asdict(one) for one in yours]
    data = {**report.to_json(), "rewritten": yours_data, "dry_run": dry_run}
    for line in consolidation_notices(report, dry_run=dry_run):
        out.note(line)
    if report.failed and not report.done:
        report.failed[0].data = data
        raise report.failed[0]
    if report.failed:
        out.partial(data, report.failed, render)
    if named in report.waiting and named not in report.held:
        error = RefusedError(f"{named} was not made: {report.waiting[named]}")
        error.data = data
        raise error
    out.answer(data, render)


distill_app = group("Make the digests that every prompt includes, and show their state.")


@distill_app.command()
def short(ctx: typer.Context, *, redo: Redo = False, dry_run: DryRunUnasked = False) -> None:
    """Make digest/short.md from the newest sessions that fit its budget. Needs no model.

    \b
    familiar distill short
    """
    _make(ctx, "short", redo=redo, dry_run=dry_run, review=False)


@distill_app.command()
def mid(
    ctx: typer.Context,
    *,
    redo: Redo = False,
    dry_run: DryRunUnasked = False,
    review: Review = False,
) -> None:
    """Have a model summarise digest/short.md in digest/mid.md.

    \b
    familiar distill mid
    familiar distill mid --review
    """
    _make(ctx, "mid", redo=redo, dry_run=dry_run, review=review)


@distill_app.command()
def long(
    ctx: typer.Context,
    *,
    redo: Redo = False,
    dry_run: DryRunUnasked = False,
    review: Review = False,
) -> None:
    """Have a model merge digest/mid.md into digest/long.md. A big loss waits for review.

    \b
    familiar distill long --review
    """
    _make(ctx, "long", redo=redo, dry_run=dry_run, review=review)


@distill_app.command()
def status(ctx: typer.Context) -> None:
    """Show each digest's length, when it was made, and whether it is due.

    \b
    familiar distill status
    familiar distill status --json
    """
    from familiar_cli.actions.consolidate import Consolidating
    from familiar_cli.ui.writing_pages import digests_page

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        tiers, zone = Consolidating(familiar).distiller().status(), familiar.zone
    data = {"tiers": [tier.to_json() for tier in tiers]}
    out.answer(data, digests_page(tiers, zone))


def _make(ctx: typer.Context, name: Name, *, redo: bool, dry_run: bool, review: bool) -> None:
    from familiar_cli.actions.consolidate import Consolidating, ConsolidationOptions
    from familiar_cli.errors import UsageError
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.writing_pages import digest_notes, digest_text

    out = output(ctx)
    if dry_run and review:
        raise UsageError("--dry-run and --review cannot be combined", hint="Use only one.")
    how = ConsolidationOptions(dry_run=dry_run, review=review, on_wait=out.note)
    with with_models(familiar_of(ctx)) as familiar:
        made, problem = run_async(Consolidating(familiar).distill(name, how, again=redo))
    for note in digest_notes(made, dry_run=dry_run):
        out.note(note)
    if problem:
        out.warn(problem)
    data = {**made.to_json(), "dry_run": dry_run, "notification": problem or None}
    out.answer(data, lambda: exact(digest_text(made, dry_run=dry_run)))


remember_app = App()


@remember_app.command()
def remember(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text; `-` reads standard input.")],
    *,
    date: Annotated[
        str | None, typer.Option(metavar="DATE", help="Day it happened; default: today.")
    ] = None,
    title: Annotated[
        str, typer.Option(metavar="TITLE", help="Title; default: its first words.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Save a significant moment in a file of its own in significant/.

    \b
    familiar remember "We saw the sea for the first time."
    familiar remember --date 2026-04-07 --title "The sea" -
    """
    from familiar_cli.actions.consolidate import day_named
    from familiar_cli.consolidation.pages import remember as keep
    from familiar_cli.ui.emit import exact

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        day = day_named(familiar, date)
        kept = keep(familiar.memory, text_or_stdin(text), day, title, dry_run=dry_run)
    data = {"rel_path": kept.rel_path, "title": kept.title, "date": day.isoformat()}
    data |= {"written": not (dry_run or kept.unchanged)}  # type: ignore[dict-item]
    out.answer(data, lambda: exact(kept.text if dry_run else f"{kept.rel_path}\n"))
    if kept.unchanged:
        out.note("That file already holds the same text; nothing was changed.")
    elif dry_run:
        out.note(f"Nothing was changed (--dry-run); it would be saved as {kept.rel_path}.")
