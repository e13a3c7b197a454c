"""What marks of several machines come to, whichever of them came here first.

Of marks on the same thing the one counts that was made in the knowledge of the most others; of two
that did not know of each other, that of the higher instance. At each place one turn stands. What
two machines kept of the same message is one: it shares a place.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.history.elsewhere import foreign_names
from familiar_cli.history.lines import TurnName
from familiar_cli.history.order import replaced_stand_with
from familiar_cli.history.speakers import recount
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

OWN: Final = "own"
_MARKS: Final = (
    "SELECT marks.turn_id, mark, value, clock, coalesce(instance, ?), coalesce(id_there, facts.id) "
    "FROM marks JOIN facts ON kind = 'mark' AND row_id = marks.id WHERE marks.turn_id IN"
)
_STATE: Final = "SELECT turn_id, superseded_by, withdrawn, hidden FROM set_aside WHERE turn_id IN"


def own_instance(connection: sqlite3.Connection) -> str:
    """Return the instance that this history knows itself as; empty: it never met another."""
    sql = "SELECT value FROM sync_state WHERE name = ?"
    found = connection.execute(sql, (OWN,)).fetchone()
    return str(found[0]) if found else ""


def slots_of(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, int]:
    """Return the turn at whose place each of these turns stands."""
    wanted = list(turn_ids)
    sql = "SELECT turn_id, slot FROM slots WHERE turn_id IN"
    return {i: i for i in wanted} | dict(rows_among(connection, sql, wanted))


def share_place(connection: sqlite3.Connection, own: str, one: int, other: int) -> None:
    """Let two turns that are the same message share the place of the one with the lower name."""
    one, other = (slots_of(connection, (i,))[i] for i in (one, other))
    if one == other:
        return
    names = {i: TurnName(own, i) for i in (one, other)} | foreign_names(connection, (one, other))
    first, second = sorted((one, other), key=names.__getitem__)
    connection.execute("UPDATE slots SET slot = ? WHERE slot = ?", (first, second))
    connection.execute("INSERT INTO slots VALUES (?, ?, 1)", (second, first))


def settle(
    connection: sqlite3.Connection, turn_ids: Iterable[int], was: Mapping[int, bool]
) -> list[int]:
    """Let marks come to the same for these turns, and all at their places, as on other machines.

    Args:
        connection: The history, inside a transaction.
        turn_ids: The turns.
        was: Of turns with new marks, whether they had been replaced or withdrawn before.

    Returns:
        The turns of which something has changed.
    """
    slots = sorted(set(slots_of(connection, turn_ids).values()))
    at_place: defaultdict[int, list[_Member]] = defaultdict(list)
    for slot in slots:
        at_place[slot].append(_Member(slot, is_node=True))
    sql = "SELECT slot, turn_id, is_node FROM slots WHERE slot IN"
    for slot, turn_id, is_node in rows_among(connection, sql, slots):
        at_place[slot].append(_Member(turn_id, bool(is_node)))
    members = [member.turn_id for found in at_place.values() for member in found]
    marks: defaultdict[int, list[_Mark]] = defaultdict(list)
    for row in rows_among(connection, _MARKS, members, (own_instance(connection),)):
        marks[row[0]].append(_Mark(row[3:], row[0], row[1], row[2]))
    wanted = {
        turn_id: state
        for slot, found in at_place.items()
        for turn_id, state in _settled(slot, found, marks).items()
    }
    changed = _write(connection, wanted, was)
    replaced_stand_with(connection, slots)
    return changed


@dataclass(frozen=True, slots=True)
class _Member:
    """A turn at a place; a node is there by itself, and did not take another's place."""

    turn_id: int
    is_node: bool


@dataclass(frozen=True, slots=True, order=True)
class _Mark:
    rank: tuple[Any, ...]
    turn_id: int
    mark: str
    value: int


_State = tuple[int, int, int | None]
_NOTHING: Final[_State] = (0, 0, None)


def _settled(
    slot: int, members: Sequence[_Member], marks: Mapping[int, list[_Mark]]
) -> dict[int, _State]:
    nodes = [member.turn_id for member in members if member.is_node]
    ranked = sorted(mark for m in members for mark in marks.get(m.turn_id, ()))
    standing, becomes = slot, dict[int, int]()
    for mark in ranked:
        if mark.mark == "superseded":
            standing = mark.value or mark.turn_id
            becomes[mark.turn_id] = mark.value
    standing = slot if standing in nodes else standing
    states = {}
    for member in members:
        turn_id = member.turn_id
        told = nodes if member.is_node else [turn_id]
        of_it = {mark.mark: mark.value for mark in ranked if mark.turn_id in told}
        by = 0 if turn_id == standing else becomes.get(turn_id, 0) or standing
        states[turn_id] = (by, of_it.get("withdrawn", 0), of_it.get("hidden"))
    return states


def _write(
    connection: sqlite3.Connection, wanted: Mapping[int, _State], was: Mapping[int, bool]
) -> list[int]:
    """Write down what became of turns, and count their authors again."""
    there = {row[0]: tuple(row[1:]) for row in rows_among(connection, _STATE, wanted)}
    changed = {i: state for i, state in wanted.items() if there.get(i, _NOTHING) != state}
    rows = [(turn_id, *state) for turn_id, state in changed.items()]
    connection.executemany("INSERT OR REPLACE INTO set_aside VALUES (?, ?, ?, ?)", rows)
    counts = {}
    for turn_id, (by, withdrawn, _) in wanted.items():
        before = was.get(turn_id, any(there.get(turn_id, _NOTHING)[:2]))
        if before != bool(by or withdrawn):
            counts[turn_id] = 1 if before else -1
    recount(connection, counts)
    return list(changed)


def remember_own(connection: sqlite3.Connection, own: str) -> None:
    """Write down which instance this history belongs to, for whoever decides between marks."""
    sql = "INSERT OR REPLACE INTO sync_state VALUES (?, ?)"
    if own_instance(connection) != own:
        connection.execute(sql, (OWN, own))
