"""`FamiliarPool`: a few open familiars, each reopened when its settings change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct, field

from familiar_cli.base.config.home import FamiliarPaths, find_familiar
from familiar_cli.familiar import Familiar

MOST_OPEN: Final = 8
"""Familiars that a pool keeps open although nobody uses them; each holds about ten files."""


class Poolable(Protocol):
    """An object that a pool can keep open."""

    @property
    def is_outdated(self) -> bool:
        """Whether a settings file has changed since it was read."""

    async def aclose(self) -> None:
        """Close its files and models."""


T = TypeVar("T", bound=Poolable)


class _Entry(Struct, Generic[T]):
    familiar_id: str
    item: T
    users: int = 0
    is_retired: bool = False
    turn: threading.Lock = field(default_factory=threading.Lock)


class FamiliarPool(Struct, Generic[T]):
    """A pool that opens each familiar of a home once, for event-loop tasks and for threads.

    After a change of settings, the next user gets a newly opened familiar; the old one is closed by
    its last user. Beyond `most_open`, the least recently used idle familiars are closed.

    Args:
        home: The directory of the familiars.
        build: Opens one; it must be fast.
        most_open: Number that stay open, unless more are in use at once.
        on_leave: Called with a familiar's id after each use.
    """

    home: Path
    build: Callable[[FamiliarPaths], T]
    most_open: int = MOST_OPEN
    on_leave: Callable[[str], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: dict[str, _Entry[T]] = field(default_factory=dict)  # least recently used first

    def __len__(self) -> int:
        """Count the open familiars."""
        return len(self._entries)

    @asynccontextmanager
    async def lease(self, name: str | None) -> AsyncIterator[T]:
        """Lease a familiar to a task; several tasks may use it at once.

        Args:
            name: Its id; None for the chosen or only one.

        Raises:
            NotFoundError: No such familiar.
            UsageError: There are several, and none is chosen.
        """
        entry, retired = self._enter(name)
        try:
            for item in retired:
                await item.aclose()
            yield entry.item
        finally:
            for item in self._leave(entry):
                await item.aclose()

    @contextmanager
    def hold(self, name: str | None, *, alone: bool = False) -> Iterator[T]:
        """Lease a familiar to a thread without an event loop, one thread at a time.

        Args:
            name: As in `lease`.
            alone: Do not wait for its user: open it for this caller only.

        Raises:
            NotFoundError, UsageError: As `lease`.
        """
        if alone:
            item = self.build(find_familiar(self.home, name))
            try:
                yield item
            finally:
                asyncio.run(item.aclose())
            return
        entry, retired = self._enter(name)
        try:
            for item in retired:
                asyncio.run(item.aclose())
            with entry.turn:
                yield entry.item
        finally:
            for item in self._leave(entry):
                asyncio.run(item.aclose())

    async def aclose(self) -> None:
        """Close all idle familiars; the others are closed by their last user."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
            for entry in entries:
                entry.is_retired = True
            idle = [entry.item for entry in entries if not entry.users]
        for item in idle:
            await item.aclose()

    def _enter(self, name: str | None) -> tuple[_Entry[T], list[T]]:
        """Add a user to a familiar's entry; list entries to close: replaced or unused ones."""
        paths = find_familiar(self.home, name)
        with self._lock:
            entry, retired = self._entries.pop(paths.id, None), []
            if entry is None or entry.item.is_outdated:
                try:
                    new = _Entry(paths.id, self.build(paths))
                except BaseException:
                    if entry:
                        self._entries[paths.id] = entry
                    raise
                if entry:
                    entry.is_retired = True
                    retired = [] if entry.users else [entry.item]
                entry = new
            self._entries[paths.id] = entry
            entry.users += 1
            return entry, [*retired, *self._retire_unused()]

    def _leave(self, entry: _Entry[T]) -> list[T]:
        """Remove a user from an entry; list entries to close."""
        if self.on_leave:
            self.on_leave(entry.familiar_id)
        with self._lock:
            entry.users -= 1
            left = [entry.item] if entry.is_retired and not entry.users else []
            return [*left, *self._retire_unused()]

    def _retire_unused(self) -> list[T]:
        """Remove the least recently used idle familiars beyond the limit."""
        unused = [name for name, entry in self._entries.items() if not entry.users]
        extra = unused[: max(len(self._entries) - self.most_open, 0)]
        return [self._entries.pop(name).item for name in extra]


def pages_pool(home: Path, tell: Callable[[str], None]) -> FamiliarPool[Familiar]:
    """Build a pool for servers, which caches the past instead of reading all files each time.

    Args:
        home: The directory of the familiars.
        tell: Callback for messages to a person.
    """

    def build(paths: FamiliarPaths) -> Familiar:
        from familiar_cli.store.journal.past import MemoryPast

        familiar = Familiar(paths, tell)
        familiar.past = MemoryPast(familiar.memory, familiar.journal, tell, hasty=True)
        return familiar

    return FamiliarPool(home, build)
