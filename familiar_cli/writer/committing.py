"""Make what was judged durable: one step, one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import LimitError, UnsafePathError
from familiar_cli.memory.run_ids import noting
from familiar_cli.memory.sources import MEMORY_WRITER
from familiar_cli.memory.store.transactions import retry_on_conflict
from familiar_cli.review.draft import Draft
from familiar_cli.writer.applying import Applying
from familiar_cli.writer.types import Operation, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction
    from familiar_cli.writer.grounds import Grounds

_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """A batch after its reply: accepted, refused and held operations."""

    grounds: Grounds
    operations: tuple[Operation, ...]
    refused: tuple[Refusal, ...]
    held: tuple[Operation, ...] = ()


@dataclass(slots=True)
class StepOutcome:
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


def applied_to(draft: Draft, verdicts: Sequence[JudgedBatch], max_file_bytes: int) -> StepOutcome:
    """Put what was judged into `draft`."""
    applied = StepOutcome(draft, draft)
    works = [Applying(draft, one.grounds, max_file_bytes, held=list(one.held)) for one in verdicts]
    for work, verdict in zip(works, verdicts, strict=True):
        work.run(verdict.operations)
        applied.refused += work.refused
    if any(work.held for work in works):
        applied.held, applied.has_held = draft.copy(), True
        for work in works:
            work.hold(applied.held)
    return applied


def commit(
    store: MemoryStore,
    verdicts: Sequence[JudgedBatch],
    message: str,
    run: str,
    also: Callable[[Transaction, StepOutcome], None],
) -> StepOutcome:
    """Write a step's changes in one transaction, and what `also` stages beside them.

    Whatever a person changed in the meantime stays: then the step is worked out again.

    Raises:
        ConflictError: Somebody else keeps writing; nothing was changed.
        FamiliarError: The disk refused; nothing was changed.
    """

    def commit() -> StepOutcome:
        applied = _taken_by(store, verdicts)
        if applied.draft or applied.has_held:
            with store.transaction(MEMORY_WRITER, message, trailers=noting(run)) as tx:
                applied.draft.stage(tx)
                also(tx, applied)
        return applied

    return retry_on_conflict(commit, _TRIES)


def _taken_by(store: MemoryStore, verdicts: Sequence[JudgedBatch]) -> StepOutcome:
    """Put what was judged into a draft, without each file that the memory would not take.

    Such a file stops no other, and none links to it: all is worked out again as if nobody had
    proposed it.
    """
    refused: dict[str, Refusal] = {}
    while True:
        left = [_without(verdict, refused) for verdict in verdicts]
        applied = applied_to(Draft(store), left, store.limits.max_file_bytes)
        new = {r.rel_path: r for r in _refused_by(store, applied.draft)}
        if new.keys() <= refused.keys():
            break
        refused |= new
    for rel_path in new:  # changed by what follows from other files
        applied.draft.drop(rel_path)
    applied.refused += refused.values()
    return applied


def _without(verdict: JudgedBatch, rel_paths: Container[str]) -> JudgedBatch:
    kept, held = (
        tuple(o for o in some if o.rel_path not in rel_paths)
        for some in (verdict.operations, verdict.held)
    )
    return replace(verdict, operations=kept, held=held)


def _refused_by(store: MemoryStore, draft: Draft) -> Iterator[Refusal]:
    for file in draft:
        try:
            with store.transaction(MEMORY_WRITER, "check", dry_run=True) as tx:
                tx.write(file.rel_path, file.after)
        except (LimitError, UnsafePathError) as error:
            yield Refusal(file.rel_path, "limit", str(error))
