"""`familiar people`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import familiar_of, group, output

app = group("See whom the familiar knows, and what they are called.")

Person = Annotated[
    str,
    typer.Argument(metavar="PERSON", help="A slug (discord-42), PLATFORM:ID, or any name."),
]


@app.command("ls")
def ls(ctx: typer.Context) -> None:
    """List everyone who has a file or ever spoke, who spoke last first.

    \b
    familiar people ls
    familiar people ls --json
    """
    from familiar_cli.inspection.people import people_of
    from familiar_cli.ui.people_page import people_page, shared_line
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        found = people_of(familiar)
    out.answer(found, lambda: print_page(people_page(found.people)) if found.people else None)
    if not found.people:
        out.note('Nobody yet: `familiar people alias discord:42 "Anna"` begins a file.')
    for named in found.collisions:
        out.warn(shared_line(named))
    for person in found.people:
        if person.problem:
            out.warn(person.problem)


@app.command()
def show(ctx: typer.Context, person: Person) -> None:
    """Print a person's file, word for word; what they are called goes to stderr.

    \b
    familiar people show discord-42
    familiar people show discord:42
    familiar people show Anna
    """
    import sys

    from familiar_cli.inspection.people import show_person
    from familiar_cli.ui.emit import exact, say
    from familiar_cli.ui.people_page import shared_line

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        found = show_person(familiar, person)
    out.answer(found, lambda: say(found.text) if sys.stdout.isatty() else exact(found.text))
    called = ", ".join(found.names) or "nothing: the file has neither an H1 nor aliases"
    out.note(f"{found.slug} is called {called}")
    for named in found.collisions:
        out.warn(shared_line(named))


@app.command()
def alias(
    ctx: typer.Context,
    person: Person,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What they are called, too.")],
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take it off the list again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the change to the file; make none.")
    ] = False,
) -> None:
    """Add a name to the list below `## Aliases` in a person's file, which is made if need be.

    \b
    familiar people alias discord:42 "Anna Bell"
    familiar people alias anna Bee --dry-run
    familiar people alias anna Bee --remove
    """
    from familiar_cli.inspection.people import add_alias, remove_alias
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.people_page import shared_line

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        change = remove_alias if remove else add_alias
        done = change(familiar, person, name, dry_run=dry_run)
    out.answer(done, lambda: exact(done.diff))
    if not done.changed:
        out.note(f"{done.slug} is called {name!r} already; nothing was changed.")
    elif dry_run:
        out.note("Nothing was changed (--dry-run).")
    for notice in (*done.notices, *map(shared_line, done.collisions)):
        out.warn(notice)
