"""The commands of `familiar memory` that look at the past, or bring it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, moment_of, output
from familiar_cli.commands._options import DryRun
from familiar_cli.commands._options import since as since_option

if TYPE_CHECKING:
    from familiar_cli.ui.emit import Output

CommitId = Annotated[
    str, typer.Argument(metavar="COMMIT", help="The beginning of an id, `HEAD` or `HEAD~2`.")
]
AnyCommit = Annotated[
    str | None,
    typer.Argument(metavar="[COMMIT]", help="Else the newest in effect that the program made."),
]
Path = Annotated[str, typer.Argument(metavar="PATH", help="A file, e.g. people/alice.md.")]


def add_to(app: App) -> None:
    """Put these commands into the group `app`."""
    for command in (log, show, diff, blame, undo, restore, compact):
        app.command()(command)


def log(
    ctx: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="Only of this file or directory.")
    ] = "",
    *,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only by this source, e.g. human.")
    ] = None,
    since: Annotated[str | None, since_option("changes")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most so many.")
    ] = None,
) -> None:
    """List the changes of the memory, newest first; a file is followed through its renames.

    \b
    familiar memory log
    familiar memory log people/alice.md --since 7d
    familiar memory log --source memory_writer
    """
    from familiar_cli.ui import journal_page as page
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    familiar = familiar_of(ctx)
    begin = moment_of(familiar, since)
    found = familiar.past.log(path, source=source, since=begin, limit=limit)
    if not found:
        out.note("No change fits. Leave out --source or --since, or change something first.")
    data = {"commits": [page.change_data(change) for change in found]}
    out.answer(data, lambda: print_page(page.log_page(found, familiar.zone)) if found else None)


def show(ctx: typer.Context, commit: CommitId) -> None:
    """Show one change: who, when, what for, and every line that differs.

    \b
    familiar memory show 1a2b3c
    familiar memory show HEAD
    """
    from familiar_cli.ui import journal_page as page

    familiar = familiar_of(ctx)
    change, files = familiar.past.show(commit)
    data = {**page.change_data(change), "files": files}
    _print_diff(output(ctx), data, page.head_text(change, familiar.zone) + page.diff_text(files))


def diff(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[A] [B] [PATH]", help="Two commits, and where to look."),
    ] = None,
) -> None:
    """Show what differs between two commits; one is compared with now.

    Without any commit it is the newest change, or the newest of PATH.

    \b
    familiar memory diff
    familiar memory diff 1a2b3c people/alice.md
    familiar memory diff HEAD~5 HEAD~2
    """
    from familiar_cli.ui import journal_page as page

    out = output(ctx)
    found = familiar_of(ctx).past.diff(words or [])
    if not found.files:
        out.note(f"Nothing differs in {page.range_text(found)}.")
    data = {
        "from": page.commit_data(found.old) if found.old else None,
        "to": page.commit_data(found.new),
        "files": found.files,
    }
    _print_diff(out, data, page.diff_text(found.files))


def blame(
    ctx: typer.Context,
    path: Path,
    *,
    words: Annotated[
        bool, typer.Option("--words", help="Below each line, what was said that it rests on.")
    ] = False,
) -> None:
    """Show for each line of a file which change wrote it, when, and by whom.

    \b
    familiar memory blame people/alice.md
    familiar memory blame people/alice.md --words
    """
    from familiar_cli.memory.pages.evidence import turn_ids
    from familiar_cli.ui import journal_page as page
    from familiar_cli.ui.emit import exact

    with familiar_of(ctx) as familiar:
        lines = familiar.past.blame(path)
        rests_on = {line.line: turn_ids(line.text) for line in lines}
        wanted = {n for ids in rests_on.values() for n in ids} if words else set()
        turns = {n: turn for n in wanted if (turn := familiar.history.turn(n))}
    data = {
        "lines": [
            {
                "line": line.line,
                "text": line.text,
                "commit": page.commit_data(line.commit),
                "turns": list(rests_on[line.line]),
            }
            for line in lines
        ]
    }
    said = {line: [turns[n] for n in ids if n in turns] for line, ids in rests_on.items()}
    output(ctx).answer(data, lambda: exact(page.blame_text(lines, familiar.zone, said)))


def undo(
    ctx: typer.Context,
    commit: AnyCommit = None,
    *,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="All changes of one run, at once.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Take a change back by a new one; what was changed elsewhere since then stays.

    Without COMMIT it is the newest change in effect that the program made, so that undoing again
    goes one step further back. What you edited by hand, and an undo, are taken back by their id
    only. Ends with 5 when later changes touch the same lines.

    \b
    familiar memory undo
    familiar memory undo 1a2b3c --dry-run
    familiar memory undo --run 20260131T235959-a1b2c3
    """
    from familiar_cli.actions.undo import undo
    from familiar_cli.errors import UsageError
    from familiar_cli.ui import journal_page as page

    if commit and run:
        raise UsageError("COMMIT and --run exclude each other", hint="Give one.")
    out = output(ctx)
    done = undo(familiar_of(ctx), commit, run=run, dry_run=dry_run)
    undone = done.undone
    data = {**page.undone_data(undone, dry_run=dry_run), "notices": list(done.notices)}
    _print_diff(out, data, page.undone_text(undone, dry_run=dry_run))
    if undone.changes:
        what = f"run {run}" if run else undone.commit.message
        out.note(f"{'Would undo' if dry_run else 'Undid'}: {what}")
    for notice in done.notices:
        out.note(notice)


def restore(
    ctx: typer.Context,
    path: Path,
    *,
    at: Annotated[str, typer.Option("--at", metavar="COMMIT", help="As it was then.")],
    dry_run: DryRun = False,
) -> None:
    """Make a file hold what it held at a commit, also one that is gone.

    \b
    familiar memory restore people/alice.md --at 1a2b3c
    """
    from familiar_cli.ui import journal_page as page

    done = familiar_of(ctx).past.restore(path, at, dry_run=dry_run)
    data = page.undone_data(done, dry_run=dry_run)
    _print_diff(output(ctx), data, page.undone_text(done, dry_run=dry_run))


def compact(ctx: typer.Context, *, dry_run: DryRun = False) -> None:
    """Pack the journal, so that it takes less room. Nothing of it is lost.

    \b
    familiar memory compact
    """
    from dataclasses import asdict

    from familiar_cli.ui.journal_page import compacted_text

    done = familiar_of(ctx).past.compact(dry_run=dry_run)
    output(ctx).answer({**asdict(done), "dry_run": dry_run}, compacted_text(done))


def _print_diff(out: Output, data: object, text: str) -> None:
    import sys

    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.journal_page import diff_page

    def render() -> None:
        if not sys.stdout.isatty():
            return exact(text)
        from familiar_cli.ui.terminal import print_page

        return print_page(diff_page(text))

    out.answer(data, render)
