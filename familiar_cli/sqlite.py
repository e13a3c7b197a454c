"""What every SQLite file here needs: transactions, long `IN` lists, and what an error means.

It loads `sqlite3`, so modules that may never open a database import it late.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.files import OWNER_ONLY, check_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PRIMARY: Final = 0xFF  # the low byte of an extended result code is the primary one
_VALUES: Final = 500  # in one statement; SQLite may be built to take 999


class Fault(Enum):
    """Why SQLite failed, as far as it matters to a person."""

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
    Fault.full: "Free some space on the disk and try again.",
    Fault.read_only: "Check the permissions of the file and its directory.",
}


def connect(path: Path | str, busy_timeout_s: float) -> sqlite3.Connection:
    """Return a connection for any thread, on which only `transaction` begins a transaction.

    The files that SQLite makes beside it get its permissions.

    Args:
        path: The file, which is made if there is none, for its owner alone; or `:memory:`.
        busy_timeout_s: How long to wait for another process that writes.
    """
    if path != ":memory:":
        # A file that exists is left alone: on POSIX, to close any descriptor of it drops the locks
        # of this process, and the next one to finish deletes the log that is in use here.
        with suppress(OSError):  # SQLite says what is wrong
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
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
        check_own(place)
    with suppress(OSError):  # SQLite says what is wrong
        file.parent.mkdir(parents=True, exist_ok=True)
    return connect(path, busy_timeout_s)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Make all changes inside, or none. The lock is taken at once, so no change meets another."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.commit()
    except BaseException:
        connection.rollback()  # SQLite may have done so already, as on a full disk
        raise


def renew(connection: sqlite3.Connection, version: int, tables: Iterable[str]) -> None:
    """Make the tables of a derived database anew, unless it is of this version already.

    Args:
        connection: The database; nothing in it is worth keeping.
        version: The version of the tables, kept in `user_version`.
        tables: The statements that make them and set `user_version`.
    """
    connection.execute("PRAGMA synchronous = OFF")  # what is lost is made again
    if _version(connection) == version:
        return
    with transaction(connection):
        if _version(connection) == version:
            return  # another process was quicker
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall():
            quoted = name.replace('"', '""')
            connection.execute(f'DROP TABLE "{quoted}"')
        for statement in tables:
            connection.execute(statement)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def rows_among(
    connection: sqlite3.Connection,
    select: str,
    values: Iterable[int | str | bytes | None],
    before: Sequence[object] = (),
) -> Iterator[tuple[Any, ...]]:
    """Return the rows of `select`, which ends in `IN`, for any number of values.

    `before` holds the values of parameters that stand before the `IN`.
    """
    wanted = list(values)
    batches = (wanted[start : start + _VALUES] for start in range(0, len(wanted), _VALUES))
    return chain.from_iterable(
        connection.execute(f"{select} ({','.join('?' * len(some))})", (*before, *some))
        for some in batches
    )


def fault_of(error: BaseException) -> Fault:
    """Return why SQLite failed."""
    if "decode to UTF-8" in str(error):  # Python's own error, without a code of SQLite's
        return Fault.damaged
    return _FAULTS.get(getattr(error, "sqlite_errorcode", 0) & _PRIMARY, Fault.other)


def is_useless(error: BaseException) -> bool:
    """Tell whether a file that can be made again has to be: it is damaged, or of others' tables."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return fault_of(error) is Fault.damaged or code in _NOT_OURS


def hint_for(fault: Fault, otherwise: str) -> str:
    """Return the hint for `fault`; `otherwise` where only the caller knows."""
    return _HINTS.get(fault, otherwise)
