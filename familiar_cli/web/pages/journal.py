"""Journal: every change of the memory, what it did, and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.web.asking import Redirect, Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.web.asking import PageRequest

_A_PAGE: Final = 50


def show(asked: PageRequest) -> Shown:
    """Return a page of changes."""
    source, path = asked.query.get("source", ""), asked.query.get("path", "")
    try:
        found = asked.familiar.past.log(path, source=source or None, limit=_A_PAGE)
    except NotFoundError:
        found = []
    return Shown("journal", {"changes": found, "source": source, "path": path})


def one(asked: PageRequest) -> Shown:
    """Return one change."""
    change, files = asked.familiar.past.show(asked.path["commit"])
    elsewhere = asked.familiar.past.came_from_elsewhere(change.commit)
    return Shown("change", {"change": change, "files": files, "is_from_elsewhere": elsewhere})


def undo(asked: PageRequest) -> Redirect:
    """Take a change back by a new one."""
    from familiar_cli.actions.past import undo as take_back

    done = take_back(asked.familiar, asked.path["commit"], merges=bool(asked.sent("yes")))
    what = done.undone.commit.message
    told = f"Undone: {what}" if done.undone.changes else f"No longer in effect: {what}"
    return Redirect(asked.to("journal"), (told, *done.notices))


PAGES: Final = (
    WebPage("/journal", show),
    WebPage("/journal/{commit}", one),
    WebPage("/journal/{commit}/undo", undo, "POST"),
)
