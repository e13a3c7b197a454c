"""What the doctor finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.asking import Page, Shown

if TYPE_CHECKING:
    from familiar_cli.web.asking import Asked


def show(asked: Asked) -> Shown:
    """Return what works, and what needs a look."""
    from familiar_cli.actions.doctor.run import examine

    paths = asked.familiar.paths
    return Shown("doctor", {"found": examine(str(paths.root.parent), paths.id)})


PAGES: Final = (Page("/doctor", show, is_long=True),)
