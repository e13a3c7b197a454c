"""Select turns in queries: which stand, in which order, and who may see them.

The database itself records privacy with each turn, whoever writes it: what was private to a person
when it was said stays so, even if others join the channel later. How that is applied is up to
`visibility`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.text import fold
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.events import END, BranchPart, parts_condition, parts_of
from familiar_cli.store.history.rows import (
    IMPORTED,
    PLACE,
    SELECTED,
    Row,
    Turn,
    by_time,
    from_ms,
    in_ms,
    pack,
    place_of,
    to_author,
    to_turn,
    unpack,
)

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.base.who.visibility import PrivacyRules, Viewer
    from familiar_cli.store.history.schema import HistoryFile

    Where = tuple[str, Sequence[object]]


def only_speaker_at(connection: sqlite3.Connection, turn_id: int) -> Author | None:
    """Return the only person besides the owner who had spoken by a turn, or None for several."""
    sql = "SELECT platform, user_id FROM one_to_one WHERE turn_id = ?"
    row = connection.execute(sql, (turn_id,)).fetchone()
    return _to_author(row) if row else None


def inherit_privacy(connection: sqlite3.Connection, turn_id: int, other_id: int) -> None:
    """Copy the privacy of a turn to one that answers or replaces it."""
    sql = "INSERT OR IGNORE INTO one_to_one SELECT ?, platform, user_id FROM one_to_one"
    connection.execute(f"{sql} WHERE turn_id = ?", (turn_id, other_id))


def note_origin(
    connection: sqlite3.Connection, turn_id: int, channel_id: str, who: Author | None
) -> None:
    """Record the privacy that another instance states for its own turn."""
    connection.execute("DELETE FROM one_to_one WHERE turn_id = ?", (turn_id,))
    if who is not None:
        values = (turn_id, pack(who.platform), pack(who.user_id))
        connection.execute("INSERT INTO one_to_one VALUES (?, ?, ?)", values)
        return
    sql = (
        "UPDATE only_speakers SET platform = NULL, user_id = NULL WHERE channel_id = ? "
        "AND EXISTS (SELECT 1 FROM turns WHERE id = ? AND author_platform IS NOT NULL)"
    )
    connection.execute(sql, (pack(channel_id), turn_id))


def publish_chat(history: HistoryFile, channel_id: str, first_id: int) -> None:
    """Mark the turns imported from `first_id` on as a conversation of several people."""
    with history.change() as connection:
        key = pack(channel_id)
        sql = "UPDATE only_speakers SET platform = NULL, user_id = NULL WHERE channel_id = ?"
        connection.execute(sql, (key,))
        sql = (
            "DELETE FROM one_to_one WHERE turn_id >= ? AND turn_id IN "
            "(SELECT id FROM turns WHERE channel_id = ?)"
        )
        connection.execute(sql, (first_id, key))


def claim_chat(history: HistoryFile, channel_id: str, first_id: int, who: Author) -> None:
    """Mark the turns imported from `first_id` on as private to one person; see `claim_turns`."""
    with history.change() as connection:
        claim_turns(connection, channel_id, first_id, who)


def claim_turns(
    connection: sqlite3.Connection, channel_id: str, first_id: int, who: Author
) -> None:
    """Mark a channel's turns from `first_id` on as private to one person.

    So is what is said there next, unless anything said before is public.
    """
    values = (pack(channel_id), first_id, pack(who.platform), pack(who.user_id))
    turns = "INSERT OR REPLACE INTO one_to_one SELECT id, ?3, ?4 FROM turns WHERE channel_id = ?1"
    connection.execute(f"{turns} AND id >= ?2", values)
    channel = (
        "UPDATE only_speakers SET platform = ?3, user_id = ?4 WHERE channel_id = ?1 AND NOT EXISTS "
        "(SELECT 1 FROM turns LEFT JOIN one_to_one ON turn_id = turns.id "
        "WHERE channel_id = ?1 AND turns.id < ?2 AND platform IS NULL)"
    )
    connection.execute(channel, values)


def names_used_by(history: HistoryFile, slugs: Collection[str]) -> tuple[str, ...]:
    """Return the names that some accounts last had in each channel."""
    sql = (
        "SELECT DISTINCT turns.author_platform, turns.author_user_id, author_display_name "
        "FROM speakers JOIN turns ON turns.id = last_id WHERE author_display_name IS NOT NULL"
    )
    rows = history.rows(sql)
    return tuple(unpack(name) for *who, name in rows if to_author((*who, None, None)).slug in slugs)


def imported_accounts(history: HistoryFile, name: str) -> list[Author]:
    """Return the accounts called `name` that have spoken in imported chats only."""
    sql = (
        "SELECT DISTINCT turns.author_platform, turns.author_user_id, author_display_name "
        "FROM speakers JOIN turns ON turns.id = last_id WHERE author_display_name IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM speakers AS there JOIN turns AS said "
        "ON said.channel_id = there.channel_id WHERE source != ?1 "
        "AND there.author_platform = turns.author_platform "
        "AND there.author_user_id = turns.author_user_id "
        "AND said.author_platform = turns.author_platform "
        "AND said.author_user_id = turns.author_user_id)"
    )
    rows = history.rows(sql, (IMPORTED,))
    same = {tuple(who) for *who, shown in rows if fold(unpack(shown)) == name}
    return [to_author((*who, None, None)) for who in same]


def only_speaker(history: HistoryFile, channel_id: str) -> tuple[bool, Author | None]:
    """Tell whether a channel has turns, and its only speaker, if there is just one.

    A branch without turns of its own inherits its parent's answer.
    """
    sql = (
        "SELECT platform, user_id FROM only_speakers WHERE channel_id IN (?1, "
        "(SELECT parent FROM branches WHERE channel_id = ?1)) ORDER BY channel_id != ?1 LIMIT 1"
    )
    rows = history.rows(sql, (pack(channel_id),))
    return bool(rows), _to_author(rows[0]) if rows else None


def owner_was_told_to(history: HistoryFile, channel_id: str) -> Author | None:
    """Return the person to whom the owners' newest turn in a channel is private, if it is."""
    sql = (
        "SELECT platform, user_id FROM speakers LEFT JOIN one_to_one ON turn_id = last_id "
        "WHERE channel_id = ? AND (author_platform, author_user_id) IN owners "
        "ORDER BY last_id DESC LIMIT 1"
    )
    rows = history.rows(sql, (pack(channel_id),))
    return _to_author(rows[0]) if rows else None


