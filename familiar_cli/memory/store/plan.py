"""Turn staged steps into the exact changes of files, and check every rule before any is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.errors import ConflictError, RefusedError
from familiar_cli.memory.store.staged_tree import StagedTree
from familiar_cli.memory.store.types import Applied, Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from familiar_cli.memory.store.files import Signature, Tree
    from familiar_cli.memory.store.transactions import StagedStep
    from familiar_cli.memory.store.types import Limits


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What a transaction comes to: the changes of files, sorted by path, and their summary.

    Args:
        changes: Only files whose content really changes.
        result: The summary handed to the caller.
        seen: The signature of each file when it was read; None where there was none.
        leftovers: Temporary files (real paths) that a crash left where this transaction writes.
    """

    changes: tuple[Change, ...]
    result: Applied
    seen: Mapping[str, Signature | None]
    leftovers: tuple[str, ...]


def refused(
    tree: Tree, limits: Limits, steps: Iterable[StagedStep], *, is_settled: bool = False
) -> dict[str, RefusedError]:
    """Return why a rule forbids steps, by path; what it forbids is left out, the rest followed.

    Args:
        tree: The memory.
        limits: Its limits.
        steps: What is to be done.
        is_settled: A file that is not what a step expects stays so; it is refused, too.

    Raises:
        ConflictError: A file is not what a step expects, yet.
    """
    staged = StagedTree(tree, limits)
    found: dict[str, RefusedError] = {}
    for step in steps:
        try:
            staged.apply_step(step)
        except RefusedError as error:
            if isinstance(error, ConflictError) and not is_settled:
                raise
            found[step.rel_path] = error
    return found


def make_plan(tree: Tree, limits: Limits, steps: Iterable[StagedStep]) -> WritePlan:
    """Follow `steps` on staged.

    Raises:
        RefusedError: A path, a limit, an expectation or a rule forbids one of them.
        NotFoundError: A file to delete or move is not there.
        FamiliarError: A file that is to change cannot be read.
    """
    staged = StagedTree(tree, limits)
    for step in steps:
        staged.apply_step(step)
    touched = staged.changes()
    result = Applied(
        tuple(c.rel_path for c in touched if c.after is not None and c.after != c.before),
        tuple(c.rel_path for c in touched if c.after is not None and c.after == c.before),
        tuple(c.rel_path for c in touched if c.before is not None and c.after is None),
    )
    if result.written or result.deleted:
        staged.ignore_index()
    changes = tuple(change for change in staged.changes() if change.before != change.after)
    return WritePlan(changes, result, staged.seen, tuple(staged.leftovers))
