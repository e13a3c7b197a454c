"""Lines exchanged between machines, the names of their turns, and their order.

A turn has a number in this file and a name between machines: the instance that wrote it and its
number there, as `laptop-7f3a:12`. Turns written by this instance need no row for it.

Empty fields are left out; lines of an unknown kind are ignored.

Each turn follows the one that was last on its machine when it was written, so turns form a tree. It
is ordered depth-first: each turn, then all that follow it; among several that follow the same one,
the lower instance comes first, with all of its descendants. Concurrent turns of two machines do not
interleave, no turn precedes one that its writer knew, and neither clocks nor the order of arrival
matter.

A turn written here follows the last-placed of the turns with lower numbers. Places are a
permutation of the numbers; they differ only where machines continued from the same turn.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from msgspec import Meta, Struct, convert
from msgspec.structs import asdict, replace

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.times.clock import to_ms
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.rows import Role  # type of a field

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.store.history.schema import HistoryFile

__all__ = ["TurnName", "foreign_names", "ids_of", "local_ids", "names_of", "origins", "turn_names"]

VERSION: Final = 1
"""The version of the lines that are written here."""

MARKS: Final = ("superseded", "withdrawn", "hidden")
"""What a turn can be marked as, in lines and in the log of events."""

MOST: Final = 2**53 - 1
"""The largest number in a line: any program's JSON can hold it."""

Number = Annotated[int, Meta(ge=1, le=MOST)]
"""The number of a turn or an event."""

Count = Annotated[int, Meta(ge=0, le=MOST)]

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*:[1-9][0-9]{0,15}")
_MOST_FORMER: Final = 20


class BadLineError(BadInputError):
    """A line of another instance is malformed."""

    code = "bad_turn_line"


class TurnName(NamedTuple):
    """Shared id of a turn: the instance that wrote it and its number there."""

    instance: str
    id: int

    def __str__(self) -> str:
        return f"{self.instance}:{self.id}"


class ImportOrigin(Struct, frozen=True):
    """What the source of an imported turn states about it.

    Args:
        chat: The key of its chat.
        identity: The key that identifies it in its channel.
        estimated: Whether its time is a guess.
        raw: The original line, in JSON.
        nth: Its number among equal lines; 0: it has no equal; None: unknown.
    """

    chat: str
    identity: bytes
    estimated: bool
    raw: str
    nth: Count | None = None


class TurnLine(Struct, frozen=True):
    """One turn.

    Args:
        id: Its number on the instance that wrote it.
        after: The turn that it followed; None: it was the first, or takes another's place.
        role: Its role in a prompt.
        author: Its author; None: the familiar.
        at: Its time, in UTC.
        modality: `text` or `voice`.
        source: What wrote it.
        partial: Whether it was cut off.
        hidden: Whether it is left out of prompts.
        message_id: Its id on its platform; empty: unknown.
        reply_to: The turn that it replies to.
        instead_of: The turn whose place it takes.
        imported: What its source states about it; None: it was said live.
        one_to_one: The only person who had spoken in the channel by then; None: there were several.
        former: Earlier ids of the instance, under which the turn may be cited with the same number.
        more: Further fields from a newer version, in JSON; empty: none.
    """

    id: Number
    after: TurnName | None
    channel: str
    role: Role
    author: Author | None
    content: str
    at: datetime
    modality: str
    source: str
    partial: bool = False
    hidden: bool = False
    message_id: str = ""
    reply_to: TurnName | None = None
    instead_of: TurnName | None = None
    imported: ImportOrigin | None = None
    one_to_one: Author | None = None
    former: tuple[str, ...] = ()
    more: str = ""


class MarkLine(Struct, frozen=True):
    """A mark on a turn: `value` is the turn that replaces it, or 1; 0 takes the mark back."""

    id: Number
    clock: Number
    turn: TurnName
    mark: str
    value: TurnName | Count
    at: datetime


class ChannelMarkLine(Struct, frozen=True):
    """A whole channel was withdrawn or restored."""

    id: Number
    clock: Number
    channel: str
    withdrawn: bool
    at: datetime


class BranchLine(Struct, frozen=True):
    """A channel branched off another one after a turn; None: before its first."""

    id: Number
    clock: Number
    channel: str
    parent: str
    turn: TurnName | None
    at: datetime


