"""Options that mean the same in several commands."""

from __future__ import annotations

from typing import Annotated

import typer

Update = Annotated[
    bool, typer.Option("--update", help="Take the source's text where it has changed.")
]
Force = Annotated[bool, typer.Option("--force", help="Also where you edited or deleted the file.")]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite FILE when it exists.")]
ShowChange = Annotated[
    bool, typer.Option("--dry-run", help="Show the change to the file; make none.")
]
