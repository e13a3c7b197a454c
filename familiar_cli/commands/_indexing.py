"""Ends a command that brought much in: its words can be found, and pins without room are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output


def index_words(out: Output, familiar: Familiar) -> None:
    """Make what came in searchable by its words; where that fails, what came in stands."""
    from familiar_cli.ui.progress import steps

    try:
        with steps(out) as report:
            familiar.index_words(report)
    except FamiliarError as error:
        out.warn(f"What came in cannot be searched yet: {error}")


def warn_of_pins(out: Output, familiar: Familiar) -> None:
    """Warn if prompts have too little room for all that is pinned."""
    from contextlib import suppress

    from familiar_cli.actions.pins import list_pins

    with suppress(FamiliarError), familiar:  # where settings are wrong, other commands say so
        if shortage := list_pins(familiar).shortage:
            out.warn(f"{shortage}; see `familiar memory pins`")
