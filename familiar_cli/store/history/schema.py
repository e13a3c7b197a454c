"""Open the history's file, create its tables, and refuse files of other kinds."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.config.environment import install_command
from familiar_cli.base.errors import BadInputError, FamiliarError, LockedError, RefusedError
from familiar_cli.base.files import is_plain, write_hint
from familiar_cli.base.sqlite import Fault, connect, fault_of, hint_for, is_unwritable, transaction
from familiar_cli.base.text import one_line, typed
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.rows import UNREAD, DamagedRowError, Row, pack, to_number

APPLICATION_ID: Final = 0x46414D31  # "FAM1": identifies the file as ours
VERSION: Final = 2
_OLDEST: Final = 1  # has other triggers, which the first change replaces
_EARLIER_ID: Final = 0x66616D69  # before the first release
_MOST_KNOWN, _MOST_SAID = 32, 2048  # answers, and turns
_QUERY_ONLY: Final = "PRAGMA query_only = ON"
_NEWEST_OWN: Final = (
    "SELECT id FROM turns WHERE id > ? AND NOT EXISTS (SELECT 1 FROM elsewhere WHERE turn_id = id) "
    "ORDER BY id DESC LIMIT 1"
)


class HistoryFile:
    """The database file of one history. Thread-safe and safe across processes.

    It is opened on first use and created with the first turn, so reading leaves no trace.

    Args:
        path: The SQLite file.
        busy_timeout_s: How long to wait for another process that is writing.
        owners: Returns the owners' accounts, which are recorded before the first change.
        before_change: Called before a change; raises to prevent it.
        on_newest: Called with the newest turn of this instance whenever there is a new one.

    Attributes:
        phrase_turns: For some queries, the last turn searched and those found; see `newest_saying`.
        channel_turns: The last turn read, and the turns of each channel up to it; `said` drops them
            with all else that it does not know any more.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        busy_timeout_s: float = 5.0,
        owners: Callable[[], Iterable[Author]] | None = None,
        before_change: Callable[[], None] | None = None,
        on_newest: Callable[[int], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self._owners = owners
        self._before_change, self._on_newest = before_change, on_newest
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._empty: sqlite3.Connection | None = None
        self._uses = 0  # nested ones, of the thread that holds the lock
        self._is_left = False
        self._is_fixed = False  # the connection is of one moment: it is not used again
        self.phrase_turns: dict[str, tuple[int, list[int]]] = {}
        self.channel_turns: tuple[int, dict[object, list[int]]] = (0, {})
        self._said: tuple[int, dict[int, Any]] = (0, {})
        self._known: dict[object, Any] = {}
        self._known_at: tuple[sqlite3.Connection | None, int, int] = (None, 0, 0)

    def close(self, *, for_good: bool = False) -> None:
        """Close the file. The next use reopens it; after `for_good`, only for that use.

        Work that nobody waits for any more may still use a file that was closed for good.
        """
        with self._lock:
            self._is_left, self._is_fixed = self._is_left or for_good, False
            for connection in filter(None, (self._connection, self._empty)):
                connection.close()
            self._connection = self._empty = None
            self.phrase_turns.clear()
            self._said, self._known, self._known_at = (0, {}), {}, (None, 0, 0)
            self.channel_turns = 0, {}

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction: all changes made in it are committed, or none."""
        if self._before_change:
            self._before_change()
        owners = self._owners
        accounts = {(pack(one.platform), pack(one.user_id)) for one in owners()} if owners else None
        with self.use(create=True) as connection:
            (before,) = connection.execute("SELECT coalesce(max(id), 0) FROM turns").fetchone()
            with transaction(connection):
                if _read_mark(connection, "user_version") < VERSION:
                    _renew_triggers(connection)
                if accounts and accounts != set(connection.execute("SELECT * FROM owners")):
                    connection.execute("DELETE FROM owners")
                    connection.executemany("INSERT INTO owners VALUES (?, ?)", accounts)
                yield connection
            self._owners = None  # what failed is done again
            if self._on_newest:
                for (turn_id,) in connection.execute(_NEWEST_OWN, (before,)).fetchall():
                    self._on_newest(turn_id)

    def use(self, *, create: bool) -> _Use:
        """Hold the connection; without a file and without `create`, one to an empty history.

        Only for modules of `history`; others get turns and summaries, never SQL.
        """
        return _Use(partial(self._begin_use, create=create), self._end_use, self.path)

    def _begin_use(self, *, create: bool) -> sqlite3.Connection:
        """Return the connection, which is this thread's until `_end_use`."""
        self._lock.acquire()
        try:
            if self._connection is None and (create or self.path.exists()):
                open_it = open_to_write if create else open_to_read
                self._connection = open_it(self.path, self._busy_timeout_s)
                self._is_fixed = bool(_read_mark(self._connection, "query_only"))
            if self._connection is None and self._empty is None:
                self._empty = empty_history()
        except BaseException:
            self._lock.release()
            raise
        connection = self._connection or self._empty
        assert connection is not None
        self._uses += 1
        return connection

    def _end_use(self) -> None:
        """End what `_begin_use` began."""
        try:
            self._uses -= 1
            if (self._is_left or self._is_fixed) and not self._uses:
                self.close()
        finally:
            self._lock.release()

    def known(self, connection: sqlite3.Connection) -> dict[object, Any]:
        """Return the cache of answers, which is empty again after each change of the file.

        One turn asks the same questions several times. A key contains everything that its answer
        depends on, the viewer included; the caller adds what is missing.
        """
        if connection.in_transaction:  # it may be rolled back
            return {}
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        state = connection, version, connection.total_changes
        if self._known_at != state or len(self._known) > _MOST_KNOWN:
            self._known, self._known_at = {}, state
        return self._known

    def said(self, connection: sqlite3.Connection) -> dict[int, Any]:
        """Return the cache of turns by id, each with its state; the caller adds what is missing.

        Triggers keep turns from being changed. To forget words is to take these away for a moment,
        which the version of the schema tells, also after another process did it.
        """
        version = _read_mark(connection, "schema_version")
        if self._said[0] != version or len(self._said[1]) > _MOST_SAID:
            self._said, self.channel_turns = (version, {}), (0, {})
        return self._said[1]

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query; none if nothing was said yet."""
        with self.use(create=False) as connection:
            return connection.execute(sql, values).fetchall()


class _Use(Struct):
    """The use of a history's connection, as a context; a class, which enters faster."""

    begin: Callable[[], sqlite3.Connection]
    end: Callable[[], None]
    path: Path

    def __enter__(self) -> sqlite3.Connection:
        try:
            return self.begin()
        except Exception as error:
            _raise_ours(error, self.path)
            raise

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.end()
        if error is not None:
            _raise_ours(error, self.path)


def count_unsummarised(path: Path) -> int:
    """Count the turns that the memory writer has not read yet, without loading the store."""
    if not path.exists():
        return 0
    with closing(HistoryFile(path)) as history:
        return to_number(history.rows(f"SELECT count(*) {UNREAD}")[0][0])


def open_to_write(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open the history at `path` for writing, creating it if needed.

    Raises:
        BadInputError: It is another program's database; it is left unchanged.
        RefusedError: Another version of this program wrote it; it is left unchanged.
        sqlite3.Error: Any error of SQLite; see `translate_errors`.
        OSError: The directory cannot be created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = connect(path, busy_timeout_s)
    try:
        if is_empty(connection, path):
            with transaction(connection):
                if is_empty(connection, path):  # no other process was faster
                    _create_tables(connection)
        connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def open_to_read(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open the history at `path` for reading, even on a read-only or full disk.

    There, it is as of this moment, and `query_only`: nothing can be written.

    Raises:
        As `open_to_write`.
    """
    try:
        return open_to_write(path, busy_timeout_s)
    except sqlite3.Error as error:
        if not is_unwritable(error):
            raise
    if _has_unmerged_turns(path):
        return _copy_with_log(path)
    fixed = f"{path.absolute().as_uri()}?immutable=1"
    connection = sqlite3.connect(fixed, uri=True, check_same_thread=False)
    try:
        if not is_empty(connection, path):
            connection.execute(_QUERY_ONLY)
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return empty_history()


def _copy_with_log(path: Path) -> sqlite3.Connection:
    """Copy a history with its write-ahead log to where both can be written, then into memory."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415  # rarely needed, and loads much

    memory = connect(":memory:", 0)
    try:
        with TemporaryDirectory() as directory:
            for suffix in ("", "-wal"):
                name = path.name + suffix
                shutil.copyfile(path.with_name(name), Path(directory, name))
            with closing(connect(Path(directory, path.name), 0)) as copy:
                is_empty(copy, path)
                copy.backup(memory)
        memory.execute(_QUERY_ONLY)
    except BaseException:
        memory.close()
        raise
    return memory


def empty_history() -> sqlite3.Connection:
    """Return a connection to an empty history in memory."""
    connection = connect(":memory:", 0)
    _create_tables(connection)
    return connection


def foreign_objects(path: Path) -> list[str]:
    """Return schema objects that this program did not create, e.g. `trigger 'x'`.

    Raises:
        As `open_to_write`.
    """
    with closing(empty_history()) as own, closing(open_to_read(path, 0)) as connection:
        listed = "SELECT type, name FROM sqlite_master"
        known = set(own.execute(listed))
        return [
            f"{kind} {name!r}"
            for kind, name in connection.execute(f"{listed} ORDER BY name")
            if (kind, name) not in known and not name.startswith(("sqlite_", "turns_fts"))
        ]


def is_empty(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell whether a file has no tables yet.

    Raises:
        BadInputError: It is another program's database.
        RefusedError: Another version of this program wrote it.
    """
    owner, version = (
        _read_mark(connection, "application_id"),
        _read_mark(connection, "user_version"),
    )
    if owner == APPLICATION_ID and _OLDEST <= version <= VERSION:
        return False
    if owner == APPLICATION_ID:
        raise RefusedError(
            f"The history {str(path)!r} has schema {version}, but this program supports only up "
            f"to {VERSION}; it was not changed",
            hint=f"Update this program: `{install_command()}`.",
        )
    if owner == _EARLIER_ID:
        raise RefusedError(
            f"The history {str(path)!r} was written before the first release, whose files are no "
            "longer supported; it was not changed",
            hint="With the version that wrote it, run `familiar history export --format jsonl`; "
            "then import the result: `familiar import FILE`.",
        )
    foreign = legacy_table(connection)
    has_tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    if _read_mark(connection, "application_id") == APPLICATION_ID:
        return False  # another process has begun it at this moment
    if foreign:
        raise BadInputError(
            f"{str(path)!r} is the history of another program; it was not changed",
            hint="Move it to another directory and import it from there: "
            f"`familiar import {typed(path.name)}`.",
        )
    if version or has_tables:
        raise BadInputError(
            f"{str(path)!r} is another program's database, not a history; it was not changed",
            hint="Move it away; the next turn starts a new history.",
        )
    return True


def _read_mark(connection: sqlite3.Connection, pragma: str) -> int:
    """Return one of the two marks of a file: whose database it is, or the version of its tables."""
    (mark,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(mark)


def _create_tables(connection: sqlite3.Connection) -> None:
    for statement in _statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _renew_triggers(connection: sqlite3.Connection) -> None:
    """Replace the triggers by those of this version, in the transaction that is open."""
    for statement in _statements():
        _, is_trigger, rest = statement.partition("CREATE TRIGGER ")
        if is_trigger:
            connection.execute(f'DROP TRIGGER IF EXISTS "{rest.split()[0]}"')
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _statements() -> list[str]:
    return Path(__file__).with_name("tables.sql").read_text("utf-8").split("\n\n")


def legacy_table(connection: sqlite3.Connection) -> str:
    """Return the table of turns in another program's history; empty if there is none."""
    sql = (
        "SELECT name FROM sqlite_master AS t WHERE type = 'table' AND ("
        "SELECT sum(lower(name) IN ('role', 'content')) = 2"
        " AND sum(lower(name) IN ('speaker', 'author_display_name'))"
        " FROM pragma_table_info(t.name)) ORDER BY lower(name) != 'turns'"
    )
    return next((name for (name,) in connection.execute(sql)), "")


def _has_unmerged_turns(path: Path) -> bool:
    """Tell whether the newest turns are still in the write-ahead log."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def find_damage(path: Path, limit_s: float = math.inf) -> str:
    """Return SQLite's error about a history, or an empty string; what takes longer counts as none.

    Raises:
        BadInputError: It is too damaged to be checked.
        FamiliarError: It cannot be read.
    """
    until_s = stopwatch_s() + limit_s
    with translate_errors(path), closing(_open_to_check(path)) as connection:
        connection.set_progress_handler(lambda: stopwatch_s() > until_s, 1_000)
        try:
            lines = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
        except sqlite3.OperationalError:
            if stopwatch_s() > until_s:
                return ""
            raise
    return "" if lines == ["ok"] else "; ".join(lines)


def _open_to_check(path: Path) -> sqlite3.Connection:
    if not os.access(path.parent, os.W_OK):
        return open_to_read(path, 0)
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def damage_notice(path: Path, limit_s: float) -> str:
    """Describe the damage to a history, and the command that repairs it; empty if none is found.

    Args:
        limit_s: How long to look.
    """
    if not is_plain(path):
        return ""
    try:
        damage = find_damage(path, limit_s)
    except BadInputError as error:
        damage = str(error)
    except FamiliarError:
        return ""
    if not damage:
        return ""
    text = one_line(damage, 200)
    return (
        f"{path.name} is damaged ({text}): run `familiar doctor`, then `familiar history salvage`"
    )


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and the system into ours."""
    try:
        yield
    except Exception as error:
        _raise_ours(error, path)
        raise


def _raise_ours(error: BaseException, path: Path) -> None:
    """Raise our error for one of SQLite or the system; return if it is none of theirs."""
    if isinstance(error, sqlite3.Error):
        raise _error_for(error, path) from error
    if isinstance(error, DamagedRowError):
        raise _damaged_history(path, error.what) from error
    if isinstance(error, UnicodeDecodeError):  # SQLite's message quotes names that are not text
        raise _damaged_history(path, error) from error
    if isinstance(error, OSError):
        raise FamiliarError(
            f"The history {str(path)!r} cannot be used: {error.strerror or error}",
            hint=write_hint(error.errno),
        ) from error


_HINT = "Check the permissions of the file and its directory, and the free disk space."


def _error_for(error: sqlite3.Error, path: Path) -> FamiliarError:
    fault = fault_of(error)
    if fault is Fault.locked:
        return LockedError(
            f"Another process is writing to {str(path)!r}; nothing was changed",
            hint="Try again when it has finished.",
        )
    if fault is Fault.damaged:
        return _damaged_history(path, error)
    return FamiliarError(
        f"The history {str(path)!r} cannot be used: {error}",
        hint=hint_for(fault, _HINT, path.parent),
    )


def _damaged_history(path: Path, error: object) -> BadInputError:
    return BadInputError(
        f"The history {str(path)!r} is damaged or not a history ({error}); it was not changed",
        hint="Replace it with a backup, or recover what can be read: `familiar history salvage`.",
    )
