"""Branches: channels that begin with the past of another one, up to some turn.

A branch holds no copies. Its past is the turns of its parent up to the place where it left, and
then its own; what is replaced or withdrawn in the shared part is so in both. Where a channel
branches off is an event, and the latest one of a channel counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import ConflictError, NotFoundError, RefusedError, UsageError
from familiar_cli.history.rows import pack, unpack
from familiar_cli.history.types import place_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from familiar_cli.history.types import Turn

END: Final = 2**63 - 1
"""Beyond the place of every turn."""

PLACED: Final = "coalesce((SELECT place FROM places WHERE places.turn_id = turns.id), turns.id)"
"""The place of a turn, in SQL."""

_LEFT: Final = (
    "SELECT channel_id, parent, turn_id, coalesce((SELECT place FROM places "
    "WHERE places.turn_id = branches.turn_id), turn_id) FROM branches"
)
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
class BranchPart:
    """A part of a channel's past: turns of `channel_id` whose place is before `end`."""

    channel_id: str
    end: int = END

    def holds(self, turn: Turn) -> bool:
        """Tell whether a turn is in it."""
        return turn.channel_id == self.channel_id and place_of(turn) < self.end


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
    move(connection, channel_id, parent, turn.id)
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
    move(connection, channel_id, parent, turn_id)


def move(connection: sqlite3.Connection, channel_id: str, parent: str, turn_id: int) -> None:
    """Let a channel leave another one after a turn, wherever it did so before."""
    from familiar_cli.history.events import BRANCH, append  # noqa: PLC0415  # loads sqlite3

    append(connection, BRANCH, pack(channel_id), turn_id, pack(parent))


def branch_of(connection: sqlite3.Connection, channel_id: str) -> Branch | None:
    """Return where a channel left another one; None: it is no branch."""
    row = connection.execute(f"{_LEFT} WHERE channel_id = ?", (pack(channel_id),)).fetchone()
    return _branch(row) if row else None


def all_branches(connection: sqlite3.Connection) -> list[Branch]:
    """Return all branches, the oldest first: each after its parent."""
    begun = "SELECT min(clock) FROM events WHERE kind = 'branch' AND subject = channel_id"
    return [_branch(row) for row in connection.execute(f"{_LEFT} ORDER BY ({begun}), channel_id")]


def parts_of(connection: sqlite3.Connection, channel_id: str) -> list[BranchPart]:
    """Return the parts of a channel's past, the newest first. Their places do not overlap.

    Two machines may have let two channels leave each other; the second of them is then the root.
    """
    parts, end = [BranchPart(channel_id)], END
    while found := branch_of(connection, parts[-1].channel_id):
        if any(part.channel_id == found.parent for part in parts):
            break
        end = min(end, found.place + 1)
        parts.append(BranchPart(found.parent, end))
    return parts


def condition(parts: Sequence[BranchPart]) -> tuple[str, list[Any]]:
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


def _branch(row: tuple[Any, ...]) -> Branch:
    channel_id, parent, turn_id, place = row
    return Branch(unpack(channel_id), unpack(parent), int(turn_id), int(place))
