"""`familiar remind`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import familiar_of, group, output
from familiar_cli.commands._options import Closed, DryRun, When

app = group("Manage reminders; the familiar sees them when they are due.")


@app.command()
def add(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="Text of the reminder.")],
    *,
    at: When,
    dry_run: DryRun = False,
) -> None:
    """Add a reminder to `reminders.md`.

    \b
    familiar remind add "Call Anna" --at "tomorrow 9:00"
    familiar remind add "Water it" --at friday --dry-run
    """
    from familiar_cli.actions.desk import add_reminder
    from familiar_cli.commands._base import text_or_stdin
    from familiar_cli.ui.desk_page import show_change

    with familiar_of(ctx) as familiar:
        done = add_reminder(familiar, text_or_stdin(text), at, dry_run=dry_run)
    show_change(output(ctx), done)


@app.command("ls")
def ls(
    ctx: typer.Context,
    *,
    every: Closed = False,
) -> None:
    """List open reminders with their numbers; those that are due are marked.

    \b
    familiar remind ls
    familiar remind ls --all --json
    """
    from familiar_cli.actions.desk import reminders_of
    from familiar_cli.ui.desk_page import show_items

    with familiar_of(ctx) as familiar:
        found = reminders_of(familiar)
    show_items(output(ctx), found, every=every)


@app.command()
def done(
    ctx: typer.Context,
    number: Annotated[int, typer.Argument(metavar="N", help="Number from `familiar remind ls`.")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Mark a reminder as done. Its line and its number stay.

    \b
    familiar remind done 2
    """
    from familiar_cli.actions.desk import tick_off
    from familiar_cli.memory.desk import REMINDERS, Mark
    from familiar_cli.ui.desk_page import show_change

    with familiar_of(ctx) as familiar:
        change = tick_off(familiar, REMINDERS, number, Mark.done, dry_run=dry_run)
    show_change(output(ctx), change)
