"""Distill: the digests and the calendar's files, what is due, and a button for each.

`/distill/…` and `/sessions/search` answer programs too: in JSON, unless a form of the page asks.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from familiar_cli.web.asking import Data, Redirect, Shown, WebPage

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from familiar_cli.consolidation.digests import Name
    from familiar_cli.web.asking import PageRequest

T = TypeVar("T")

_FORM: Final = "page"
"""A field that only our own forms have."""


def show(asked: PageRequest) -> Shown:
    """Return how digests and periods stand."""
    from familiar_cli.actions.consolidate import Consolidating
    from familiar_cli.consolidation.periods import TIERS
    from familiar_cli.memory.layout import digest_path
    from familiar_cli.ui.writing_pages import digest_state

    familiar = asked.familiar
    work, settings = Consolidating(familiar), familiar.config
    digests = [
        {
            "name": stands.name,
            "rel_path": digest_path(stands.name),
            "status": stands,
            "state": digest_state(stands),
            "at": getattr(settings.distill, f"{stands.name}_at") if stands.switched_on else "",
        }
        for stands in work.distiller().status()
    ]
    return Shown(
        "distill",
        {
            "digests": digests,
            "tiers": TIERS,
            "yours": work.rewritten(),
            "auto": {
                "distill": settings.distill.auto,
                "consolidate": settings.consolidation.auto,
                "write-memory": settings.memory_writer.auto,
            },
        },
    )


def status(asked: PageRequest) -> Data:
    """Return how the digests stand, for programs."""
    from familiar_cli.actions.consolidate import Consolidating

    tiers = Consolidating(asked.familiar).distiller().status()
    return _json({"tiers": [tier.to_json() for tier in tiers]})


def make(name: Name, asked: PageRequest) -> Redirect | Data:
    """Make one digest."""
    from familiar_cli.actions.consolidate import Consolidating, ConsolidationOptions
    from familiar_cli.ui.writing_pages import digest_notes, digest_text

    made, problem = _run(asked, Consolidating(asked.familiar).distill(name, ConsolidationOptions()))
    if _FORM not in asked.form:
        return _json({**made.to_json(), "notification": problem or None})
    told = (digest_text(made).strip(), *digest_notes(made), problem)
    return Redirect(asked.to("distill"), tuple(filter(None, told)))


def consolidate(asked: PageRequest) -> Redirect:
    """Make the days, weeks, months and years that are due."""
    from familiar_cli.actions.consolidate import Consolidating, ConsolidationOptions
    from familiar_cli.ui.writing_pages import consolidation_notices, consolidation_text

    report = _run(asked, Consolidating(asked.familiar).consolidate(ConsolidationOptions()))
    told = (
        *consolidation_text(report).splitlines(),
        *consolidation_notices(report),
        *map(str, report.failed),
    )
    return Redirect(asked.to("distill"), told)


def search(asked: PageRequest) -> Data:
    """Return what was said, grouped by day, with the words that were looked for."""
    from familiar_cli.actions.search import search_sessions

    query, user = asked.query.get("q", ""), asked.query.get("user", "")
    found = search_sessions(asked.familiar, query, user=user, viewer=asked.viewer)
    days = [{"date": day, "turns": [hit.to_json() for hit in hits]} for day, hits in found.items()]
    return _json({"query": query, "persona": asked.familiar.paths.id, "days": days})


def _run(asked: PageRequest, work: Coroutine[Any, Any, T]) -> T:
    async def run() -> T:
        try:
            return await work
        finally:
            await asked.familiar.aclose()

    return asyncio.run(run())


def _json(data: dict[str, Any]) -> Data:
    return Data(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), "application/json")


PAGES: Final = (
    WebPage("/distill", show),
    WebPage("/distill/status", status),
    *(
        WebPage(f"/distill/{name}", partial(make, name), "POST", is_long=True)
        for name in ("short", "mid", "long")
    ),
    WebPage("/consolidate", consolidate, "POST", is_long=True),
    WebPage("/sessions/search", search),
)