def only_speakers(history: HistoryFile, channel_id: str | None = None) -> dict[str, Author]:
    """Return the channels with a single speaker, and that speaker; None for all channels."""
    sql = "SELECT channel_id, platform, user_id FROM only_speakers WHERE platform IS NOT NULL"
    if channel_id is None:
        rows = history.rows(sql)
    else:
        rows = history.rows(f"{sql} AND channel_id = ?", (pack(channel_id),))
    return {unpack(value): to_author((*who, None, None)) for value, *who in rows}


def speakers_stamp(history: HistoryFile) -> tuple[int, ...]:
    """Return counters that change whenever speakers, channels, branches or withdrawn channels do.

    The tables only grow, and a channel with several speakers never has a single one again.
    """
    sql = (
        "SELECT (SELECT count(*) FROM speakers), (SELECT count(*) FROM events "
        "WHERE kind IN ('branch', 'channel') AND subject IS NOT NULL), "
        "count(*), count(platform) FROM only_speakers"
    )
    with history.use(create=False) as connection:
        known = history.known(connection)
        if sql not in known:
            known[sql] = connection.execute(sql).fetchone()
        stamp: tuple[int, ...] = known[sql]
        return stamp


def arrivals_stamp(history: HistoryFile) -> tuple[int, ...]:
    """Return counters that change when turns of another time arrive: imported, or by sync."""
    tables = {"chats": "id", "turn_extras": "turn_id", "elsewhere": "turn_id"}
    newest = (f"(SELECT max({column}) FROM {table})" for table, column in tables.items())  # noqa: S608
    return tuple(history.rows(f"SELECT {', '.join(newest)}")[0])


