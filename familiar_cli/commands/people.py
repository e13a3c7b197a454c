"""`familiar people`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import familiar_of, group, output
from familiar_cli.commands._options import DryRun

if TYPE_CHECKING:
    from familiar_cli.actions.people import PeopleChange
    from familiar_cli.ui.emit import Output

app = group("Show the people the familiar knows, and their names.")

Person = Annotated[
    str,
    typer.Argument(metavar="PERSON", help="Person: a slug (discord-42), PLATFORM:ID, or any name."),
]


@app.command("ls")
def ls(ctx: typer.Context) -> None:
    """List everyone who has a file or has spoken, most recently seen first.

    \b
    familiar people ls
    familiar people ls --json
    """
    from familiar_cli.actions.people import people_of
    from familiar_cli.ui.memory_pages import people_page, shared_line
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        found, zone = people_of(familiar), familiar.zone
    out.answer(found, lambda: print_page(people_page(found.people, zone)) if found.people else None)
    if not found.people:
        out.note('Nobody yet: `familiar people alias discord:42 "Anna"` creates a file.')
    for named in found.collisions:
        out.warn(shared_line(named))
    for person in found.people:
        if person.problem:
            out.warn(person.problem)


@app.command()
def show(ctx: typer.Context, person: Person) -> None:
    """Print a person's file, word for word; their names go to stderr.

    \b
    familiar people show discord-42
    familiar people show discord:42
    familiar people show Anna
    """
    import sys

    from familiar_cli.actions.people import show_person
    from familiar_cli.text import typed
    from familiar_cli.ui.emit import exact, say
    from familiar_cli.ui.memory_pages import shared_line

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        found = show_person(familiar, person)
    out.answer(found, lambda: say(found.text) if sys.stdout.isatty() else exact(found.text))
    called = ", ".join(found.names) or "nothing: the file has neither a title nor aliases"
    out.note(f"{found.slug} is called {called}")
    if not found.sha256:
        write = f"familiar memory write {typed(found.rel_path)} TEXT"
        out.note(f"There is no file about them yet: `{write}`.")
    for named in found.collisions:
        out.warn(shared_line(named))


@app.command()
def alias(
    ctx: typer.Context,
    person: Person,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Another name for the person.")],
    *,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the name from the list.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Add a name to `## Aliases` in a person's file, creating the file if needed.

    \b
    familiar people alias discord:42 "Anna Bell"
    familiar people alias anna Bee --dry-run
    familiar people alias anna Bee --remove
    """
    from familiar_cli.actions.people import add_alias, remove_alias
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.memory_pages import shared_line

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        change = remove_alias if remove else add_alias
        done = change(familiar, person, name, dry_run=dry_run)
    out.answer(done, lambda: exact(done.diff))
    if not done.changed:
        out.note(f"{done.slug} already has the name {name!r}; nothing was changed.")
    elif dry_run:
        out.note("Nothing was changed (--dry-run).")
    for notice in (*done.notices, *map(shared_line, done.collisions)):
        out.warn(notice)


@app.command()
def merge(
    ctx: typer.Context,
    kept: Annotated[str, typer.Argument(metavar="KEPT", help="Person whose file is kept.")],
    other: Annotated[
        str,
        typer.Argument(metavar="OTHER", help="The same person's other account, merged into KEPT."),
    ],
    *,
    dry_run: DryRun = False,
) -> None:
    """Merge two accounts of one person: what is known of OTHER moves to the file of KEPT.

    The file of OTHER stays and points to KEPT, so new memories of that account are kept with KEPT.
    Links are updated. `familiar people split` undoes the merge.

    \b
    familiar people merge discord:42 twitch:9
    familiar people merge discord:42 twitch:9 --dry-run
    """
    from familiar_cli.actions.people import merge as merge_people

    with familiar_of(ctx) as familiar:
        _tell(output(ctx), merge_people(familiar, kept, other, dry_run=dry_run))


@app.command()
def split(ctx: typer.Context, person: Person, *, dry_run: DryRun = False) -> None:
    """Undo a merge: PERSON, who was merged into another, gets a file of their own again.

    Lines based on what PERSON said move there; all others stay.

    \b
    familiar people split twitch:9
    """
    from familiar_cli.actions.people import split as split_person

    with familiar_of(ctx) as familiar:
        _tell(output(ctx), split_person(familiar, person, dry_run=dry_run))


@app.command("rename-alias")
def rename_alias(
    ctx: typer.Context,
    person: Person,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Current name.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name.")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Change one of a person's names; if it is their file's title, links are updated, too.

    \b
    familiar people rename-alias discord:42 Ana Anna
    """
    from familiar_cli.actions.people import rename

    with familiar_of(ctx) as familiar:
        _tell(output(ctx), rename(familiar, person, old, new, dry_run=dry_run))


def _tell(out: Output, done: PeopleChange) -> None:
    from familiar_cli.text import counted
    from familiar_cli.ui.emit import exact

    out.answer(done, lambda: exact(done.diff))
    if not done.files:
        out.note("Nothing to change.")
    elif done.dry_run:
        out.note("Nothing was changed (--dry-run).")
    else:
        out.note(
            f"{counted(len(done.files), 'file')} changed, {counted(done.moved, 'line')} moved."
        )
    for notice in done.notices:
        out.warn(notice)
