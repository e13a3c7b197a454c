"""`familiar import-lorebook` and `export-lorebook`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from familiar_cli.commands._base import App, familiar_of, file_or_stdin, output
from familiar_cli.commands._options import (
    DryRun,
    Force,
    OutFile,
    Overwrite,
    Update,
    index_words,
    warn_of_pins,
)

if TYPE_CHECKING:
    from familiar_cli.ui.emit import Output


import_app = App()

_MANY = 1000  # more than a second's work


@import_app.command()
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

    from familiar_cli.imports.import_lorebook import import_lorebook, load_book
    from familiar_cli.imports.what_is_it import taken_for
    from familiar_cli.ui.import_pages import imported_book_page

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
        imported_book_page(done, dry_run=dry_run),
    )
    for warning in done.warnings:
        out.warn(warning)


export_app = App()


@export_app.command()
def export_lorebook(
    ctx: typer.Context,
    *,
    book: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the book; default: the only one.")
    ] = "",
    directory: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DIR", help="Directory in memory; default: wherever the book is."
        ),
    ] = None,
    book_format: Annotated[
        Literal["worldinfo", "v3"] | None,
        typer.Option("--format", help="Format; default: the one that was imported."),
    ] = None,
    out_file: OutFile = None,
    force: Overwrite = False,
) -> None:
    """Convert lore files back to a lorebook, edits included.

    \b
    familiar export-lorebook > world.json
    familiar export-lorebook --book "Kazahaya Valley"
    familiar export-lorebook --format v3 --out book.json
    familiar export-lorebook --from lore/mira
    """
    from familiar_cli.imports.export_lorebook import choose_book, own_format, written

    out = output(ctx)
    found = choose_book(familiar_of(ctx).memory, name=book, directory=directory)
    chosen = book_format or own_format(found)
    data = {
        "book": found.name,
        "format": chosen,
        "entries": len(found.entries),
        "warnings": found.warnings,
    }
    _deliver(out, data, written(found, chosen), out_file, force=force)
    for warning in found.warnings:
        out.warn(warning)


def _deliver(
    out: Output, data: dict[str, Any], made: dict[str, Any], out_file: Path | None, *, force: bool
) -> None:
    from familiar_cli.imports.foreign_files import dump_json, write_result
    from familiar_cli.ui.emit import exact_bytes

    content = (dump_json(made) + "\n").encode()
    if out_file:
        write_result(out_file, content, force=force)
        out.answer(data | {"path": str(out_file)}, f"Wrote {out_file} ({data['entries']} entries)")
    elif out.as_json:
        out.answer(data | {"lorebook": made}, "")
    else:
        exact_bytes(content)
