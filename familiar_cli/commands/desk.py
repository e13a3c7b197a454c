"""`familiar remind`, `task` and `scratch`."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, group, output, text_or_stdin
from familiar_cli.commands._options import AnyTime, Closed, DryRun, When
from familiar_cli.memory.layout import REMINDERS, SCRATCH, TASKS

remind_app = group("Manage reminders; the familiar sees them when they are due.")


@remind_app.command("add")
def add_reminder(
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
    _add(ctx, REMINDERS, text, at, dry_run=dry_run)


@remind_app.command("ls")
def list_reminders(ctx: typer.Context, *, every: Closed = False) -> None:
    """List open reminders with their numbers; those that are due are marked.

    \b
    familiar remind ls
    familiar remind ls --all --json
    """
    _list(ctx, REMINDERS, every=every)


@remind_app.command("done")
def mark_reminder_done(
    ctx: typer.Context,
    number: Annotated[int, typer.Argument(metavar="N", help="Number from `familiar remind ls`.")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Mark a reminder as done. Its line and its number stay.

    \b
    familiar remind done 2
    """
    _mark(ctx, REMINDERS, number, "done", dry_run=dry_run)


task_app = group("Manage a task list; the familiar sees it at tier 4.")

Number = Annotated[int, typer.Argument(metavar="N", help="Number from `familiar task ls`.")]


@task_app.command("add")
def add_task(
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
    _add(ctx, TASKS, text, due, dry_run=dry_run)


@task_app.command("ls")
def list_tasks(ctx: typer.Context, *, every: Closed = False) -> None:
    """List open tasks with their numbers.

    \b
    familiar task ls
    familiar task ls --all --json
    """
    _list(ctx, TASKS, every=every)


@task_app.command("done")
def mark_task_done(ctx: typer.Context, number: Number, *, dry_run: DryRun = False) -> None:
    """Mark a task as done. Its line and its number stay.

    \b
    familiar task done 1
    """
    _mark(ctx, TASKS, number, "done", dry_run=dry_run)


@task_app.command("drop")
def drop_task(ctx: typer.Context, number: Number, *, dry_run: DryRun = False) -> None:
    """Drop a task. Its line, marked `[-]`, and its number stay.

    \b
    familiar task drop 3
    """
    _mark(ctx, TASKS, number, "dropped", dry_run=dry_run)


def _add(ctx: typer.Context, rel_path: str, text: str, when: str | None, *, dry_run: bool) -> None:
    from familiar_cli.actions.desk import add_item
    from familiar_cli.ui.memory_pages import show_change

    with familiar_of(ctx) as familiar:
        change = add_item(familiar, rel_path, text_or_stdin(text), when, dry_run=dry_run)
    show_change(output(ctx), change)


def _list(ctx: typer.Context, rel_path: str, *, every: bool) -> None:
    from familiar_cli.actions.desk import read_list
    from familiar_cli.ui.memory_pages import show_items

    with familiar_of(ctx) as familiar:
        found = read_list(familiar, rel_path)
    show_items(output(ctx), found, every=every)


def _mark(ctx: typer.Context, rel_path: str, number: int, mark: str, *, dry_run: bool) -> None:
    from familiar_cli.actions.desk import mark_item
    from familiar_cli.memory.desk import ItemStatus
    from familiar_cli.ui.memory_pages import show_change

    with familiar_of(ctx) as familiar:
        change = mark_item(familiar, rel_path, number, ItemStatus[mark], dry_run=dry_run)
    show_change(output(ctx), change)


scratch_app = App(
    help="Manage a scratchpad; the familiar sees it at tier 4.", invoke_without_command=True
)


@scratch_app.callback()
def _scratch(ctx: typer.Context) -> None:
    """Manage a scratchpad; the familiar sees it at tier 4. Without a command, print it."""
    if ctx.invoked_subcommand is None:
        _show(ctx)


@scratch_app.command("show")
def show_scratchpad(ctx: typer.Context) -> None:
    """Print the scratchpad, word for word.

    \b
    familiar scratch show
    """
    _show(ctx)


@scratch_app.command("add")
def add_to_scratchpad(
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
    from familiar_cli.memory.desk import add_scratch
    from familiar_cli.ui.memory_pages import show_scratch_change

    with familiar_of(ctx) as familiar:
        done = add_scratch(familiar.memory, text_or_stdin(text), dry_run=dry_run)
    show_scratch_change(output(ctx), done)


@scratch_app.command("edit")
def edit_scratchpad(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Open the scratchpad in your editor (VISUAL or EDITOR).

    \b
    familiar scratch edit
    EDITOR="code --wait" familiar scratch edit
    """
    from familiar_cli.memory.desk import put_scratch, read_scratch
    from familiar_cli.ui.memory_pages import show_scratch_change
    from familiar_cli.ui.prompts import edit_text

    with familiar_of(ctx) as familiar:
        before = read_scratch(familiar.memory)
        with edit_text(before, SCRATCH) as text:
            done = put_scratch(familiar.memory, text, was=before, dry_run=dry_run)
    show_scratch_change(output(ctx), done)


@scratch_app.command("clear")
def clear_scratchpad(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Clear the scratchpad, after printing its text once more.

    \b
    familiar scratch clear
    familiar scratch clear --dry-run
    """
    from familiar_cli.memory.desk import clear_scratch
    from familiar_cli.ui.memory_pages import show_scratch_change

    with familiar_of(ctx) as familiar:
        done = clear_scratch(familiar.memory, dry_run=dry_run)
    show_scratch_change(output(ctx), done)


def _show(ctx: typer.Context) -> None:
    from familiar_cli.memory.desk import read_scratch
    from familiar_cli.ui.emit import exact

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        text = read_scratch(familiar.memory)
    out.answer({"rel_path": SCRATCH, "text": text}, lambda: exact(text))
    if not text.strip():
        out.note("The scratchpad is empty: `familiar scratch add TEXT`.")
