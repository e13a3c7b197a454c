"""The SQLite file of the index: its tables, how it is opened, and when it is rebuilt."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

from familiar_cli.base import sqlite
from familiar_cli.base.errors import FamiliarError, LockedError
from familiar_cli.base.files import TEMP_PREFIX, check_own, locked, remove, status_of, write_hint
from familiar_cli.base.sqlite import IdleConnection
from familiar_cli.base.text import bare_lines
from familiar_cli.store.fts import TOKENIZER

T = TypeVar("T")
FILE: Final = "embeddings.sqlite"
VERSION: Final = "10"
CHUNKER: Final = "4"
"""Changes with every rule of `chunking`, so that an index made by other rules is made again."""
BUSY_S: Final = 10.0
_FREE_BYTES: Final = 16 * 1024**2  # unused in the file, which are not worth the time to copy it
VECTORS_PREFIX: Final = "vectors-"
TOKENS_PREFIX: Final = "tokens-"
PASSAGE: Final = 0
LINE: Final = 1
_OTHER_VERSION: Final = "it came from another version of the program"
_OTHER_RULES: Final = "files are now split differently"
_TABLES: Final = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (            -- a file, or the part of it that the same people may see
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rel_path TEXT NOT NULL,
    audience TEXT NOT NULL,         -- JSON: the scopes of whoever sees this part of the file
    rules TEXT NOT NULL,            -- under what rules of privacy it was split into parts
    sha256 TEXT NOT NULL,           -- of the whole file
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    settled INTEGER NOT NULL,       -- 0: changed so lately that its times cannot be trusted yet
    title TEXT NOT NULL,
    day TEXT NOT NULL,
    instance TEXT NOT NULL,
    char_count INTEGER NOT NULL,
    words INTEGER NOT NULL DEFAULT 0,  -- in the full-text tables, and rows there
    passages INTEGER NOT NULL DEFAULT 0,
    passage_words INTEGER NOT NULL DEFAULT 0,
    lines INTEGER NOT NULL DEFAULT 0,
    line_words INTEGER NOT NULL DEFAULT 0,
    pinned INTEGER,                 -- 1: it is in every prompt; NULL: not looked at
    problem TEXT NOT NULL,          -- why the file could not be read, else empty
    UNIQUE (rel_path, audience)
);
CREATE INDEX documents_audience ON documents (audience);
CREATE INDEX documents_rules ON documents (rules);
CREATE INDEX documents_pinned ON documents (rel_path) WHERE pinned IS NOT 0;
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    level INTEGER NOT NULL,         -- 0 a passage, 1 a line
    heading_path TEXT NOT NULL,
    char_start INTEGER NOT NULL,
    char_end INTEGER NOT NULL,
    token_count INTEGER NOT NULL,
    text TEXT NOT NULL,
    speaker TEXT NOT NULL,
    part_first INTEGER NOT NULL,    -- a passage's lines, a line's passages: ids from … to
    part_last INTEGER NOT NULL,
    embed_key BLOB NOT NULL,        -- hash of what the encoder reads; empty for a passage
    vector_seq INTEGER,             -- the order in which vectors came; NULL while it waits for one
    rows_from INTEGER,              -- the first of its rows in the file of token vectors
    rows_count INTEGER,             -- how many; NULL where there are none
    vector BLOB                     -- float32, little-endian, L2-normalised; only lines have one
);
CREATE INDEX chunks_document ON chunks (document_id);
CREATE INDEX chunks_key ON chunks (embed_key);
CREATE INDEX chunks_seq ON chunks (vector_seq);
-- What a search reads of a thousand chunks, on few pages: the rows themselves are large.
CREATE INDEX chunks_brief ON chunks
    (id, level, document_id, speaker, part_first, part_last, rows_from, rows_count);
CREATE TABLE links (
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    target TEXT NOT NULL,
    PRIMARY KEY (document_id, target)
) WITHOUT ROWID;
CREATE INDEX links_target ON links (target);
CREATE TABLE names (
    name TEXT NOT NULL,
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    PRIMARY KEY (name, document_id)
) WITHOUT ROWID;
CREATE INDEX names_document ON names (document_id);
CREATE TABLE people (               -- who speaks in a file, or whose file it is
    name TEXT NOT NULL,             -- as it is looked up
    document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    head TEXT NOT NULL,             -- what the name begins with
    words INTEGER NOT NULL,
    chars INTEGER NOT NULL,
    is_part INTEGER NOT NULL,       -- 1: one word of a name of several
    PRIMARY KEY (name, document_id)
) WITHOUT ROWID;
CREATE INDEX people_head ON people (head, words, chars);
CREATE INDEX people_document ON people (document_id);
CREATE TABLE times (                -- what times a line speaks of, as days since the year 1
    line_id INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (line_id, first, last)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE documents_fts USING fts5 (title, body, tokenize = "{TOKENIZER}");
CREATE VIRTUAL TABLE passages_fts USING fts5 (title, body, tokenize = "{TOKENIZER}");
CREATE VIRTUAL TABLE lines_fts USING fts5 (title, body, tokenize = "{TOKENIZER}");
"""