class ChatLine(Struct, frozen=True):
    """An imported chat."""

    id: Number
    clock: Number
    channel: str = ""
    key: str = ""
    chat_kind: str = ""
    format: str = ""
    name: str = ""
    head: str = ""


class ThroughLine(Struct, frozen=True):
    """Cursor: the last turn and fact among the lines before it, and the writer's read position.

    Args:
        turn: All turns up to this one are in the files.
        fact: All marks, branches and chats up to this one are in the files.
        written: The writer of that instance has read all turns up to this one,
        waiting: but for those from the first through the last of each pair.
    """

    turn: Count = 0
    fact: Count = 0
    written: Count = 0
    waiting: tuple[tuple[Number, Number], ...] = ()


Fact = MarkLine | ChannelMarkLine | BranchLine | ChatLine
Line = TurnLine | Fact | ThroughLine
_KINDS: Final[Mapping[str, type[Any]]] = {
    "turn": TurnLine,
    "mark": MarkLine,
    "channel-mark": ChannelMarkLine,
    "branch": BranchLine,
    "chat": ChatLine,
    "through": ThroughLine,
}


# What fields that are left out mean, of those without a default.
_ABSENT: Final[Mapping[str, Mapping[str, Any]]] = {
    "turn": {"after": None, "author": None},
    "channel-mark": {"withdrawn": False},
    "branch": {"turn": None},
}

# The fields that hold names of turns.
_NAMES: Final = {
    name: [key for key, text in kind.__annotations__.items() if text.startswith("TurnName")]
    for name, kind in _KINDS.items()
}

_KIND_OF: Final = {kind: name for name, kind in _KINDS.items()}


def encode_line(line: Line) -> bytes:
    """Encode a line, with its line end. Equal lines have equal bytes."""
    told: dict[str, Any] = {"v": VERSION, "kind": _KIND_OF[type(line)]}
    for name in line.__struct_fields__:
        if name == "more":
            continue
        value = _plain_value(getattr(line, name))
        if value is not None and value is not False and value not in ("", ()):
            told[name] = value
    if isinstance(line, TurnLine) and "content" not in told:
        told["content"] = ""
    try:
        return f"{_to_json(told, ascii_only=False)}\n".encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can hold
        return f"{_to_json(told, ascii_only=True)}\n".encode()


def parse_line(text: str | bytes) -> Line | None:
    """Parse a line; None if it is of a kind that only a newer version knows.

    Raises:
        BadLineError: The line is malformed.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"it is not JSON ({error})") from error
    if not isinstance(told, dict):
        raise BadLineError("it is not an object")
    version, kind = told.get("v"), told.get("kind")
    if not isinstance(version, int) or version < 1 or not isinstance(kind, str):
        raise BadLineError("it has no version or no kind")
    if kind not in _KINDS:
        return None
    told.pop("more", None)  # it is built from the unknown fields
    try:
        values = {**_ABSENT.get(kind, {}), **told, **_read_fields(kind, told)}
        line: Line = convert(values, _KINDS[kind])
    except (ValueError, OverflowError, TypeError, KeyError, RecursionError) as error:
        raise BadLineError(f"it is malformed: {error!s:.160}") from error
    if isinstance(line, MarkLine):
        _check_mark(line)
    if isinstance(line, TurnLine):
        known = {"v", "kind", *TurnLine.__struct_fields__}
        more = {key: value for key, value in told.items() if key not in known}
        return replace(line, more=_to_json(more, ascii_only=True) if more else "")
    return line


def _check_mark(line: MarkLine) -> None:
    is_named = isinstance(line.value, TurnName)
    if line.mark not in MARKS:
        raise BadLineError("its 'mark' is unknown")
    if is_named != (line.mark == "superseded") and line.value:
        raise BadLineError("its 'value' is not a valid number")
    if not is_named and line.value not in (0, 1):
        raise BadLineError("its 'value' is not a valid number")


def _to_json(told: Mapping[str, Any], *, ascii_only: bool) -> str:
    return json.dumps(told, ensure_ascii=ascii_only, separators=(",", ":"))


def _plain_value(value: object) -> object:
    if isinstance(value, TurnName):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Author):
        return {key: text for key, text in asdict(value).items() if text is not None}
    if isinstance(value, ImportOrigin):
        estimated = {"estimated": True} if value.estimated else {}
        about = {"chat": value.chat, "identity": value.identity.hex()}
        nth = {} if value.nth is None else {"nth": value.nth}
        return {**about, **estimated, **nth, "raw": value.raw}
    return value


def _read_fields(kind: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a line that are written as text, and are something else."""
    names = {key: _read_name(told[key]) for key in _NAMES[kind] if told.get(key) is not None}
    return names | {key: read(told[key]) for key, read in _READERS.items() if key in told}


