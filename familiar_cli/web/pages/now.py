"""Now: how a familiar is, what was said last, what is due, and what waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.asking import Shown, WebPage, with_speakers
from familiar_cli.web.live import NUMBERS

if TYPE_CHECKING:
    from familiar_cli.web.asking import PageRequest

_LAST: Final = 8


def show(asked: PageRequest) -> Shown:
    """Return the first page."""
    from familiar_cli.history.selection import TurnFilter, newest
    from familiar_cli.review.pending import pending_ids

    familiar = asked.familiar
    said = [kept.turn for kept in newest(familiar.history, TurnFilter(asked.viewer), _LAST)]
    status, is_fresh = NUMBERS.of(familiar.paths)
    slot = familiar.slot()
    return Shown(
        "now",
        {
            "name": familiar.name,
            "model": slot.model,
            "preset": slot.preset,
            "status": status,
            "is_fresh": is_fresh,
            "plans": len(pending_ids(familiar.memory)),
            "turns": with_speakers(familiar, said[::-1]),
        },
    )


PAGES: Final = (WebPage("/", show),)
