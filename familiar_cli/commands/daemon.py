"""`familiar daemon`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output, run_async, with_models

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar

app = App()


@app.command()
def daemon(
    ctx: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is waiting, then exit.")
    ] = False,
    poll: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.05, help="Seconds between checks for new turns."),
    ] = 2.0,
) -> None:
    """Run until interrupted, writing memory at the threshold and after a silence.

    It catches up when it starts. SIGINT (Ctrl-C) or SIGTERM ends it; a running pass stops between
    two steps and continues at the next start. It also does what `familiar consolidate` and
    `familiar distill` do, when that is due. A failed pass is retried after 1, 2, 5, 10 and then
    every 15 minutes, even after a restart; --once retries right away. With --json each event is one
    line, and the last line is the result.

    \b
    familiar daemon
    familiar daemon --once
    familiar daemon --json
    """
    import asyncio

    from familiar_cli.actions.daemon import Daemon
    from familiar_cli.actions.write_memory import imported_turns
    from familiar_cli.passes.background import stopped_by_signals
    from familiar_cli.passes.failures import WRITING
    from familiar_cli.ui.emit import print_error
    from familiar_cli.ui.status_pages import Narrator

    out = output(ctx)
    narrator = Narrator(out, once=once)

    async def run(familiar: Familiar) -> Daemon:
        stop = asyncio.Event()
        daemon = Daemon(familiar, stop, narrator.report, narrator.event)
        with stopped_by_signals(stop):
            await (daemon.catch_up() if once else daemon.watch(poll))
        return daemon

    with with_models(familiar_of(ctx)) as familiar:
        errors = run_async(run(familiar)).errors
        data = {
            "passes": narrator.passes,
            "remaining": familiar.history.unsummarised_count(),
            "imported": imported_turns(familiar),
            "failures": list(familiar.failures.all()),
        }
    if once and WRITING in errors:
        failed = errors.pop(WRITING)
        for error in errors.values():
            print_error(error)
        failed.data = data
        raise failed
    narrator.end(data, list(errors.values()))