class IndexUnusableError(FamiliarError):
    """The index cannot be read or written now; memory itself is untouched."""

    code = "index_unusable"


class _DamagedError(Exception):
    """The file proved damaged during use; it was deleted, and can be rebuilt."""


def use_index(
    directory: Path, idle: IdleConnection, action: Callable[[sqlite3.Connection], T]
) -> T:
    """Run `action` with a connection to the index in `directory`.

    What it leaves uncommitted is rolled back.

    An unusable file (another version, damaged, not an index) is replaced, and `action` starts
    again; the reason is in meta under `rebuilt`.

    Raises:
        IndexUnusableError: The directory or the file cannot be used, or another process holds it
            for longer than `BUSY_S`.
    """
    try:
        try:
            return _attempt_once(directory, idle, action, "")
        except _DamagedError:
            return _attempt_once(directory, idle, action, "it was damaged")
    except (sqlite3.Error, _DamagedError) as error:
        raise IndexUnusableError(
            f"The index in {str(directory)!r} cannot be used: {error}; memory is untouched",
            hint=sqlite.hint_for(
                sqlite.fault_of(error),
                "Try again, or delete it: `familiar index clear`.",
                directory,
            ),
        ) from error
    except OSError as error:
        raise unwritable_index(directory, error) from error


def unwritable_index(directory: Path, error: OSError) -> IndexUnusableError:
    """Return our error for a system error of writing the index."""
    return IndexUnusableError(
        f"The index in {str(directory)!r} cannot be written: {error.strerror or error}; "
        "memory is untouched",
        hint=write_hint(error.errno),
    )


def copy_if_unwritable(directory: Path, error: IndexUnusableError) -> sqlite3.Connection | None:
    """Return a copy in memory of an index on a disk that lets nothing be written."""
    path, cause = directory / FILE, error.__cause__
    if cause is None or not sqlite.is_unwritable(cause) or not path.is_file():
        return None
    address = f"{path.absolute().as_uri()}?immutable=1"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as fixed:
        return None if _why_old(_read_all_meta(fixed)) else sqlite.copy_into_memory(fixed)
    return None


def _attempt_once(
    directory: Path,
    idle: IdleConnection,
    action: Callable[[sqlite3.Connection], T],
    reason: str,
) -> T:
    path = directory / FILE
    opened = status_of(path)
    connection = idle.take(path, _is_usable) or _open_usable(directory, reason)
    try:
        answer = action(connection)
        connection.rollback()
    except sqlite3.DatabaseError as error:
        connection.close()
        if not sqlite.is_useless(error):
            raise
        _delete_files(directory)
        raise _DamagedError(str(error)) from error
    except BaseException:
        connection.close()
        raise
    idle.put_back(path, opened, connection)
    return answer


def database_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of the database, including what is still in its log."""
    pages, page_bytes = _pages_of(connection)
    return pages * page_bytes


def _pages_of(connection: sqlite3.Connection) -> tuple[int, int]:
    names = "page_count", "page_size"
    pages, size = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
    return pages, size


def shrink(connection: sqlite3.Connection) -> None:
    """Give unused room back where it is most of the file, as after a large page was deleted."""
    free = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
    pages, page_bytes = _pages_of(connection)
    if free > pages // 2 and free * page_bytes > _FREE_BYTES:
        with suppress(sqlite3.OperationalError):  # in use, or no room for the copy: another time
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def read_meta(connection: sqlite3.Connection, key: str) -> str:
    """Return the value stored under `key`, or an empty string."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""