def people_in(history: HistoryFile, channels: Iterable[str]) -> dict[str, set[str]]:
    """Return the slugs of all past speakers, by channel."""
    result: dict[str, set[str]] = {}
    sql = "SELECT channel_id, author_platform, author_user_id FROM speakers WHERE channel_id IN"
    with history.use(create=False) as connection:
        rows = rows_among(connection, sql, map(pack, channels))
        for channel_id, *who in rows:
            author = _to_author(who)
            if author:
                result.setdefault(unpack(channel_id), set()).add(author.slug)
    return result


def public_names(history: HistoryFile, rules: PrivacyRules) -> frozenset[str]:
    """Return the names under which the owners last spoke in each public channel, folded."""
    sql = (
        "SELECT speakers.channel_id, said.author_platform, said.author_user_id, author_username, "
        "author_display_name, platform, user_id FROM speakers JOIN turns AS said ON id = last_id "
        "LEFT JOIN one_to_one ON turn_id = last_id WHERE turns AND "
        "speakers.channel_id NOT IN (SELECT channel_id FROM channels_set_aside)"
    )
    names = set[str]()
    for channel_id, *said, platform, user_id in history.rows(sql):
        author, only = to_author(tuple(said)), _to_author((platform, user_id))
        if author.slug in rules.own and not rules.scope_said(unpack(channel_id), only):
            names.update(map(fold, filter(None, (author.username, author.display_name))))
    return frozenset(names)


def spoken_in(history: HistoryFile) -> list[str]:
    """Return all channels that have turns."""
    return [unpack(row[0]) for row in history.rows("SELECT channel_id FROM only_speakers")]


def channels_written_by(history: HistoryFile, source: str, since: int) -> frozenset[str]:
    """Return the channels with turns of a source after a turn; whoever reads these has a viewer."""
    sql = "SELECT DISTINCT channel_id FROM turns WHERE id > ? AND source = ?"
    return frozenset(unpack(row[0]) for row in history.rows(sql, (since, pack(source))))


_conditions: dict[int, tuple[Viewer, str, list[Any]]] = {}  # one turn asks for the same often


def visible_condition(viewer: Viewer) -> tuple[str, list[Any]]:
    """Build the SQL condition, and its values, for turns that a viewer may see."""
    known = _conditions.get(id(viewer))
    if known is None or known[0] is not viewer:
        if len(_conditions) >= _MOST_VIEWERS:
            _conditions.clear()
        known = _conditions[id(viewer)] = viewer, *_build_condition(viewer)
    return known[1], [*known[2]]


