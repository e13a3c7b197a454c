"""`familiar consolidate`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output, run_async, with_models
from familiar_cli.commands._options import DryRunUnasked, Redo, Review

if TYPE_CHECKING:
    from familiar_cli.consolidation.calendar import ConsolidationReport
    from familiar_cli.consolidation.rewritten import Rewritten
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
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
    from familiar_cli.actions.consolidate import Consolidating, How
    from familiar_cli.consolidation.periods import TIERS, parse_period, parse_tier
    from familiar_cli.errors import UsageError
    from familiar_cli.ui.consolidation_page import narrator, yours_told

    out = output(ctx)
    if dry_run and review:
        raise UsageError("--dry-run and --review cannot be combined", hint="Use only one.")
    wanted = parse_tier(tier) if tier else None
    only = parse_period(period, wanted) if period else None
    tiers = (only.tier,) if only else (wanted,) if wanted else TIERS
    how = How(dry_run=dry_run, review=review, on_wait=out.note)
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
    from familiar_cli.ui.consolidation_page import report_text, told_after
    from familiar_cli.ui.emit import exact

    def render() -> None:
        exact(report_text(report, dry_run=dry_run))

    yours_data = [asdict(one) for one in yours]
    data = {**report.to_json(), "rewritten": yours_data, "dry_run": dry_run}
    for line in told_after(report, dry_run=dry_run):
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
