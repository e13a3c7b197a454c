"""Memory stores whose changes reach the index at once."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.index.build import EmbeddingIndex
    from familiar_cli.memory.store.store import MemoryStore, OnChange


MOST_AT_ONCE: Final = 200
"""Files of one change that are indexed before the write returns."""


def IndexingMemoryStore(  # noqa: N802  # it stands where a class stood
    inner: MemoryStore,
    index: Callable[[], EmbeddingIndex | None],
    on_change: OnChange | None = None,
) -> MemoryStore:
    """Return a store on the directory of `inner` that tells an index what it changes.

    Args:
        inner: A store, which stays as it is.
        index: As `index_changes` takes it.
        on_change: As `index_changes` takes it.
    """
    store = copy(inner)
    store.on_change = index_changes(index, on_change)
    return store


def index_changes(
    index: Callable[[], EmbeddingIndex | None], on_change: OnChange | None = None
) -> OnChange:
    """Return a callback for the files that a `MemoryStore` changed.

    The words of those files can be found when the write returns; vectors come later. An index that
    cannot be written never fails a write: the next search finds the change by itself. So it does
    when more than `MOST_AT_ONCE` files changed, which would hold up whoever writes.

    Args:
        index: Gives the index to tell, or None where there is none yet; asked after each change.
        on_change: Called with the changed paths once they are indexed, e.g. to wake a worker.
    """

    def tell(rel_paths: tuple[str, ...]) -> None:
        known = index()
        if known is None:
            return
        try:
            if len(rel_paths) <= MOST_AT_ONCE:
                known.touch(rel_paths)
        except FamiliarError:
            return  # the next search compares every file with the index, and says what is wrong
        if on_change:
            on_change(rel_paths)

    return tell
