"""Apply lines from other machines to the history, within what each instance may state.

A line that refers to a turn which has not arrived yet is stored as pending until it does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import RefusedError
from familiar_cli.store.history import events, lines, selection
from familiar_cli.store.history.forgetting import is_forgotten
from familiar_cli.store.history.rows import COLUMNS, Turn, pack, to_row, to_turn, unpack
from familiar_cli.store.history.schema import HistoryFile
from familiar_cli.store.history.store import GREETING, HistoryStore, note_id
from familiar_cli.store.history.tombstones import (
    as_tombstone,
    is_tombstone,
    lacks_words,
    uncount_forgotten,
)
from familiar_cli.sync.turns_outgoing import FACTS, HANDED, QUIET, TOLD, fact_line, leave_to_others

UNTRUSTED: Final = "untrusted"
"""In `lines_waiting`: the line is about others and waits until its instance is allowed."""

REFUSED: Final = "refused"
"""In `lines_waiting`: the line is kept, and never applied."""


class FactScope(Struct, frozen=True):
    """Policy for the facts of one instance.

    Args:
        is_trusted: Whether it may state facts about turns that other instances wrote, as when a
            person withdraws on one machine what was said on another. Otherwise only about its own.
        existing_through: Channels with turns of others up to this turn count as existing, and are
            never made a branch of another channel; None: no restriction.
    """

    is_trusted: bool = True
    existing_through: int | None = None

    def obstacle(
        self, connection: sqlite3.Connection, own: str, instance: str, line: lines.Fact
    ) -> str | None:
        """Return `UNTRUSTED` or `REFUSED`, or None if a fact is accepted.

        Args:
            connection: The history, inside a transaction.
            own: This instance's name.
            instance: The instance that states the fact.
            line: The fact; the turns it names exist here.
        """
        if not self.is_trusted and not _is_about_own(connection, own, instance, line):
            return UNTRUSTED
        if isinstance(line, lines.BranchLine) and self.existing_through is not None:
            branch = events.branch_of(connection, line.channel)
            is_known = branch is not None and branch.parent == line.parent
            through = self.existing_through
            if not is_known and not _is_channel_of(connection, instance, line.channel, through):
                return REFUSED
        return None


def unrestricted(_: str) -> FactScope:
    """Accept every fact of every instance."""
    return FactScope()


def count_held(history: HistoryFile) -> dict[str, int]:
    """Count the facts about other instances' turns that await approval, by instance."""
    sql = (
        "SELECT instance, count(*) FROM lines_waiting WHERE needs_instance = ? "
        "GROUP BY instance ORDER BY instance"
    )
    return dict(history.rows(sql, (UNTRUSTED,)))


def _is_about_own(
    connection: sqlite3.Connection, own: str, instance: str, line: lines.Fact
) -> bool:
    if isinstance(line, lines.MarkLine):
        names = [line.turn, *([line.value] if isinstance(line.value, lines.TurnName) else [])]
        return all(name.instance == instance for name in names)
    if isinstance(line, lines.ChannelMarkLine):
        return _is_channel_of(connection, instance, line.channel)
    if isinstance(line, lines.BranchLine):
        channels = (line.channel, line.parent)
        return all(_is_channel_of(connection, instance, channel) for channel in channels)
    return isinstance(line, lines.ChatLine) and (
        _says_nothing_new(connection, line) or _is_chat_of(connection, own, instance, line.key)
    )


def _is_channel_of(
    connection: sqlite3.Connection, instance: str, channel_id: str, through: int | None = None
) -> bool:
    """Tell whether no other instance has turns in a channel or branches it off elsewhere.

    Args:
        connection: The history.
        instance: The presumed owner.
        through: Ignore turns with higher numbers than this one.
    """
    sql = (
        "SELECT 1 FROM turns LEFT JOIN elsewhere ON turn_id = turns.id WHERE channel_id = ?1 "
        "AND coalesce(instance, '') != ?2 AND (?3 IS NULL OR turns.id <= ?3) "
        "UNION ALL SELECT 1 FROM events WHERE kind = 'branch' AND subject = ?1 "
        "AND coalesce(instance, '') != ?2 LIMIT 1"
    )
    values = (pack(channel_id), instance, through)
    return connection.execute(sql, values).fetchone() is None


