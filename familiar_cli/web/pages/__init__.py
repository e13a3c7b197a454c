"""The pages, one module each: values from `actions`, handed to a template of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.pages import journal, now, timeline, turns

if TYPE_CHECKING:
    from familiar_cli.web.asking import Page

PAGES: Final[tuple[Page, ...]] = (*now.PAGES, *turns.PAGES, *timeline.PAGES, *journal.PAGES)
"""The first that fits an address answers."""
