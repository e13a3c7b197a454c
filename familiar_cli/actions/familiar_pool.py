"""`FamiliarPool`: open familiars, each reopened when its settings change."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from familiar_cli.config.home import find_familiar
from familiar_cli.familiar import Familiar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from familiar_cli.config.home import FamiliarPaths


class Poolable(Protocol):
    """Object that a pool can keep open."""

    @property
    def is_outdated(self) -> bool:
        """Whether a settings file that it read has changed since then."""

    async def aclose(self) -> None:
        """Release its files and models."""


T = TypeVar("T", bound=Poolable)


@dataclass(slots=True)
class _Entry(Generic[T]):
    item: T
    users: int = 0
    is_retired: bool = False
    turn: threading.Lock = field(default_factory=threading.Lock)


class FamiliarPool(Generic[T]):
    """Pool that opens each familiar of a home once, for event-loop tasks and for threads.

    One whose settings changed is opened anew for whoever asks next, and closed when the last user
    of the old one has left.

    Args:
        home: Where the familiars live.
        build: Opens one; it must be quick.
    """

    def __init__(self, home: Path, build: Callable[[FamiliarPaths], T]) -> None:
        self.home = home
        self._build = build
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry[T]] = {}  # the least recently used stands first

    @asynccontextmanager
    async def lease(self, name: str | None) -> AsyncIterator[T]:
        """Lease a familiar to a task; several tasks may use it at once.

        Args:
            name: Its id; None: the chosen one, or the only one.

        Raises:
            NotFoundError: There is no such familiar.
            UsageError: There are several, and none was chosen.
        """
        entry, old = self._enter(name)
        try:
            if old:
                await old.aclose()
            yield entry.item
        finally:
            if self._leave(entry):
                await entry.item.aclose()

    @contextmanager
    def hold(self, name: str | None, *, alone: bool = False) -> Iterator[T]:
        """Lease a familiar to a thread without an event loop, one thread at a time.

        Args:
            name: As in `lease`.
            alone: Do not wait for whoever has it: open it for this caller only.

        Raises:
            NotFoundError, UsageError: As `lease`.
        """
        if alone:
            item = self._build(find_familiar(self.home, name))
            try:
                yield item
            finally:
                asyncio.run(item.aclose())
            return
        entry, old = self._enter(name)
        try:
            if old:
                asyncio.run(old.aclose())
            with entry.turn:
                yield entry.item
        finally:
            if self._leave(entry):
                asyncio.run(entry.item.aclose())

    async def aclose(self) -> None:
        """Close all idle familiars; the others are closed by their last user."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
            for entry in entries:
                entry.is_retired = True
            idle = [entry.item for entry in entries if not entry.users]
        for item in idle:
            await item.aclose()

    def _enter(self, name: str | None) -> tuple[_Entry[T], T | None]:
        """Return the entry of a familiar, and the replaced one to close, if any."""
        paths = find_familiar(self.home, name)
        with self._lock:
            entry, closing = self._entries.get(paths.id), None
            if entry is None or entry.item.is_outdated:
                new = _Entry(self._build(paths))
                if entry:
                    entry.is_retired = True
                    closing = None if entry.users else entry.item
                entry = new
            self._entries.pop(paths.id, None)
            self._entries[paths.id] = entry
            entry.users += 1
        return entry, closing

    def _leave(self, entry: _Entry[T]) -> bool:
        """Tell whether a replaced entry has lost its last user."""
        with self._lock:
            entry.users -= 1
            return entry.is_retired and not entry.users


def pages_pool(home: Path, tell: Callable[[str], None]) -> FamiliarPool[Familiar]:
    """Return a pool for servers, which caches the past instead of reading all files each time.

    Args:
        home: Where the familiars live.
        tell: Callback for messages to a person.
    """

    def build(paths: FamiliarPaths) -> Familiar:
        from familiar_cli.memory.journal.past import MemoryPast

        familiar = Familiar(paths, tell)
        familiar.past = MemoryPast(familiar.memory, familiar.journal, tell, hasty=True)
        return familiar

    return FamiliarPool(home, build)