def _says_nothing_new(connection: sqlite3.Connection, line: lines.ChatLine) -> bool:
    """Tell whether a chat is known as the line describes it: both machines imported it."""
    sql = "SELECT channel_id, kind, format, name, head FROM chats WHERE key = ?"
    told = (line.channel, line.chat_kind, line.format, line.name, line.head)
    known: tuple[object, ...] | None = connection.execute(sql, (pack(line.key),)).fetchone()
    return known == tuple(map(pack, told))


def _is_chat_of(connection: sqlite3.Connection, own: str, instance: str, key: str) -> bool:
    sql = (
        "SELECT coalesce(instance, ?1) FROM events WHERE kind = 'chat' AND subject = ?2 "
        "UNION SELECT coalesce(instance, ?1) FROM chats JOIN turn_extras ON chat_id = chats.id "
        "LEFT JOIN elsewhere USING (turn_id) WHERE key = ?2"
    )
    items: Iterable[tuple[str]] = connection.execute(sql, (own, pack(key)))
    return all(row[0] == instance for row in items)


_INSERT: Final = (
    f"INSERT INTO turns ({', '.join(COLUMNS)}, hidden) "  # noqa: S608  # our own names
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"
)
_KNOWN: Final = f"SELECT id, {', '.join(COLUMNS)} FROM turns WHERE id = ?"  # noqa: S608
_UNKNOWN: Final = "unknown"
_THROUGH: Final = "through:"
_CACHED: Final = 100_000


class InstanceTwiceError(RefusedError):
    """Two machines write turns under one instance name, as after restoring a backup.

    Args:
        name: The first turn that differs between them.
    """

    code = "instance_twice"

    def __init__(self, name: lines.TurnName) -> None:
        super().__init__(
            f"Turn {name} differs here from elsewhere: two machines have the id "
            f"{name.instance!r}; nothing was changed",
            hint="This happens after a familiar was restored from a backup or copied.",
        )
        self.name = name


class ReceivedCounts(Struct):
    """Counts of newly received items.

    Args:
        turns: New turns.
        marks: New marks, branches and chats.
        waiting: Lines pending on a turn that has not arrived.
    """

    turns: int = 0
    marks: int = 0
    waiting: int = 0

    def plus(self, other: ReceivedCounts) -> ReceivedCounts:
        """Add up two counts."""
        both = self.turns + other.turns, self.marks + other.marks
        return ReceivedCounts(*both, self.waiting + other.waiting)


def taken_through(history: HistoryStore, instance: str, rel_path: str) -> int:
    """Return how many bytes of a file of turns have been processed."""
    sql = "SELECT through FROM turn_files WHERE instance = ? AND rel_path = ?"
    items = history.rows(sql, (instance, rel_path))
    return int(items[0][0]) if items else 0


def read_there(history: HistoryStore, instance: str) -> list[tuple[int, int]]:
    """Return the first and last number of each run of turns that an instance's writer has read.

    As last reported by that instance; later reads are not included.
    """
    with history.use(create=False) as connection:
        line = _told_last(connection, instance)
    if line is None:
        return []
    runs, first = [], 1
    for waiting_from, waiting_through in sorted(line.waiting):
        runs.append((first, waiting_from - 1))
        first = max(first, waiting_through + 1)
    return [run for run in (*runs, (first, line.written)) if run[0] <= run[1]]


def _told_last(connection: sqlite3.Connection, instance: str) -> lines.ThroughLine | None:
    """Return the last known read position of an instance."""
    text = lines.read_state(connection, f"{_THROUGH}{instance}")
    line = lines.parse_line(text) if text else None
    return line if isinstance(line, lines.ThroughLine) else None


