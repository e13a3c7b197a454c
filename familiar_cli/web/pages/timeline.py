"""Timeline: the past as a picture of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.web.asking import Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.web.asking import PageRequest


def show(asked: PageRequest) -> Shown:
    """Return a year, a quarter or a month."""
    from familiar_cli.actions.past import SPANS, timeline
    from familiar_cli.web.charts import svg

    line = timeline(asked.familiar, asked.query.get("at", ""), asked.query.get("span", ""))
    return Shown("timeline", {"line": line, "picture": svg(line, asked.to), "spans": SPANS})


PAGES = (WebPage("/timeline", show),)
