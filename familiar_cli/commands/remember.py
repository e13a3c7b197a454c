"""`familiar remember`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output, text_or_stdin
from familiar_cli.commands._options import DryRun

app = App()


@app.command()
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
    from familiar_cli.consolidation.significant import remember as keep
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
