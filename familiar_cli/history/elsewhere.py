"""What several machines need to speak of the same turns: which came from elsewhere, and from where.

A turn has a number in this file, and between machines a name: the instance that wrote it down, and
its number there. Turns that were written down here need no row.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.history.lines import TurnName
from familiar_cli.sqlite import rows_among

__all__ = ["TurnName", "foreign_names", "ids_of", "local_ids", "names_of", "origins", "turn_names"]

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

    from familiar_cli.history.file import HistoryFile

OWN: Final = "own"
"""In `sync_state`: which instance this history knows itself as."""


def names_of(history: HistoryFile, own: str, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the shared ids of turns; turns that do not exist are left out.

    Args:
        history: The history.
        own: The instance that this is.
        turn_ids: Their numbers here.
    """
    wanted = sorted(set(turn_ids))
    with history.use(create=False) as connection:
        there = (
            row[0] for row in rows_among(connection, "SELECT id FROM turns WHERE id IN", wanted)
        )
        return turn_names(connection, own, list(there))


def ids_of(history: HistoryFile, own: str, names: Iterable[TurnName]) -> dict[TurnName, int]:
    """Return the numbers that turns have here; those that are not here are left out.

    Args:
        history: The history.
        own: The instance that this is.
        names: What they are called between machines.
    """
    with history.use(create=False) as connection:
        return local_ids(connection, own, names)


def origins(history: HistoryFile, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the names of those of these turns that another instance wrote down."""
    with history.use(create=False) as connection:
        return foreign_names(connection, sorted(set(turn_ids)))


def foreign_names(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the names of those turns that came from elsewhere."""
    sql = "SELECT turn_id, instance, id_there FROM elsewhere WHERE turn_id IN"
    rows = rows_among(connection, sql, turn_ids)
    return {turn_id: TurnName(instance, there) for turn_id, instance, there in rows}


def turn_names(
    connection: sqlite3.Connection, own: str, turn_ids: Collection[int]
) -> dict[int, TurnName]:
    """Return the names of turns that exist; see `names_of`."""
    return {i: TurnName(own, i) for i in turn_ids} | foreign_names(connection, turn_ids)


def own_instance(connection: sqlite3.Connection) -> str:
    """Return the instance that this history knows itself as; empty: it never met another."""
    sql = "SELECT value FROM sync_state WHERE name = ?"
    found = connection.execute(sql, (OWN,)).fetchone()
    return str(found[0]) if found else ""


def remember_own(connection: sqlite3.Connection, own: str) -> None:
    """Write down which instance this history belongs to, for whoever decides between marks."""
    sql = "INSERT OR REPLACE INTO sync_state VALUES (?, ?)"
    if own_instance(connection) != own:
        connection.execute(sql, (OWN, own))


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
