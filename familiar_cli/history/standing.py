"""Which turns stand: what was replaced or withdrawn stays in the history, and out of all else.

A turn is never changed. That another takes its place, that it is withdrawn or hidden, is a mark: a
row of its own, with a time, which a later mark can take back. `set_aside` holds what the marks of a
turn come to; the database itself keeps it up to date, and it could be made from the marks again.

Every reader of turns reads one of three: `standing`, for a model; `shown`, for people, with the
hidden ones; `turns`, for who keeps the books. A turn that took the place of another stands where
that one stood: `places` says where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.errors import NotFoundError, RefusedError
from familiar_cli.history import one_to_one
from familiar_cli.history.arranging import place_of
from familiar_cli.history.branches import branch_of, move
from familiar_cli.history.elsewhere import foreign_names
from familiar_cli.history.lines import TurnName
from familiar_cli.history.messages import insert
from familiar_cli.history.rows import SELECTED, in_ms, pack, to_turn, unpack
from familiar_cli.history.selection import newest_rows
from familiar_cli.history.settling import own_instance, settle
from familiar_cli.history.speakers import recount
from familiar_cli.history.summaries import forget_from
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

TABLES: Final = (
    """CREATE TABLE marks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        turn_id INTEGER NOT NULL,
        mark TEXT NOT NULL CHECK (mark IN ('superseded', 'withdrawn', 'hidden')),
        value INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    )""",
    """CREATE TABLE channel_marks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel_id TEXT NOT NULL,
        withdrawn INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    )""",
    """CREATE TABLE set_aside (
        turn_id INTEGER PRIMARY KEY,
        superseded_by INTEGER NOT NULL DEFAULT 0,
        withdrawn INTEGER NOT NULL DEFAULT 0,
        hidden INTEGER
    )""",
    """CREATE TABLE places (
        turn_id INTEGER PRIMARY KEY,
        channel_id TEXT NOT NULL,
        place INTEGER NOT NULL
    )""",
    "CREATE INDEX places_by_place ON places (place, channel_id)",
    "CREATE TABLE channels_set_aside (channel_id TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE TRIGGER marks_are_summed_up AFTER INSERT ON marks
        BEGIN
            INSERT OR IGNORE INTO set_aside (turn_id) VALUES (NEW.turn_id);
            UPDATE set_aside SET
                superseded_by = iif(NEW.mark = 'superseded', NEW.value, superseded_by),
                withdrawn = iif(NEW.mark = 'withdrawn', NEW.value, withdrawn),
                hidden = iif(NEW.mark = 'hidden', NEW.value, hidden)
            WHERE turn_id = NEW.turn_id;
            INSERT OR REPLACE INTO places SELECT NEW.value, channel_id,
                coalesce((SELECT place FROM places WHERE turn_id = NEW.turn_id), NEW.turn_id)
            FROM turns WHERE id = NEW.value AND NEW.mark = 'superseded';
        END""",
    """CREATE TRIGGER channel_marks_are_summed_up AFTER INSERT ON channel_marks
        BEGIN
            DELETE FROM channels_set_aside WHERE channel_id = NEW.channel_id;
            INSERT INTO channels_set_aside SELECT NEW.channel_id WHERE NEW.withdrawn;
        END""",
    """CREATE VIEW shown AS SELECT * FROM turns
        WHERE NOT EXISTS (SELECT 1 FROM set_aside
            WHERE turn_id = turns.id AND (superseded_by OR withdrawn))
        AND channel_id NOT IN (SELECT channel_id FROM channels_set_aside)""",
    """CREATE VIEW standing AS SELECT * FROM shown
        WHERE NOT coalesce((SELECT hidden FROM set_aside WHERE turn_id = shown.id), hidden)""",
)
_STANDING: Final = f"SELECT {SELECTED} FROM standing AS turns"  # noqa: S608
_TRIGGER: Final = """CREATE TRIGGER {table}_are_never_{done} BEFORE {change} ON {table}
    BEGIN SELECT RAISE(ABORT, 'a mark is never {done}'); END"""


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


