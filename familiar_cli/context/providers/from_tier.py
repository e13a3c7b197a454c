"""`FromTier`: a provider that has nothing to offer below a tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.context.protocols import Explains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.protocols import ContextProvider
    from familiar_cli.context.types import ContextRequest, Contribution, Subject


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
