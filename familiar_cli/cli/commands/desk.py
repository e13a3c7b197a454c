"""`familiar todo`: reminders, tasks and notes; and its earlier names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from familiar_cli.actions.memory.desk import mark_todo, read_todos
from familiar_cli.base.errors import UsageError
from familiar_cli.base.times.clock import iso, now, to_zone
from familiar_cli.cli.commands import _base as base
from familiar_cli.cli.commands._options import AnyTime, Closed, DryRun, When
from familiar_cli.pages.emit import exact
from familiar_cli.store.memory import desk
from familiar_cli.store.memory.layout import REMINDERS, SCRATCH, TASKS

if TYPE_CHECKING:
    from familiar_cli.actions.health.job_schedule import Job
    from familiar_cli.familiar import Familiar

_LISTS = {"remind": REMINDERS, "task": TASKS}
LETTERS = {"r": REMINDERS, "t": TASKS}

Words = Annotated[str, typer.Argument(metavar="TEXT|-", help="Text; `-` reads standard input.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="Id from `familiar job list`.")]
Number = Annotated[str, typer.Argument(metavar="N", help="Number in the list.")]
ItemId = Annotated[str, typer.Argument(metavar="ID", help="Id from `familiar todo list`, e.g. r1.")]

remind_app = base.group("Manage reminders; the familiar sees them when they are due.")
task_app = base.group("Manage a task list; the familiar sees it at tier 4.")
todo_app = base.group("Keep reminders, tasks and notes.")


@todo_app.command("add")
def add_todo(
    ctx: typer.Context,
    text: Words,
    *,
    at: AnyTime = None,
    due: str | None = None,
    dry_run: DryRun = False,
) -> None:
    """Add a task, or with `--at` a reminder, which may recur.

    \b
    familiar todo add "Mend the lamp"
    familiar todo add "Call Anna" --at "tomorrow 9:00"
    familiar todo add "Water it" --at "every monday 9:00"
    familiar todo add "Paint the door" --due friday

    Args:
        due (WHEN): When a task is due; no reminder.
    """
    if at is not None and due is not None:
        raise UsageError("--at and --due cannot be combined", hint="Use only one.")
    rel_path = REMINDERS if at is not None else TASKS
    _add(ctx, rel_path, text, due if at is None else at, dry_run=dry_run)


@todo_app.command("list")
def list_todo(ctx: typer.Context, *, every: Closed = False) -> None:
    """List open reminders and tasks with their ids, and the notes.

    \b
    familiar todo list
    familiar todo list --all --json
    """
    from familiar_cli.pages.memory_pages import show_todo

    with base.familiar_of(ctx) as familiar:
        reminders, tasks = read_todos(familiar, REMINDERS), read_todos(familiar, TASKS)
        notes = desk.read_scratch(familiar.memory)
    show_todo(base.output(ctx), reminders, tasks, notes, every=every)


@todo_app.command("done")
def finish_todo(ctx: typer.Context, item: ItemId, *, dry_run: DryRun = False) -> None:
    """Mark a reminder or a task as done. A recurring one waits for its next time.

    \b
    familiar todo done r1
    familiar todo done t2
    """
    _mark(ctx, item, "done", dry_run=dry_run)


@todo_app.command("drop")
def drop_todo(ctx: typer.Context, item: ItemId, *, dry_run: DryRun = False) -> None:
    """Drop a reminder or a task for good. Its line, marked `[-]`, stays.

    \b
    familiar todo drop t2
    """
    _mark(ctx, item, "dropped", dry_run=dry_run)


@todo_app.command("note")
def note_todo(
    ctx: typer.Context,
    text: Annotated[str | None, typer.Argument()] = None,
    *,
    edit: Annotated[bool, typer.Option("--edit")] = False,
    clear: Annotated[bool, typer.Option("--clear")] = False,
    dry_run: DryRun = False,
) -> None:
    """Show the notes, or add to them.

    \b
    familiar todo note
    familiar todo note "The lamp flickers at low tide."
    familiar todo note --edit

    Args:
        text ([TEXT|-]): Text to add; default: show all.
        edit: Open the notes in your editor.
        clear: Print the notes and delete them.
    """
    if sum((text is not None, edit, clear)) > 1:
        raise UsageError("TEXT, --edit and --clear cannot be combined", hint="Use only one.")
    if text is not None:
        add_to_scratchpad(ctx, text, dry_run=dry_run)
    elif edit:
        edit_scratchpad(ctx, dry_run=dry_run)
    elif clear:
        clear_scratchpad(ctx, dry_run=dry_run)
    else:
        show_scratchpad(ctx)


@remind_app.command("add")
def add_reminder(ctx: typer.Context, text: Words, *, at: When, dry_run: DryRun = False) -> None:
    """Add a reminder to `reminders.md`.

    \b
    familiar remind add "Call Anna" --at "tomorrow 9:00"
    familiar remind add "Water it" --at friday --dry-run
    """
    _add(ctx, REMINDERS, text, at, dry_run=dry_run)


@task_app.command("add")
def add_task(
    ctx: typer.Context, text: Words, *, due: AnyTime = None, dry_run: DryRun = False
) -> None:
    """Add a task to `tasks.md`.

    \b
    familiar task add "Mend the lamp"
    familiar task add "Paint the door" --due friday
    """
    _add(ctx, TASKS, text, due, dry_run=dry_run)


def list_items(ctx: typer.Context, *, every: Closed = False) -> None:
    """List the open items of one list with their numbers; those that are due are marked."""
    from familiar_cli.pages.memory_pages import show_items

    with base.familiar_of(ctx) as familiar:
        todos = read_todos(familiar, _list_of(ctx))
    show_items(base.output(ctx), todos, every=every)


def mark_done(ctx: typer.Context, number: Number, *, dry_run: DryRun = False) -> None:
    """Mark an item as done. Its line and its number stay."""
    _mark(ctx, number, "done", _list_of(ctx), dry_run=dry_run)


def mark_dropped(ctx: typer.Context, number: Number, *, dry_run: DryRun = False) -> None:
    """Drop an item. Its line, marked `[-]`, and its number stay."""
    _mark(ctx, number, "dropped", _list_of(ctx), dry_run=dry_run)


def _share_command(name: str, command: Callable[..., None], examples: str) -> None:
    """Add a command to both lists, each with its own examples."""
    for noun, app in (("remind", remind_app), ("task", task_app)):
        lines = "".join(f"\nfamiliar {noun} {name}{words}" for words in examples.split("|"))
        app.command(name, help=f"{command.__doc__}\n\n\b{lines}")(command)


_share_command("list", list_items, "| --all --json")
_share_command("done", mark_done, " 2")
_share_command("drop", mark_dropped, " 3")


def _list_of(ctx: typer.Context) -> str:
    return _LISTS[ctx.command_path.split()[-2]]


def _find_list(familiar: Familiar, text: str, usual: str) -> tuple[str, int]:
    """Return the list and the number of an item with an id such as `r1`.

    A number without a letter is one of the list `usual`, or else of the only list that has it.

    Raises:
        UsageError: The id is invalid, or may mean two items.
    """
    rel_path = LETTERS.get(text[:1].lower(), "")
    digits = text[1:] if rel_path else text
    if not (digits.isascii() and digits.isdecimal()):
        raise UsageError(
            f"{text!r} is not the id of a reminder (r1) or a task (t1); nothing was changed",
            hint="List the ids: `familiar todo list`.",
        )
    number = int(digits)
    if rel_path or usual:
        return rel_path or usual, number
    having = [one for one in LETTERS.values() if _has_item(familiar, one, number)]
    if len(having) > 1:
        raise UsageError(
            f"{text!r} is the number of a reminder and of a task; nothing was changed",
            hint=f"Name one: `r{number}` or `t{number}`.",
        )
    return (having or [TASKS])[0], number


def _has_item(familiar: Familiar, rel_path: str, number: int) -> bool:
    return any(item.number == number for item in read_todos(familiar, rel_path).items)


def _add(ctx: typer.Context, rel_path: str, text: str, when: str | None, *, dry_run: bool) -> None:
    from familiar_cli.actions.memory.desk import add_todo
    from familiar_cli.pages.memory_pages import show_change

    with base.familiar_of(ctx) as familiar:
        change = add_todo(familiar, rel_path, base.text_or_stdin(text), when, dry_run=dry_run)
    show_change(base.output(ctx), change, is_new=True)


def _mark(
    ctx: typer.Context, item: str, mark: str, usual: str = "", *, dry_run: bool = False
) -> None:
    from familiar_cli.pages.memory_pages import show_change

    with base.familiar_of(ctx) as familiar:
        rel_path, number = _find_list(familiar, item, usual)
        change = mark_todo(familiar, rel_path, number, desk.ItemStatus[mark], dry_run=dry_run)
    show_change(base.output(ctx), change)


scratch_app = base.group("Manage a scratchpad; the familiar sees it at tier 4.")


@scratch_app.command("show")
def show_scratchpad(ctx: typer.Context) -> None:
    """Print the scratchpad, word for word.

    \b
    familiar scratch show
    """
    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        text = desk.read_scratch(familiar.memory)
    out.answer({"rel_path": SCRATCH, "text": text}, lambda: exact(text))
    if not text.strip():
        out.note("The scratchpad is empty: `familiar scratch add TEXT`.")


@scratch_app.command("add")
def add_to_scratchpad(ctx: typer.Context, text: str, *, dry_run: DryRun = False) -> None:
    """Append text to the scratchpad.

    \b
    familiar scratch add "The lamp flickers at low tide."
    git diff --stat | familiar scratch add -

    Args:
        text (TEXT|-): Text; `-` reads standard input.
    """
    from familiar_cli.pages.memory_pages import show_scratch_change

    with base.familiar_of(ctx) as familiar:
        change = desk.add_scratch(familiar.memory, base.text_or_stdin(text), dry_run=dry_run)
    show_scratch_change(base.output(ctx), change)


@scratch_app.command("edit")
def edit_scratchpad(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Open the scratchpad in your editor (VISUAL or EDITOR).

    \b
    familiar scratch edit
    EDITOR="code --wait" familiar scratch edit
    """
    from familiar_cli.cli.terminal.prompts import edit_text
    from familiar_cli.pages.memory_pages import show_scratch_change

    with base.familiar_of(ctx) as familiar:
        before = desk.read_scratch(familiar.memory)
        with edit_text(before, SCRATCH) as text:
            change = desk.put_scratch(familiar.memory, text, was=before, dry_run=dry_run)
    show_scratch_change(base.output(ctx), change)


