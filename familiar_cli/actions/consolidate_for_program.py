"""Consolidate because a program asks for it: what a model writes waits, or is written at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.actions.consolidate import Consolidating, How
from familiar_cli.consolidation.periods import TIERS, parse_period, parse_tier
from familiar_cli.familiar import Familiar

if TYPE_CHECKING:
    from familiar_cli.consolidation.calendar import ConsolidationReport


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What came of it: files made, plans that wait by period, and what failed."""

    made: tuple[str, ...]
    plans: dict[str, str]
    failed: tuple[str, ...]


def consolidate_memories(
    familiar: Familiar, *, may_write: bool, granularity: str = "", period: str = ""
) -> Consolidated:
    """Make the weeks, months and years that are due, or one of them.

    Args:
        familiar: Whose memory.
        may_write: Write at once; otherwise what a model wrote waits for a person.
        granularity: Only this one; empty: all of them.
        period: Only this period, e.g. `2026-W05`, even if it is up to date.

    Raises:
        UsageError: There is no such granularity or period.
        FamiliarError: No model can be asked, or the memory cannot be read.
    """
    tier = parse_tier(granularity) if granularity else None
    only = parse_period(period, tier) if period else None
    tiers = (only.tier,) if only else (tier,) if tier else TIERS
    own = Familiar(familiar.paths)  # a model belongs to the loop that it is asked in

    async def run() -> ConsolidationReport:
        try:
            how = How(review=not may_write)
            return await Consolidating(own).consolidate(
                how, tiers=tiers, only=only, again=bool(only)
            )
        finally:
            await own.aclose()

    report = asyncio.run(run())
    return Consolidated(
        tuple(done.rel_path for done in report.done),
        {str(held): plan for held, plan in report.held.items()},
        tuple(map(str, report.failed)),
    )
