"""Make what was judged durable: one step, one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConflictError, LimitError, UnsafePathError
from familiar_cli.memory.run_ids import noting
from familiar_cli.memory.sources import MEMORY_WRITER
from familiar_cli.review.draft import Draft
from familiar_cli.writer.applying import Applying, with_held
from familiar_cli.writer.types import Operation, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction
    from familiar_cli.writer.grounds import Grounds

_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """One batch whose reply is in: what may be written, what may not, and by what it was judged."""

    grounds: Grounds
    operations: tuple[Operation, ...]
    refused: tuple[Refusal, ...]


@dataclass(slots=True)
class Applied:
    """What a step comes to.

    Args:
        draft: The files that change.
        held: The same, with what waits for a person's yes.
        refused: What a file could not take.
        has_held: Something waits.
    """

    draft: Draft
    held: Draft
    refused: list[Refusal] = field(default_factory=list)
    has_held: bool = False


def applied_to(draft: Draft, verdicts: Sequence[Verdict], max_file_bytes: int) -> Applied:
    """Put what was judged into `draft`."""
    applied = Applied(draft, draft)
    held: list[Operation] = []
    for verdict in verdicts:
        work = Applying(draft, verdict.grounds, max_file_bytes)
        work.run(verdict.operations)
        applied.refused += work.refused
        held += work.held
    if held:
        applied.held, applied.has_held = with_held(draft, held), True
    return applied


def commit(
    store: MemoryStore,
    verdicts: Sequence[Verdict],
    message: str,
    run: str,
    also: Callable[[Transaction, Applied], None],
) -> Applied:
    """Write a step's changes in one transaction, and what `also` stages beside them.

    Whatever a person changed in the meantime stays: then the step is worked out again.

    Raises:
        ConflictError: Somebody else keeps writing; nothing was changed.
        FamiliarError: The disk refused; nothing was changed.
    """
    for attempt in range(_TRIES):
        applied = applied_to(Draft(store), verdicts, store.limits.max_file_bytes)
        _leave_out_refused(store, applied)
        if not applied.draft and not applied.has_held:
            return applied
        try:
            with store.transaction(MEMORY_WRITER, message, trailers=noting(run)) as tx:
                applied.draft.stage(tx)
                also(tx, applied)
        except ConflictError:
            if attempt == _TRIES - 1:
                raise
        else:
            return applied
    raise AssertionError("unreachable")


def _leave_out_refused(store: MemoryStore, applied: Applied) -> None:
    """Leave out each file that the memory would not take, so that it stops no other."""
    for file in list(applied.draft):
        try:
            with store.transaction(MEMORY_WRITER, "check", dry_run=True) as tx:
                tx.write(file.rel_path, file.after)
        except (LimitError, UnsafePathError) as error:
            applied.draft.drop(file.rel_path)
            applied.refused.append(Refusal(file.rel_path, "limit", str(error)))
