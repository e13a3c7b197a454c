"""`familiar doctor`: parse, call, render."""

from __future__ import annotations

import typer

from familiar_cli.commands._base import App, globals_of, output

app = App()


@app.command()
def doctor(ctx: typer.Context) -> None:
    """Check every part of the setup, and print how to fix it. Exits with 7 if a check fails.

    \b
    familiar doctor
    familiar doctor --json
    """
    from familiar_cli.actions.doctor.run import examine
    from familiar_cli.errors import PartialError
    from familiar_cli.ui.doctor_page import doctor_page
    from familiar_cli.ui.terminal import print_page

    given, out = globals_of(ctx), output(ctx)
    checks = examine(given.home, given.familiar)
    failed = [check.name for check in checks if check.verdict == "fail"]
    if not failed:
        out.answer({"checks": checks}, lambda: print_page(doctor_page(checks)))
        return
    error = PartialError(f"Checks failed: {', '.join(failed)}", hint="Fix what is marked `fail`.")
    out.partial({"checks": checks}, [error], lambda: print_page(doctor_page(checks)))
