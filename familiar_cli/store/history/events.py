"""The event log: marks on turns, branches, channel state, imports, and the tables derived from it.

A branch holds no copies. Its past is its parent's turns up to the branch point, followed by its own
turns; a turn replaced or withdrawn in the shared part is replaced or withdrawn in both. A branch
point is itself an event, and the latest one for a channel wins.

Each event is an immutable row: a mark on a turn, a branch, an imported chat, a withdrawn channel.
Its clock is one more than that of every event known when it was written. Among events about the
same subject the highest clock wins; ties between concurrent events go to the higher instance name,
regardless of the order of arrival.

Readers use tables derived from the log, which can be rebuilt from it: `set_aside` and `places` for
turns, `branches` and `channels_set_aside` for channels. Exactly one turn stands at each place;
copies of one message kept by two machines share a place.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct

from familiar_cli.base.errors import ConflictError, NotFoundError, RefusedError, UsageError
from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.times.clock import now
from familiar_cli.store.history.lines import (
    MARKS,
    own_instance,
    replaced_stand_with,
    turn_names,
    write_state,
)
from familiar_cli.store.history.rows import Turn, in_ms, pack, place_of, unpack

CHANNEL, BRANCH, CHAT = "channel", "branch", "chat"
_SHOWN: Final = "shown:"  # in `sync_state`, before a place: the turn that the source shows there
_NEXT: Final = "(SELECT coalesce(max(clock), 0) + 1 FROM events)"
_LATEST: Final = (
    "SELECT id, turn_id, value FROM events WHERE kind = ? AND subject = ? ORDER BY clock DESC, "
    "coalesce(instance, (SELECT value FROM sync_state WHERE name = 'own')) DESC, id DESC LIMIT 1"
)
_MARKS: Final = (
    "SELECT turn_id, kind, value, clock, coalesce(instance, ?), coalesce(id_there, id) "  # noqa: S608
    f"FROM events WHERE kind IN {MARKS} AND turn_id IN"
)
_MOVED: Final = """UPDATE speakers SET turns = turns + ?3, last_id = coalesce((
        SELECT id FROM turns AS said WHERE said.channel_id = ?1
        AND (author_platform, author_user_id) = (speakers.author_platform, speakers.author_user_id)
        AND NOT EXISTS (SELECT 1 FROM set_aside
            WHERE turn_id = said.id AND (superseded_by OR withdrawn))
        ORDER BY id DESC LIMIT 1), 0)
    WHERE channel_id = ?1 AND (author_platform, author_user_id) = (
        SELECT author_platform, author_user_id FROM turns WHERE id = ?2)"""
_STATE: Final = "SELECT turn_id, superseded_by, withdrawn, hidden FROM set_aside WHERE turn_id IN"


class EventOrigin(NamedTuple):
    """The instance that wrote an event, with the event's number and clock there."""

    instance: str
    id: int
    clock: int


def append_event(
    connection: sqlite3.Connection,
    kind: str,
    subject: str | bytes | None = None,
    turn_id: int | None = None,
    value: object = None,
    *,
    at: datetime | None = None,
    origin: EventOrigin | None = None,
) -> bool:
    """Append an event; return whether it is now the latest of its kind about its subject.

    The derived state of a channel is updated at once, that of marked turns only by `settle_marks`.

    Args:
        connection: The history, inside a transaction.
        kind: One of `MARKS`, or `CHANNEL`, `BRANCH`, `CHAT`.
        subject: The packed channel id, or the key of the chat; None for a mark.
        turn_id: The marked turn, or the turn after which a channel branches off.
        value: For a mark, see `MarkLine`; whether a channel is withdrawn; the parent of a branch.
        at: Time of the event; None: now.
        origin: The event's origin; None: this instance, now.
    """
    instance, number, clock = origin or (None, None, None)
    sql = (
        "INSERT INTO events (kind, subject, turn_id, value, at_ms, clock, instance, id_there) "  # noqa: S608
        f"VALUES (?, ?, ?, ?, ?, coalesce(?, {_NEXT}), ?, ?)"
    )
    values = (kind, subject, turn_id, value, in_ms(at or now()), clock, instance, number)
    event_id = connection.execute(sql, values).lastrowid
    return subject is None or _fold_subject(connection, kind, subject) == event_id


