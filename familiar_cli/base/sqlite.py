"""SQLite helpers: transactions, long `IN` lists, and error classification.

It loads `sqlite3`, so modules that may never open a database import it late.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from familiar_cli.base import files

_PRIMARY: Final = 0xFF  # the primary code is the low byte of an extended result code
_VALUES: Final = 512  # parameters per statement; SQLite may be built with a limit of 999
_MARKS: Final = ",".join("?" * _VALUES)


class Fault(Enum):
    """User-facing cause of an SQLite error."""

    locked = "locked"
    damaged = "damaged"
    full = "full"
    read_only = "read-only"
    other = "other"


_FAULTS: Final = {
    sqlite3.SQLITE_BUSY: Fault.locked,
    sqlite3.SQLITE_LOCKED: Fault.locked,
    sqlite3.SQLITE_CORRUPT: Fault.damaged,
    sqlite3.SQLITE_NOTADB: Fault.damaged,
    sqlite3.SQLITE_FULL: Fault.full,
    sqlite3.SQLITE_CANTOPEN: Fault.read_only,
    sqlite3.SQLITE_READONLY: Fault.read_only,
}
_NOT_OURS: Final = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
_HINTS: Final = {
    Fault.locked: "Try again when the other process has finished.",
    Fault.full: files.write_hint(errno.ENOSPC),
}


def connect(path: Path | str, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a connection for any thread; only `transaction` begins transactions.

    SQLite gives its auxiliary files the same permissions.

    Args:
        path: The file, created private to its owner if missing; or `:memory:`.
        busy_timeout_s: Maximum wait for another writer.
    """
    if path != ":memory:":
        # A file that exists is left alone: on POSIX, to close any descriptor of it drops the locks
        # of this process, and the next one to finish deletes the log that is in use here.
        with suppress(OSError):  # SQLite reports what is wrong
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.OWNER_ONLY))
    return sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )


def connect_derived(path: Path | str, busy_timeout_s: float) -> sqlite3.Connection:
    """Connect to a derived database, creating its directory.

    Raises:
        UnsafePathError: The file or its directory is a link, which is not followed.
    """
    file = Path(path)
    for place in (file.parent, file):
        files.check_own(place)
    with suppress(OSError):  # SQLite reports what is wrong
        file.parent.mkdir(parents=True, exist_ok=True)
    return connect(path, busy_timeout_s)


class IdleConnection:
    """A connection to a derived file that is kept between two uses, while the file stays the same.

    Any change of the file by another program, even a checkpoint, makes the next use open it anew.
    On Windows none is kept, since an open file cannot be deleted there.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[os.stat_result, sqlite3.Connection]] = []
        self._is_left = False
        weakref.finalize(self, _close_all, self._kept)

    def take(
        self, path: Path | str, is_usable: Callable[[sqlite3.Connection], bool] = lambda _: True
    ) -> sqlite3.Connection | None:
        """Return the connection, or None if there is none to the current file."""
        with suppress(IndexError):  # another thread uses it
            seen, connection = self._kept.pop()
            if _is_same(seen, files.status_of(path), _STATE):
                with suppress(sqlite3.Error):
                    if is_usable(connection):
                        return connection
            connection.close()
        return None

    def put_back(
        self, path: Path | str, opened: os.stat_result | None, connection: sqlite3.Connection
    ) -> None:
        """Keep a connection to the file that was `opened`, or close it."""
        seen = files.status_of(path)
        if (
            self._kept
            or self._is_left
            or files.ON_WINDOWS
            or seen is None
            or not _is_same(opened, seen, _IDENTITY)
        ):
            connection.close()
        else:
            self._kept.append((seen, connection))

    def close(self, *, for_good: bool = False) -> None:
        """Close the connection; a later use opens another one, which `for_good` is not kept."""
        self._is_left = self._is_left or for_good
        _close_all(self._kept)


def _close_all(kept: list[tuple[os.stat_result, sqlite3.Connection]]) -> None:
    while kept:
        kept.pop()[1].close()


_IDENTITY: Final = attrgetter("st_dev", "st_ino")
_STATE: Final = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")


def _is_same(
    one: os.stat_result | None,
    other: os.stat_result | None,
    read: Callable[[os.stat_result], object],
) -> bool:
    return one is not None and other is not None and read(one) == read(other)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Apply all changes inside, or none. The write lock is taken at the start."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.commit()
    except BaseException:
        connection.rollback()  # SQLite may have rolled back already, as on a full disk
        raise


def renew(connection: sqlite3.Connection, version: int, tables: Iterable[str]) -> None:
    """Recreate the tables of a derived database unless it has this version.

    Args:
        connection: Database whose contents can be discarded.
        version: Version of the tables, stored in `user_version`.
        tables: Statements that create them and set `user_version`.
    """
    connection.execute("PRAGMA synchronous = OFF")  # lost data is regenerated
    if _version(connection) == version:
        return
    with transaction(connection):
        if _version(connection) == version:
            return  # another process did it first
        drop_tables(connection)
        for statement in tables:
            connection.execute(statement)


def drop_tables(connection: sqlite3.Connection) -> None:
    """Drop all tables."""
    for (name,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " ORDER BY sql NOT LIKE 'CREATE VIRTUAL%'"  # which take theirs with them
    ).fetchall():
        quoted = name.replace('"', '""')
        connection.execute(f'DROP TABLE IF EXISTS "{quoted}"')


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def rows_among(
    connection: sqlite3.Connection,
    select: str,
    values: Iterable[int | str | bytes | None],
    before: Sequence[object] = (),
) -> Iterator[tuple[Any, ...]]:
    """Return the rows of `select`, which ends in `IN`, for any number of values.

    `before` holds parameter values that precede the `IN`.
    """
    wanted = list(values)
    batches = (wanted[start : start + _VALUES] for start in range(0, len(wanted), _VALUES))
    # The last value is repeated up to a power of two, so that SQLite knows the statement already.
    return chain.from_iterable(
        connection.execute(
            f"{select} ({_MARKS[: 2 * size - 1]})",
            (*before, *some, *some[-1:] * (size - len(some))),
        )
        for some in batches
        for size in (1 << (len(some) - 1).bit_length(),)
    )


def copy_into_memory(source: sqlite3.Connection) -> sqlite3.Connection:
    """Return a copy that can be written, of a database on a disk that cannot."""
    copy = connect(":memory:", 0)
    try:
        source.backup(copy)
    except BaseException:
        copy.close()
        raise
    return copy


def fault_of(error: BaseException) -> Fault:
    """Classify an SQLite error."""
    if "decode to UTF-8" in str(error):  # Python's own error, without an SQLite code
        return Fault.damaged
    return _FAULTS.get(getattr(error, "sqlite_errorcode", 0) & _PRIMARY, Fault.other)


def is_useless(error: BaseException) -> bool:
    """Tell whether a derived file must be recreated: damaged, or with foreign tables."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return fault_of(error) is Fault.damaged or code in _NOT_OURS


def is_unwritable(error: BaseException) -> bool:
    """Tell whether the disk is read-only, full or failing, so that a copy may still be readable."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return fault_of(error) in {Fault.read_only, Fault.full} or code == sqlite3.SQLITE_IOERR


def hint_for(fault: Fault, otherwise: str, directory: Path) -> str:
    """Return the hint for `fault` in a directory, or `otherwise` if only the caller knows."""
    if fault in {Fault.read_only, Fault.other}:  # a full disk is an "I/O error", too
        why = files.refusal_of_disk(directory)
        if fault is Fault.read_only or why != errno.EACCES:
            return files.write_hint(why)
    return _HINTS.get(fault, otherwise)
