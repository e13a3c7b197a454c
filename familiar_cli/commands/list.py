"""`familiar list`: parse, call, render."""

from __future__ import annotations

import typer

from familiar_cli.commands._base import App, home_of, output

app = App()


@app.command("list")
def list_(ctx: typer.Context) -> None:
    """List the familiars; `*` marks the default one.

    \b
    familiar list
    """
    from familiar_cli.actions.status import list_of
    from familiar_cli.ui.status_page import list_page
    from familiar_cli.ui.terminal import print_page

    home, out = home_of(ctx), output(ctx)
    rows = list_of(home)
    data = {"home": str(home), "familiars": rows}
    out.answer(data, lambda: print_page(list_page(rows)) if rows else None)
    if not rows:
        out.note(f"There are no familiars in {str(home)!r}.")
        out.note("Create one: `familiar init --from-card CARD.png`, or try `familiar demo`.")
    for row in rows:
        if row.problem:
            out.warn(f"{row.id}: {row.problem}")
