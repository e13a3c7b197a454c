"""Tables of the history, and migrations from older schemas.

A migration loses nothing: a copy of the old file stays beside the new one, its tables are kept in
the new file as `legacy_<name>`, and each turn keeps its id, words and time.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from familiar_cli.base.files import Disk, remove
from familiar_cli.base.sqlite import connect
from familiar_cli.base.times.clock import parse_iso, since_1970
from familiar_cli.store.history.rows import COLUMNS, IMPORTED, SERVED, WRITER, in_ms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

PLATFORM: Final = "legacy-discord"
SOURCE: Final = "legacy"
UNDATED: Final = "legacy-undated"  # no readable time: use that of the turn before
_TIMES: Final = ("timestamp", "at_ms", "at", "created_at", "time")
_MILLISECONDS_FROM: Final = 10**11  # seconds reach this in the year 5138
_ROLES: Final = {"user", "assistant", "system"}


class OlderTable(NamedTuple):
    """A legacy table of turns, with its columns in lower case."""

    table: str
    columns: frozenset[str]


def list_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all tables that are not SQLite's own."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if not name.startswith("sqlite_")]


def find_turns(connection: sqlite3.Connection) -> OlderTable | None:
    """Return the legacy table of turns, or None if this is not a legacy history."""
    for table in sorted(list_tables(connection), key=lambda name: name.lower() != "turns"):
        described = connection.execute(f"PRAGMA table_info({_quote_name(table)})").fetchall()
        columns = frozenset(column[1].lower() for column in described)
        if {"role", "content"} <= columns and columns & {"speaker", "author_display_name"}:
            return OlderTable(table, columns)
    return None


def keep_copy(path: Path, version: int) -> None:
    """Copy the history to a file beside it, named after the version it is migrated to.

    Raises:
        OSError, sqlite3.Error: The copy failed, so nothing may be changed.
    """
    temporary = path.with_name(f"{path.name}.copy")
    remove(temporary)
    with (
        closing(connect(path, 5.0)) as old,
        closing(connect(temporary, 0)) as copy,
    ):
        old.backup(copy)
    aside = _free_name(path.with_name(f"{path.name}.before-v{version}"))
    Disk().replace(str(temporary), str(aside))


def set_aside(connection: sqlite3.Connection) -> OlderTable | None:
    """Rename all plain tables to `legacy_<name>`; return the one with turns, if any."""
    old = find_turns(connection)
    for index in _own_indexes(connection):
        connection.execute(f"DROP INDEX {_quote_name(index)}")
    for table in _plain_tables(connection):
        new = _quote_name(f"legacy_{table}")
        connection.execute(f"ALTER TABLE {_quote_name(table)} RENAME TO {new}")
    return old._replace(table=f"legacy_{old.table}") if old else None


def copy_turns(connection: sqlite3.Connection, old: OlderTable) -> None:
    """Copy every legacy turn into `turns`, in the order of their ids, which they keep."""
    names = ["id" if "id" in old.columns else "rowid", *sorted(old.columns - {"id"})]
    listed = ", ".join(_quote_name(name) if name != "rowid" else name for name in names)
    sql = f"SELECT {listed} FROM {_quote_name(old.table)} ORDER BY 1"  # noqa: S608  # quoted names
    wanted = f"id, {', '.join(COLUMNS)}"
    marks = ", ".join("?" * (len(COLUMNS) + 1))
    at_ms = 0
    for values in connection.execute(sql).fetchall():
        found = dict(zip(names, values, strict=True))
        time_ms = _time_ms(found)
        at_ms = at_ms if time_ms is None else time_ms
        row = _author_row(found, at_ms, UNDATED if time_ms is None else SOURCE)
        connection.execute(f"INSERT INTO turns ({wanted}) VALUES ({marks})", (values[0], *row))  # noqa: S608


def _author_row(found: dict[str, Any], at_ms: int, source: str) -> tuple[Any, ...]:
    role = str(found["role"]).lower()
    role = role if role in _ROLES else "user"
    channel = found.get("channel_id")
    return (
        "legacy" if channel is None else _packed_text(channel),
        *(_author_values(found) if role == "user" else (None,) * 4),
        role,
        _packed_text(found["content"]),
        at_ms,
        "voice" if "voice" in str(found.get("modality") or found.get("mode") or "") else "text",
        source,
        0,
    )


def _author_values(found: dict[str, Any]) -> tuple[Any, ...]:
    """Return platform, user id, username and display name; all None without an author."""
    platform, user_id = found.get("author_platform"), found.get("author_user_id")
    shown = found.get("author_display_name") or found.get("speaker")
    username = found.get("author_username")
    if platform is None or user_id is None:
        platform, user_id = PLATFORM, shown or username
    if user_id is None:
        return (None,) * 4
    names = (None if name is None else _packed_text(name) for name in (username, shown))
    return (_packed_text(platform), _packed_text(user_id), *names)


def _time_ms(found: dict[str, Any]) -> int | None:
    """Return the turn's time in milliseconds since 1970, or None if it is unreadable."""
    value = next((found[name] for name in _TIMES if found.get(name) is not None), None)
    try:
        if isinstance(value, int | float):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return in_ms(since_1970(seconds))
        return in_ms(parse_iso(str(value)))
    except (ValueError, OverflowError, OSError):
        return None


