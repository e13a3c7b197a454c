"""The pages, one module each: values from `actions`, handed to a template of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.pages import (
    asof,
    desk,
    distill,
    doctor,
    graph,
    journal,
    memory,
    now,
    people,
    review,
    search,
    settings,
    sync,
    timeline,
    turn,
    turns,
)

if TYPE_CHECKING:
    from familiar_cli.web.asking import WebPage

_MODULES: Final = (
    now,
    turns,  # `/turns/layers` before `/turns/{turn}`
    turn,
    memory,
    asof,
    review,
    search,
    timeline,
    journal,
    people,
    graph,
    desk,
    distill,
    sync,
    settings,
    doctor,
)
PAGES: Final[tuple[WebPage, ...]] = tuple(page for module in _MODULES for page in module.PAGES)
"""The first that fits an address answers."""