def read_metas(connection: sqlite3.Connection, *keys: str) -> list[str]:
    """Return the values stored under `keys`, each empty if there is none."""
    marks = ",".join("?" * len(keys))
    select = f"SELECT key, value FROM meta WHERE key IN ({marks})"  # noqa: S608
    result = dict(connection.execute(select, keys))
    return [str(result.get(key, "")) for key in keys]


def changes_of(connection: sqlite3.Connection) -> str:
    """Return a stamp that changes with the indexed files."""
    return read_meta(connection, "changes")


def state_of(connection: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
    """Return a stamp that changes with anything in the pieces of the index."""
    keys = "('made', 'changes', 'model', 'next_seq', 'tokens', 'token_rows')"
    select = f"SELECT key, value FROM meta WHERE key IN {keys}"  # noqa: S608
    return tuple(connection.execute(select))


def set_meta(connection: sqlite3.Connection, **values: str) -> None:
    """Store `values`."""
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def clear_index(directory: Path) -> bool:
    """Delete the index; tell whether there was one.

    Raises:
        IndexUnusableError: The system refuses.
    """
    there = (directory / FILE).exists()
    try:
        _delete_files(directory)
    except OSError as error:
        raise IndexUnusableError(
            f"The index in {str(directory)!r} cannot be deleted: {error.strerror}",
            hint="Close other programs that use it, and try again.",
        ) from error
    return there


def _open_usable(directory: Path, reason: str) -> sqlite3.Connection:
    """Return a connection to a usable index, creating one if needed."""
    check_own(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE
    connection, _ = _open_checked(path)
    if connection is not None:
        return connection
    try:
        with locked(directory / "making.lock", BUSY_S):
            connection, why = _open_checked(path)
            if connection is not None:
                return connection
            if why in (_OTHER_VERSION, _OTHER_RULES):
                with suppress(sqlite3.Error):  # an index that resists is made from nothing
                    return _create_tables(_connect_to(path), why)
            _delete_files(directory)
            return _create_tables(_connect_to(path), reason or why)
    except LockedError as error:
        raise sqlite3.OperationalError("another process is building it") from error


def _open_checked(path: Path) -> tuple[sqlite3.Connection | None, str]:
    """Return a connection to the index at `path`, or None and why it is unusable."""
    if not path.exists():
        return None, ""
    connection = None
    try:
        connection = _connect_to(path)
        result = _read_all_meta(connection)
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        if not sqlite.is_useless(error):
            raise
        broken = sqlite.fault_of(error) is sqlite.Fault.damaged
        return None, "it was damaged" if broken else "it was not an index of this program"
    reason = _why_old(result)
    if reason:
        connection.close()
        return None, reason
    return connection, ""


def _is_usable(connection: sqlite3.Connection) -> bool:
    keys = "schema", "chunker", "tokenizer"
    return not _why_old(dict(zip(keys, read_metas(connection, *keys), strict=True)))


def _read_all_meta(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM meta"))


def _why_old(result: dict[str, str]) -> str:
    if result.get("schema") != VERSION:
        return _OTHER_VERSION
    if result.get("chunker") != CHUNKER or result.get("tokenizer") != TOKENIZER:
        return _OTHER_RULES
    return ""


def _connect_to(path: Path) -> sqlite3.Connection:
    connection = sqlite.connect_derived(path, BUSY_S)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection, reason: str) -> sqlite3.Connection:
    """Create the tables, replacing any others."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")  # the file remembers it
        connection.execute("PRAGMA foreign_keys = OFF")  # else rows are deleted one by one
        with sqlite.transaction(connection):
            sqlite.drop_tables(connection)
            for statement in _schema_statements():
                connection.execute(statement)
            set_meta(
                connection,
                schema=VERSION,
                chunker=CHUNKER,
                tokenizer=TOKENIZER,
                rebuilt=reason,
                made=os.urandom(8).hex(),
                model="",
                dimension="0",
            )
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _schema_statements() -> Iterator[str]:
    statement = ""
    for line in bare_lines(_TABLES):
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _delete_files(directory: Path) -> None:
    """Delete every file of the index in `directory`."""
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if path.name.startswith((FILE, VECTORS_PREFIX, TOKENS_PREFIX, TEMP_PREFIX)):
            remove(path)