def _read_time(value: str) -> datetime:
    return to_ms(datetime.fromisoformat(value)).astimezone(UTC)


def _read_name(value: object) -> TurnName | int:
    if isinstance(value, int):  # of a mark
        return value
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadLineError(f"{value!r:.40} is not the name of a turn")
    instance, _, number = value.rpartition(":")
    return TurnName(instance, int(number))


def _read_source_text(text: str) -> str:
    if not isinstance(json.loads(text), dict):
        raise BadLineError("its metadata from the source is not an object")
    return text


def _read_imported(value: object) -> object:
    if not isinstance(value, dict):
        return value
    raw, identity = _read_source_text(value["raw"]), bytes.fromhex(value["identity"])
    return {"estimated": False, **value, "raw": raw, "identity": identity}


def _read_instances(value: object) -> list[str]:
    names = convert(value, list[str])[:_MOST_FORMER]
    if not all(_NAME.fullmatch(f"{one}:1") for one in names):
        raise BadLineError("its former ids are not names of instances")
    return names


# By the name of a field.
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "at": _read_time,
    "head": _read_source_text,
    "imported": _read_imported,
    "former": _read_instances,
}


OWN: Final = "own"
"""In `sync_state`: which instance this history knows itself as."""

FORMERLY: Final = "formerly:"
"""In `sync_state`, before a former id of this instance: its last turn under it."""

PARTED: Final = "parted:"
"""In `sync_state`, before a former id: nothing of others was merged since, so that numbers after
the last turn under it mean turns here."""

CLAIMED: Final = "claimed:"
"""In `sync_state`: as `FORMER`, by an instance that is not trusted."""

FORMER: Final = "former:"
"""In `sync_state`, before a former id of another instance and its id: as `FORMERLY`."""


def read_state(connection: sqlite3.Connection, name: str, default: str = "") -> str:
    """Read a value of `sync_state`."""
    sql = "SELECT value FROM sync_state WHERE name = ?"
    return str((connection.execute(sql, (name,)).fetchone() or (default,))[0])


def write_state(connection: sqlite3.Connection, name: str, value: str = "") -> None:
    """Write a value of `sync_state`."""
    connection.execute("INSERT OR REPLACE INTO sync_state VALUES (?, ?)", (name, value))


