"""`familiar daemon`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output, with_models

if TYPE_CHECKING:
    from familiar_cli.writer.types import Report

app = App()


@app.command()
def daemon(
    ctx: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Catch up with what waits, and end.")
    ] = False,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.05, help="How often to look for new turns.")
    ] = 2.0,
) -> None:
    """Stay, and write memory while others talk: at the threshold, and after a silence.

    It catches up when it starts. Ctrl-C or a polite kill ends it; a pass that is under way is
    broken off between two steps, and goes on at the next start. What `familiar consolidate` and
    `familiar distill` make, it makes when it is due.

    \b
    familiar daemon
    familiar daemon --once
    """
    from familiar_cli.actions.write_memory import stay
    from familiar_cli.ui.writer_page import report_text, told_after

    out = output(ctx)
    lines: list[dict[str, object]] = []

    def tell(report: Report) -> None:
        if not report.turns_covered and report.error is None:
            return
        lines.append(report.to_json())
        for line in report_text(report).splitlines():
            out.note(line)
        for note in told_after(report):
            out.note(note)

    with with_models(familiar_of(ctx)) as familiar:
        if not once:
            out.note(f"Watching {familiar.paths.id}; Ctrl-C ends it.")
        failed = stay(familiar, once=once, poll_s=poll, on_report=tell, on_note=out.note)
        waiting = familiar.history.unsummarised_count()
    if failed is not None and once:
        failed.data = {"passes": lines, "remaining": waiting}
        raise failed
    out.answer({"passes": lines, "remaining": waiting}, lambda: None)
    out.note(f"{waiting} turns wait." if waiting else "All turns are written down.")