def add(connection: sqlite3.Connection) -> None:
    """Make the tables of a history that has none."""
    for statement in TABLES:
        connection.execute(statement)
    for table in ("marks", "channel_marks"):
        for change, done in (("UPDATE", "changed"), ("DELETE", "deleted")):
            connection.execute(_TRIGGER.format(table=table, change=change, done=done))


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
            return made
        made = insert(connection, new)
        one_to_one.inherit(connection, made.id, old.id)
        _mark(connection, (old.id,), "superseded", made.id)
        if old.hidden:
            _mark(connection, (made.id,), "hidden", 1)
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
    before = to_turn(last[0]) if len(last) > 1 else None
    move(connection, branch, *(before.id, place_of(before)) if before else (0, 0))
    forget_from(connection, place_of(turn), channel_id)


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
        _mark(connection, gone, "superseded", turn_id)
        if found.superseded_by:
            _mark(connection, (turn_id,), "superseded", 0)
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
        sql = "INSERT INTO channel_marks (channel_id, withdrawn, at_ms) VALUES (?, ?, ?)"
        connection.execute(sql, (key, int(withdrawn), in_ms(now())))
        forget_from(connection, first)
    return True


def withdrawn_channels(history: HistoryStore) -> frozenset[str]:
    """Return the channels that were taken out as a whole."""
    with history.use(create=False) as connection:
        if connection is None:
            return frozenset()
        rows = connection.execute("SELECT channel_id FROM channels_set_aside")
        return frozenset(unpack(row[0]) for row in rows)


def standings(history: HistoryStore, turn_ids: Iterable[int]) -> dict[int, Standing]:
    """Return the standing of each of these turns that exists."""
    with history.use(create=False) as connection:
        return standing_of(connection, turn_ids) if connection else {}


def marked_count(history: HistoryStore) -> int:
    """Return how many turns or channels were ever replaced, withdrawn or hidden."""
    sql = "SELECT (SELECT count(*) FROM set_aside) + (SELECT count(*) FROM channels_set_aside)"
    with history.use(create=False) as connection:
        return connection.execute(sql).fetchone()[0] if connection else 0


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
    names = foreign_names(connection, sorted({i for group in groups.values() for i in group}))
    if names:  # in the same order on every machine
        own = own_instance(connection)
        groups = {
            slot: (*group[:1], *sorted(group[1:], key=lambda i: names.get(i, TurnName(own, i))))
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
        _mark(connection, changed, "withdrawn", value)
    return changed


def _mark(connection: sqlite3.Connection, turn_ids: Collection[int], mark: str, value: int) -> None:
    """Mark turns, and count their authors again."""
    before = _set_aside(connection, turn_ids)
    sql = "INSERT INTO marks (turn_id, mark, value, at_ms) VALUES (?, ?, ?, ?)"
    at_ms = in_ms(now())
    connection.executemany(sql, [(turn_id, mark, value, at_ms) for turn_id in turn_ids])
    if turn_ids:
        forget_from(connection, min(places_of(connection, turn_ids)))
    if turn_ids and own_instance(connection):
        settle(connection, turn_ids, {turn_id: turn_id in before for turn_id in turn_ids})
        return
    changed = before ^ _set_aside(connection, turn_ids)
    recount(connection, {i: 1 if i in before else -1 for i in changed})


def places_of(connection: sqlite3.Connection, turn_ids: Collection[int]) -> list[int]:
    """Return where turns stand, in no order."""
    sql = "SELECT place FROM places WHERE turn_id IN"
    return [*turn_ids, *(row[0] for row in rows_among(connection, sql, turn_ids))]


def _set_aside(connection: sqlite3.Connection, turn_ids: Collection[int]) -> set[int]:
    """Return those that were superseded or withdrawn, whatever became of their channel."""
    sql = "SELECT turn_id FROM set_aside WHERE (superseded_by OR withdrawn) AND turn_id IN"
    return {row[0] for row in rows_among(connection, sql, turn_ids)}


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