@scratch_app.command("clear")
def clear_scratchpad(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Clear the scratchpad, after printing its text once more.

    \b
    familiar scratch clear
    familiar scratch clear --dry-run
    """
    from familiar_cli.pages.memory_pages import show_scratch_change

    with base.familiar_of(ctx) as familiar:
        change = desk.clear_scratch(familiar.memory, dry_run=dry_run)
    show_scratch_change(base.output(ctx), change)


job_app = base.group("Schedule what the familiar does on its own.")


@job_app.command("add")
def add_scheduled(
    ctx: typer.Context,
    when: str,
    *,
    say: str = "",
    run: str = "",
    channel: str = "cli",
    missed: str = "run",
    name: Annotated[str, typer.Option("--id")] = "",
    dry_run: DryRun = False,
) -> None:
    """Add a job, run by `familiar daemon`, `serve` or `chat` while one of them runs.

    Each occurrence runs once. Jobs never run system commands.

    \b
    familiar job add "every day 8:00" --say "Good morning"
    familiar job add "every sunday 3:30" --run consolidate
    familiar job add "every 2 hours" --run sync --missed skip

    Args:
        when (WHEN): Recurrence, e.g. `every day 8:00`.
        say (TEXT): Write a message about this.
        run (PASS): Run write-memory, consolidate, sync or `distill short|mid|long`.
        channel (ID): Channel that the message goes to.
        missed (run|skip): What to do about a run that was missed.
        name (ID): Id of the job; default: made from TEXT.
    """
    from familiar_cli.actions.health.job_schedule import Job, add_job

    job = Job(name, when, iso(now()), say, run, channel, missed)
    with base.familiar_of(ctx) as familiar:
        added = add_job(familiar, job, dry_run=dry_run)
        row = _job_row(familiar, added)
    base.output(ctx).answer(row, f"{added.id}: {added.what}, {added.when}, next {row['next']}\n")


@job_app.command("list")
def list_scheduled(ctx: typer.Context) -> None:
    """List the jobs, when each runs next, and how its last run ended.

    \b
    familiar job list
    """
    from familiar_cli.actions.health.job_schedule import read_jobs

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        rows = [_job_row(familiar, job) for job in read_jobs(familiar)]
    lines = [
        f"{row['id']}  {row['when']}  {row['what']}  next {row['next']}"
        + (f"  last {row['last']} ({row['outcome']})" if row["last"] else "")
        + (f"  failed: {row['failure']}" if row["failure"] else "")
        for row in rows
    ]
    out.answer({"jobs": rows}, "".join(f"{line}\n" for line in lines))
    if not rows:
        out.note('No jobs. Add one: `familiar job add "every day 8:00" --say "Good morning"`.')


@job_app.command("rm")
def remove_scheduled(ctx: typer.Context, job_id: JobId, *, dry_run: DryRun = False) -> None:
    """Remove a job.

    \b
    familiar job rm good-morning
    """
    from familiar_cli.actions.health.job_schedule import remove_job

    with base.familiar_of(ctx) as familiar:
        removed = remove_job(familiar, job_id, dry_run=dry_run)
    base.output(ctx).answer({"id": removed.id, "dry_run": dry_run}, f"Removed {removed.id}\n")


@job_app.command("run")
def run_scheduled(ctx: typer.Context, job_id: JobId) -> None:
    """Run a job now, in addition to its schedule.

    \b
    familiar job run good-morning
    """
    from familiar_cli.actions.health.job_schedule import run_job_now

    with base.with_models(base.familiar_of(ctx)) as familiar:
        turn = base.run_async(run_job_now(familiar, job_id))
        made = familiar.history.turn(turn) if turn else None
    text = made.content if made else ""
    base.output(ctx).answer({"id": job_id, "turn": turn, "text": text}, text or f"{job_id}: done\n")


def _job_row(familiar: Familiar, job: Job) -> dict[str, object]:
    """Describe a job for a list."""
    from familiar_cli.actions.health.job_schedule import next_run, read_state

    state, failure = read_state(familiar, job), familiar.passes.job(job.id).failure
    coming = to_zone(next_run(familiar, job), familiar.zone)
    return {
        **asdict(job),
        "what": job.what,
        "next": f"{coming:%Y-%m-%d %H:%M}",
        "last": state.last,
        "outcome": state.outcome,
        "turn": state.turn,
        "failure": failure.message if failure else "",
    }
