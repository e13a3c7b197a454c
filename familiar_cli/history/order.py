"""The one order of turns on every machine, whichever of them came here first.

Each turn follows the one that was last when it was written down, on the machine where that was. So
turns form a tree; its order is each turn, and then all that follows it, and of several that follow
the same one the lower instance first, with all of its own. What two machines said at the same time
does not mix, nothing stands before what it was said in the knowledge of, and neither a clock nor
the moment of arrival decides.

A turn that was written down here follows the one that is last of those with lower numbers. The
places of turns are their numbers, in another order where machines went on from the same turn.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.history.elsewhere import turn_names
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from familiar_cli.history.lines import TurnName

_LAST: Final = 2**63 - 1
_HOME: Final = "NOT EXISTS (SELECT 1 FROM places WHERE places.turn_id = turns.id)"
_MOVED: Final = (
    "SELECT turn_id FROM places WHERE NOT EXISTS "
    "(SELECT 1 FROM slots WHERE slots.turn_id = places.turn_id AND NOT is_node)"
)
"""The turns that do not stand at their own numbers, and took no other's place."""


def predecessor(connection: sqlite3.Connection, turn_id: int) -> int:
    """Return the turn that is last of those with lower numbers; 0: there are none."""
    sql = f"SELECT id FROM turns WHERE id < ? AND {_HOME} ORDER BY id DESC LIMIT 1"  # noqa: S608
    (home,) = connection.execute(sql, (turn_id,)).fetchone() or (0,)
    sql = f"{_MOVED} AND turn_id < ? AND place > ? ORDER BY place DESC LIMIT 1"
    (moved,) = connection.execute(sql, (turn_id, home)).fetchone() or (0,)
    return int(moved or home)


def weave(connection: sqlite3.Connection, own: str, new: Sequence[int]) -> int | None:
    """Give turns that came from elsewhere their places among all others.

    Args:
        connection: The history, inside a transaction.
        own: The instance that this is.
        new: The turns, which have the highest numbers, in the order of their numbers.

    Returns:
        The first place at which another turn stands than before; None: all went to the end.
    """
    if not new:
        return None
    follows = _follows(connection, new)
    last = predecessor(connection, new[0])
    home = 0
    while home < len(new) and follows[new[home]] == last:
        last = new[home]
        home += 1
    rest = new[home:]
    return _rearranged(connection, own, rest, follows) if rest else None


def weave_all(connection: sqlite3.Connection, own: str) -> int | None:
    """Give all turns their places again, as after a change of names; see `weave`."""
    return _rearranged(connection, own, (), {})


def replaced_stand_with(connection: sqlite3.Connection, slots: Iterable[int]) -> None:
    """Let all that share a turn's place stand where that turn does now."""
    select = (
        "SELECT slots.turn_id, turns.channel_id, coalesce(place, slot) FROM slots "
        "JOIN turns ON turns.id = slots.turn_id LEFT JOIN places ON places.turn_id = slot "
        "WHERE NOT is_node AND slot IN"
    )
    rows = list(rows_among(connection, select, slots))
    connection.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", rows)


def place_in(connection: sqlite3.Connection, turn_id: int) -> int:
    """Return where a turn stands; 0 for turn 0."""
    sql = "SELECT place FROM places WHERE turn_id = ?"
    found = connection.execute(sql, (turn_id,)).fetchone()
    return int(found[0]) if found else turn_id


def _follows(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, int]:
    sql = "SELECT turn_id, after FROM elsewhere WHERE turn_id IN"
    return dict(rows_among(connection, sql, turn_ids))


def _rearranged(
    connection: sqlite3.Connection, own: str, new: Sequence[int], follows: Mapping[int, int]
) -> int | None:
    """Put turns where they belong, and all that stands after them behind them."""
    arriving = set(new)
    starts = (place_in(connection, follows[i]) for i in new if follows[i] not in arriving)
    start = min(starts, default=0)
    before = _tail(connection, start, new[0] if new else _LAST)
    parents = _parents(connection, before) | {i: follows[i] for i in new}
    root = _at(connection, start)
    names = turn_names(connection, own, parents)
    order = _in_order(root, parents, names, sorted(before, key=before.__getitem__))
    places = sorted([*before.values(), *new])
    moved = [(i, at) for i, at in zip(order, places, strict=True) if before.get(i) != at]
    _stand(connection, moved)
    return min(at for _, at in moved) if moved else None


def _tail(connection: sqlite3.Connection, start: int, end: int) -> dict[int, int]:
    """Return turns with numbers below `end` that stand after a place, and where."""
    sql = f"SELECT id, id FROM turns WHERE id > ? AND id < ? AND {_HOME}"  # noqa: S608
    at_home = connection.execute(sql, (start, end)).fetchall()
    sql = _MOVED.replace("turn_id", "turn_id, place", 1) + " AND place > ? AND turn_id < ?"
    return dict([*at_home, *connection.execute(sql, (start, end))])


def _at(connection: sqlite3.Connection, place: int) -> int:
    """Return the turn at a place; 0 for place 0."""
    found = connection.execute(f"{_MOVED} AND place = ?", (place,)).fetchone()
    return int(found[0]) if found else place


def _parents(connection: sqlite3.Connection, before: Mapping[int, int]) -> dict[int, int]:
    """Return which turn each of the last ones follows; those before them may be told as -1."""
    follows = _follows(connection, sorted(before))
    parents, last = dict[int, int](), None
    for turn_id in sorted(before):
        if turn_id in follows:
            parents[turn_id] = follows[turn_id]
        elif last is None:
            parents[turn_id] = predecessor(connection, turn_id)
        else:
            parents[turn_id] = last
        if last is None or before[turn_id] > before[last]:
            last = turn_id
    return parents


def _in_order(
    root: int, parents: Mapping[int, int], names: Mapping[int, TurnName], old: Collection[int]
) -> list[int]:
    """Return turns in the order of the tree: what follows `root`, then the rest as it was."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for turn_id, parent in parents.items():
        children[parent].append(turn_id)
    for siblings in children.values():
        siblings.sort(key=names.__getitem__, reverse=True)
    strays = [i for i in old if parents[i] != root and parents[i] not in parents]
    order, stack = [], [*reversed(strays), *children[root]]
    while stack:
        turn_id = stack.pop()
        order.append(turn_id)
        stack += children[turn_id]
    return order


def _stand(connection: sqlite3.Connection, moved: Sequence[tuple[int, int]]) -> None:
    """Write down where turns stand now, and with them all that share their places."""
    ids = [turn_id for turn_id, _ in moved]
    connection.executemany("DELETE FROM places WHERE turn_id = ?", [(i,) for i in ids])
    sql = "INSERT INTO places SELECT id, channel_id, ? FROM turns WHERE id = ?"
    rows = [(place, turn_id) for turn_id, place in moved if place != turn_id]
    connection.executemany(sql, rows)
    replaced_stand_with(connection, ids)