def fold_all(connection: sqlite3.Connection) -> None:
    """Recompute the derived state of all channels, as after instances were renamed."""
    sql = "SELECT DISTINCT kind, subject FROM events WHERE subject IS NOT NULL"
    for kind, subject in connection.execute(sql).fetchall():
        _fold_subject(connection, kind, subject)


def _fold_subject(connection: sqlite3.Connection, kind: str, subject: str | bytes) -> int:
    """Derive a channel's state from its events; return the number of the latest one."""
    latest, turn_id, value = connection.execute(_LATEST, (kind, subject)).fetchone()
    if kind == BRANCH:
        row = (subject, value, turn_id)
        connection.execute("INSERT OR REPLACE INTO branches VALUES (?, ?, ?)", row)
    elif kind == CHANNEL:
        connection.execute("DELETE FROM channels_set_aside WHERE channel_id = ?", (subject,))
        if value:
            connection.execute("INSERT INTO channels_set_aside VALUES (?)", (subject,))
    return int(latest)


def mark_turns(
    connection: sqlite3.Connection, turn_ids: Collection[int], kind: str, value: int
) -> None:
    """Append a mark to each turn on this instance, inside a transaction."""
    for turn_id in turn_ids:
        append_event(connection, kind, None, turn_id, value)
    settle_marks(connection, turn_ids)


def slots_of(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, int]:
    """Map each of these turns to the turn whose place it occupies."""
    wanted = list(turn_ids)
    sql = "SELECT turn_id, slot FROM slots WHERE turn_id IN"
    return {i: i for i in wanted} | dict(rows_among(connection, sql, wanted))


def note_shown(connection: sqlite3.Connection, turn_id: int) -> None:
    """Record that a chat's source shows this turn, of all at its place."""
    (slot,) = slots_of(connection, (turn_id,)).values()
    write_state(connection, f"{_SHOWN}{slot}", str(turn_id))


def turns_shown(connection: sqlite3.Connection, channel_id: str) -> dict[int, int]:
    """Map each turn of a channel that has alternatives to the one that its source showed last.

    0: that was not recorded.
    """
    sql = (
        "SELECT turn_id, slot, coalesce(value, 0) FROM slots JOIN turns ON id = turn_id "
        "LEFT JOIN sync_state ON name = ? || slot WHERE channel_id = ?"
    )
    rows = connection.execute(sql, (_SHOWN, pack(channel_id)))
    return {turn: int(shown) for *turns, shown in rows for turn in turns}


def stand_at(connection: sqlite3.Connection, turn_id: int, other: int) -> None:
    """Move a new turn to another turn's place, if the marks resolve that way."""
    (slot,) = slots_of(connection, (other,)).values()
    connection.execute("INSERT INTO slots VALUES (?, ?, 0)", (turn_id, slot))
    replaced_stand_with(connection, (slot,))


def share_place(connection: sqlite3.Connection, own: str, one: int, other: int) -> None:
    """Let two turns that are the same message share the place of the one with the lower name."""
    one, other = (slots_of(connection, (i,))[i] for i in (one, other))
    if one == other:
        return
    names = turn_names(connection, own, (one, other))
    first, second = sorted((one, other), key=names.__getitem__)
    connection.execute("UPDATE slots SET slot = ? WHERE slot = ?", (first, second))
    connection.execute("INSERT INTO slots VALUES (?, ?, 1)", (second, first))


def forget_from(
    connection: sqlite3.Connection, place: int, scope: str | bytes | None = None
) -> None:
    """Delete every summary that may depend on a place, for one scope or for all.

    Earlier summaries are kept, so that summarising can resume from them.
    """
    sql = "DELETE FROM summaries WHERE last_turn_id >= ? AND coalesce(scope = ?, TRUE)"
    connection.execute(sql, (place, scope))


def settle_marks(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> None:
    """Recompute the state of these turns, and of all at their places, as every machine does."""
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
        for turn_id, state in _settle_place(slot, found, marks).items()
    }
    replaced_stand_with(connection, slots)
    _write_states(connection, wanted)


class _Member(Struct, frozen=True):
    """A turn at a place; a node is there in its own right, without having taken another's place."""

    turn_id: int
    is_node: bool


class _Mark(Struct, frozen=True, order=True):
    rank: tuple[Any, ...]
    turn_id: int
    kind: str
    value: int


