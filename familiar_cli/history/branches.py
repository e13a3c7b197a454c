"""Branches: channels that begin with the past of another one, up to some turn.

A branch holds no copies. Its past is the turns of its parent up to the place where it left, and
then its own; what is replaced or withdrawn in the shared part is so in both. Where a channel
branches off is a row of its own, and the newest row of a channel counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.clock import now
from familiar_cli.errors import ConflictError, NotFoundError, RefusedError, UsageError
from familiar_cli.history.arranging import place_of
from familiar_cli.history.rows import in_ms, pack, unpack

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from familiar_cli.history.types import Turn

TABLES: Final = (
    """CREATE TABLE branches (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel_id TEXT NOT NULL,
        parent TEXT NOT NULL,
        turn_id INTEGER NOT NULL,
        place INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    )""",
    "CREATE INDEX branches_of_channel ON branches (channel_id, id)",
    "CREATE INDEX branches_of_parent ON branches (parent, channel_id)",
    "CREATE INDEX places_of_channel ON places (channel_id, place)",
    """CREATE TRIGGER branches_are_never_changed BEFORE UPDATE ON branches
        BEGIN SELECT RAISE(ABORT, 'a branch is never changed'); END""",
    """CREATE TRIGGER branches_are_never_deleted BEFORE DELETE ON branches
        BEGIN SELECT RAISE(ABORT, 'a branch is never deleted'); END""",
)
END: Final = 2**63 - 1
"""Beyond the place of every turn."""

PLACED: Final = "coalesce((SELECT place FROM places WHERE places.turn_id = turns.id), turns.id)"
"""The place of a turn, in SQL."""

_LEFT: Final = (
    "SELECT branches.channel_id, parent, branches.turn_id, iif(branches.turn_id, "
    "coalesce((SELECT place FROM places WHERE places.turn_id = branches.turn_id), "
    "branches.turn_id), 0) FROM branches JOIN facts ON kind = 'branch' AND row_id = branches.id"
)
_LATEST: Final = (
    "clock {0}, coalesce(instance, (SELECT value FROM sync_state WHERE name = 'own')) {0}, "
    "branches.id {0}"
)
"""The order in which rows count: by what was known when they were written, on every machine."""
_FAMILY: Final = (
    "WITH RECURSIVE family (channel) AS (SELECT ? UNION SELECT channel_id FROM branches "
    "JOIN family ON parent = channel) SELECT channel FROM family"
)


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a channel left another one.

    Args:
        channel_id: The branch.
        parent: The channel that it left.
        turn_id: The last turn that they share; 0: they share none.
        place: Where that turn stands.
        is_new: It was made just now.
    """

    channel_id: str
    parent: str
    turn_id: int
    place: int
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a channel's past: turns of `channel_id` whose place is before `end`."""

    channel_id: str
    end: int = END

    def holds(self, turn: Turn) -> bool:
        """Tell whether a turn is in it."""
        return turn.channel_id == self.channel_id and place_of(turn) < self.end


def add(connection: sqlite3.Connection) -> None:
    """Make the tables of a history that has none."""
    for statement in TABLES:
        connection.execute(statement)


def branch_off(
    connection: sqlite3.Connection, channel_id: str, turn: Turn, parent: str | None = None
) -> Branch:
    """Begin a branch at a turn, inside a transaction; the same once more changes nothing.

    Args:
        connection: The history, inside `HistoryStore.change`.
        channel_id: The new channel.
        turn: The last turn that it shares.
        parent: The channel that it leaves; None: that of the turn.

    Raises:
        UsageError: The new channel has no name.
        ConflictError: It has turns already, or is another branch.
        NotFoundError: The turn is not in the past of `parent`.
        RefusedError: The turn was replaced or withdrawn.
    """
    parent = turn.channel_id if parent is None else parent
    made = Branch(channel_id, parent, turn.id, place_of(turn), is_new=True)
    if not channel_id.strip():
        raise UsageError("The new channel has no name; nothing was changed")
    known = branch_of(connection, channel_id)
    if known and (known.parent, known.turn_id) == (parent, turn.id):
        return known
    if known or _has_turns(connection, channel_id):
        raise ConflictError(
            f"Channel {channel_id!r} exists already; nothing was changed",
            hint="Choose another name for the branch; `familiar channel ls` lists all.",
        )
    if not any(part.holds(turn) for part in parts_of(connection, parent)):
        raise NotFoundError(
            f"Turn {turn.id} is not in channel {parent!r}; nothing was changed",
            hint=f"Omit `--channel`: the turn was said in {turn.channel_id!r}.",
        )
    if not connection.execute("SELECT 1 FROM shown WHERE id = ?", (turn.id,)).fetchone():
        raise RefusedError(
            f"Turn {turn.id} was replaced or withdrawn; nothing was changed",
            hint=f"Run `familiar history choose {turn.id}` or `familiar history restore "
            f"{turn.id}` first, or branch off at an earlier turn.",
        )
    _write(connection, made)
    return made


