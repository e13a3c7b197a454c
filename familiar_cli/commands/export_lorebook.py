"""`familiar export-lorebook`: parse, call, render."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from familiar_cli.commands._base import App, familiar_of, output
from familiar_cli.commands._options import OutFile, Overwrite
from familiar_cli.memory.layout import IMPORTED_LORE_DIR

if TYPE_CHECKING:
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
def export_lorebook(
    ctx: typer.Context,
    *,
    directory: Annotated[
        str, typer.Option("--from", metavar="DIR", help="Directory in memory.")
    ] = IMPORTED_LORE_DIR,
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
    familiar export-lorebook --format v3 --out book.json
    familiar export-lorebook --from lore/mira
    """
    from familiar_cli.bootstrap.export_lorebook import collect, own_format, written

    out = output(ctx)
    book = collect(familiar_of(ctx).memory, directory)
    chosen = book_format or own_format(book)
    data = {"format": chosen, "entries": len(book.entries), "warnings": book.warnings}
    _deliver(out, data, written(book, chosen), out_file, force=force)
    for warning in book.warnings:
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
