"""`familiar housekeep`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, moment_of, output, run_async, with_models
from familiar_cli.commands._options import since as since_option

app = App()


@app.command()
def housekeep(
    ctx: typer.Context,
    checks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHECK…]",
            help="Checks: secrets, orders, twins, contradictions, stale, withdrawn, "
            "doubles, duplicates, links, relations, orphans, topics, size; default: all.",
        ),
    ] = None,
    *,
    since: Annotated[str | None, since_option("files changed")] = None,
    propose: Annotated[
        bool,
        typer.Option(
            "--propose", help="Make plans for `familiar review` where the repair is clear."
        ),
    ] = False,
    redo: Annotated[
        bool, typer.Option("--redo", help="With --propose: include plans that you rejected before.")
    ] = False,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge", help="Ask the model of the slot `consolidation` about each finding."
        ),
    ] = False,
) -> None:
    """Find things in memory that may need tidying up. Nothing is changed.

    Findings are not errors. No model is needed; `--judge` has one assess each finding.

    \b
    familiar housekeep
    familiar housekeep secrets orders
    familiar housekeep links duplicates --propose
    """
    from familiar_cli.actions.housekeep import tidy_up
    from familiar_cli.errors import UsageError
    from familiar_cli.ui.memory_pages import housekeeping_page, summary_line
    from familiar_cli.ui.progress import checking

    out = output(ctx)
    if redo and not propose:
        raise UsageError(
            "--redo requires --propose", hint="Run `familiar housekeep --propose --redo`."
        )
    with with_models(familiar_of(ctx)) as familiar, checking(out) as on_step:
        looking = tidy_up(
            familiar,
            checks or [],
            since=moment_of(familiar, since),
            propose=propose,
            again=redo,
            ask_model=judge,
            on_wait=out.note,
            on_step=on_step,
        )
        done = run_async(looking)
    page = housekeeping_page(done)
    for skipped in done.skipped:
        out.warn(f"{skipped.rel_path}: {skipped.reason}; not checked")
    if done.problem:
        out.note(summary_line(done))
        out.partial(done.to_json(), [done.problem], page)
    out.answer(done.to_json(), page if done.found else None)
    out.note(summary_line(done))
