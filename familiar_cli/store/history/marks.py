"""Marks on turns: which one stands in place of another, and what was withdrawn."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import NotFoundError, RefusedError
from familiar_cli.base.sqlite import rows_among
from familiar_cli.store.history import events, selection
from familiar_cli.store.history.lines import own_instance, turn_names
from familiar_cli.store.history.rows import STANDING, Turn, pack, place_of, unpack
from familiar_cli.store.history.selection import newest_rows
from familiar_cli.store.history.store import HistoryStore, insert_turn


class TurnStatus(Struct, frozen=True):
    """Status of a turn.

    Args:
        superseded_by: The turn that replaced it, or None.
        withdrawn: Whether it, or its channel, was withdrawn.
        hidden: Whether it is left out of prompts.
        alternatives: All turns at its place, itself among them, of which one stands, in order of
            arrival; empty: it is the only one.
    """

    superseded_by: int | None = None
    withdrawn: bool = False
    hidden: bool = False
    alternatives: tuple[int, ...] = ()

    @property
    def stands(self) -> bool:
        """Whether it may appear in prompts."""
        return not (self.superseded_by or self.withdrawn or self.hidden)


def supersede_turn(
    history: HistoryStore, old: Turn, new: Turn, *, by_source: bool = False, stands: bool = True
) -> Turn:
    """Store a turn that replaces another, and return it.

    Args:
        by_source: The program that the chat is from shows `new`; nobody here wrote it.
        stands: Whether it replaces `old`; otherwise it is only kept as an alternative.

    If `new` belongs to a branch whose last shared turn is `old`, the parent keeps `old`, and the
    branch point moves before it.

    Raises:
        RefusedError: `old` does not stand (any more), or the branch has further turns.
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        _check_shown(connection, old.id)
        if new.channel_id != old.channel_id:
            _leave_before(connection, new.channel_id, old)
        turn = insert_turn(connection, new)
        selection.inherit_privacy(connection, turn.id, old.id)
        if new.channel_id != old.channel_id:
            return turn
        events.stand_at(connection, turn.id, old.id)
        gone, shown = (old.id, turn.id) if stands else (turn.id, old.id)
        events.mark_turns(connection, (gone,), "superseded", shown)
        if old.hidden:
            events.mark_turns(connection, (turn.id,), "hidden", 1)
        if by_source:
            events.note_shown(connection, turn.id)
    return replace(turn, place=place_of(old), stands=stands and not old.hidden)


def _leave_before(connection: sqlite3.Connection, channel_id: str, turn: Turn) -> None:
    """Move a branch point before the last shared turn."""
    branch = events.branch_of(connection, channel_id)
    last = newest_rows(connection, STANDING, ("", ()), 2, channel_id=channel_id)
    if branch is None or not last or last[-1][0] != turn.id:
        raise RefusedError(
            f"Turn {turn.id} is not the last one of channel {channel_id!r}; nothing was changed",
            hint=f"Run `familiar history show --channel {channel_id}`.",
        )
    events.set_branch(connection, channel_id, branch.parent, last[0][0] if len(last) > 1 else 0)
    events.forget_from(connection, place_of(turn), pack(channel_id))


def select_alternative(
    history: HistoryStore, turn_id: int, *, by_source: bool = False
) -> tuple[int, ...]:
    """Make a turn stand instead of its alternatives; return those that stood before.

    Args:
        by_source: The program that the chat is from shows it; nobody here chose it.

    Raises:
        NotFoundError: The turn does not exist.
        RefusedError: It has no alternatives, or it was withdrawn.
    """
    with history.change() as connection:
        status = standing_of(connection, (turn_id,)).get(turn_id)
        if status is None:
            raise _no_turn(turn_id)
        if not status.alternatives:
            raise RefusedError(
                f"Turn {turn_id} has no alternatives; nothing was changed",
                hint="Run `familiar history show --all` to see what was replaced.",
            )
        _check_not_withdrawn(connection, turn_id)
        others = standing_of(connection, status.alternatives)
        gone = tuple(i for i, other in others.items() if i != turn_id and not other.superseded_by)
        events.mark_turns(connection, gone, "superseded", turn_id)
        if status.superseded_by:
            events.mark_turns(connection, (turn_id,), "superseded", 0)
        if by_source:
            events.note_shown(connection, turn_id)
    return gone


def withdraw_turns(history: HistoryStore, turn_ids: Iterable[int]) -> tuple[int, ...]:
    """Withdraw turns from everything but the history; return those newly withdrawn.

    Raises:
        NotFoundError: A turn does not exist; none was withdrawn.
        RefusedError: A turn was replaced and its replacement is not among them; none was withdrawn.
    """
    return _set_withdrawn(history, turn_ids, 1)


def restore_turns(history: HistoryStore, turn_ids: Iterable[int]) -> tuple[int, ...]:
    """Restore withdrawn turns; return those that had been withdrawn.

    Raises:
        NotFoundError: A turn does not exist; none was restored.
    """
    return _set_withdrawn(history, turn_ids, 0)


def withdraw_channel(history: HistoryStore, channel_id: str, *, withdrawn: bool = True) -> bool:
    """Withdraw or restore a whole channel; tell whether that changed anything.

    Raises:
        NotFoundError: The channel has no turns.
    """
    key = pack(channel_id)
    with history.change() as connection:
        sql = "SELECT min(id) FROM turns WHERE channel_id = ?"
        (first,) = connection.execute(sql, (key,)).fetchone()
        if first is None:
            raise NotFoundError(
                f"There are no turns in channel {channel_id!r}", hint="Run `familiar channel list`."
            )
        sql = "SELECT 1 FROM channels_set_aside WHERE channel_id = ?"
        if bool(connection.execute(sql, (key,)).fetchone()) == withdrawn:
            return False
        events.append_event(connection, events.CHANNEL, key, value=int(withdrawn))
        events.forget_from(connection, first)
    return True


