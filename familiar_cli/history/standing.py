"""Which turns stand: what was replaced or withdrawn stays in the history, and out of all else.

A turn is never changed. That another takes its place, that it is withdrawn or hidden, is a mark: an
event of its own, with a time, which a later mark can take back; see `events`.

Every reader of turns reads one of three: `standing`, for a model; `shown`, for people, with the
hidden ones; `turns`, for who keeps the books. A turn that took the place of another stands where
that one stood: `places` says where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError, RefusedError
from familiar_cli.history import one_to_one
from familiar_cli.history.branches import branch_of, move
from familiar_cli.history.elsewhere import own_instance, turn_names
from familiar_cli.history.events import CHANNEL, append, forget_from, mark, stand_at
from familiar_cli.history.messages import insert
from familiar_cli.history.rows import SELECTED, pack, unpack
from familiar_cli.history.selection import newest_rows
from familiar_cli.history.types import place_of
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

_STANDING: Final = f"SELECT {SELECTED} FROM standing AS turns"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Standing:
    """What became of a turn.

    Args:
        superseded_by: The turn that took its place; None: none did.
        withdrawn: It was taken back, or its channel was.
        hidden: It is kept, and no model is shown it.
        alternatives: All turns of which one stands at its place, itself among them, in the order in
            which they came; empty: there is no other.
    """

    superseded_by: int | None = None
    withdrawn: bool = False
    hidden: bool = False
    alternatives: tuple[int, ...] = ()

    @property
    def stands(self) -> bool:
        """Whether a model may be shown it."""
        return not (self.superseded_by or self.withdrawn or self.hidden)


def supersede(history: HistoryStore, old: Turn, new: Turn) -> Turn:
    """Write a turn down that takes the place of another, and return it.

    If `new` belongs to a branch that shares `old` as its last turn, the parent keeps that: the
    branch leaves before it.

    Raises:
        RefusedError: `old` does not stand (any more), or the branch has gone on.
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        _check_shown(connection, old.id)
        if new.channel_id != old.channel_id:
            _leave_before(connection, new.channel_id, old)
        made = insert(connection, new)
        one_to_one.inherit(connection, made.id, old.id)
        if new.channel_id != old.channel_id:
            return made
        stand_at(connection, made.id, old.id)
        mark(connection, (old.id,), "superseded", made.id)
        if old.hidden:
            mark(connection, (made.id,), "hidden", 1)
    return replace(made, place=place_of(old), stands=not old.hidden)


def _leave_before(connection: sqlite3.Connection, channel_id: str, turn: Turn) -> None:
    """Let a branch leave its parent before the last turn that they share."""
    branch = branch_of(connection, channel_id)
    last = newest_rows(connection, _STANDING, ("", ()), 2, channel_id=channel_id)
    if branch is None or not last or last[-1][0] != turn.id:
        raise RefusedError(
            f"Turn {turn.id} is not the last one of channel {channel_id!r}; nothing was changed",
            hint=f"Run `familiar history show --channel {channel_id}`.",
        )
    move(connection, channel_id, branch.parent, last[0][0] if len(last) > 1 else 0)
    forget_from(connection, place_of(turn), pack(channel_id))


def choose(history: HistoryStore, turn_id: int) -> tuple[int, ...]:
    """Let a turn stand, and none of its alternatives; return those that do not stand any more.

    Raises:
        NotFoundError: There is no such turn.
        RefusedError: It has no alternatives, or it was withdrawn.
    """
    with history.change() as connection:
        found = standing_of(connection, (turn_id,)).get(turn_id)
        if found is None:
            raise _no_turn(turn_id)
        if not found.alternatives:
            raise RefusedError(
                f"Turn {turn_id} has no alternatives; nothing was changed",
                hint="Run `familiar history show --all` to see what was replaced.",
            )
        _check_not_withdrawn(connection, turn_id)
        others = standing_of(connection, found.alternatives)
        gone = tuple(i for i, other in others.items() if i != turn_id and not other.superseded_by)
        mark(connection, gone, "superseded", turn_id)
        if found.superseded_by:
            mark(connection, (turn_id,), "superseded", 0)
    return gone


def withdraw(history: HistoryStore, turn_ids: Iterable[int]) -> tuple[int, ...]:
    """Take turns out of everything but the history; return those that were not out of it already.

    Raises:
        NotFoundError: There is no such turn; none was withdrawn.
        RefusedError: One was replaced, and what stands in its place is not among them; none was
            withdrawn.
    """
    return _set_withdrawn(history, turn_ids, 1)


def restore(history: HistoryStore, turn_ids: Iterable[int]) -> tuple[int, ...]:
    """Let withdrawn turns stand again; return those that had been withdrawn.

    Raises:
        NotFoundError: There is no such turn; none was restored.
    """
    return _set_withdrawn(history, turn_ids, 0)


