"""`SystemBlockProvider`: what a prompt says about itself: when it is, and that nothing is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Contribution, Fit, Layer, Place
from familiar_cli.when import weekday_name

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from familiar_cli.context.types import ContextRequest

BLOCK: Final = 99
HEADING: Final = "--- System ---"
OFF_RECORD: Final = (
    "Mode: off the record. Nothing of this conversation is written down, "
    "and no memory will be made of it."
)


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
        lines = [f"Date and time: {spoken(request.at, self._zone)}"] if self._tells_time else []
        lines += [OFF_RECORD] if request.off_record else []
        if not lines:
            return []
        return [
            Contribution(
                layer=Layer.core,
                priority=BLOCK,
                text="\n".join([HEADING, *lines]),
                source="system",
                place=Place.main if self._at_start else Place.depth,
                depth=1,
                fit=Fit.whole,
            )
        ]


def spoken(moment: datetime, zone: tzinfo | None) -> str:
    """Return a moment as a person there would say it: `Friday, 2026-05-08 at 14:34 EDT`.

    The distance from UTC follows, so that the hour that comes twice is told apart.
    """
    local = moment.astimezone(zone)
    # `%A` and the like would speak the language of the machine.
    day = f"{weekday_name(local)}, {local.date().isoformat()}"
    name = local.tzname() or ""
    offset = f"UTC{local.isoformat()[-6:]}"
    # Many zones have no name but a number, such as `+03`.
    named = f"{name} ({offset})" if name[:1].isalpha() and name != "UTC" else name or offset
    if not name[:1].isalpha():
        named = offset
    return f"{day} at {local:%H:%M} {named}"
