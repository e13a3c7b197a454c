"""`familiar scratch`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output
from familiar_cli.commands._options import DryRun

app = App(help="Manage a scratchpad; the familiar sees it at tier 4.", invoke_without_command=True)


@app.callback()
def _scratch(ctx: typer.Context) -> None:
    """Manage a scratchpad; the familiar sees it at tier 4. Without a command, print it."""
    if ctx.invoked_subcommand is None:
        _show(ctx)


@app.command()
def show(ctx: typer.Context) -> None:
    """Print the scratchpad, word for word.

    \b
    familiar scratch show
    """
    _show(ctx)


@app.command()
def add(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="Text; `-` reads standard input.")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Append text to the scratchpad.

    \b
    familiar scratch add "The lamp flickers at low tide."
    git diff --stat | familiar scratch add -
    """
    from familiar_cli.commands._base import text_or_stdin
    from familiar_cli.memory.desk import add_scratch
    from familiar_cli.ui.desk_page import show_scratch_change

    with familiar_of(ctx) as familiar:
        done = add_scratch(familiar.memory, text_or_stdin(text), dry_run=dry_run)
    show_scratch_change(output(ctx), done)


@app.command()
def edit(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Open the scratchpad in your editor (VISUAL or EDITOR).

    \b
    familiar scratch edit
    EDITOR="code --wait" familiar scratch edit
    """
    from familiar_cli.memory.desk import SCRATCH, put_scratch, read_scratch
    from familiar_cli.ui.desk_page import show_scratch_change
    from familiar_cli.ui.editor import edited

    with familiar_of(ctx) as familiar:
        before = read_scratch(familiar.memory)
        with edited(before, SCRATCH) as text:
            done = put_scratch(familiar.memory, text, was=before, dry_run=dry_run)
    show_scratch_change(output(ctx), done)


@app.command()
def clear(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Clear the scratchpad, after printing its text once more.

    \b
    familiar scratch clear
    familiar scratch clear --dry-run
    """
    from familiar_cli.memory.desk import clear_scratch
    from familiar_cli.ui.desk_page import show_scratch_change

    with familiar_of(ctx) as familiar:
        done = clear_scratch(familiar.memory, dry_run=dry_run)
    show_scratch_change(output(ctx), done)


def _show(ctx: typer.Context) -> None:
    from familiar_cli.memory.desk import SCRATCH, read_scratch
    from familiar_cli.ui.emit import exact

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        text = read_scratch(familiar.memory)
    out.answer({"rel_path": SCRATCH, "text": text}, lambda: exact(text))
    if not text.strip():
        out.note("The scratchpad is empty: `familiar scratch add TEXT`.")
