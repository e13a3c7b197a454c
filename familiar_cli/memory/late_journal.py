"""A journal that is only loaded when something is to be done: to ask it nothing costs one look."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from familiar_cli.errors import FamiliarError
    from familiar_cli.memory.journal import Journal
    from familiar_cli.memory.store.types import Joined, StoredChange

PENDING_MARK: Final = "familiar-pending"
"""The file in the journal that says: a commit is decided, and may not be wholly on disk yet."""

BRANCH: Final = "refs/heads/main"
"""The branch whose tip is the newest commit."""


def branch_path(directory: str) -> str:
    """Return the file that holds the tip of the branch, in a journal's directory."""
    return os.path.join(directory, *BRANCH.split("/"))


def state_of(directory: str) -> object:
    """Return a value that differs after every transaction of a journal; costs one look."""
    try:
        status = os.stat(branch_path(directory))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


class LateJournal:
    """A `Journal` that is made when it is first needed.

    Args:
        path: Its directory.
        make: Returns the journal itself; the same one each time.
    """

    def __init__(self, path: Path, make: Callable[[], Journal]) -> None:
        self._path = str(path)
        self._mark = os.path.join(self._path, PENDING_MARK)
        self._make = make

    def pending(self) -> bool:
        """See `Journal`."""
        return os.path.lexists(self._mark) and self._make().pending()

    def give_up(self, error: FamiliarError) -> None:
        """See `Journal`."""
        self._make().give_up(error)

    def state(self) -> object:
        """See `Journal`."""
        return state_of(self._path)

    def begin(self, *, look: bool = False) -> None:
        """See `Journal`."""
        self._make().begin(look=look)

    def prepare(
        self,
        source: str,
        message: str,
        changes: Sequence[StoredChange],
        trailers: Mapping[str, str],
        joined: Joined | None = None,
    ) -> None:
        """See `Journal`."""
        self._make().prepare(source, message, changes, trailers, joined)

    def applied(self, changes: Sequence[StoredChange]) -> None:
        """See `Journal`."""
        self._make().applied(changes)

    def abandoned(self, changes: Sequence[StoredChange]) -> None:
        """See `Journal`."""
        self._make().abandoned(changes)
