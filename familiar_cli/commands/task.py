"""`familiar task`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import familiar_of, group, output
from familiar_cli.commands._options import AnyTime, Closed, DryRun

if TYPE_CHECKING:
    from familiar_cli.memory.desk import Mark

app = group("Manage a task list; the familiar sees it at tier 4.")

Number = Annotated[int, typer.Argument(metavar="N", help="Number from `familiar task ls`.")]


@app.command()
def add(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="Text of the task.")],
    *,
    due: AnyTime = None,
    dry_run: DryRun = False,
) -> None:
    """Add a task to `tasks.md`.

    \b
    familiar task add "Mend the lamp"
    familiar task add "Paint the door" --due friday
    """
    from familiar_cli.actions.desk import add_task
    from familiar_cli.commands._base import text_or_stdin
    from familiar_cli.ui.desk_page import show_change

    with familiar_of(ctx) as familiar:
        done = add_task(familiar, text_or_stdin(text), due, dry_run=dry_run)
    show_change(output(ctx), done)


@app.command("ls")
def ls(
    ctx: typer.Context,
    *,
    every: Closed = False,
) -> None:
    """List open tasks with their numbers.

    \b
    familiar task ls
    familiar task ls --all --json
    """
    from familiar_cli.actions.desk import tasks_of
    from familiar_cli.ui.desk_page import show_items

    with familiar_of(ctx) as familiar:
        found = tasks_of(familiar)
    show_items(output(ctx), found, every=every)


@app.command()
def done(ctx: typer.Context, number: Number, *, dry_run: DryRun = False) -> None:
    """Mark a task as done. Its line and its number stay.

    \b
    familiar task done 1
    """
    from familiar_cli.memory.desk import Mark

    _mark(ctx, number, Mark.done, dry_run=dry_run)


@app.command()
def drop(ctx: typer.Context, number: Number, *, dry_run: DryRun = False) -> None:
    """Drop a task. Its line, marked `[-]`, and its number stay.

    \b
    familiar task drop 3
    """
    from familiar_cli.memory.desk import Mark

    _mark(ctx, number, Mark.dropped, dry_run=dry_run)


def _mark(ctx: typer.Context, number: int, mark: Mark, *, dry_run: bool) -> None:
    from familiar_cli.actions.desk import tick_off
    from familiar_cli.memory.desk import TASKS
    from familiar_cli.ui.desk_page import show_change

    with familiar_of(ctx) as familiar:
        change = tick_off(familiar, TASKS, number, mark, dry_run=dry_run)
    show_change(output(ctx), change)
