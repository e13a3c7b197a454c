"""Which conversations hold the words that a chat program sends. Derived from the history.

One row a turn, whichever way it came: a hash of its role and words, and its channel. The file can
be deleted at any time.
"""

from __future__ import annotations

import sqlite3
import threading
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from familiar_cli.files import remove
from familiar_cli.history.selection import turns_from
from familiar_cli.history.wording import normal_words
from familiar_cli.sqlite import connect_derived, is_useless, transaction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.serve.aligning import Line

_VERSION: Final = 2
_BEGINNING: Final = 60  # characters of a reply
_BATCH: Final = 2_000
_MOST: Final = 50  # rows of one text; "Hello" stands in many conversations
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS lines (turn_id INTEGER PRIMARY KEY, key INTEGER, channel_id TEXT);
CREATE INDEX IF NOT EXISTS lines_by_key ON lines (key, turn_id);
"""


class KnownLines:
    """Finds the channels in which something was said. Safe in threads.

    Args:
        path: The file.
        history: The history that it is derived from.
    """

    def __init__(self, path: Path, history: HistoryStore) -> None:
        self._path = path
        self._history = history
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def channels(self, lines: Sequence[Line]) -> list[str]:
        """Return the channels that hold any of these lines, the latest first."""
        with self._lock:
            try:
                return self._found(lines)
            except sqlite3.DatabaseError as error:
                if not is_useless(error):
                    raise
                self._forget()  # it is made again
                return self._found(lines)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection:
                self._connection.close()
                self._connection = None

    def _found(self, lines: Sequence[Line]) -> list[str]:
        connection = self._opened()
        self._catch_up(connection)
        sql = "SELECT turn_id, channel_id FROM lines WHERE key = ? ORDER BY turn_id DESC LIMIT ?"
        latest: dict[str, int] = {}
        for line in lines:
            for turn_id, channel_id in connection.execute(sql, (_key(line.role, line.text), _MOST)):
                latest[channel_id] = max(turn_id, latest.get(channel_id, 0))
        return sorted(latest, key=lambda channel_id: -latest[channel_id])

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the turns that were said since the last time."""
        (newest,) = connection.execute("SELECT coalesce(max(turn_id), 0) FROM lines").fetchone()
        while turns := turns_from(self._history, None, newest, _BATCH):
            rows = [(turn_id, _key(role, text), channel) for turn_id, channel, role, text in turns]
            with transaction(connection):
                connection.executemany("INSERT OR REPLACE INTO lines VALUES (?, ?, ?)", rows)
            newest = turns[-1][0]

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = connect_derived(self._path, 5.0)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in {0, _VERSION}:
                connection.execute("DROP TABLE IF EXISTS lines")
            connection.executescript(f"{_SCHEMA}PRAGMA user_version = {_VERSION};")
            self._connection = connection
        return self._connection

    def _forget(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None
        for end in ("", "-wal", "-shm", "-journal"):
            remove(self._path.with_name(self._path.name + end))


def _key(role: str, text: str) -> int:
    """Return a hash of what counts of a line, as SQLite keeps numbers.

    Of a reply its beginning counts, since programs cut the end of some.
    """
    words = normal_words(text)
    if role == "assistant":
        words = words[:_BEGINNING]
    digest = blake2b(f"{role}\n{words}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
