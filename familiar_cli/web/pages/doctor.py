"""What the doctor finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.asking import Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.web.asking import PageRequest


def show(asked: PageRequest) -> Shown:
    """Return the page that offers to look."""
    del asked
    return Shown("doctor", {"found": None})


def examine(asked: PageRequest) -> Shown:
    """Return what works, and what needs a look."""
    from familiar_cli.actions.doctor import examine as examine_all

    paths = asked.familiar.paths
    return Shown("doctor", {"found": examine_all(str(paths.root.parent), paths.id)})


PAGES: Final = (WebPage("/doctor", show), WebPage("/doctor", examine, "POST", is_long=True))
