"""Sync: the machines that share this memory, and what they disagree about."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.web.asking import Page, Shown

if TYPE_CHECKING:
    from familiar_cli.web.asking import Asked

CONFLICTS: Final = "conflicts"


def show(asked: Asked) -> Shown:
    """Return what other machines have changed, and both versions of what is in dispute."""
    memory = asked.familiar.memory
    found: tuple[object, ...] = ()
    with suppress(NotFoundError):
        found = memory.walk(CONFLICTS).files
    merges = []
    with suppress(NotFoundError):
        merges = asked.familiar.past.log(source="sync", limit=20)
    return Shown("sync", {"conflicts": found, "merges": merges})


PAGES: Final = (Page("/sync", show),)
