"""`SystemBlockProvider`: what a prompt says about itself: when it is, and that nothing is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Contribution, Fit, Layer, Place
from familiar_cli.languages import ENGLISH

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from familiar_cli.context.types import ContextRequest
    from familiar_cli.languages import Phrases

BLOCK: Final = 99


class SystemBlockProvider:
    """Offers the block. A prompt with neither a time to tell nor a mode has none.

    Args:
        zone: Where the familiar lives; None: the system's timezone.
        tells_time: The date and the time are told.
        at_start: The block is the first thing in the prompt, else it stands before what is said.
    """

    name: Final = "system"
    deadline_s: Final = 1.0

    def __init__(
        self, zone: tzinfo | None, *, tells_time: bool = True, at_start: bool = False
    ) -> None:
        self._zone = zone
        self._tells_time = tells_time
        self._at_start = at_start

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the block."""
        phrases = request.phrases
        now = spoken(request.at, self._zone, phrases)
        lines = [f"{phrases.date_and_time}{phrases.colon}{now}"] if self._tells_time else []
        lines += [phrases.off_record] if request.off_record else []
        if not lines:
            return []
        return [
            Contribution(
                layer=Layer.core,
                priority=BLOCK,
                text="\n".join([phrases.system, *lines]),
                source="system",
                place=Place.main if self._at_start else Place.depth,
                depth=1,
                fit=Fit.whole,
            )
        ]


def spoken(moment: datetime, zone: tzinfo | None, phrases: Phrases = ENGLISH) -> str:
    """Return a moment as a person there would say it: `Friday, 2026-05-08 at 14:34 EDT`.

    The distance from UTC follows, so that the hour that comes twice is told apart.
    """
    local = moment.astimezone(zone)
    name = local.tzname() or ""
    offset = f"UTC{local.isoformat()[-6:]}"
    # Many zones have no name but a number, such as `+03`.
    named = f"{name} ({offset})" if name[:1].isalpha() and name != "UTC" else name or offset
    if not name[:1].isalpha():
        named = offset
    return phrases.moment(local, named)
