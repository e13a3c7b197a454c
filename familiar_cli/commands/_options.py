"""Options that mean the same in several commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Update = Annotated[
    bool, typer.Option("--update", help="Take the source's text where it has changed.")
]
Force = Annotated[bool, typer.Option("--force", help="Also where you edited or deleted the file.")]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite FILE when it exists.")]


def since(what: str) -> Any:  # noqa: ANN401  # as `typer.Option` itself
    """Return the option `--since` of a command that chooses among `what`."""
    return typer.Option(
        metavar="WHEN", help=f"Only {what} since then: 7d, yesterday, 2026-01-31, …"
    )


SinceTurns = Annotated[str | None, since("turns")]
_WHEN = typer.Option(metavar="WHEN", help="2026-11-30, tomorrow 9:00, friday, in 2 hours, …")
When = Annotated[str, _WHEN]
AnyTime = Annotated[str | None, _WHEN]
ShowChange = Annotated[
    bool, typer.Option("--dry-run", help="Show the change to the file; make none.")
]
