"""`HistoryFile`: the SQLite file of a history, opened when it is needed."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from familiar_cli.history.rows import Row


class HistoryFile:
    """The file of one history. Safe to use from several threads and several processes.

    It is opened at the first use, and made at the first turn, so looking leaves no trace.

    Args:
        path: The SQLite file.
        busy_timeout_s: How long to wait for another process that writes.
    """

    def __init__(self, path: str | Path, *, busy_timeout_s: float = 5.0) -> None:
        self.path = Path(path)
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._empty: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        with self._lock:
            for connection in filter(None, (self._connection, self._empty)):
                connection.close()
            self._connection = self._empty = None

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction: all changes made in it are committed, or none."""
        from familiar_cli.sqlite import transaction  # noqa: PLC0415  # loads sqlite3

        with self.use(create=True) as connection, transaction(connection):
            yield connection

    @contextmanager
    def use(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        """Lend the connection; without a file and without `create`, one to an empty history.

        Only for modules of `history`; others get turns and summaries, never SQL.
        """
        from familiar_cli.history.schema import (  # noqa: PLC0415  # loads sqlite3
            empty,
            opened,
            opened_to_read,
            translated,
        )

        with self._lock, translated(self.path):
            if self._connection is None and (create or self.path.exists()):
                open_it = opened if create else opened_to_read
                self._connection = open_it(self.path, self._busy_timeout_s)
            if self._connection is None and self._empty is None:
                self._empty = empty()
            connection = self._connection or self._empty
            assert connection is not None
            yield connection

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows that a query finds; none where nothing was said yet."""
        with self.use(create=False) as connection:
            return connection.execute(sql, values).fetchall()
