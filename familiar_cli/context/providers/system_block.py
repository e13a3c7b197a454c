"""Small providers: the system block, what was just said off the record, and a limit by tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.context.protocols import Explains
from familiar_cli.context.providers.history import RECENT
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan
from familiar_cli.languages import ENGLISH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, tzinfo

    from familiar_cli.context.protocols import ContextProvider
    from familiar_cli.context.types import ContextRequest, Spoken, Subject
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
                place=PromptSpan.main if self._at_start else PromptSpan.depth,
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
                place=PromptSpan.chat,
                author=spoken.author,
                role=spoken.role,
                fit=Fit.run,
            )
            for spoken in self._spoken
        ]


class FromTier:
    """Asks another provider, from a tier on.

    Args:
        provider: Who is asked.
        tier: The lowest tier at which it is.
    """

    def __init__(self, provider: ContextProvider, tier: int) -> None:
        self._provider = provider
        self._tier = tier
        self.name = provider.name
        self.deadline_s = provider.deadline_s
        self.looks_at = provider.looks_at if isinstance(provider, Explains) else ""

    async def contribute(self, request: ContextRequest) -> Sequence[Contribution]:
        """Return what the other offers; below its tier, nothing."""
        return [] if request.tier < self._tier else await self._provider.contribute(request)

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why it would offer nothing of `subject`; see `protocols.Explains`."""
        if not isinstance(self._provider, Explains):
            return None
        reason = self._provider.why_not(subject, request)
        if reason is None or request.tier >= self._tier:
            return reason
        return f"tier {request.tier} does not load it; tier {self._tier} and above do"
