"""`RememberedProvider`: what was said off the record a moment ago, which no file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.context.providers.history import RECENT
from familiar_cli.context.types import Contribution, Fit, Layer, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.types import ContextRequest, Spoken


class RememberedProvider:
    """Offers what the program itself remembers of a conversation; it stands after the history.

    Args:
        spoken: What was said, oldest first.
    """

    name: Final = "off_record"
    deadline_s: Final = 1.0

    def __init__(self, spoken: Sequence[Spoken]) -> None:
        self._spoken = tuple(spoken)

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return all of it."""
        del request
        return [
            Contribution(
                layer=Layer.recent_history,
                priority=RECENT,
                text=spoken.text,
                source=self.name,
                place=Place.chat,
                author=spoken.author,
                role=spoken.role,
                fit=Fit.run,
            )
            for spoken in self._spoken
        ]
