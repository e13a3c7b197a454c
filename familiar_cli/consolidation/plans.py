"""The plans that a person has not answered yet, and those that they said no to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from familiar_cli.consolidation.pages import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.consolidation.period_states import PeriodState


@dataclass(frozen=True, slots=True)
class Plans:
    """What a person was asked, by the names of periods and digests.

    Args:
        waiting: The name of the plan that waits.
        rejected: The hash of what the plan was made of that they said no to.
    """

    waiting: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)

    def is_rejected(self, name: str, sources: Mapping[str, str]) -> bool:
        """Return whether a person said no to what was made of just these sources.

        Args:
            name: Of the period or digest.
            sources: The hash of each source.
        """
        return bool(sources) and self.rejected.get(name) == Record(sources).input_hash

    def hold_back(self, period_state: PeriodState) -> str:
        """Return why a period is not made now, or an empty string."""
        name = period_state.period.name
        if period_state.period.tier == "daily":
            return ""
        if name in self.waiting:
            return f"a plan for it waits: `familiar review show {self.waiting[name]}`"
        sources = {file.rel_path: file.digest for file in period_state.sources}
        if not self.is_rejected(name, sources):
            return ""
        return (
            "you rejected the plan made from these sources; "
            f"`familiar consolidate --period {name} --redo` asks again"
        )