def withdraw_channel(history: HistoryStore, channel_id: str, *, withdrawn: bool = True) -> bool:
    """Take a whole channel out of everything but the history, or back; tell whether that is new.

    Raises:
        NotFoundError: Nothing was ever said there.
    """
    key = pack(channel_id)
    with history.change() as connection:
        sql = "SELECT min(id) FROM turns WHERE channel_id = ?"
        (first,) = connection.execute(sql, (key,)).fetchone()
        if first is None:
            raise NotFoundError(
                f"There are no turns in channel {channel_id!r}", hint="Run `familiar channel ls`."
            )
        sql = "SELECT 1 FROM channels_set_aside WHERE channel_id = ?"
        if bool(connection.execute(sql, (key,)).fetchone()) == withdrawn:
            return False
        append(connection, CHANNEL, key, value=int(withdrawn))
        forget_from(connection, first)
    return True


def withdrawn_channels(history: HistoryStore) -> frozenset[str]:
    """Return the channels that were taken out as a whole."""
    rows = history.rows("SELECT channel_id FROM channels_set_aside")
    return frozenset(unpack(row[0]) for row in rows)


def standings(history: HistoryStore, turn_ids: Iterable[int]) -> dict[int, Standing]:
    """Return the standing of each of these turns that exists."""
    with history.use(create=False) as connection:
        return standing_of(connection, turn_ids)


def marked_count(history: HistoryStore) -> int:
    """Return how many turns or channels were ever replaced, withdrawn or hidden."""
    sql = "SELECT (SELECT count(*) FROM set_aside) + (SELECT count(*) FROM channels_set_aside)"
    return int(history.rows(sql)[0][0])


def fallen(history: HistoryStore, turn_ids: Iterable[int]) -> dict[int, str]:
    """Return which of these turns were replaced or withdrawn, and what became of each, in words."""
    found = standings(history, turn_ids)
    return {
        turn_id: f"turn {turn_id} was replaced by turn {became.superseded_by}"
        if became.superseded_by
        else f"turn {turn_id} was withdrawn"
        for turn_id, became in found.items()
        if became.superseded_by or became.withdrawn
    }


def standing_of(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, Standing]:
    """Return the standing of each of these turns, by number; see `standings`."""
    select = (
        "SELECT turns.id, coalesce(superseded_by, 0), coalesce(withdrawn, 0) OR turns.channel_id "
        "IN (SELECT channel_id FROM channels_set_aside), coalesce(set_aside.hidden, turns.hidden), "
        "coalesce(own.slot, turns.id), (SELECT group_concat(turn_id) FROM slots WHERE "
        "slot = coalesce(own.slot, turns.id)) "
        "FROM turns LEFT JOIN set_aside ON set_aside.turn_id = turns.id "
        "LEFT JOIN slots AS own ON own.turn_id = turns.id WHERE turns.id IN"
    )
    rows = list(rows_among(connection, select, sorted(set(turn_ids))))
    groups = {row[4]: _alternatives(row[4], row[5]) for row in rows}
    members = sorted({i for group in groups.values() for i in group})
    names = turn_names(connection, own_instance(connection), members)
    groups = {  # in the same order on every machine
        slot: (*group[:1], *sorted(group[1:], key=names.__getitem__))
        for slot, group in groups.items()
    }
    return {
        turn_id: Standing(by or None, bool(withdrawn), bool(hidden), groups[slot])
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
        mark(connection, changed, "withdrawn", value)
    return changed


def _shown(connection: sqlite3.Connection, turn_ids: Collection[int]) -> set[int]:
    sql = "SELECT id FROM shown WHERE id IN"
    return {row[0] for row in rows_among(connection, sql, turn_ids)}


def _check_shown(connection: sqlite3.Connection, turn_id: int) -> None:
    if not _shown(connection, (turn_id,)):
        raise RefusedError(
            f"Turn {turn_id} was replaced or withdrawn by now; nothing was changed",
            hint="Run `familiar history show --all`.",
        )


def _check_not_replaced(connection: sqlite3.Connection, turn_ids: Collection[int]) -> None:
    """Make sure that what stands at the place of each turn is among them, or withdrawn."""
    for turn_id, found in standing_of(connection, turn_ids).items():
        if not found.superseded_by:
            continue
        others = standing_of(connection, found.alternatives)
        for other, became in others.items():
            if not became.superseded_by and not became.withdrawn and other not in turn_ids:
                raise RefusedError(
                    f"Turn {turn_id} was replaced by turn {other}, which still stands; nothing was "
                    "changed",
                    hint=f"Run `familiar history withdraw {other}`.",
                )


def _check_not_withdrawn(connection: sqlite3.Connection, turn_id: int) -> None:
    sql = "SELECT 1 FROM set_aside WHERE turn_id = ? AND withdrawn"
    if connection.execute(sql, (turn_id,)).fetchone():
        raise RefusedError(
            f"Turn {turn_id} was withdrawn; nothing was changed",
            hint=f"Run `familiar history restore {turn_id}` first.",
        )


def _alternatives(slot: int, others: str | None) -> tuple[int, ...]:
    return (slot, *sorted(map(int, others.split(",")))) if others else ()


def _no_turn(turn_id: int) -> NotFoundError:
    return NotFoundError(
        f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
    )
