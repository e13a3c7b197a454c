"""`IndexingMemoryStore`: a memory store whose changes reach the index at once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from familiar_cli.errors import FamiliarError
from familiar_cli.memory.store.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from familiar_cli.index.build import EmbeddingIndex
    from familiar_cli.memory.store.transactions import Transaction


class IndexingMemoryStore(MemoryStore):
    """A `MemoryStore` that tells an index which files a transaction changed.

    The words of those files can be found when the write returns; vectors come later. An index that
    cannot be written never fails a write: the next search finds the change by itself.

    Args:
        inner: The store that does the work.
        index: Gives the index to tell, or None where there is none yet; asked after each change.
        on_change: Called with the changed paths afterwards, e.g. to wake a worker.
    """

    def __init__(
        self,
        inner: MemoryStore,
        index: Callable[[], EmbeddingIndex | None],
        on_change: Callable[[tuple[str, ...]], None] | None = None,
    ) -> None:
        self._inner = inner
        self._index = index
        self._on_change = on_change

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the inner store has
        return getattr(self.__dict__["_inner"], name)

    @contextmanager
    def transaction(
        self,
        source: str,
        message: str,
        *,
        dry_run: bool = False,
        trailers: Mapping[str, str] | None = None,
    ) -> Iterator[Transaction]:
        """Stage changes as `MemoryStore.transaction` does, and index them when they are made."""
        with self._inner.transaction(source, message, dry_run=dry_run, trailers=trailers) as tx:
            yield tx
        if not dry_run:
            self._tell(tx.result.written + tx.result.deleted)

    def _tell(self, rel_paths: tuple[str, ...]) -> None:
        index = self._index() if rel_paths else None
        if index is None:
            return
        try:
            index.touch(rel_paths)
        except FamiliarError:
            return  # the next search compares every file with the index, and says what is wrong
        if self._on_change:
            self._on_change(rel_paths)
