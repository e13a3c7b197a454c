"""`familiar import-sillytavern`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, home_of, output
from familiar_cli.commands._options import DryRun

app = App()


@app.command()
def import_sillytavern(
    ctx: typer.Context,
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Data folder, e.g. SillyTavern/data/default-user."),
    ],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Import this character only; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Import SillyTavern's whole data folder: characters, lorebooks, chats and groups.

    Each character becomes a familiar. Run it again whenever something has changed there: only
    what is new is imported.

    \b
    familiar import-sillytavern data/default-user --dry-run
    familiar import-sillytavern data/default-user
    familiar import-sillytavern ~/SillyTavern --only Yuzu
    """
    from dataclasses import asdict
    from pathlib import Path

    from familiar_cli.actions.import_sillytavern import import_folder
    from familiar_cli.bootstrap.sillytavern.folder import find_folder
    from familiar_cli.text import typed
    from familiar_cli.ui.progress import steps
    from familiar_cli.ui.sillytavern_page import imported_page
    from familiar_cli.ui.terminal import print_page

    out, home = output(ctx), home_of(ctx)
    folder = find_folder(Path(directory).expanduser())
    reached = 0
    try:
        with steps(out) as report:

            def progress(what: str, done: int, total: int) -> None:
                nonlocal reached
                reached = done
                report(what, done, total)

            done = import_folder(home, folder, only=only or (), dry_run=dry_run, progress=progress)
    except KeyboardInterrupt:
        out.note(
            f"Interrupted after {reached:,} of {len(folder.files):,} files. What was imported is "
            f"kept; continue with `familiar import-sillytavern {typed(directory)}`."
        )
        raise
    data = asdict(done) | {"dry_run": dry_run}

    def show() -> None:
        print_page(imported_page(done, dry_run=dry_run))

    if done.problem:
        out.partial(data, [done.problem], show)
    out.answer(data, show)
    for familiar in done.familiars:
        for warning in familiar.warnings:
            out.warn(f"{familiar.character}: {warning}")
