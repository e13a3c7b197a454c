"""Plans for what consolidation makes: put before a person, and what they said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.clock import iso, now
from familiar_cli.consolidation.pages import Record, read_page
from familiar_cli.consolidation.plans import Plans
from familiar_cli.consolidation.types import SOURCE
from familiar_cli.review.pending import Pending, PendingFile, pending_ids
from familiar_cli.review.rejected import forget, rejected

if TYPE_CHECKING:
    from familiar_cli.consolidation.types import Change, Why
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction

_PLAN: Final = "consolidate-"


def plan_for(change: Change, why: Why, *, model: str, run: str) -> Pending:
    """Return the plan for a change of a period's or a digest's file.

    Args:
        change: The file before and after.
        why: Why it waits.
        model: Who wrote it.
        run: The run that made it.
    """
    made_of = read_page(change.after).record or Record({})
    count = len(made_of.sources)
    return Pending(
        id=f"{_PLAN}{change.name}",
        run=run,
        created=iso(now()),
        why=why,
        model=model,
        turns=(0, 0),
        files=(PendingFile(change.rel_path, change.before, change.after, has_record=True),),
        source=SOURCE,
        rests_on=f"{change.name} from {count} {'file' if count == 1 else 'files'}",
        grounds=made_of.input_hash,
    )


def plans_of(memory: MemoryStore, *, again: bool = False) -> Plans:
    """Return which of these plans wait, and which a person said no to.

    Args:
        memory: Where they are.
        again: The person wants what they said no to made again.
    """
    waiting = {plan.removeprefix(_PLAN): plan for plan in pending_ids(memory)}
    if again:
        return Plans(waiting)
    no = {plan.removeprefix(_PLAN): made_of for plan, made_of in rejected(memory).items()}
    return Plans(waiting, no)


def take_back(tx: Transaction, memory: MemoryStore, name: str) -> None:
    """Forget in a transaction that a person said no to a period or a digest: it is made."""
    forget(tx, memory, f"{_PLAN}{name}")
