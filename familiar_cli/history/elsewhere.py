"""What several machines need to speak of the same turns: which came from elsewhere, and from where.

A turn has a number in this file, and between machines a name: the instance that wrote it down, and
its number there. Turns that were written down here need no row. `slots` says which turns stand at
one place, of which at most one is shown; `facts` numbers all else that is true of a conversation,
so that each machine can tell which of two marks was made in the knowledge of the other.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.history.lines import TurnName
from familiar_cli.sqlite import rows_among

__all__ = ["TurnName", "foreign_names", "ids_of", "local_ids", "names_of", "origins"]

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from familiar_cli.history.store import HistoryStore

SLOT: Final = "coalesce((SELECT slot FROM slots WHERE slots.turn_id = {0}), {0})"
"""The turn whose place a turn shares, in SQL."""

_NEXT: Final = "coalesce((SELECT max(clock) FROM facts), 0) + 1"
_NOTED: Final = """CREATE TRIGGER {table}_are_noted{change} AFTER {event} ON {table}
    BEGIN INSERT INTO facts (kind, row_id, clock) VALUES ('{kind}', NEW.id, {next}); END"""
_KINDS: Final = (
    ("chats", "chat"),
    ("marks", "mark"),
    ("channel_marks", "channel mark"),
    ("branches", "branch"),
)
TABLES: Final = (
    """CREATE TABLE elsewhere (
        turn_id INTEGER PRIMARY KEY,
        instance TEXT NOT NULL,
        id_there INTEGER NOT NULL,
        after INTEGER NOT NULL,
        more TEXT NOT NULL DEFAULT '',
        UNIQUE (instance, id_there)
    )""",
    """CREATE TRIGGER elsewhere_is_never_changed BEFORE UPDATE ON elsewhere
        BEGIN SELECT RAISE(ABORT, 'the origin of a turn is never changed'); END""",
    """CREATE TRIGGER elsewhere_is_never_deleted BEFORE DELETE ON elsewhere
        BEGIN SELECT RAISE(ABORT, 'the origin of a turn is never deleted'); END""",
    """CREATE TABLE slots (
        turn_id INTEGER PRIMARY KEY,
        slot INTEGER NOT NULL,
        is_node INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX slots_by_slot ON slots (slot)",
    "INSERT INTO slots (turn_id, slot) SELECT turn_id, place FROM places WHERE place != turn_id",
    "DROP TRIGGER marks_are_summed_up",
    f"""CREATE TRIGGER marks_are_summed_up AFTER INSERT ON marks
        BEGIN
            INSERT OR IGNORE INTO set_aside (turn_id) VALUES (NEW.turn_id);
            UPDATE set_aside SET
                superseded_by = iif(NEW.mark = 'superseded', NEW.value, superseded_by),
                withdrawn = iif(NEW.mark = 'withdrawn', NEW.value, withdrawn),
                hidden = iif(NEW.mark = 'hidden', NEW.value, hidden)
            WHERE turn_id = NEW.turn_id;
            INSERT OR IGNORE INTO slots (turn_id, slot)
                SELECT id, {SLOT.format("NEW.turn_id")} FROM turns
                WHERE NEW.mark = 'superseded' AND id = NEW.value
                AND id != {SLOT.format("NEW.turn_id")};
            INSERT OR REPLACE INTO places SELECT turns.id, channel_id,
                coalesce((SELECT place FROM places WHERE turn_id = slot), slot)
                FROM turns JOIN slots ON slots.turn_id = turns.id AND NOT is_node
                WHERE NEW.mark = 'superseded' AND turns.id = NEW.value;
        END""",  # noqa: S608  # our own names
    """CREATE TABLE facts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        row_id INTEGER NOT NULL,
        clock INTEGER NOT NULL,
        instance TEXT,
        id_there INTEGER,
        UNIQUE (instance, id_there)
    )""",
    "CREATE INDEX facts_by_row ON facts (kind, row_id)",
    "CREATE INDEX facts_by_clock ON facts (clock)",
    *(
        f"INSERT INTO facts (kind, row_id, clock) SELECT '{kind}', id, "  # noqa: S608  # our own
        f"row_number() OVER (ORDER BY id) + {_NEXT} - 1 FROM {table}"
        for table, kind in _KINDS
    ),
    *(
        _NOTED.format(table=table, change="", event="INSERT", kind=kind, next=_NEXT)
        for table, kind in _KINDS
    ),
    _NOTED.format(
        table="chats", change="_again", event="UPDATE OF head, name", kind="chat", next=_NEXT
    ),
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


def add(connection: sqlite3.Connection) -> None:
    """Make the tables of a history that has none."""
    for statement in TABLES:
        connection.execute(statement)


def names_of(history: HistoryStore, own: str, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the shared ids of turns; turns that do not exist are left out.

    Args:
        history: The history.
        own: The instance that this is.
        turn_ids: Their numbers here.
    """
    wanted = sorted(set(turn_ids))
    with history.use(create=False) as connection:
        if connection is None:
            return {}
        there = (
            row[0] for row in rows_among(connection, "SELECT id FROM turns WHERE id IN", wanted)
        )
        return {i: TurnName(own, i) for i in there} | foreign_names(connection, wanted)


def ids_of(history: HistoryStore, own: str, names: Iterable[TurnName]) -> dict[TurnName, int]:
    """Return the numbers that turns have here; those that are not here are left out.

    Args:
        history: The history.
        own: The instance that this is.
        names: What they are called between machines.
    """
    with history.use(create=False) as connection:
        return local_ids(connection, own, names) if connection else {}


def origins(history: HistoryStore, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the names of those of these turns that another instance wrote down."""
    with history.use(create=False) as connection:
        return foreign_names(connection, sorted(set(turn_ids))) if connection else {}


def foreign_names(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the names of those turns that came from elsewhere."""
    sql = "SELECT turn_id, instance, id_there FROM elsewhere WHERE turn_id IN"
    rows = rows_among(connection, sql, turn_ids)
    return {turn_id: TurnName(instance, there) for turn_id, instance, there in rows}


def local_ids(
    connection: sqlite3.Connection, own: str, names: Iterable[TurnName]
) -> dict[TurnName, int]:
    """Return the numbers that turns have here; see `ids_of`."""
    by_instance: defaultdict[str, set[int]] = defaultdict(set)
    for instance, there in names:
        by_instance[instance].add(there)
    found: dict[TurnName, int] = {}
    for instance, wanted in by_instance.items():
        sql = "SELECT id_there, turn_id FROM elsewhere WHERE instance = ? AND id_there IN"
        rows = rows_among(connection, sql, sorted(wanted), (instance,))
        found |= {TurnName(instance, there): turn_id for there, turn_id in rows}
    if own in by_instance:
        sql = (
            "SELECT id FROM turns WHERE NOT EXISTS (SELECT 1 FROM elsewhere WHERE turn_id = id) "
            "AND id IN"
        )
        rows = rows_among(connection, sql, sorted(by_instance[own]))
        found |= {TurnName(own, row[0]): row[0] for row in rows}
    return found