def _build_condition(viewer: Viewer) -> tuple[str, list[Any]]:
    parts, values = list[str](), list[Any]()
    hidden = [pack(channel_id) for channel_id in sorted(viewer.hidden_channels)]
    if hidden:
        sql, items = _channels_condition(hidden)
        parts.append(f"NOT {sql}")
        values += items
    if not viewer.sees_everything and not viewer.rules.shares:
        declared = [pack(one) for one in sorted({*viewer.rules.private, *viewer.rules.public})]
        people = [part for slug in sorted(viewer.visible_people) for part in _split_account(slug)]
        sql, items = _channels_condition(declared) if declared else ("FALSE", [])
        pairs = ", ".join(["(?, ?)"] * (len(people) // 2))
        of_others = f" AND (platform, user_id) NOT IN (VALUES {pairs})" if people else ""
        parts.append(
            f"({sql} OR NOT EXISTS (SELECT 1 FROM one_to_one "  # noqa: S608
            f"WHERE turn_id = turns.id{of_others}))"
        )
        values += [*items, *people]
    return " AND ".join(parts) or "TRUE", values


def _channels_condition(
    channels: Collection[str | bytes | None],
) -> tuple[str, list[str | bytes | None]]:
    """Build the condition that a turn is in one of many channels, as queries take few values."""
    plain = [one for one in channels if isinstance(one, str) and "\0" not in one]
    odd = [one for one in channels if not isinstance(one, str) or "\0" in one]
    sql = "turns.channel_id IN (SELECT value FROM json_each(?)"
    rest = f" OR turns.channel_id IN ({', '.join('?' * len(odd))})" if odd else ""
    return f"({sql}){rest})", [json.dumps(plain, ensure_ascii=False), *odd]


def _split_account(slug: str) -> tuple[str | bytes | None, str | bytes | None]:
    author = Author.from_slug(slug)
    return pack(author.platform), pack(author.user_id)


def _to_author(row: Iterable[Any]) -> Author | None:
    platform, user_id = row
    return None if platform is None else Author(unpack(platform), unpack(user_id))


_MOST_VIEWERS: Final = 8
_LARGEST: Final = 2**63 - 1  # largest number in SQLite; a citation may name a larger one
_PAGE: Final = 1000  # turns read per query
_KEPT: Final = (
    f"SELECT {SELECTED}, message_id, format, estimated, raw FROM {{}} AS turns "  # noqa: S608
    "LEFT JOIN turn_extras ON turn_extras.turn_id = turns.id "
    "LEFT JOIN chats ON chats.id = chat_id "
    "LEFT JOIN message_ids ON message_ids.turn_id = turns.id"
)
_AT_HOME: Final = "NOT EXISTS (SELECT 1 FROM places WHERE places.turn_id = turns.id)"
_MOVED: Final = "SELECT turn_id, place FROM places WHERE place >= ? AND place < ?"
_ALL: Final = ""  # not the name of any channel
_FEW: Final = 50  # moved turns examined per query


class TurnFilter(Struct, frozen=True):
    """Filter on turns.

    Args:
        viewer: Who will see them.
        channel_id: Only turns of this channel's past; None: of all channels.
        since: Earliest time, inclusive.
        until: Latest time, exclusive.
        everything: Include superseded and withdrawn turns.
    """

    viewer: Viewer
    channel_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    everything: bool = False

    @property
    def view(self) -> str:
        """Name of the SQL view to select from."""
        return "turns" if self.everything else "shown"

    @property
    def select(self) -> str:
        """The query up to its conditions."""
        return _KEPT.format(self.view)

    def where(self) -> tuple[str, list[Any]]:
        """Build the SQL conditions, each beginning with AND, and their values.

        The channel is not among them.
        """
        parts: list[tuple[str, Any]] = []
        if self.since is not None:
            parts.append((" AND turns.at_ms >= ?", in_ms(self.since)))
        if self.until is not None:
            parts.append((" AND turns.at_ms < ?", in_ms(self.until)))
        sql, seen = visible_condition(self.viewer)
        return f" AND {sql}{''.join(s for s, _ in parts)}", [*seen, *(v for _, v in parts)]

    def where_all(self, connection: sqlite3.Connection) -> tuple[str, list[Any]]:
        """Build all SQL conditions, including those on the channel, and their values."""
        sql, values = self.where()
        if self.channel_id is None:
            return sql, values
        of_past, past = parts_condition(parts_of(connection, self.channel_id))
        return f" AND {of_past}{sql}", [*past, *values]


class SourcedTurn(Struct, frozen=True):
    """A turn with its source's metadata.

    Args:
        format: The format of the chat it was imported from; empty: it was said live.
        estimated: Whether its time is a guess.
        raw: The source's original record, in JSON; empty: none.
        message_id: Its id on its platform; empty: unknown.
    """

    turn: Turn
    format: str = ""
    estimated: bool = False
    raw: str = ""
    message_id: str = ""

    def record_of(self, chat_format: str) -> str:
        """Return the record if it is of this format, also by way of an export; else nothing."""
        made, record = _original(self.format, self.raw, "raw")
        return record if made == chat_format else ""


class ImportedFrom(Struct, frozen=True):
    """A chat that was imported into a channel.

    Args:
        name: Its name in the source.
        head: The source's metadata for the whole chat, in JSON; empty: none.
    """

    format: str
    name: str
    head: str

    def original(self) -> tuple[str, str]:
        """Return format and head of the chat before any export of this program."""
        return _original(self.format, self.head, "head")


def _original(made: str, text: str, key: str) -> tuple[str, str]:
    """Return the source that an export holds in `from`; otherwise what was given."""
    held = json.loads(text).get("from") if '"from"' in text else None
    if not isinstance(held, dict) or not isinstance(held.get("format"), str) or key not in held:
        return made, text
    said = held[key]
    return held["format"], said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def select_turns(history: HistoryFile, span: TurnFilter) -> Iterator[SourcedTurn]:
    """Yield the matching turns, oldest first, in bounded memory."""
    low = 0
    while low < END:
        with history.use(create=False) as connection:
            between = (low, END)
            page, low = oldest_rows(
                connection, span.select, span.where(), _PAGE, between, channel_id=span.channel_id
            )
        yield from map(_to_kept, page)


def newest_turns(
    history: HistoryFile, span: TurnFilter, limit: int, before_id: int | None = None
) -> list[SourcedTurn]:
    """Return the newest `limit` matching turns, oldest first.

    Turns that were heard late are sorted to the time when they were said.
    """
    end = END if before_id is None else before_id
    with history.use(create=False) as connection:
        rows = newest_rows(
            connection, span.select, span.where(), limit, end, channel_id=span.channel_id
        )
    return by_time([_to_kept(row) for row in rows], _kept_turn)


def turns_around(
    history: HistoryFile,
    turn: Turn,
    before: int,
    after: int,
    *,
    viewer: Viewer,
    everything: bool = False,
) -> list[SourcedTurn]:
    """Return a turn with its neighbours in the channel, oldest first."""
    span = TurnFilter(viewer, turn.channel_id, everything=everything or not turn.stands)
    place = place_of(turn)
    above = newest_turns(history, span, before + 1, place + 1)
    with history.use(create=False) as connection:
        some, between = max(after, 0), (place + 1, END)
        below, _ = oldest_rows(
            connection, span.select, span.where(), some, between, channel_id=span.channel_id
        )
    return by_time([*above, *map(_to_kept, below[:some])], _kept_turn)


def kept_turns(history: HistoryFile, turn_ids: Iterable[int]) -> dict[int, SourcedTurn]:
    """Return these turns with their source's metadata, whether they stand or not."""
    select = f"{_KEPT.format('turns')} WHERE turns.id IN"
    with history.use(create=False) as connection:
        rows = rows_among(connection, select, sorted(turn_ids))
        return {row[0]: _to_kept(row) for row in rows}


def times_of(history: HistoryFile, turn_ids: Iterable[int], viewer: Viewer) -> dict[int, datetime]:
    """Return the times of those turns that a viewer may see, whether they stand or not."""
    sql, values = visible_condition(viewer)
    select = f"SELECT id, at_ms FROM turns WHERE {sql} AND id IN"  # noqa: S608
    wanted = (turn_id for turn_id in turn_ids if turn_id <= _LARGEST)
    with history.use(create=False) as connection:
        return {turn: from_ms(at) for turn, at in rows_among(connection, select, wanted, values)}


def scopes_of_turns(
    history: HistoryFile, turn_ids: Iterable[int], rules: PrivacyRules
) -> dict[int, str]:
    """Return the scope of each of these turns that is stored here; see `PrivacyRules`."""
    sql = (
        "SELECT id, channel_id, platform, user_id FROM turns "
        "LEFT JOIN one_to_one ON turn_id = id WHERE id IN"
    )
    wanted = (turn_id for turn_id in turn_ids if turn_id <= _LARGEST)
    with history.use(create=False) as connection:
        return {
            turn_id: rules.scope_said(unpack(channel), _to_author(only))
            for turn_id, channel, *only in rows_among(connection, sql, wanted)
        }


def scopes_between(
    history: HistoryFile, since: datetime, until: datetime, rules: PrivacyRules
) -> frozenset[str]:
    """Return the scopes of all turns of a period; `until` is excluded."""
    sql = (
        "SELECT DISTINCT channel_id, platform, user_id FROM turns "
        "LEFT JOIN one_to_one ON turn_id = id WHERE at_ms >= ? AND at_ms < ?"
    )
    rows = history.rows(sql, (in_ms(since), in_ms(until)))
    return frozenset(rules.scope_said(unpack(row[0]), _to_author(row[1:])) for row in rows)


def newest_rows(
    connection: sqlite3.Connection,
    select: str,
    where: Where,
    limit: int,
    end: int = END,
    *,
    start: int = 0,
    channel_id: str | None = None,
) -> list[Row]:
    """Return the rows of the newest turns placed before `end`, oldest first.

    A turn that replaced another has that one's place.

    Args:
        connection: The history.
        select: A query that selects `SELECTED`, and possibly more, from one of the views of turns.
        where: SQL conditions, each beginning with AND, and their values.
        limit: Maximum number of rows.
        end: The place to stop before.
        start: The first place.
        channel_id: Only turns of this channel's past; None: of all channels.
    """
    rows: list[Row] = []
    for part, here in _in_parts(connection, where, channel_id):
        if len(rows) >= limit:
            break
        span = _Span(part, min(end, part.end), here, start)
        rows = _newest_rows(connection, select, span, limit - len(rows)) + rows
    return rows


def oldest_rows(
    connection: sqlite3.Connection,
    select: str,
    where: Where,
    limit: int,
    between: tuple[int, int],
    *,
    channel_id: str | None = None,
) -> tuple[list[Row], int]:
    """Return the rows of the oldest turns in a range of places, and the place to go on from.

    The number of rows is about `limit`: rows that share the last place stay together.

    Args:
        connection: The history.
        select: As of `newest_rows`.
        where: As of `newest_rows`.
        limit: Approximate number of rows, >= 0.
        between: The first place, and the one after the last.
        channel_id: As of `newest_rows`.
    """
    low, high = between
    rows: list[Row] = []
    for part, here in reversed(_in_parts(connection, where, channel_id)):
        top = min(high, part.end)
        while low < top:
            if len(rows) >= limit:
                return rows, low
            span = _Span(part, top, here, low)
            some, low = _oldest_rows(connection, select, span, limit - len(rows))
            rows += some
    return rows, low if len(rows) >= limit else high


class _Span(Struct, frozen=True):
    """A range of places in one part of a past, or in all channels."""

    part: BranchPart
    end: int
    where: Where
    start: int = 0

    @property
    def moved(self) -> tuple[str, list[Any]]:
        """Condition, with its values, for turns whose place differs from their number."""
        values: list[Any] = [self.start, self.end]
        if self.part.channel_id == _ALL:
            return _MOVED, values
        return f"{_MOVED} AND channel_id = ?", [*values, pack(self.part.channel_id)]


def _in_parts(
    connection: sqlite3.Connection, where: Where, channel_id: str | None
) -> list[tuple[BranchPart, Where]]:
    """Return the condition for each part of a channel's past, newest first."""
    if channel_id is None:
        return [(BranchPart(_ALL), where)]
    sql, values = where
    return [
        (part, (f" AND turns.channel_id = ?{sql}", [pack(part.channel_id), *values]))
        for part in parts_of(connection, channel_id)
    ]


def _newest_rows(connection: sqlite3.Connection, select: str, span: _Span, limit: int) -> list[Row]:
    if limit <= 0:
        return []
    sql, values = span.where
    query = (
        f"{select} WHERE turns.id >= ? AND turns.id < ? AND {_AT_HOME}{sql} "
        "ORDER BY turns.id DESC LIMIT ?"
    )
    rows = connection.execute(query, (span.start, span.end, *values, limit)).fetchall()
    low = rows[-1][0] if len(rows) == limit else span.start
    moved, given = replace(span, start=low).moved
    cursor = connection.execute(f"{moved} ORDER BY place DESC, turn_id DESC", given)
    position = 0
    while position < limit and (some := cursor.fetchmany(max(limit, _FEW))):
        more = _rows_of(connection, select, (turn_id for turn_id, _ in some), span.where)
        position += len(more)
        rows += more
    return sorted(rows, key=_row_place)[-limit:]


def _oldest_rows(
    connection: sqlite3.Connection, select: str, span: _Span, limit: int
) -> tuple[list[Row], int]:
    """Return about `limit` rows or fewer, and the place to go on from."""
    sql, values = span.where
    query = (
        f"{select} WHERE turns.id >= ? AND turns.id < ? AND {_AT_HOME}{sql} "
        "ORDER BY turns.id LIMIT ?"
    )
    rows = connection.execute(query, (span.start, span.end, *values, limit)).fetchall()
    high = rows[-1][0] + 1 if len(rows) == limit else span.end
    moved, given = replace(span, end=high).moved
    ids: list[int] = []
    last = 0
    for turn_id, place in connection.execute(f"{moved} ORDER BY place, turn_id", given):
        if len(ids) >= max(limit, _FEW) and place != last:
            high = place
            break
        ids.append(turn_id)
        last = place
    rows = [row for row in rows if row[0] < high]
    rows += _rows_of(connection, select, ids, span.where)
    return sorted(rows, key=_row_place), high


def _rows_of(
    connection: sqlite3.Connection, select: str, ids: Iterable[int], where: Where
) -> list[Row]:
    """Return the rows of those of these turns that match, in no order."""
    sql, values = where
    return list(rows_among(connection, f"{select} WHERE TRUE{sql} AND turns.id IN", ids, values))


def _row_place(row: Row) -> tuple[int, int]:
    return (row[0] if row[PLACE] is None else row[PLACE], row[0])


def turns_from(
    history: HistoryFile, source: str | None, after_id: int, limit: int
) -> list[tuple[int, str, str, str]]:
    """Return number, channel, role and text of the oldest `limit` turns after one.

    Turns that do not stand are included. Without a `source`, all sources are.
    """
    choice = "" if source is None else "AND source = ? "
    sql = (
        f"SELECT id, channel_id, role, content FROM turns WHERE id > ? {choice}"  # noqa: S608
        "ORDER BY id LIMIT ?"
    )
    values = [after_id, *([] if source is None else [pack(source)]), limit]
    with history.use(create=False) as connection:
        rows = connection.execute(sql, values)
        return [(row[0], *map(unpack, row[1:])) for row in rows]


def newest_from(history: HistoryFile, source: str, limit: int) -> list[Turn]:
    """Return the newest `limit` turns from a source, oldest first."""
    sql = f"SELECT {SELECTED} FROM turns WHERE source = ? ORDER BY id DESC LIMIT ?"  # noqa: S608
    with history.use(create=False) as connection:
        rows = connection.execute(sql, (pack(source), max(limit, 0)))
        return [to_turn(row) for row in rows][::-1]


def imported_from(history: HistoryFile, channel_id: str) -> list[ImportedFrom]:
    """Return the chats imported into a channel, in order of import."""
    sql = "SELECT format, name, head FROM chats WHERE channel_id = ? ORDER BY id"
    return [ImportedFrom(*map(unpack, row)) for row in history.rows(sql, (pack(channel_id),))]


def _kept_turn(selection: SourcedTurn) -> Turn:
    return selection.turn


def _to_kept(row: tuple[Any, ...]) -> SourcedTurn:
    *turn, stated_id, source, estimated, raw = row
    selection = SourcedTurn(
        to_turn(tuple(turn)), message_id="" if stated_id is None else unpack(stated_id)
    )
    if source is None:
        return selection
    return replace(selection, format=unpack(source), estimated=bool(estimated), raw=unpack(raw))
