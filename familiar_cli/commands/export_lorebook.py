"""`familiar export-lorebook`: parse, call, render."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from familiar_cli.commands._base import App, familiar_of, output
from familiar_cli.commands._options import OutFile, Overwrite

if TYPE_CHECKING:
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
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
    from familiar_cli.bootstrap.export_lorebook import choose_book, own_format, written

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
    from familiar_cli.bootstrap.json_text import dump_json
    from familiar_cli.bootstrap.outside import write_result
    from familiar_cli.ui.emit import exact_bytes

    content = (dump_json(made) + "\n").encode()
    if out_file:
        write_result(out_file, content, force=force)
        out.answer(data | {"path": str(out_file)}, f"Wrote {out_file} ({data['entries']} entries)")
    elif out.as_json:
        out.answer(data | {"lorebook": made}, "")
    else:
        exact_bytes(content)
