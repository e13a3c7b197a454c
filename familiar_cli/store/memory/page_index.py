"""Derived databases about pages in `.index`, opened on demand and rebuilt when damaged."""

from __future__ import annotations

import json
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from familiar_cli.base import sqlite
from familiar_cli.base.errors import FamiliarError, LockedError
from familiar_cli.base.files import remove, stamp_of, status_of
from familiar_cli.base.times.clock import stopwatch_s, wall_ns
from familiar_cli.store.memory.layout import INDEX_DIR
from familiar_cli.store.memory.store.watch import quiet_since

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.files import MemoryHead
    from familiar_cli.store.memory.store.store import MemoryStore

MOST_STATS: Final = 250
"""Of more pages only the directories are checked, unless a thorough refresh is requested."""

_BUSY_S: Final = 10.0  # whoever has less time for a turn, goes on without it
_BATCH: Final = 500
_current: dict[str, tuple[int, int]] = {}  # the listing and inode at which each index was complete
_SMALL_BATCH: Final = 50  # when a user is waiting, check the time between batches
_STAMP_WORDS: Final = 4  # of a signature, before the time of the look

PageT = TypeVar("PageT")


class PageIndex(ABC, Generic[PageT]):
    """Tables derived from pages; safe to delete at any time. Not thread-safe.

    Args:
        store: The memory.
        idle: Keeps the database open for the next index of this kind.
    """

    WHAT: ClassVar[str]
    """Name of the index in errors."""

    FILE: ClassVar[str]
    SIGNATURES: ClassVar[str]
    """The query of the pages in it, each with its signature."""

    VERSION: ClassVar[int]
    TABLES: ClassVar[tuple[str, ...]]
    """Statements that create the tables, one of which is `state`."""

    def __init__(self, store: MemoryStore, idle: sqlite.IdleConnection | None = None) -> None:
        self._store = store
        self._idle = idle
        self._file: os.stat_result | None = None  # that was opened
        self._root = os.path.realpath(store.root)
        self._path = os.path.join(self._root, INDEX_DIR, self.FILE)
        self._database: sqlite3.Connection | None = None
        self._looked = (0, 0)
        self._read_head: Callable[[str, int], MemoryHead] = store.read_head

    def close(self) -> None:
        """Close the database, unless it is kept for the next use."""
        if self._database is not None:
            if self._idle and self._file:
                self._idle.put_back(self._path, self._file, self._database)
            else:
                self._database.close()
            self._database = None

    def _exists(self) -> bool:
        """Tell whether the index exists."""
        return self._database is not None or os.path.exists(self._path)

    def _state_now(self) -> tuple[int, int]:
        """Return the state of the memory, see `quiet_since`, and which file the index is in."""
        try:
            return quiet_since(self._root), os.stat(self._path).st_ino
        except OSError:
            return 0, 0

    def _is_current(self) -> bool:
        """Tell whether nothing has changed since this process last read all changed pages."""
        self._looked = self._state_now()
        return self._looked[0] > 0 and _current.get(self._path) == self._looked

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        if not self._exists():
            return []
        with self._translated():
            return self._opened().execute(sql).fetchall()

    def _among(self, select: str, values: Collection[str]) -> list[tuple[Any, ...]]:
        """Return the rows of `select`, which ends in `IN`."""
        if not values or not self._exists():
            return []
        with self._translated():
            return list(sqlite.rows_among(self._opened(), select, values))

    def _state(self) -> dict[str, str]:
        return dict(self._rows("SELECT name, value FROM state"))

    def _keep(self, state: Mapping[str, str]) -> None:
        """Store state values by name."""
        with self._writing() as database:
            database.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", state.items())

    def refresh(self, *, thorough: bool = False, within_s: float = inf) -> int:
        """Read new and changed pages. Progress is kept if interrupted.

        Args:
            thorough: Check every page even where the directories are unchanged.
            within_s: Time limit in seconds after which no further page is started.

        Returns:
            Number of pages still to read.

        Raises:
            FamiliarError: A directory or the index cannot be used.
        """
        if self._is_current() or (not thorough and self._is_fresh(self._state())):
            return 0
        there, folders = self._scan()
        if not (there or self._exists()):
            return 0
        seen = {"count": str(len(there)), "folders": json.dumps(folders)}
        return self._read_changed(there, dict(self._rows(self.SIGNATURES)), seen, within_s)

    def _is_fresh(self, state: Mapping[str, str]) -> bool:
        """Tell whether there are many pages, in directories that have not changed."""
        if int(state.get("count", 0)) <= MOST_STATS:
            return False
        looked_ns = wall_ns()
        try:
            return all(
                page_signature(os.stat(os.path.join(self._root, *name.split("/"))), looked_ns)
                == known
                for name, known in json.loads(state["folders"]).items()
            )
        except (OSError, ValueError, KeyError):
            return False

    @abstractmethod
    def _scan(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the signatures of all pages, and of their directories."""

    def _read_changed(
        self,
        there: Mapping[str, str],
        known: Mapping[str, str],
        seen: Mapping[str, str],
        within_s: float,
    ) -> int:
        """Read new and changed pages, and drop deleted ones.

        Progress is kept if interrupted.

        Args:
            there: Signature of each existing page.
            known: Signatures of the pages already indexed.
            seen: State to store once all pages are read.
            within_s: Time limit in seconds after which no further page is started.

        Returns:
            Number of pages still to read.
        """
        began_s = stopwatch_s()
        pages = [page for page in known if page not in there]
        changed = [page for page, signature in there.items() if known.get(page) != signature]
        if pages:
            self._replace(pages, ())
        self._read_head = self._store.head_reader()
        size = _BATCH if within_s == inf else _SMALL_BATCH
        for at in range(0, len(changed), size):
            if stopwatch_s() - began_s >= within_s:
                # What an older version of a page says may be private by now.
                old = [page for page in changed[at:] if _is_older(known.get(page, ""), there[page])]
                if old:
                    self._replace(old, ())
                return len(changed) - at
            batch = changed[at : at + size]
            self._replace(batch, [self._read_page(page, there[page]) for page in batch])
        state = self._state()
        if any(state.get(name) != value for name, value in seen.items()):
            self._keep(seen)
        if self._looked[0] and self._looked == self._state_now():
            _current[self._path] = self._looked
        return 0

    @abstractmethod
    def _read_page(self, page: str, signature: str) -> PageT:
        """Read one page."""

    @abstractmethod
    def _replace(self, names: Collection[str], pages: Iterable[PageT]) -> None:
        """Replace the stored data of pages by name, atomically."""

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translated(), sqlite.transaction(self._opened()) as database:
            yield database

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._file = status_of(self._path)
            try:
                kept = self._idle.take(self._path) if self._idle else None
                self._database = kept or self._open(self._path)
            except sqlite3.DatabaseError as error:
                if sqlite.fault_of(error) is sqlite.Fault.locked:
                    raise
                self._file, self._database = None, self._made_anew()
        return self._database

    def _made_anew(self) -> sqlite3.Connection:
        """Return a new database, replacing the damaged one or held in memory for this process."""
        with suppress(OSError, sqlite3.DatabaseError):
            self._remove()
            return self._open(self._path)
        return self._open(":memory:")

    def _open(self, path: str) -> sqlite3.Connection:
        database = (sqlite.connect if path == ":memory:" else sqlite.connect_derived)(path, _BUSY_S)
        try:
            sqlite.renew(
                database, self.VERSION, (*self.TABLES, f"PRAGMA user_version = {self.VERSION}")
            )
        except BaseException:
            database.close()
            raise
        return database

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm", "-journal"):
            remove(self._path + end)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError, TypeError, ValueError) as error:
            if sqlite.fault_of(error) is sqlite.Fault.locked:
                raise LockedError(
                    f"{self.WHAT} is locked by another process; nothing was changed",
                    hint="Wait for that process and try again.",
                ) from error
            if sqlite.is_useless(error) or isinstance(error, TypeError | ValueError):
                self._file = None  # it is not kept
                self.close()
                with suppress(OSError):
                    self._remove()  # the next use recreates it
            raise FamiliarError(
                f"{self.WHAT} {self._path!r} could not be used: {error}",
                hint="Try again; it is rebuilt. It can be deleted without loss.",
            ) from error


def _is_older(known: str, now: str) -> bool:
    """Tell whether a known signature is of another version, not of the same one looked at again."""
    return bool(known) and known.split(" ")[:_STAMP_WORDS] != now.split(" ")[:_STAMP_WORDS]


def page_signature(status: os.stat_result, looked_ns: int) -> str:
    """Return a signature that changes with the file.

    A file modified too recently to detect a further change never has the same signature.
    """
    stamp = stamp_of(status, looked_ns)
    words = f"{stamp.size_bytes} {stamp.mtime_ns} {stamp.ctime_ns} {status.st_ino}"
    return words if stamp.settled else f"{words} {looked_ns}"