_State = tuple[int, int, int | None]
_NOTHING: Final[_State] = (0, 0, None)


def _settle_place(
    slot: int, members: Sequence[_Member], marks: Mapping[int, list[_Mark]]
) -> dict[int, _State]:
    nodes = [member.turn_id for member in members if member.is_node]
    ranked = sorted(mark for m in members for mark in marks.get(m.turn_id, ()))
    standing, becomes = slot, dict[int, int]()
    for one in ranked:
        if one.kind == "superseded":
            standing = one.value or one.turn_id
            becomes[one.turn_id] = one.value
    standing = slot if standing in nodes else standing
    states = {}
    for member in members:
        turn_id = member.turn_id
        told = nodes if member.is_node else [turn_id]
        of_it = {one.kind: one.value for one in ranked if one.turn_id in told}
        by = 0 if turn_id == standing else becomes.get(turn_id, 0) or standing
        states[turn_id] = (by, of_it.get("withdrawn", 0), of_it.get("hidden"))
    return states


def _write_states(connection: sqlite3.Connection, wanted: Mapping[int, _State]) -> None:
    """Store the new states of turns and update whatever depends on those that changed."""
    there = {row[0]: tuple(row[1:]) for row in rows_among(connection, _STATE, wanted)}
    changed = {i: state for i, state in wanted.items() if there.get(i, _NOTHING) != state}
    rows = [(turn_id, *state) for turn_id, state in changed.items()]
    connection.executemany("INSERT OR REPLACE INTO set_aside VALUES (?, ?, ?, ?)", rows)
    was = {i: any(there.get(i, _NOTHING)[:2]) for i in changed}
    is_out = {i: bool(by or withdrawn) for i, (by, withdrawn, _) in changed.items()}
    _recount_turns(connection, {i: 1 if was[i] else -1 for i in changed if was[i] != is_out[i]})
    if changed:
        sql = "SELECT place FROM places WHERE turn_id IN"
        places = (row[0] for row in rows_among(connection, sql, changed))
        forget_from(connection, min([*changed, *places]))


def _recount_turns(connection: sqlite3.Connection, changes: Mapping[int, int]) -> None:
    """Adjust turn counts for turns that became visible (1) or invisible (-1)."""
    for turn_id, change in changes.items():
        sql = "SELECT channel_id FROM turns WHERE id = ?"
        (channel_id,) = connection.execute(sql, (turn_id,)).fetchone()
        connection.execute(_MOVED, (channel_id, turn_id, change))


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


class Branch(Struct, frozen=True):
    """The point at which a channel branched off another one.

    Args:
        channel_id: Id of the branch.
        parent: The channel that it branched off.
        turn_id: The last shared turn; 0: nothing is shared.
        place: The place of that turn.
        is_new: Whether it was created just now.
    """

    channel_id: str
    parent: str
    turn_id: int
    place: int
    is_new: bool = False


class BranchPart(Struct, frozen=True):
    """A part of a channel's past: turns of `channel_id` whose place is before `end`."""

    channel_id: str
    end: int = END

    def holds(self, turn: Turn) -> bool:
        """Tell whether a turn belongs to this part."""
        return turn.channel_id == self.channel_id and place_of(turn) < self.end


