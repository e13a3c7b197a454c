"""`familiar status`: parse, call, render."""

from __future__ import annotations

import typer

from familiar_cli.commands._base import App, familiar_of, output

app = App()


@app.command()
def status(ctx: typer.Context) -> None:
    """Show a familiar's state: its model, memory and turns.

    \b
    familiar status
    familiar status --familiar ada --json
    """
    from familiar_cli.actions.status import status_of
    from familiar_cli.ui.status_page import status_page
    from familiar_cli.ui.terminal import print_page

    with familiar_of(ctx) as familiar:
        found, zone = status_of(familiar), familiar.zone
    output(ctx).answer(found, lambda: print_page(status_page(found, zone)))