def rename_instance(
    history: HistoryStore, old: str, new: str, through: int = 0, *, is_gone: bool = False
) -> bool:
    """Rename this instance, because another machine uses the same name.

    Turns from before the two machines diverged keep the old name here as well if the other machine
    sends them under it; everything else said here gets the new one.

    Args:
        history: The history.
        old: Its former name.
        new: Its name from now on.
        through: Turns through this one may be cited under the old name.
        is_gone: Whether nobody uses the old name, so that its unread turns are read here.

    Returns:
        Whether it was done; otherwise another process did it before.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        if old in lines.own_former_names(connection):
            return False
        lines.remember_own(connection, new)
        if is_gone:
            lines.write_state(connection, f"{HANDED}{old}")
            lines.write_state(connection, f"{lines.PARTED}{old}", "1")
        connection.execute("DELETE FROM sync_state WHERE name IN (?, ?)", (TOLD, QUIET))
        lines.write_state(connection, f"{lines.FORMERLY}{old}", str(through))
        events.fold_all(connection)
    return True


def release_facts(history: HistoryStore, own: str, instance: str) -> int:
    """Apply the pending facts of an instance that is now trusted.

    Args:
        own: This instance's name.
        instance: The newly trusted instance.

    Returns:
        How many facts were applied.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    if not history.path.exists():
        return 0
    with take_lines(history, own) as taking:
        taking.release(instance)
    return taking.taken.marks