def _plain_tables(connection: sqlite3.Connection) -> list[str]:
    """Return all tables except virtual ones and their shadow tables."""
    sql = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL %'"
    virtual = [name for (name,) in connection.execute(sql)]
    belong = tuple(f"{name}_" for name in virtual)
    return [t for t in list_tables(connection) if t not in virtual and not t.startswith(belong)]


def _own_indexes(connection: sqlite3.Connection) -> list[str]:
    """Return the explicitly created indexes; they are derived, and their names may be needed."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    return [name for (name,) in connection.execute(sql)]


def _free_name(path: Path) -> Path:
    taken, number = path, 1
    while taken.exists():
        number += 1
        taken = path.with_name(f"{path.name}.{number}")
    return taken


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _packed_text(value: Any) -> str | bytes:  # noqa: ANN401  # a column of any type
    return value if isinstance(value, str | bytes) else str(value)


APPLICATION_ID: Final = 0x66616D69  # "fami": identifies the file as ours


def _refusing_trigger(table: str, change: str, done: str, what: str, verb: str = "are") -> str:
    """Return a trigger that refuses to change or delete rows of a table."""
    return (
        f"CREATE TRIGGER IF NOT EXISTS {table}_{verb}_never_{done} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{what} is never {done}'); END"
    )


VERSION_1: Final = (
    """CREATE TABLE turns (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel_id TEXT NOT NULL,
        author_platform TEXT,
        author_user_id TEXT,
        author_username TEXT,
        author_display_name TEXT,
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
        content TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        modality TEXT NOT NULL,
        source TEXT NOT NULL,
        partial INTEGER NOT NULL DEFAULT 0,
        CHECK ((author_platform IS NULL) = (author_user_id IS NULL))
    )""",
    "CREATE INDEX turns_of_channel ON turns (channel_id, id)",
    """CREATE TRIGGER turns_are_never_changed BEFORE UPDATE ON turns
        BEGIN SELECT RAISE(ABORT, 'a turn is never changed'); END""",
    """CREATE TRIGGER turns_are_never_deleted BEFORE DELETE ON turns
        BEGIN SELECT RAISE(ABORT, 'a turn is never deleted'); END""",
    """CREATE TRIGGER turns_are_never_replaced BEFORE INSERT ON turns
        WHEN EXISTS (SELECT 1 FROM turns WHERE id = NEW.id)
        BEGIN SELECT RAISE(ABORT, 'a turn is never replaced'); END""",
    """CREATE TABLE watermarks (
        name TEXT PRIMARY KEY,
        turn_id INTEGER NOT NULL
    )""",
)

_SPEAKERS: Final = (
    """CREATE TABLE speakers (
        channel_id TEXT NOT NULL,
        author_platform TEXT NOT NULL,
        author_user_id TEXT NOT NULL,
        turns INTEGER NOT NULL,
        last_id INTEGER NOT NULL,
        PRIMARY KEY (channel_id, author_platform, author_user_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX speakers_of_channel ON speakers (channel_id, last_id)",
    """INSERT INTO speakers
        SELECT channel_id, author_platform, author_user_id, count(*), max(id) FROM turns
        WHERE author_platform IS NOT NULL GROUP BY 1, 2, 3""",
    """CREATE TRIGGER speakers_are_counted AFTER INSERT ON turns
        WHEN NEW.author_platform IS NOT NULL
        BEGIN
            INSERT INTO speakers VALUES
                (NEW.channel_id, NEW.author_platform, NEW.author_user_id, 1, NEW.id)
            ON CONFLICT DO UPDATE SET turns = turns + 1, last_id = max(last_id, excluded.last_id);
        END""",
)

_SUMMARIES: Final = (
    """CREATE TABLE summaries (
        scope TEXT NOT NULL,
        last_turn_id INTEGER NOT NULL,
        text TEXT NOT NULL,
        made_at_ms INTEGER NOT NULL,
        model TEXT NOT NULL,
        cut INTEGER NOT NULL,
        PRIMARY KEY (scope, last_turn_id)
    )""",
    """CREATE TABLE summary_channels (
        scope TEXT NOT NULL,
        channel_id TEXT NOT NULL,
        PRIMARY KEY (scope, channel_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE summary_state (
        scope TEXT PRIMARY KEY,
        wanted_id INTEGER NOT NULL DEFAULT 0
    )""",
)

_EXTRAS_UNCHANGED: Final = _refusing_trigger(
    "turn_extras", "UPDATE", "changed", "what a source said"
)
_EXTRAS: Final = (
    "ALTER TABLE turns ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        key TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        format TEXT NOT NULL,
        name TEXT NOT NULL,
        head TEXT NOT NULL
    )""",
    "CREATE INDEX chats_of_channel ON chats (channel_id, id)",
    """CREATE TABLE turn_extras (
        turn_id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        identity BLOB NOT NULL,
        estimated INTEGER NOT NULL,
        raw TEXT NOT NULL
    )""",
    "CREATE INDEX turn_extras_by_identity ON turn_extras (identity)",
    _EXTRAS_UNCHANGED,
    _refusing_trigger("turn_extras", "DELETE", "deleted", "what a source said"),
)

_ELSEWHERE: Final = (
    """CREATE TABLE elsewhere (
        turn_id INTEGER PRIMARY KEY,
        instance TEXT NOT NULL,
        id_there INTEGER NOT NULL,
        after INTEGER NOT NULL,
        more TEXT NOT NULL DEFAULT '',
        UNIQUE (instance, id_there)
    )""",
    _refusing_trigger("elsewhere", "UPDATE", "changed", "the origin of a turn", "is"),
    _refusing_trigger("elsewhere", "DELETE", "deleted", "the origin of a turn", "is"),
    "CREATE TABLE sync_state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE turn_files (
        instance TEXT NOT NULL,
        rel_path TEXT NOT NULL,
        through INTEGER NOT NULL,
        PRIMARY KEY (instance, rel_path)
    ) WITHOUT ROWID""",
    """CREATE TABLE lines_waiting (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        instance TEXT NOT NULL,
        line TEXT NOT NULL,
        needs_instance TEXT NOT NULL,
        needs_id INTEGER NOT NULL,
        UNIQUE (instance, line)
    )""",
    "CREATE INDEX lines_waiting_for ON lines_waiting (needs_instance, needs_id)",
)

