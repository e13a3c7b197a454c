"""The commands of `familiar memory` that look at the past, or bring it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, moment_of, output
from familiar_cli.commands._options import DryRun, MemoryPath
from familiar_cli.commands._options import since as since_option

if TYPE_CHECKING:
    from familiar_cli.ui.emit import Output

CommitId = Annotated[
    str, typer.Argument(metavar="COMMIT", help="Start of a commit id, `HEAD` or `HEAD~2`.")
]
AnyCommit = Annotated[
    str | None,
    typer.Argument(
        metavar="[COMMIT]",
        help="Commit to undo; default: the newest change in effect made by the program.",
    ),
]


def add_to(app: App) -> None:
    """Put these commands into the group `app`."""
    for command in (log, show, diff, blame, undo, restore, compact):
        app.command()(command)


def log(
    ctx: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="Only changes to this file or directory.")
    ] = "",
    *,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only changes from this source, e.g. human.")
    ] = None,
    since: Annotated[str | None, since_option("changes")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=1, metavar="N", help="Maximum number of changes to show."
        ),
    ] = None,
) -> None:
    """List changes to memory, newest first. A file is followed through renames.

    \b
    familiar memory log
    familiar memory log people/alice.md --since 7d
    familiar memory log --source memory_writer
    """
    from familiar_cli.ui import memory_pages
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    familiar = familiar_of(ctx)
    begin = moment_of(familiar, since)
    found = familiar.past.log(path, source=source, since=begin, limit=limit)
    if not found:
        out.note("No change matches. Try without --source or --since.")
    data = {"commits": [memory_pages.change_data(change) for change in found]}
    out.answer(
        data, lambda: print_page(memory_pages.log_page(found, familiar.zone)) if found else None
    )


def show(ctx: typer.Context, commit: CommitId) -> None:
    """Show one change: its author, time, reason and diff.

    \b
    familiar memory show 1a2b3c
    familiar memory show HEAD
    """
    from familiar_cli.ui import memory_pages

    familiar = familiar_of(ctx)
    change, files = familiar.past.show(commit)
    data = {**memory_pages.change_data(change), "files": files}
    _print_diff(
        output(ctx),
        data,
        memory_pages.head_text(change, familiar.zone) + memory_pages.diff_text(files),
    )


def diff(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[A] [B] [PATH]",
            help="Commits to compare, and a file or directory to limit it to.",
        ),
    ] = None,
) -> None:
    """Show the differences between two commits, or between one commit and now.

    Without a commit, show the newest change, or the newest to PATH.

    \b
    familiar memory diff
    familiar memory diff 1a2b3c people/alice.md
    familiar memory diff HEAD~5 HEAD~2
    """
    from familiar_cli.ui import memory_pages

    out = output(ctx)
    found = familiar_of(ctx).past.diff(words or [])
    if not found.files:
        out.note(f"Nothing differs in {memory_pages.range_text(found)}.")
    data = {
        "from": memory_pages.commit_data(found.old) if found.old else None,
        "to": memory_pages.commit_data(found.new),
        "files": found.files,
    }
    _print_diff(out, data, memory_pages.diff_text(found.files))


def blame(
    ctx: typer.Context,
    path: MemoryPath,
    *,
    words: Annotated[
        bool, typer.Option("--words", help="Below each line, print the turns it is based on.")
    ] = False,
) -> None:
    """Show which change last wrote each line of a file, when, and by whom.

    \b
    familiar memory blame people/alice.md
    familiar memory blame people/alice.md --words
    """
    from familiar_cli.memory.pages.evidence import turn_ids
    from familiar_cli.ui import memory_pages
    from familiar_cli.ui.emit import exact

    with familiar_of(ctx) as familiar:
        lines = familiar.past.blame(path)
        numbering = familiar.numbering
        rests_on = {line.line: turn_ids(line.text, numbering) for line in lines}
        wanted = {n for ids in rests_on.values() for n in ids} if words else set()
        turns = {n: turn for n in wanted if (turn := familiar.history.turn(n))}
    data = {
        "lines": [
            {
                "line": line.line,
                "text": line.text,
                "commit": memory_pages.commit_data(line.commit),
                "turns": list(rests_on[line.line]),
            }
            for line in lines
        ]
    }
    said = {line: [turns[n] for n in ids if n in turns] for line, ids in rests_on.items()}
    output(ctx).answer(data, lambda: exact(memory_pages.blame_text(lines, familiar.zone, said)))


def undo(
    ctx: typer.Context,
    commit: AnyCommit = None,
    *,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Undo all changes of one run.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Undo what other machines wrote without asking.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Undo a change with a new change; later changes elsewhere are kept.

    Without COMMIT, undo the newest change in effect that the program made here, so running it again
    goes one step further back. To undo an undo, an edit made by hand, or what came from another
    machine, give its id. Undoing a merge shows what it would remove, and asks. Exits with 5 if
    later changes touch the same lines.

    \b
    familiar memory undo
    familiar memory undo 1a2b3c --dry-run
    familiar memory undo --run 20260131T235959-a1b2c3
    """
    import sys

    from familiar_cli.actions.undo import undo
    from familiar_cli.errors import UsageError
    from familiar_cli.ui import memory_pages

    if commit and run:
        raise UsageError("COMMIT and --run cannot be combined", hint="Use only one.")
    out = output(ctx)
    familiar = familiar_of(ctx)
    if (commit or run) and not (yes or dry_run or out.as_json) and sys.stdin.isatty():
        would = undo(familiar, commit, run=run, dry_run=True).undone
        if would.changes and would.is_from_elsewhere:
            _print_diff(out, None, memory_pages.undone_text(would, dry_run=True))
            yes = typer.confirm("Remove this here and, with the next sync, everywhere?", err=True)
    done = undo(familiar, commit, run=run, dry_run=dry_run, merges=yes)
    undone = done.undone
    data = {**memory_pages.undone_data(undone, dry_run=dry_run), "notices": list(done.notices)}
    _print_diff(out, data, memory_pages.undone_text(undone, dry_run=dry_run))
    if undone.changes:
        what = f"run {run}" if run else undone.commit.message
        out.note(f"{'Would undo' if dry_run else 'Undid'}: {what}")
    for notice in done.notices:
        out.note(notice)


def restore(
    ctx: typer.Context,
    path: MemoryPath,
    *,
    at: Annotated[
        str, typer.Option("--at", metavar="COMMIT", help="Commit whose version to restore.")
    ],
    dry_run: DryRun = False,
) -> None:
    """Restore a file, even a deleted one, as it was at a commit.

    \b
    familiar memory restore people/alice.md --at 1a2b3c
    """
    from familiar_cli.ui import memory_pages

    done = familiar_of(ctx).past.restore(path, at, dry_run=dry_run)
    data = memory_pages.undone_data(done, dry_run=dry_run)
    _print_diff(output(ctx), data, memory_pages.undone_text(done, dry_run=dry_run))


def compact(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Pack the journal to save disk space. No history is lost.

    \b
    familiar memory compact
    """
    from dataclasses import asdict

    from familiar_cli.ui.memory_pages import compacted_text

    done = familiar_of(ctx).past.compact(dry_run=dry_run)
    output(ctx).answer({**asdict(done), "dry_run": dry_run}, compacted_text(done))


def _print_diff(out: Output, data: object, text: str) -> None:
    import sys

    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.memory_pages import diff_page

    def render() -> None:
        if not sys.stdout.isatty():
            return exact(text)
        from familiar_cli.ui.terminal import print_page

        return print_page(diff_page(text))

    out.answer(data, render)
