"""Checks of the journal: that it can be read, agrees with the memory, and is not in the way."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from familiar_cli.actions.doctor.types import fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.actions.doctor.types import Patient, Result
    from familiar_cli.memory.journal.repository import Repository


def journal(patient: Patient) -> Iterator[Result]:
    """Look at the journal without changing it."""
    from familiar_cli.memory.journal import pending
    from familiar_cli.memory.journal.absent import refused
    from familiar_cli.memory.journal.finish import check
    from familiar_cli.memory.journal.history import History
    from familiar_cli.memory.journal.repository import Repository

    if patient.paths is None:
        return
    repository = Repository(patient.paths.journal)
    if not repository.exists:
        yield ok("empty until the first change")
        return
    with closing(repository):
        count = sum(1 for _ in History(repository).commits())
        yield ok(f"{count:,} commit{'s' * (count != 1)} in {repository.path}")
        mark = pending.read(repository.path)
        if mark:
            check(repository, mark)
            mend = "The next command that uses memory completes it: `familiar memory ls`."
            yield warn("a change was interrupted before it was on disk", mend)
        else:
            yield from _agrees(patient, repository)
        yield from _size(repository)
        for path, reason in refused(repository).items():
            yield fail(
                f"{path!r} of another machine is not here: {reason}",
                "Rename or shorten it on the machine that has it.",
            )


def sync(patient: Patient) -> Iterator[Result]:
    """Check whether a sync left something for a person to review or decide."""
    from familiar_cli.actions.sync import remotes_of
    from familiar_cli.actions.sync_trust import pending_decisions
    from familiar_cli.familiar import Familiar

    if patient.paths is None:
        return
    with Familiar(patient.paths) as familiar:
        remotes = remotes_of(familiar)
        count = len(remotes.all())
        pending = pending_decisions(familiar, remotes)
    if count:
        yield ok(f"{count} remote{'s' * (count != 1)}")
    for line in pending.lines():
        yield warn(line, "Run `familiar sync status` and `familiar sync devices`.")


def _agrees(patient: Patient, repository: Repository) -> Iterator[Result]:
    """Compare every file with the newest commit; what differs was changed by hand."""
    from familiar_cli.memory.journal.edits import Edits
    from familiar_cli.memory.store.files import Tree

    assert patient.paths is not None
    head = repository.head()
    edits = Edits(Tree(patient.paths.memory), repository, head)
    differs = [rel_path for rel_path, _ in edits]
    if differs:
        more = f" and {len(differs) - 1:,} more" if len(differs) > 1 else ""
        detail = f"changed by hand since the last commit: {differs[0]}{more}"
        yield ok(f"{detail}; the next command commits that")
    if edits.unreadable:
        detail = f"{len(edits.unreadable):,} files cannot be read; their last version is kept"
        yield warn(detail, f"Check the permissions of {edits.unreadable[0]}.")


def _size(repository: Repository) -> Iterator[Result]:
    from familiar_cli.memory.journal.compact import WORTH_IT

    loose = len(repository.objects.loose())
    if loose >= WORTH_IT:
        mend = "Pack them: `familiar memory compact`."
        yield warn(f"{loose:,} small files take more space than needed", mend)