@contextmanager
def take_lines(
    history: HistoryStore, own: str, scope_of: Callable[[str], FactScope] = unrestricted
) -> Iterator[Intake]:
    """Apply lines in one transaction; their turns are placed when the block ends.

    Args:
        own: This instance's name.
        scope_of: Returns the policy for an instance's facts.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        lines.remember_own(connection, own)
        taking = Intake(
            connection, own, scope_of, _formerly=frozenset(lines.own_former_names(connection))
        )
        yield taking
        taking.finish()


class Intake(Struct):
    """Applies lines inside a transaction; see `take_lines`."""

    connection: sqlite3.Connection
    own: str
    scope_of: Callable[[str], FactScope] = unrestricted
    taken: ReceivedCounts = field(default_factory=ReceivedCounts)
    _ids: dict[lines.TurnName, int] = field(default_factory=dict)
    _formerly: frozenset[str] = frozenset()
    _is_parted: bool = False
    _some_wait: bool | None = None
    _first_id: int = 0
    _last_id: int = 0
    _nodes: list[int] = field(default_factory=list)
    _later: dict[str, dict[str, int]] = field(default_factory=dict)
    _touched: set[int] = field(default_factory=set)

    def take(self, instance: str, text: str) -> None:
        """Apply one line of an instance's file.

        Raises:
            BadLineError: The line is invalid; the message says how.
            InstanceTwiceError: A different turn with the same name exists.
        """
        self._take_all(self._take(instance, text))

    def _take_all(self, arrived: list[lines.TurnName]) -> None:
        """Apply the lines pending on these turns, and those pending on turns among them."""
        while arrived:
            arrived += self._take_waiting(arrived.pop())

    def _take_again(self, instance: str, text: str) -> list[lines.TurnName]:
        """Retry a pending line; return the turn it added."""
        try:
            return self._take(instance, text)
        except lines.BadLineError:  # one bad line must not stop the others
            self._hold(instance, text, lines.TurnName(REFUSED, 0))
            return []

    def release(self, instance: str) -> None:
        """Retry the pending lines of a newly trusted instance."""
        sql = (
            "DELETE FROM lines_waiting WHERE instance = ? AND needs_instance = ? RETURNING id, line"
        )
        for _, text in sorted(self.connection.execute(sql, (instance, UNTRUSTED)).fetchall()):
            self._take_all(self._take_again(instance, unpack(text)))

    def finish(self) -> None:
        """Place all received turns and resolve their marks."""
        if self._first_id:
            leave_to_others(self.connection, self._first_id, self._last_id)
        lowest = lines.place_new_turns(self.connection, self.own, self._nodes)
        if self._is_parted:
            again = lines.weave_all(self.connection, self.own)
            lowest = min((place for place in (lowest, again) if place is not None), default=None)
        events.settle_marks(self.connection, self._touched)
        uncount_forgotten(self.connection)
        if lowest is not None:
            events.forget_from(self.connection, max(lowest, 1))

    def note_through(self, instance: str, rel_path: str, start: int, end: int) -> None:
        """Record that the bytes of a file from `start` to `end` were processed."""
        sql = (
            "INSERT INTO turn_files SELECT ?1, ?2, ?4 WHERE NOT ?3 OR EXISTS (SELECT 1 FROM "
            "turn_files WHERE (instance, rel_path) = (?1, ?2) AND through >= ?3) "
            "ON CONFLICT DO UPDATE SET through = max(through, excluded.through)"
        )
        self.connection.execute(sql, (instance, rel_path, start, end))

    def _take(self, instance: str, text: str) -> list[lines.TurnName]:
        """Apply a line, or store it as pending; return the turn it added."""
        line = lines.parse_line(text)
        if line is None:
            self._hold(instance, text, lines.TurnName(_UNKNOWN, 0))
        elif isinstance(line, lines.ThroughLine):
            self._note_written(instance, text, line)
        else:
            return self._take_new(lines.TurnName(instance, line.id), text, line)
        return []

    def _take_new(
        self, name: lines.TurnName, text: str, line: lines.TurnLine | lines.Fact
    ) -> list[lines.TurnName]:
        """Apply a turn or a fact unless it is known; return the turn it added."""
        if isinstance(line, lines.TurnLine):
            if self._is_turn_known(name, line):
                return []
            if name.instance in self._formerly and self._was_ours(name, line):
                return [name]
        elif self._is_known(name, line):
            return []
        if name.instance == self.own:
            raise InstanceTwiceError(name)
        if obstacle := self._obstacle(name, line):
            self._hold(name.instance, text, obstacle)
        elif isinstance(line, lines.TurnLine):
            self._add_turn(name, line)
            return [name]
        else:
            self._add_fact(name, line)
        return []

    def _obstacle(
        self, name: lines.TurnName, line: lines.TurnLine | lines.Fact
    ) -> lines.TurnName | None:
        """Return the turn or decision that a line is pending on, or None if it is accepted."""
        missing = next((n for n in _needed_turns(line) if self._id_of(n) is None), None)
        if missing is not None:
            if missing == name and isinstance(line, lines.TurnLine):
                raise lines.BadLineError("it follows itself")
            return missing
        scope = self.scope_of(name.instance)
        if isinstance(line, lines.TurnLine):
            is_refused = not scope.is_trusted and self._replaces(name, line)
            obstacle = UNTRUSTED if is_refused else None
        else:
            obstacle = scope.obstacle(self.connection, self.own, name.instance, line)
        return lines.TurnName(obstacle, 0) if obstacle else None

    def _replaces(self, name: lines.TurnName, line: lines.TurnLine) -> bool:
        """Tell whether a turn would replace another instance's message with other words."""
        same = self._of_message(line)
        if same is None and line.imported:
            same = self._same_line(name.instance, line.imported)
        if same is None:
            return False
        there = to_turn(self.connection.execute(_KNOWN, (same,)).fetchone())
        origin = lines.foreign_names(self.connection, (same,)).get(same)
        is_own = origin is not None and origin.instance == name.instance
        said = (line.content, line.author, line.role)
        is_same = (there.content, there.author, there.role) == said
        return not is_own and not is_same

    def _take_waiting(self, name: lines.TurnName) -> list[lines.TurnName]:
        """Apply the lines pending on a turn."""
        if self._some_wait is None:
            value = self.connection.execute("SELECT 1 FROM lines_waiting LIMIT 1").fetchone()
            self._some_wait = value is not None
        if not self._some_wait:
            return []
        sql = (
            "DELETE FROM lines_waiting WHERE needs_instance = ? AND needs_id = ? "
            "RETURNING id, instance, line"
        )
        rows = sorted(self.connection.execute(sql, name).fetchall())
        return [n for _, instance, text in rows for n in self._take_again(instance, unpack(text))]

    def _hold(self, instance: str, text: str, needs: lines.TurnName) -> None:
        sql = (
            "INSERT OR IGNORE INTO lines_waiting (instance, line, needs_instance, needs_id) "
            "VALUES (?, ?, ?, ?)"
        )
        self._some_wait = True
        values = (instance, pack(text), *needs)
        self.taken.waiting += self.connection.execute(sql, values).rowcount

    def _id_of(self, name: lines.TurnName) -> int | None:
        if name not in self._ids:
            position = self._look_up(name)
            if position is None:
                return None
            if len(self._ids) >= _CACHED:
                self._ids.clear()
            self._ids[name] = position
        return self._ids[name]

    def _look_up(self, name: lines.TurnName) -> int | None:
        if name.instance == self.own:
            return lines.local_ids(self.connection, self.own, (name,)).get(name)
        sql = "SELECT turn_id FROM elsewhere WHERE instance = ? AND id_there = ?"
        return self._number(sql, name)

    def _local_number(self, name: lines.TurnName | None) -> int:
        """Return the local number of a named turn; 0: no turn is named."""
        return (self._id_of(name) or 0) if name else 0

    def _is_turn_known(self, name: lines.TurnName, line: lines.TurnLine) -> bool:
        """Tell whether a turn is stored, raising if the stored one differs."""
        known = self._id_of(name)
        if known is None:
            return False
        row = self.connection.execute(_KNOWN, (known,)).fetchone()
        here, there = to_turn(row), _turn_of_line(line)
        if replace(here, id=0) != there and not (lacks_words(here) or lacks_words(there)):
            raise InstanceTwiceError(name)
        return True

    def _was_ours(self, name: lines.TurnName, line: lines.TurnLine) -> bool:
        """Tell whether a turn was said here before two machines diverged; it keeps its old name."""
        state = lines.read_state(self.connection, TOLD, "0")
        row = self.connection.execute(_KNOWN, (line.id,)).fetchone()
        is_same = row is not None and replace(to_turn(row), id=0) == _turn_of_line(line)
        if not is_same or line.id <= int(state) or lines.foreign_names(self.connection, (line.id,)):
            return False
        values = (line.id, *name, self._local_number(line.after), line.more)
        self.connection.execute("INSERT INTO elsewhere VALUES (?, ?, ?, ?, ?)", values)
        leave_to_others(self.connection, line.id, line.id)
        if line.one_to_one:  # whom a greeting was for may have become known there only
            selection.note_origin(self.connection, line.id, line.channel, line.one_to_one)
        self._ids[name] = line.id
        self._is_parted = True
        return True

    def _is_known(self, name: lines.TurnName, line: lines.Fact) -> bool:
        if name.instance in self._formerly:
            row = self.connection.execute(f"{FACTS} AND id = ?", (line.id,)).fetchone()
            if row and fact_line(self.connection, self.own, row) == line:
                sql = "UPDATE events SET instance = ?, id_there = id WHERE id = ?"
                self.connection.execute(sql, (name.instance, line.id))
        if name.instance == self.own:
            sql = f"{FACTS} AND id = ? AND min(clock, ?) = ?"
            values: tuple[object, ...] = (line.id, lines.MOST, line.clock)
        else:
            sql, values = "SELECT 1 FROM events WHERE instance = ? AND id_there = ?", name
        return self.connection.execute(sql, values).fetchone() is not None

    def _add_turn(self, name: lines.TurnName, line: lines.TurnLine) -> None:
        self.taken.turns += 1
        turn = _turn_of_line(line)
        if not is_tombstone(turn) and is_forgotten(self.connection, turn, is_attributed=True):
            line = as_tombstone(self.connection, line)
        values = (*to_row(_turn_of_line(line)), int(line.hidden))
        turn_id = self.connection.execute(_INSERT, values).lastrowid or 0
        self._ids[name] = self._last_id = turn_id
        self._first_id = self._first_id or turn_id
        follows = self._local_number(line.after)
        sql = "INSERT INTO elsewhere VALUES (?, ?, ?, ?, ?)"
        self.connection.execute(sql, (turn_id, *name, follows, line.more))
        selection.note_origin(self.connection, turn_id, line.channel, line.one_to_one)
        if line.reply_to:
            values = (turn_id, self._local_number(line.reply_to))
            self.connection.execute("INSERT INTO replies VALUES (?, ?)", values)
        same = self._same_messages(name.instance, turn_id, line)
        if line.instead_of:
            events.stand_at(self.connection, turn_id, self._local_number(line.instead_of))
            self._touched.add(turn_id)
            return
        self._nodes.append(turn_id)
        for other in same:
            events.share_place(self.connection, self.own, other, turn_id)
            self._touched.add(turn_id)

    def _same_messages(self, instance: str, turn_id: int, line: lines.TurnLine) -> list[int]:
        """Store a turn's metadata; return other turns that are the same message."""
        same: list[int | None] = [*self._same_copies(instance, turn_id, line.former)]
        if line.message_id:
            same.append(self._of_message(line))
            if same[-1] is None:
                note_id(self.connection, line.channel, line.message_id, turn_id)
        if line.imported:
            same.append(self._same_line(instance, line.imported))
            chat = self._chat(line.imported.chat or f"{instance}:{line.channel}", line.channel)
            nth = self._number_of(instance, line.imported)
            about = (line.imported.identity, int(line.imported.estimated), pack(line.imported.raw))
            sql = "INSERT INTO turn_extras VALUES (?, ?, ?, ?, ?, ?)"
            self.connection.execute(sql, (turn_id, chat, *about, nth))
        if line.source == GREETING:
            same.append(self._same_greeting(turn_id, line))
        return [other for other in same if other is not None]

    def _same_copies(self, instance: str, turn_id: int, former: Iterable[str]) -> list[int]:
        """Return the same turn under former and later ids of its instance, and record them.

        A machine that was restored or copied sends what the original may also have sent.
        """
        there = lines.foreign_names(self.connection, (turn_id,))[turn_id].id
        kind = lines.FORMER if self.scope_of(instance).is_trusted else lines.CLAIMED
        for old in former:
            state = f"{kind}{old}:{instance}"
            through = max(there, int(lines.read_state(self.connection, state, "0")))
            lines.write_state(self.connection, state, str(through))
        if instance not in self._later:
            names = lines.former_names(self.connection, self.own, instance, claimed=True)
            self._later[instance] = names
        later = (new for new, through in self._later[instance].items() if there <= through)
        matches = (self._look_up(lines.TurnName(name, there)) for name in (*former, *later))
        return [i for i in matches if i not in {None, turn_id} and self._is_equal(i, turn_id)]

    def _is_equal(self, one: int, other: int) -> bool:
        turns = (to_turn(self.connection.execute(_KNOWN, (i,)).fetchone()) for i in (one, other))
        return len({replace(turn, id=0) for turn in turns}) == 1

    def _of_message(self, line: lines.TurnLine) -> int | None:
        """Return the turn in the line's channel with the line's message id."""
        if not line.message_id:
            return None
        sql = "SELECT turn_id FROM message_ids WHERE channel_id = ? AND message_id = ?"
        key = (pack(line.channel), pack(line.message_id))
        return self._number(sql, key)

    def _number(self, sql: str, values: Sequence[object]) -> int | None:
        """Return the single number that a query selects, or None."""
        value = self.connection.execute(sql, values).fetchone()
        return int(value[0]) if value else None

    def _same_line(self, instance: str, line: lines.ImportOrigin) -> int | None:
        """Return the turn that another instance imported from the same line of a chat."""
        sql = (
            "SELECT turn_id FROM turn_extras LEFT JOIN elsewhere USING (turn_id) WHERE nth AND "
            "(identity, nth) = (?, ?) AND coalesce(instance, ?) != ? ORDER BY turn_id LIMIT 1"
        )
        values = (line.identity, self._number_of(instance, line), self.own, instance)
        return self._number(sql, values)

    def _number_of(self, instance: str, line: lines.ImportOrigin) -> int:
        """Return a line's number among identical ones, computing it if the sender left it out."""
        if line.nth is not None:
            return line.nth
        sql = (
            "SELECT count(*) + 1 FROM turn_extras LEFT JOIN elsewhere USING (turn_id) "
            "WHERE identity = ? AND coalesce(instance, ?) = ?"
        )
        return self._number(sql, (line.identity, self.own, instance)) or 1

    def _same_greeting(self, turn_id: int, line: lines.TurnLine) -> int | None:
        sql = (
            "SELECT id FROM turns WHERE channel_id = ? AND id < ? AND source = ? AND content = ? "
            "ORDER BY id LIMIT 1"
        )
        values = (pack(line.channel), turn_id, GREETING, pack(line.content))
        return self._number(sql, values)

    def _chat(self, key: str, channel_id: str) -> int:
        """Return the number of a chat; its description may arrive later."""
        sql = (
            "INSERT OR IGNORE INTO chats (channel_id, key, kind, format, name, head) "
            "VALUES (?, ?, 'import', '', '', '')"
        )
        self.connection.execute(sql, (pack(channel_id), pack(key)))
        cursor = self.connection.execute("SELECT id FROM chats WHERE key = ?", (pack(key),))
        return int(cursor.fetchone()[0])

    def _add_fact(self, name: lines.TurnName, line: lines.Fact) -> None:
        self.taken.marks += 1
        origin = events.EventOrigin(*name, line.clock)
        if isinstance(line, lines.ChatLine):
            self._add_chat(line, origin)
        elif isinstance(line, lines.MarkLine):
            self._add_mark(line, origin)
        elif isinstance(line, lines.BranchLine):
            channel, left, parent = (
                pack(line.channel),
                self._local_number(line.turn),
                pack(line.parent),
            )
            events.append_event(
                self.connection, events.BRANCH, channel, left, parent, at=line.at, origin=origin
            )
            events.forget_from(self.connection, 1, channel)
        else:
            channel, is_out = pack(line.channel), int(line.withdrawn)
            events.append_event(
                self.connection, events.CHANNEL, channel, value=is_out, at=line.at, origin=origin
            )
            events.forget_from(self.connection, 1)

    def _add_mark(self, line: lines.MarkLine, origin: events.EventOrigin) -> None:
        turn_id = self._local_number(line.turn)
        value = line.value if isinstance(line.value, int) else self._local_number(line.value)
        places = events.slots_of(self.connection, (turn_id, value))
        if line.mark == "superseded" and value and places[turn_id] != places[value]:
            raise lines.BadLineError(
                f"turn {line.value} does not stand in the place of {line.turn}"
            )
        events.append_event(
            self.connection, line.mark, None, turn_id, value, at=line.at, origin=origin
        )
        self._touched.add(turn_id)

    def _add_chat(self, line: lines.ChatLine, origin: events.EventOrigin) -> None:
        number = self._chat(line.key, line.channel)
        if events.append_event(self.connection, events.CHAT, pack(line.key), origin=origin):
            texts = (line.channel, line.chat_kind, line.format, line.name, line.head)
            sql = (
                "UPDATE chats SET channel_id = ?, kind = ?, format = ?, name = ?, head = ? "
                "WHERE id = ?"
            )
            self.connection.execute(sql, (*map(pack, texts), number))

    def _note_written(self, instance: str, text: str, line: lines.ThroughLine) -> None:
        """Store the read position that an instance last reported."""
        before = _told_last(self.connection, instance)
        if instance != self.own and (before is None or before.written <= line.written):
            lines.write_state(self.connection, f"{_THROUGH}{instance}", text)


def _turn_of_line(line: lines.TurnLine) -> Turn:
    return Turn(
        id=0,
        channel_id=line.channel,
        author=line.author,
        role=line.role,
        content=line.content,
        at=line.at,
        modality=line.modality,
        source=line.source,
        partial=line.partial,
    )


def _needed_turns(line: lines.TurnLine | lines.Fact) -> list[lines.TurnName]:
    """Return the turns that a line refers to and depends on."""
    if isinstance(line, lines.TurnLine):
        names = [line.after, line.instead_of, line.reply_to]
    elif isinstance(line, lines.MarkLine):
        names = [line.turn, line.value if isinstance(line.value, lines.TurnName) else None]
    elif isinstance(line, lines.BranchLine):
        names = [line.turn]
    else:
        names = []
    return [name for name in names if name is not None]