def leave(connection: sqlite3.Connection, channel_id: str, parent: str, turn_id: int) -> None:
    """Let a channel branch off at a turn of another's past, whether it stands or not.

    The same once more changes nothing.

    Raises:
        ConflictError: It has turns already, or is another branch.
    """
    known = branch_of(connection, channel_id)
    if known and (known.parent, known.turn_id) == (parent, turn_id):
        return
    if known or _has_turns(connection, channel_id):
        raise ConflictError(
            f"Channel {channel_id!r} was made in the meantime; nothing was changed",
            hint="Run the same command again.",
        )
    _write(connection, Branch(channel_id, parent, turn_id, place=turn_id))


def move(connection: sqlite3.Connection, branch: Branch, turn_id: int, place: int) -> None:
    """Let a branch leave its parent at another turn."""
    _write(connection, replace(branch, turn_id=turn_id, place=place))


def branch_of(connection: sqlite3.Connection, channel_id: str) -> Branch | None:
    """Return where a channel left another one; None: it is no branch."""
    sql = f"{_LEFT} WHERE branches.channel_id = ? ORDER BY {_LATEST.format('DESC')} LIMIT 1"
    row = connection.execute(sql, (pack(channel_id),)).fetchone()
    return _branch(row) if row else None


def all_branches(connection: sqlite3.Connection) -> list[Branch]:
    """Return all branches, the oldest first: each after its parent."""
    rows = connection.execute(f"{_LEFT} ORDER BY {_LATEST.format('ASC')}")
    found = {row[0]: _branch(row) for row in rows}  # in the order of first rows, the last counts
    return list(found.values())


def parts_of(connection: sqlite3.Connection, channel_id: str) -> list[Part]:
    """Return the parts of a channel's past, the newest first. Their places do not overlap.

    Two machines may have let two channels leave each other; the second of them is then the root.
    """
    parts, end = [Part(channel_id)], END
    while found := branch_of(connection, parts[-1].channel_id):
        if any(part.channel_id == found.parent for part in parts):
            break
        end = min(end, found.place + 1)
        parts.append(Part(found.parent, end))
    return parts


def condition(parts: Sequence[Part]) -> tuple[str, list[Any]]:
    """Return an SQL condition for the turns of a past, and its values."""
    found, values = [], list[Any]()
    for part in parts:
        values.append(pack(part.channel_id))
        found.append("turns.channel_id = ?")
        if part.end < END:
            found[-1] += f" AND {PLACED} < ?"
            values.append(part.end)
    return f"({' OR '.join(found)})", values


def family_of(connection: sqlite3.Connection, channel_id: str) -> frozenset[str]:
    """Return the channels that go on from the same beginning, with the channel itself."""
    root = pack(parts_of(connection, channel_id)[-1].channel_id)
    return frozenset(unpack(row[0]) for row in connection.execute(_FAMILY, (root,)))


def heard(connection: sqlite3.Connection, channel_id: str) -> tuple[str, list[Any]]:
    """Return an SQL condition for the turns that a channel may show, and its values.

    That is all but what tells how its branches, or those of its parents, went on.
    """
    parts = parts_of(connection, channel_id)
    sql = "SELECT 1 FROM branches WHERE parent = ? LIMIT 1"
    root = pack(parts[-1].channel_id)
    if len(parts) == 1 and not connection.execute(sql, (root,)).fetchone():
        return "TRUE", []
    here, values = condition(parts)
    return f"({here} OR turns.channel_id NOT IN ({_FAMILY}))", [*values, root]


def _has_turns(connection: sqlite3.Connection, channel_id: str) -> bool:
    sql = "SELECT 1 FROM turns WHERE channel_id = ? LIMIT 1"
    return connection.execute(sql, (pack(channel_id),)).fetchone() is not None


def _write(connection: sqlite3.Connection, branch: Branch) -> None:
    sql = "INSERT INTO branches (channel_id, parent, turn_id, place, at_ms) VALUES (?, ?, ?, ?, ?)"
    values = (pack(branch.channel_id), pack(branch.parent), branch.turn_id, branch.place)
    connection.execute(sql, (*values, in_ms(now())))


def _branch(row: tuple[Any, ...]) -> Branch:
    channel_id, parent, turn_id, place = row
    return Branch(unpack(channel_id), unpack(parent), int(turn_id), int(place))
