"""Sync: the machines that share this memory, and what they disagree about."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.web.asking import Redirect, Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.actions.sync_conflicts import Choice
    from familiar_cli.web.asking import PageRequest

_CHOICES: Final = ("ours", "theirs", "merged")
_MOST_CONFLICTS: Final = 50
_WAIT_S: Final = 10.0
"""How long a browser waits for another sync of the same familiar."""


def show(asked: PageRequest) -> Shown:
    """Return how far each machine is, and both versions of what is in dispute; nobody is asked."""
    from familiar_cli.actions.sync import status
    from familiar_cli.actions.sync_conflicts import open_conflicts

    merges = []
    with suppress(NotFoundError):
        merges = asked.familiar.past.log(source="sync", limit=20)
    found = open_conflicts(asked.familiar)
    return Shown(
        "sync",
        {
            "status": status(asked.familiar),
            "conflicts": found[:_MOST_CONFLICTS],
            "more": max(len(found) - _MOST_CONFLICTS, 0),
            "merges": merges,
        },
    )


def settle(asked: PageRequest) -> Redirect:
    """Settle one conflict."""
    from familiar_cli.actions.sync_conflicts import resolve

    choice, path = asked.sent("choice"), asked.sent("path")
    if choice not in _CHOICES:
        raise UsageError(f"Unknown way to resolve a conflict: {choice[:40]!r}")
    resolve(asked.familiar, path, cast("Choice", choice))
    return Redirect(asked.to("sync"), (f"Resolved: {path}. The journal can undo it.",))


def now(asked: PageRequest) -> Redirect:
    """Sync with every remote. Nobody is asked for a password; what fails, the page itself says."""
    from familiar_cli.actions.sync import sync
    from familiar_cli.sync.engine import SyncOptions
    from familiar_cli.ui.sync_page import report_text

    report = asyncio.run(sync(asked.familiar, None, SyncOptions(), wait_s=_WAIT_S))
    failed = [f"{name} was not synced: {error}" for name, (_, error) in report.failed.items()]
    told = (*report_text(report).splitlines(), *report.notes, *(failed if report.done else ()))
    return Redirect(asked.to("sync"), told)


PAGES: Final = (
    WebPage("/sync", show),
    WebPage("/sync/settle", settle, "POST"),
    WebPage("/sync/now", now, "POST", is_long=True),
)