def names_of(history: HistoryFile, own: str, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the shared ids of turns; turns that do not exist are left out.

    Args:
        own: This instance's name.
        turn_ids: Their numbers here.
    """
    wanted = sorted(set(turn_ids))
    with history.use(create=False) as connection:
        there = (
            row[0] for row in rows_among(connection, "SELECT id FROM turns WHERE id IN", wanted)
        )
        return turn_names(connection, own, list(there))


def ids_of(history: HistoryFile, own: str, names: Iterable[TurnName]) -> dict[TurnName, int]:
    """Return the local numbers of turns; those that do not exist here are left out.

    Args:
        own: This instance's name.
        names: Their shared ids.
    """
    with history.use(create=False) as connection:
        return local_ids(connection, own, names)


def origins(history: HistoryFile, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the shared ids of those turns that another instance wrote."""
    with history.use(create=False) as connection:
        return foreign_names(connection, sorted(set(turn_ids)))


def foreign_names(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, TurnName]:
    """Return the shared ids of those turns that another instance wrote."""
    sql = "SELECT turn_id, instance, id_there FROM elsewhere WHERE turn_id IN"
    rows = rows_among(connection, sql, turn_ids)
    return {turn_id: TurnName(instance, there) for turn_id, instance, there in rows}


def turn_names(
    connection: sqlite3.Connection, own: str, turn_ids: Collection[int]
) -> dict[int, TurnName]:
    """Return the shared ids of turns that exist; see `names_of`."""
    return {i: TurnName(own, i) for i in turn_ids} | foreign_names(connection, turn_ids)


def own_instance(connection: sqlite3.Connection) -> str:
    """Return the stored name of this instance; empty: it has never synchronised."""
    return read_state(connection, OWN)


def remember_own(connection: sqlite3.Connection, own: str) -> None:
    """Store this instance's name, which is needed to rank concurrent marks."""
    if own_instance(connection) != own:
        write_state(connection, OWN, own)


def local_ids(
    connection: sqlite3.Connection, own: str, names: Iterable[TurnName]
) -> dict[TurnName, int]:
    """Return the local numbers of turns; see `ids_of`."""
    by_instance: defaultdict[str, set[int]] = defaultdict(set)
    for instance, there in names:
        by_instance[instance].add(there)
    result = _current_ids(connection, own, by_instance)
    for old in by_instance:
        wanted = {n for n in by_instance[old] if TurnName(old, n) not in result}
        for new, through in former_names(connection, own, old).items() if wanted else ():
            some = {new: {number for number in wanted if number <= through}}
            renamed = _current_ids(connection, own, some).items()
            result |= {TurnName(old, name.id): turn_id for name, turn_id in renamed}
    return result


def former_names(
    connection: sqlite3.Connection, own: str, old: str, *, claimed: bool = False
) -> dict[str, int]:
    """Return the instances that once had the id `old`, and through which turn.

    Args:
        connection: The history.
        own: This instance's name.
        old: The former id.
        claimed: Include instances that are not trusted.
    """
    if read_state(connection, f"{PARTED}{old}") and not claimed:
        return {own: MOST}
    sql = "SELECT name, value FROM sync_state WHERE name = ? OR name GLOB ? OR name GLOB ?"
    untrusted = f"{CLAIMED}{old}:*" if claimed else ""
    rows = connection.execute(sql, (f"{FORMERLY}{old}", f"{FORMER}{old}:*", untrusted))
    return {
        own if name.startswith(FORMERLY) else name.rpartition(":")[2]: int(through)
        for name, through in rows
    }


def own_former_names(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the former ids of this instance, and its last turn under each."""
    sql = "SELECT name, value FROM sync_state WHERE name GLOB ?"
    rows = connection.execute(sql, (f"{FORMERLY}*",))
    return {name.removeprefix(FORMERLY): int(through) for name, through in rows}


def _current_ids(
    connection: sqlite3.Connection, own: str, by_instance: Mapping[str, Collection[int]]
) -> dict[TurnName, int]:
    result: dict[TurnName, int] = {}
    for instance, wanted in by_instance.items():
        sql = "SELECT id_there, turn_id FROM elsewhere WHERE instance = ? AND id_there IN"
        rows = rows_among(connection, sql, sorted(wanted), (instance,))
        result |= {TurnName(instance, there): turn_id for there, turn_id in rows}
    if own in by_instance:
        sql = (
            "SELECT id FROM turns WHERE NOT EXISTS (SELECT 1 FROM elsewhere WHERE turn_id = id) "
            "AND id IN"
        )
        rows = rows_among(connection, sql, sorted(by_instance[own]))
        result |= {TurnName(own, row[0]): row[0] for row in rows}
    return result


_LAST: Final = 2**63 - 1
_HOME: Final = "NOT EXISTS (SELECT 1 FROM places WHERE places.turn_id = turns.id)"
# The turns that do not stand at their own numbers, and took no other's place.
_MOVED: Final = (
    "SELECT turn_id FROM places WHERE NOT EXISTS "
    "(SELECT 1 FROM slots WHERE slots.turn_id = places.turn_id AND NOT is_node)"
)


def previous_turn(connection: sqlite3.Connection, turn_id: int) -> int:
    """Return the last-placed of the turns with lower numbers; 0: there are none."""
    sql = f"SELECT id FROM turns WHERE id < ? AND {_HOME} ORDER BY id DESC LIMIT 1"  # noqa: S608
    (home,) = connection.execute(sql, (turn_id,)).fetchone() or (0,)
    sql = f"{_MOVED} AND turn_id < ? AND place > ? ORDER BY place DESC LIMIT 1"
    (moved,) = connection.execute(sql, (turn_id, home)).fetchone() or (0,)
    return int(moved or home)


def place_new_turns(connection: sqlite3.Connection, own: str, new: Sequence[int]) -> int | None:
    """Give turns from other instances their places among all others.

    Args:
        connection: The history, inside a transaction.
        own: This instance's name.
        new: The turns, which have the highest numbers, in ascending order.

    Returns:
        The first place whose turn changed; None: all were appended at the end.
    """
    if not new:
        return None
    follows = _find_followed(connection, new)
    last = previous_turn(connection, new[0])
    home = 0
    while home < len(new) and follows[new[home]] == last:
        last = new[home]
        home += 1
    rest = new[home:]
    return _rearrange_turns(connection, own, rest, follows) if rest else None


def weave_all(connection: sqlite3.Connection, own: str) -> int | None:
    """Recompute all places, as after instances were renamed; see `place_new_turns`."""
    return _rearrange_turns(connection, own, (), {})


def replaced_stand_with(connection: sqlite3.Connection, slots: Iterable[int]) -> None:
    """Move the turns that share a slot to the current place of the turn that owns the slot."""
    select = (
        "SELECT slots.turn_id, turns.channel_id, coalesce(place, slot) FROM slots "
        "JOIN turns ON turns.id = slots.turn_id LEFT JOIN places ON places.turn_id = slot "
        "WHERE NOT is_node AND slot IN"
    )
    rows = list(rows_among(connection, select, slots))
    connection.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", rows)


def place_in(connection: sqlite3.Connection, turn_id: int) -> int:
    """Return the place of a turn; 0 for turn 0."""
    sql = "SELECT place FROM places WHERE turn_id = ?"
    value = connection.execute(sql, (turn_id,)).fetchone()
    return int(value[0]) if value else turn_id


def _find_followed(connection: sqlite3.Connection, turn_ids: Iterable[int]) -> dict[int, int]:
    sql = "SELECT turn_id, after FROM elsewhere WHERE turn_id IN"
    return dict(rows_among(connection, sql, turn_ids))


def _rearrange_turns(
    connection: sqlite3.Connection, own: str, new: Sequence[int], follows: Mapping[int, int]
) -> int | None:
    """Insert turns at their places, shifting all later ones behind them."""
    arriving = set(new)
    starts = (place_in(connection, follows[i]) for i in new if follows[i] not in arriving)
    start = min(starts, default=0)
    before = _turns_after(connection, start, new[0] if new else _LAST)
    parents = _previous_turns(connection, before) | {i: follows[i] for i in new}
    value = connection.execute(f"{_MOVED} AND place = ?", (start,)).fetchone()
    root = int(value[0]) if value else start
    names = turn_names(connection, own, parents)
    order = _in_order(root, parents, names, sorted(before, key=before.__getitem__))
    places = sorted([*before.values(), *new])
    moved = [(i, at) for i, at in zip(order, places, strict=True) if before.get(i) != at]
    _write_places(connection, moved)
    return min(at for _, at in moved) if moved else None


def _turns_after(connection: sqlite3.Connection, start: int, end: int) -> dict[int, int]:
    """Return the turns with numbers below `end` that are placed after `start`, with places."""
    sql = f"SELECT id, id FROM turns WHERE id > ? AND id < ? AND {_HOME}"  # noqa: S608
    at_home = connection.execute(sql, (start, end)).fetchall()
    sql = _MOVED.replace("turn_id", "turn_id, place", 1) + " AND place > ? AND turn_id < ?"
    return dict([*at_home, *connection.execute(sql, (start, end))])


def _previous_turns(connection: sqlite3.Connection, before: Mapping[int, int]) -> dict[int, int]:
    """Return the predecessor of each recent turn; for earlier ones it may be -1."""
    follows = _find_followed(connection, sorted(before))
    parents, last = dict[int, int](), None
    for turn_id in sorted(before):
        if turn_id in follows:
            parents[turn_id] = follows[turn_id]
        elif last is None:
            parents[turn_id] = previous_turn(connection, turn_id)
        else:
            parents[turn_id] = last
        if last is None or before[turn_id] > before[last]:
            last = turn_id
    return parents


def _in_order(
    root: int, parents: Mapping[int, int], names: Mapping[int, TurnName], old: Collection[int]
) -> list[int]:
    """Return turns in tree order: the descendants of `root`, then the rest in their old order."""
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


def _write_places(connection: sqlite3.Connection, moved: Sequence[tuple[int, int]]) -> None:
    """Store the new places of turns, and of all that share those places."""
    ids = [turn_id for turn_id, _ in moved]
    connection.executemany("DELETE FROM places WHERE turn_id = ?", [(i,) for i in ids])
    sql = "INSERT INTO places SELECT id, channel_id, ? FROM turns WHERE id = ?"
    rows = [(place, turn_id) for turn_id, place in moved if place != turn_id]
    connection.executemany(sql, rows)
    replaced_stand_with(connection, ids)
