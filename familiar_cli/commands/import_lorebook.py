"""`familiar import-lorebook`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, file_or_stdin, output
from familiar_cli.commands._indexing import index_words, warn_of_pins
from familiar_cli.commands._options import DryRun, Force, Update

app = App()

_MANY = 1000  # more than a second's work


@app.command()
def import_lorebook(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Lorebook, or a card that contains one; `-` reads standard input."
        ),
    ],
    *,
    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            metavar="DIR",
            help="Directory in memory; default: the book's own in lore/imported/.",
        ),
    ] = None,
    update: Update = False,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Convert a lorebook to Markdown files, one per entry.

    Reads World Info, character_book, lorebook_v3, NovelAI, Agnai and RisuAI files.

    \b
    familiar import-lorebook world.json
    familiar import-lorebook world.json --update --dry-run
    familiar import-lorebook mira.png --into lore/mira
    """
    from dataclasses import asdict

    from familiar_cli.bootstrap.import_silly_tavern import import_lorebook, load_book
    from familiar_cli.bootstrap.what_is_it import taken_for
    from familiar_cli.ui.lorebook_page import imported_page
    from familiar_cli.ui.terminal import print_page

    familiar, out = familiar_of(ctx), output(ctx)
    with taken_for("lorebook", file):
        raw, origin = file_or_stdin(file)
        book = load_book(raw, origin=origin)
    if len(book.entries) > _MANY:
        out.note(f"Importing {len(book.entries)} entries, one file each; this takes a while …")
    done = import_lorebook(
        familiar.memory, book, into=into, update=update, force=force, dry_run=dry_run
    )
    if not dry_run:
        index_words(out, familiar)
        warn_of_pins(out, familiar)
    out.answer(
        asdict(done) | {"dry_run": dry_run},
        lambda: print_page(imported_page(done, dry_run=dry_run)),
    )
    for warning in done.warnings:
        out.warn(warning)
