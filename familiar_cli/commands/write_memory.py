"""`familiar write-memory`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, moment_of, output, run_async, with_models
from familiar_cli.commands._options import DryRunAsked, Review, SinceTurns

if TYPE_CHECKING:
    from familiar_cli.ui.emit import Output
    from familiar_cli.writer.contract import WriterReport
    from familiar_cli.writer.memory_writer import Mode

app = App()


@app.command("write-memory")
def write_memory(
    ctx: typer.Context,
    *,
    dry_run: DryRunAsked = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Estimate the cost; ask no model.")
    ] = False,
    review: Review = False,
    again: Annotated[
        bool, typer.Option("--all", help="Read all turns, even those already processed.")
    ] = False,
    newest: Annotated[
        bool, typer.Option("--newest", help="Read the newest exchange, too, before it is settled.")
    ] = False,
    since: SinceTurns = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this channel (can be repeated)."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Stop after N steps; the rest is left for the next run."
        ),
    ] = None,
) -> None:
    """Write what matters from the turns since the last run into memory.

    The model is asked once per batch of turns. Exits with 0 if memory was written or there was
    nothing to write, with 6 if the model failed or its reply was unusable, and with 7 if some of it
    was written before that. Failed batches are retried on the next run; no turn is lost. Imported
    chats are only read by this command, which then shows the estimate first. The newest exchange of
    a conversation is skipped until another one follows or it has been quiet for a while.

    \b
    familiar write-memory
    familiar write-memory --dry-run
    familiar write-memory --estimate --json
    familiar write-memory --review
    familiar write-memory --since 7d
    familiar write-memory --channel robin-and-yuzu
    """
    from familiar_cli.actions.write_memory import (
        SOME_TURNS,
        imported_turns,
        memory_writer,
        of_channels,
        write_memory,
    )
    from familiar_cli.errors import UsageError
    from familiar_cli.ui import writing_pages as page
    from familiar_cli.ui.progress import spinner

    out = output(ctx)
    if dry_run + estimate + review > 1:
        raise UsageError(
            "--dry-run, --estimate and --review cannot be combined", hint="Use only one."
        )
    with with_models(familiar_of(ctx)) as familiar:
        moment = moment_of(familiar, since)
        which = of_channels(familiar, channel or ())
        if estimate or (imported_turns(familiar, which) and not out.quiet):
            told = memory_writer(familiar).estimate(
                which=which,
                since=moment,
                again=again,
                newest=newest,
                from_turns=0 if estimate or moment or again else SOME_TURNS,
            )
            if estimate:
                return out.answer(told, page.estimate_text(told))
            out.note(f"Estimate: {page.estimate_text(told).strip()}.")
        mode: Mode = "dry_run" if dry_run else "review" if review else "apply"
        interrupted: list[WriterReport] = []
        with spinner(out, "writing memory …") as show:

            def on_step(report: WriterReport) -> None:
                show(f"writing memory: {report.turns_covered:,} turns done …")

            writing = write_memory(
                familiar,
                mode,
                on_wait=out.note,
                on_interrupt=interrupted.append,
                on_step=on_step,
                which=which,
                since=moment,
                again=again,
                newest=newest,
                most_steps=steps,
            )
            try:
                report = run_async(writing)
            except KeyboardInterrupt:
                if not interrupted:
                    raise
                report = interrupted[0]
    return _answer(out, report, dry_run=dry_run)


def _answer(out: Output, report: WriterReport, *, dry_run: bool) -> None:
    from familiar_cli.errors import PartialError
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.writing_pages import pass_notices, pass_text

    def render() -> None:
        exact(report.diff if dry_run else pass_text(report))

    data = report.to_json()
    for note in pass_notices(report, dry_run=dry_run):
        out.note(note)
    error = report.error
    if report.interrupted:
        told = PartialError(
            "Interrupted; what was written is kept, and the next run continues from there"
        )
        out.partial(data, [told], render, exit_code=130)
    if error and not report.turns_covered:
        error.data = data
        raise error
    if error:
        out.partial(data, [error], render)
    out.answer(data, render)
