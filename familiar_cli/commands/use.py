"""`familiar use`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, home_of, output

app = App()


@app.command()
def use(
    ctx: typer.Context,
    familiar_id: Annotated[str, typer.Argument(metavar="ID", help="Familiar id.")],
) -> None:
    """Set the familiar that commands use by default.

    \b
    familiar use ada
    """
    from os import environ

    from familiar_cli.config.home import choose_familiar

    paths, out = choose_familiar(home_of(ctx), familiar_id), output(ctx)
    out.answer({"familiar": paths.id}, f"Commands now use {paths.id}.")
    other = environ.get("FAMILIAR_ID")
    if other and other != paths.id:
        out.warn(f"FAMILIAR_ID is set, so in this shell commands still use {other!r}.")
