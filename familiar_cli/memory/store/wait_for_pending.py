"""Readers wait here until no change is half on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli import clock
from familiar_cli.errors import FamiliarError, LockedError
from familiar_cli.memory.store.lock import held

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.memory.journal import Journal

_PATIENCE_S = 0.05  # for the lock, before looking again whether the writer is done


def wait_for_pending(journal: Journal, lock_path: Path, timeout_s: float) -> None:
    """Return when every decided change is on disk; finish one whose writer is gone.

    One that cannot be finished stops no reader: the journal tells of it once.

    Raises:
        LockedError: A writer has been in the middle of a change for `timeout_s`.
    """
    begun_s = clock.stopwatch_s()
    while journal.pending():
        try:
            with held(lock_path, min(_PATIENCE_S, timeout_s)):
                return journal.begin()
        except LockedError:
            if clock.stopwatch_s() - begun_s > timeout_s:
                raise
        except FamiliarError as error:
            return journal.give_up(error)
    return None