def withdrawn_channels(history: HistoryStore) -> frozenset[str]:
    """Return the channels withdrawn as a whole."""
    rows = history.rows("SELECT channel_id FROM channels_set_aside")
    return frozenset(unpack(row[0]) for row in rows)


def turn_statuses(history: HistoryStore, turn_ids: Iterable[int]) -> dict[int, TurnStatus]:
    """Return the status of each of these turns that exists."""
    with history.use(create=False) as connection:
        return standing_of(connection, turn_ids)


def marked_count(history: HistoryStore) -> int:
    """Count the turns and channels that were ever replaced, withdrawn or hidden."""
    sql = "SELECT (SELECT count(*) FROM set_aside) + (SELECT count(*) FROM channels_set_aside)"
    return int(history.rows(sql)[0][0])


def removed_turns(history: HistoryStore, turn_ids: Iterable[int]) -> dict[int, str]:
    """Describe in words what became of those turns that were replaced or withdrawn."""
    status = turn_statuses(history, turn_ids)
    return {
        turn_id: f"turn {turn_id} was replaced by turn {became.superseded_by}"
        if became.superseded_by
        else f"turn {turn_id} was withdrawn"
        for turn_id, became in status.items()
        if became.superseded_by or became.withdrawn
    }


def standing_of(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, TurnStatus]:
    """Return the status of each of these turns, by number; see `turn_statuses`."""
    select = (
        "SELECT turns.id, coalesce(superseded_by, 0), coalesce(withdrawn, 0) OR turns.channel_id "
        "IN (SELECT channel_id FROM channels_set_aside), coalesce(set_aside.hidden, turns.hidden), "
        "coalesce(own.slot, turns.id), (SELECT group_concat(turn_id) FROM slots WHERE "
        "slot = coalesce(own.slot, turns.id)) "
        "FROM turns LEFT JOIN set_aside ON set_aside.turn_id = turns.id "
        "LEFT JOIN slots AS own ON own.turn_id = turns.id WHERE turns.id IN"
    )
    rows = list(rows_among(connection, select, sorted(set(turn_ids))))
    groups = {row[4]: _other_turns(row[4], row[5]) for row in rows}
    members = sorted({i for group in groups.values() for i in group})
    names = turn_names(connection, own_instance(connection), members)
    groups = {  # in the same order on every machine
        slot: (*group[:1], *sorted(group[1:], key=names.__getitem__))
        for slot, group in groups.items()
    }
    return {
        turn_id: TurnStatus(by or None, bool(withdrawn), bool(hidden), groups[slot])
        for turn_id, by, withdrawn, hidden, slot, _ in rows
    }


def _set_withdrawn(history: HistoryStore, turn_ids: Iterable[int], value: int) -> tuple[int, ...]:
    wanted = sorted(set(turn_ids))
    with history.change() as connection:
        select = (
            "SELECT turns.id, coalesce(withdrawn, 0) FROM turns LEFT JOIN set_aside "
            "ON set_aside.turn_id = turns.id WHERE turns.id IN"
        )
        known = dict(rows_among(connection, select, wanted))
        for turn_id in wanted:
            if turn_id not in known:
                raise _no_turn(turn_id)
        if value:
            _check_not_replaced(connection, wanted)
        changed = tuple(turn_id for turn_id in wanted if known[turn_id] != value)
        events.mark_turns(connection, changed, "withdrawn", value)
    return changed


def _check_shown(connection: sqlite3.Connection, turn_id: int) -> None:
    if not connection.execute("SELECT 1 FROM shown WHERE id = ?", (turn_id,)).fetchone():
        raise RefusedError(
            f"Turn {turn_id} was replaced or withdrawn by now; nothing was changed",
            hint="Run `familiar history show --all`.",
        )


def _check_not_replaced(connection: sqlite3.Connection, turn_ids: Collection[int]) -> None:
    """Check that each turn's replacement is among them, or withdrawn."""
    for turn_id, status in standing_of(connection, turn_ids).items():
        if not status.superseded_by:
            continue
        others = standing_of(connection, status.alternatives)
        for other, became in others.items():
            if not became.superseded_by and not became.withdrawn and other not in turn_ids:
                raise RefusedError(
                    f"Turn {turn_id} was replaced by turn {other}, which is still current; "
                    "nothing was changed",
                    hint=f"Run `familiar history withdraw {other}`.",
                )


def _check_not_withdrawn(connection: sqlite3.Connection, turn_id: int) -> None:
    sql = "SELECT 1 FROM set_aside WHERE turn_id = ? AND withdrawn"
    if connection.execute(sql, (turn_id,)).fetchone():
        raise RefusedError(
            f"Turn {turn_id} was withdrawn; nothing was changed",
            hint=f"Run `familiar history restore {turn_id}` first.",
        )


def _other_turns(slot: int, others: str | None) -> tuple[int, ...]:
    return (slot, *sorted(map(int, others.split(",")))) if others else ()


def _no_turn(turn_id: int) -> NotFoundError:
    return NotFoundError(
        f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
    )