_EVENTS: Final = (
    """CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        subject TEXT,
        turn_id INTEGER,
        value,
        at_ms INTEGER,
        clock INTEGER NOT NULL,
        instance TEXT,
        id_there INTEGER,
        UNIQUE (instance, id_there)
    )""",
    "CREATE INDEX events_of_turn ON events (turn_id) WHERE turn_id IS NOT NULL",
    "CREATE INDEX events_of_subject ON events (kind, subject) WHERE subject IS NOT NULL",
    "CREATE INDEX events_by_clock ON events (clock)",
    _refusing_trigger(
        "events", "UPDATE OF kind, subject, turn_id, value, at_ms, clock", "changed", "an event"
    ),
    _refusing_trigger("events", "DELETE", "deleted", "an event"),
    """CREATE TABLE branches (
        channel_id TEXT PRIMARY KEY,
        parent TEXT NOT NULL,
        turn_id INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX branches_of_parent ON branches (parent)",
    """CREATE TABLE IF NOT EXISTS set_aside (
        turn_id INTEGER PRIMARY KEY,
        superseded_by INTEGER NOT NULL DEFAULT 0,
        withdrawn INTEGER NOT NULL DEFAULT 0,
        hidden INTEGER
    )""",
    """CREATE TABLE IF NOT EXISTS places (
        turn_id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        place INTEGER NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS places_by_place ON places (place, channel_id)",
    "CREATE INDEX IF NOT EXISTS places_of_channel ON places (channel_id, place)",
    """CREATE TABLE IF NOT EXISTS slots (
        turn_id INTEGER PRIMARY KEY,
        slot INTEGER NOT NULL,
        is_node INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX IF NOT EXISTS slots_by_slot ON slots (slot)",
    "CREATE TABLE IF NOT EXISTS channels_set_aside (channel_id TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE VIEW IF NOT EXISTS shown AS SELECT * FROM turns
        WHERE NOT EXISTS (SELECT 1 FROM set_aside
            WHERE turn_id = turns.id AND (superseded_by OR withdrawn))
        AND channel_id NOT IN (SELECT channel_id FROM channels_set_aside)""",
    """CREATE VIEW IF NOT EXISTS standing AS SELECT * FROM shown
        WHERE NOT coalesce((SELECT hidden FROM set_aside WHERE turn_id = shown.id), hidden)""",
)

_MESSAGES: Final = (
    """CREATE TABLE IF NOT EXISTS message_ids (
        channel_id TEXT NOT NULL,
        message_id TEXT NOT NULL,
        turn_id INTEGER NOT NULL UNIQUE,
        PRIMARY KEY (channel_id, message_id)
    )""",
    """CREATE TABLE IF NOT EXISTS replies (
        turn_id INTEGER PRIMARY KEY,
        reply_to INTEGER NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS replies_by_question ON replies (reply_to)",
    *(
        _refusing_trigger(table, change, done, "what a turn is to others")
        for table in ("message_ids", "replies")
        for change, done in (("UPDATE", "changed"), ("DELETE", "deleted"))
    ),
)

_UNREAD: Final = (
    "CREATE TABLE unread (turn_id INTEGER PRIMARY KEY, imported INTEGER NOT NULL)",
    "CREATE INDEX unread_said_here ON unread (turn_id) WHERE NOT imported",
    f"""CREATE TRIGGER turns_are_unread AFTER INSERT ON turns
        BEGIN INSERT INTO unread VALUES (NEW.id, NEW.source = '{IMPORTED}'); END""",  # noqa: S608  # our own name
)

_ONE_TO_ONE: Final = (
    # No row: nobody has spoken in the channel yet. NULL: several people have.
    """CREATE TABLE only_speakers (
        channel_id TEXT PRIMARY KEY,
        platform TEXT,
        user_id TEXT
    ) WITHOUT ROWID""",
    """CREATE TABLE one_to_one (
        turn_id INTEGER PRIMARY KEY,
        platform TEXT NOT NULL,
        user_id TEXT NOT NULL
    )""",
    # Channels from before this was recorded stay as they were.
    "INSERT INTO only_speakers SELECT DISTINCT channel_id, NULL, NULL FROM speakers",
    # A branch starts with the state of its parent at the branch point.
    """CREATE TRIGGER only_speakers_are_noted AFTER INSERT ON turns
        BEGIN
            INSERT OR IGNORE INTO only_speakers SELECT NEW.channel_id,
                coalesce(said.platform, parent.platform), coalesce(said.user_id, parent.user_id)
                FROM branches
                LEFT JOIN one_to_one AS said ON said.turn_id = branches.turn_id
                JOIN only_speakers AS parent ON parent.channel_id = branches.parent
                WHERE branches.channel_id = NEW.channel_id;
            INSERT OR IGNORE INTO only_speakers
                SELECT NEW.channel_id, NEW.author_platform, NEW.author_user_id
                WHERE NEW.author_platform IS NOT NULL;
            UPDATE only_speakers SET platform = NULL, user_id = NULL
                WHERE channel_id = NEW.channel_id AND platform IS NOT NULL
                AND (platform, user_id) != (NEW.author_platform, NEW.author_user_id);
            INSERT OR IGNORE INTO one_to_one SELECT NEW.id, platform, user_id FROM only_speakers
                WHERE channel_id = NEW.channel_id AND platform IS NOT NULL;
        END""",
)

FIRST_CHARACTERS: Final = "substr(content, 1, 24)"
"""What an index holds of each text that came through the server."""

_CHAT_LOOKUPS: Final = (
    "ALTER TABLE chats ADD COLUMN beginning BLOB",
    "CREATE INDEX chats_by_beginning ON chats (beginning)",
    "CREATE INDEX chats_by_name ON chats (name, format)",
    f"CREATE INDEX turns_by_beginning ON turns ({FIRST_CHARACTERS}) WHERE source = '{SERVED}'",
)

_OLDER: Final = {
    "chats": ("chat", "'chat', key, NULL, NULL, NULL"),
    "marks": ("mark", "mark, NULL, turn_id, value, at_ms"),
    "channel_marks": ("channel mark", "'channel', channel_id, NULL, withdrawn, at_ms"),
    "branches": ("branch", "'branch', channel_id, turn_id, parent, at_ms"),
}
"""By table of an older history, what its `facts` call the rows, and what they are as events."""

OLDER_TABLES: Final = ("marks", "channel_marks", "branches", "facts")
"""What an older history has in place of the log of events."""


def _to_version_1(connection: sqlite3.Connection) -> None:
    old = set_aside(connection)
    for statement in VERSION_1:
        connection.execute(statement)
    if old:
        copy_turns(connection, old)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def add_events(connection: sqlite3.Connection) -> None:
    """Create the event log in an older history, filled from what that recorded."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if "events" in tables:
        return
    older = list[tuple[Any, ...]]()
    for table, (kind, columns) in _OLDER.items():
        of_it = f"NULL, {columns}, NULL, NULL, NULL FROM {table} ORDER BY id"
        if "facts" in tables:
            of_it = (
                f"facts.id, {columns}, clock, instance, id_there FROM facts JOIN {table} "
                f"ON facts.kind = '{kind}' AND row_id = {table}.id ORDER BY facts.id"
            )
        older += connection.execute(f"SELECT {of_it}").fetchall() if table in tables else ()
    for name in OLDER_TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for name in ("chats_are_noted", "chats_are_noted_again"):
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    for statement in _EVENTS:
        connection.execute(statement)
    if "places" in tables and "slots" not in tables:
        sql = "INSERT INTO slots SELECT turn_id, place, 0 FROM places WHERE place != turn_id"
        connection.execute(sql)
    numbered = [
        (*((n, *row[1:6], n) if row[0] is None else row[:7]), *row[7:])
        for n, row in enumerate(older, 1)
    ]
    connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", numbered)
    sql = (  # the last one counts
        "INSERT OR REPLACE INTO branches SELECT subject, value, turn_id FROM events "
        "WHERE kind = 'branch' ORDER BY clock, coalesce(instance, (SELECT value FROM sync_state "
        "WHERE name = 'own')), id"
    )
    connection.execute(sql)


def _add_unread(connection: sqlite3.Connection) -> None:
    """Create the table from the watermark and ranges of an older version."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'waiting'"
    has_ranges = connection.execute(sql).fetchone() is not None
    left = (
        " OR EXISTS (SELECT 1 FROM waiting WHERE waiting.channel_id = turns.channel_id "
        "AND id BETWEEN first_id AND last_id AND imported = (source = ?1))"
    )
    for statement in _UNREAD:
        connection.execute(statement)
    sql = (
        "INSERT INTO unread SELECT id, source = ?1 FROM turns WHERE (id > coalesce("  # noqa: S608
        f"(SELECT turn_id FROM watermarks WHERE name = ?2), 0){left if has_ranges else ''}) "
        "AND NOT EXISTS (SELECT 1 FROM elsewhere WHERE elsewhere.turn_id = id AND NOT EXISTS "
        "(SELECT 1 FROM sync_state WHERE name = 'handed:' || instance))"
    )
    connection.execute(sql, (IMPORTED, WRITER))
    connection.execute("DROP TABLE IF EXISTS waiting")


def _number_equal_lines(connection: sqlite3.Connection) -> None:
    """Number each instance's equal lines, in order, in a history without such numbers."""
    connection.execute("ALTER TABLE turn_extras ADD COLUMN nth INTEGER NOT NULL DEFAULT 1")
    sql = (
        "SELECT nth, turn_id FROM (SELECT turn_extras.turn_id, row_number() OVER (PARTITION BY "
        "identity, instance ORDER BY coalesce(id_there, turn_extras.turn_id)) AS nth "
        "FROM turn_extras LEFT JOIN elsewhere USING (turn_id)) WHERE nth > 1"
    )
    repeated = connection.execute(sql).fetchall()
    connection.execute("DROP TRIGGER turn_extras_are_never_changed")
    connection.executemany("UPDATE turn_extras SET nth = ? WHERE turn_id = ?", repeated)
    connection.execute(_EXTRAS_UNCHANGED)


def _statements_step(*statements: str) -> Callable[[sqlite3.Connection], None]:
    """Build a migration step that executes statements."""

    def step(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return step


def _to_version_7(connection: sqlite3.Connection) -> None:
    _statements_step(*_ELSEWHERE)(connection)
    add_events(connection)


def _to_version_11(connection: sqlite3.Connection) -> None:
    _statements_step(*_MESSAGES)(connection)
    add_events(connection)
    _number_equal_lines(connection)
    connection.execute("DROP TABLE IF EXISTS claims")  # locks, before they were files


# The step at index n migrates version n to n + 1. What versions 5 and
# 6 added is created with the event log, which replaced it.
MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _to_version_1,
    _statements_step(*_SPEAKERS),
    _statements_step(*_SUMMARIES),
    _statements_step(*_EXTRAS),
    _statements_step(),
    _statements_step(),
    _to_version_7,
    _statements_step(
        "CREATE INDEX turns_by_time ON turns (at_ms, author_platform, author_user_id)"
    ),
    _add_unread,
    _statements_step(*_ONE_TO_ONE),
    _to_version_11,
    _statements_step(*_CHAT_LOOKUPS),
)
