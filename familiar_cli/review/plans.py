"""Which plans of a memory wait for a person, and which a person rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from familiar_cli.review.pending import pending_ids
from familiar_cli.review.rejected import rejected

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from familiar_cli.memory.store.store import MemoryStore


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of one memory, as they were when they were read.

    Args:
        waiting: The names of the plans that wait.
        rejected: For each rejected plan the hash of what it was made of.
    """

    waiting: Collection[str] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)

    def is_rejected(self, plan_id: str, grounds: str) -> bool:
        """Return whether a person rejected this plan as it was made of `grounds`.

        Args:
            plan_id: The plan.
            grounds: The hash of what it would be made of; empty: of nothing, so it never was.
        """
        return bool(grounds) and self.rejected.get(plan_id) == grounds


def read_plans(store: MemoryStore, *, again: bool = False) -> Plans:
    """Return the plans of a memory.

    Args:
        store: The memory.
        again: What was rejected may be proposed again, so it is left out.
    """
    return Plans(frozenset(pending_ids(store)), {} if again else rejected(store))