def branch_off(
    connection: sqlite3.Connection, channel_id: str, turn: Turn, parent: str | None = None
) -> Branch:
    """Create a branch at a turn, inside a transaction; idempotent.

    Args:
        connection: The history, inside `HistoryStore.change`.
        channel_id: The new channel's id.
        turn: The last shared turn.
        parent: The channel to branch off; None: that of the turn.

    Raises:
        UsageError: The new channel has no name.
        ConflictError: The channel has turns already, or is another branch.
        NotFoundError: The turn is not in the past of `parent`.
        RefusedError: The turn was replaced or withdrawn.
    """
    parent = turn.channel_id if parent is None else parent
    made = Branch(channel_id, parent, turn.id, place_of(turn), is_new=True)
    if not channel_id.strip():
        raise UsageError("The new channel has no name; nothing was changed")
    branch = branch_of(connection, channel_id)
    if branch and (branch.parent, branch.turn_id) == (parent, turn.id):
        return branch
    if branch or has_turns(connection, channel_id):
        raise ConflictError(
            f"Channel {channel_id!r} exists already; nothing was changed",
            hint="Choose another name for the branch; `familiar channel list` lists all.",
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
    set_branch(connection, channel_id, parent, turn.id)
    return made


def begin_branch(
    connection: sqlite3.Connection, channel_id: str, parent: str, turn_id: int
) -> None:
    """Branch a channel off at a turn of another's past, whether that turn stands or not.

    Idempotent.

    Raises:
        ConflictError: The channel has turns already, or is another branch.
    """
    branch = branch_of(connection, channel_id)
    if branch and (branch.parent, branch.turn_id) == (parent, turn_id):
        return
    if branch or has_turns(connection, channel_id):
        raise ConflictError(
            f"Channel {channel_id!r} was made in the meantime; nothing was changed",
            hint="Run the same command again.",
        )
    set_branch(connection, channel_id, parent, turn_id)


def set_branch(connection: sqlite3.Connection, channel_id: str, parent: str, turn_id: int) -> None:
    """Set the point where a channel branches off, replacing any earlier one."""
    append_event(connection, BRANCH, pack(channel_id), turn_id, pack(parent))


def branch_of(connection: sqlite3.Connection, channel_id: str) -> Branch | None:
    """Return a channel's branch point, or None if it is not a branch."""
    row = connection.execute(f"{_LEFT} WHERE channel_id = ?", (pack(channel_id),)).fetchone()
    return _to_branch(row) if row else None


def all_branches(connection: sqlite3.Connection) -> list[Branch]:
    """Return all branches, oldest first, so that parents precede their branches."""
    begun = "SELECT min(clock) FROM events WHERE kind = 'branch' AND subject = channel_id"
    return [
        _to_branch(row) for row in connection.execute(f"{_LEFT} ORDER BY ({begun}), channel_id")
    ]


def parts_of(connection: sqlite3.Connection, channel_id: str) -> list[BranchPart]:
    """Return the parts of a channel's past, newest first. Their places do not overlap.

    Concurrent edits on two machines may have made two channels branch off each other; the second
    one is then treated as the root.
    """
    parts, end = [BranchPart(channel_id)], END
    while branch := branch_of(connection, parts[-1].channel_id):
        if any(part.channel_id == branch.parent for part in parts):
            break
        end = min(end, branch.place + 1)
        parts.append(BranchPart(branch.parent, end))
    return parts


def parts_condition(parts: Sequence[BranchPart]) -> tuple[str, list[Any]]:
    """Build an SQL condition for the turns of a past, and its values."""
    items, values = [], list[Any]()
    for part in parts:
        values.append(pack(part.channel_id))
        items.append("turns.channel_id = ?")
        if part.end < END:
            items[-1] += f" AND {PLACED} < ?"
            values.append(part.end)
    return f"({' OR '.join(items)})", values


def family_of(connection: sqlite3.Connection, channel_id: str) -> frozenset[str]:
    """Return all channels that share a beginning with a channel, itself included."""
    root = pack(parts_of(connection, channel_id)[-1].channel_id)
    return frozenset(unpack(row[0]) for row in connection.execute(_FAMILY, (root,)))


def heard_condition(connection: sqlite3.Connection, channel_id: str) -> tuple[str, list[Any]]:
    """Build an SQL condition for the turns that a channel may show, and its values.

    It excludes how the channel's branches, and those of its parents, continued.
    """
    parts = parts_of(connection, channel_id)
    sql = "SELECT 1 FROM branches WHERE parent = ? LIMIT 1"
    root = pack(parts[-1].channel_id)
    if len(parts) == 1 and not connection.execute(sql, (root,)).fetchone():
        return "TRUE", []
    here, values = parts_condition(parts)
    return f"({here} OR turns.channel_id NOT IN ({_FAMILY}))", [*values, root]


def has_turns(connection: sqlite3.Connection, channel_id: str) -> bool:
    """Tell whether a channel has turns of its own."""
    sql = "SELECT 1 FROM turns WHERE channel_id = ? LIMIT 1"
    return connection.execute(sql, (pack(channel_id),)).fetchone() is not None


def _to_branch(row: tuple[Any, ...]) -> Branch:
    channel_id, parent, turn_id, place = row
    return Branch(unpack(channel_id), unpack(parent), int(turn_id), int(place))
