"""Turns: what was said, newest first, page by page; and the search for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.asking import Shown, WebPage, with_speakers

if TYPE_CHECKING:
    from familiar_cli.web.asking import PageRequest

_A_PAGE: Final = 40
_CHARTED: Final = 40


def show(asked: PageRequest) -> Shown:
    """Return a page of turns."""
    from familiar_cli.actions.search import search_sessions
    from familiar_cli.history.rows import place_of
    from familiar_cli.history.selection import TurnFilter, newest

    query = asked.query.get("q", "").strip()
    channel, everything = asked.query.get("channel", ""), "all" in asked.query
    values = {"q": query, "channel": channel, "everything": everything}
    span = TurnFilter(asked.viewer, channel or None, everything=everything)
    if query:
        days = search_sessions(asked.familiar, query, viewer=asked.viewer, channel=channel or None)
        return Shown("turns", {**values, "days": days, "turns": []})
    history, before = asked.familiar.history, asked.number("before")
    found = [kept.turn for kept in newest(history, span, _A_PAGE + 1, before)]
    more = place_of(found[1]) if len(found) > _A_PAGE else None
    said = with_speakers(asked.familiar, found[-_A_PAGE:][::-1])
    return Shown("turns", {**values, "turns": said, "days": [], "more": more, "before": before})


def layers(asked: PageRequest) -> Shown:
    """Return how much of each layer was in the prompts of the last turns, as one chart."""
    from familiar_cli.actions.sent import layers_over_time
    from familiar_cli.web.charts import layers_chart

    before = asked.number("before")
    found = layers_over_time(asked.familiar, before, _CHARTED)
    older = found[0].turn if len(found) == _CHARTED else None
    chart = layers_chart(found, lambda turn: asked.to("turns", turn))
    return Shown("layers", {"prompts": found, "chart": chart, "older": older, "before": before})


PAGES: Final = (
    WebPage("/turns", show),
    WebPage("/turns/layers", layers),
)
