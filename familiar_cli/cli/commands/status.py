"""`familiar list`, `use`, `status` and `doctor`."""

from __future__ import annotations

from os import environ

import typer

from familiar_cli.cli.commands._base import App, familiar_of, globals_of, home_of, output

list_app = App()


@list_app.command("list")
def list_familiars(ctx: typer.Context) -> None:
    """List the familiars; `*` marks the default one.

    \b
    familiar list
    """
    from familiar_cli.actions.health.status import list_of
    from familiar_cli.pages.status_pages import list_page

    home, out = home_of(ctx), output(ctx)
    rows = list_of(home)
    data = {"home": str(home), "familiars": rows}
    out.answer(data, list_page(rows) if rows else None)
    if not rows:
        out.note(f"There are no familiars in {str(home)!r}.")
        out.note("Create one: `familiar init --from-card CARD.png`, or try `familiar demo`.")
    for row in rows:
        if row.problem:
            out.warn(f"{row.id}: {row.problem}")


use_app = App()


@use_app.command()
def use(ctx: typer.Context, familiar_id: str) -> None:
    """Set the familiar that commands use by default.

    \b
    familiar use ada

    Args:
        familiar_id (ID): Familiar id.
    """
    from familiar_cli.base.config.home import choose_familiar

    paths, out = choose_familiar(home_of(ctx), familiar_id), output(ctx)
    out.answer({"familiar": paths.id}, f"Commands now use {paths.id}.")
    other = environ.get("FAMILIAR_ID")
    if other and other != paths.id:
        out.warn(f"FAMILIAR_ID is set, so in this shell commands still use {other!r}.")


status_app = App()


@status_app.command()
def status(ctx: typer.Context) -> None:
    """Show a familiar's state: its model, memory and turns.

    \b
    familiar status
    familiar status --familiar ada --json
    """
    from familiar_cli.actions.health.status import status_of
    from familiar_cli.pages.status_pages import status_page

    with familiar_of(ctx) as familiar:
        found, zone = status_of(familiar), familiar.zone
    output(ctx).answer(found, status_page(found, zone))


doctor_app = App()


@doctor_app.command()
def doctor(ctx: typer.Context) -> None:
    """Check every part of the setup, and print how to fix it. Exits with 7 if a check fails.

    \b
    familiar doctor
    familiar doctor --json
    """
    from familiar_cli.actions.health.doctor import examine
    from familiar_cli.base.errors import PartialError
    from familiar_cli.pages.status_pages import doctor_page

    options, out = globals_of(ctx), output(ctx)
    checks = examine(options.home, options.familiar)
    failed = [check.name for check in checks if check.verdict == "fail"]
    error = PartialError(f"Checks failed: {', '.join(failed)}", hint="Fix what is marked `fail`.")
    out.answer({"checks": checks}, doctor_page(checks), [error] if failed else [])
