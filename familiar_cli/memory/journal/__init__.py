"""The journal of the memory: a bare git repository that knows every change, and finishes each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from familiar_cli.errors import FamiliarError
    from familiar_cli.memory.store.files import Joined, StoredChange


class Journal(Protocol):
    """Told of each transaction in this order: `begin`, `prepare`, then `applied` or `abandoned`.

    All but `pending`, `give_up` and `state` are called while the lock is held. What `begin` or
    `prepare` raises stops the transaction before any file was touched.
    """

    def pending(self) -> bool:
        """Tell whether a change is decided but not all of it is on disk; costs one look."""

    def give_up(self, error: FamiliarError) -> None:
        """A reader cannot finish what is pending: from now on that is pending no more.

        Whoever writes is still stopped by it.
        """

    def state(self) -> object:
        """Return a value that differs after every transaction; costs one look."""

    def begin(self, *, look: bool = False) -> None:
        """Before anything is read: finish what a crash cut short, note what people changed.

        Args:
            look: Look at every file, however long it takes.
        """

    def prepare(
        self,
        source: str,
        message: str,
        changes: Sequence[StoredChange],
        trailers: Mapping[str, str],
        joined: Joined | None = None,
    ) -> None:
        """All rules hold and no file is touched yet: record durably what is about to be."""

    def applied(self, changes: Sequence[StoredChange]) -> None:
        """Every change is on disk."""

    def abandoned(self, changes: Sequence[StoredChange]) -> None:
        """The disk refused; every file is as it was before."""
