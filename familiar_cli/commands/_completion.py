"""What a shell offers for a memory path; whatever fails, the shell is offered nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import familiar_of

if TYPE_CHECKING:
    from collections.abc import Iterable


def complete_path(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the memory files whose path begins so."""
    from contextlib import suppress

    from familiar_cli.errors import FamiliarError

    with suppress(FamiliarError):
        files = familiar_of(ctx).memory.walk().files
        return _beginning(incomplete, (file.rel_path for file in files if not file.is_dir))
    return []


def complete_pinned(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the pinned files whose path begins so; no index is made for it."""
    from contextlib import suppress

    from familiar_cli.errors import FamiliarError
    from familiar_cli.index.pins import pins_in_files

    with suppress(FamiliarError):
        return _beginning(incomplete, pins_in_files(familiar_of(ctx).memory).rel_paths)
    return []


MemoryPath = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="File, e.g. people/alice.md.", autocompletion=complete_path
    ),
]


def _beginning(incomplete: str, paths: Iterable[str]) -> list[str]:
    return [path for path in paths if path.startswith(incomplete)]
