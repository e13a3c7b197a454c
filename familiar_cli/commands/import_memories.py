"""`familiar import-memories`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output
from familiar_cli.commands._indexing import index_words
from familiar_cli.commands._options import DryRun, Force, Update

app = App()

_MANY = 1000  # more than a second's work


@app.command()
def import_memories(
    ctx: typer.Context,
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Directory with daily/, weekly/, monthly/, yearly/ …"),
    ],
    *,
    update: Update = False,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Import memories kept by day, week, month and year, and significant moments.

    \b
    familiar import-memories data/memories
    familiar import-memories data/memories --update --dry-run
    """
    from dataclasses import asdict
    from pathlib import Path

    from familiar_cli.bootstrap import import_memories as importing
    from familiar_cli.bootstrap.folders.plan import FolderImportOptions
    from familiar_cli.ui.folder_page import memories_page
    from familiar_cli.ui.terminal import print_page

    familiar, out = familiar_of(ctx), output(ctx)
    folder = importing.read_tree(Path(directory).expanduser())
    if len(folder.files) > _MANY:
        out.note(f"Importing {len(folder.files):,} files; this takes a while …")
    done = importing.import_memories(
        familiar.memory, folder, FolderImportOptions(update, force), dry_run=dry_run
    )
    if not dry_run:
        index_words(out, familiar)
    for warning in done.warnings:
        out.warn(warning)
    data = asdict(done) | {"dry_run": dry_run}
    page = memories_page(done, dry_run=dry_run)
    if problem := done.problem():
        out.partial(data, [problem], lambda: print_page(page))
    out.answer(data, lambda: print_page(page))
