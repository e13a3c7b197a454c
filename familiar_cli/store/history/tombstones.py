"""Tombstones: what forgetting somebody leaves of the turns."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.text import words_of
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.forgetting import PLATFORM, ForgetOrder, bare_words, read_orders
from familiar_cli.store.history.likeness import TOMBSTONE, Loss, NameForms, Traces, runs_of
from familiar_cli.store.history.lines import TurnLine, TurnName, local_ids, own_instance, turn_names
from familiar_cli.store.history.rows import Turn, pack, to_author, unpack

if TYPE_CHECKING:
    from familiar_cli.store.history.schema import HistoryFile

_RARE_CHARS: Final = 5
_RARE_TURNS: Final = 2  # other turns that may contain a rare word
_TRUNCATE_TRIES: Final = 20


def is_tombstone(turn: Turn) -> bool:
    """Tell whether a turn lost all of its words because somebody was forgotten."""
    return turn.content == TOMBSTONE


def lacks_words(turn: Turn) -> bool:
    """Tell whether a turn lost some of its words, or all, because somebody was forgotten."""
    return TOMBSTONE in turn.content


def as_tombstone(connection: sqlite3.Connection, line: TurnLine) -> TurnLine:
    """Reduce a turn to a tombstone if the machine that stored it did not know of an order yet."""
    order = next((o for o in read_orders(connection) if o.covers(line.author)), None)
    return replace(
        line,
        author=order.pseudonym if order else None,
        content=TOMBSTONE,
        hidden=True,
        imported=None,
        more="",
        one_to_one=None,
    )


def accounts_of(history: HistoryFile) -> list[Author]:
    """Return all accounts that have turns, with every name they used."""
    sql = (
        "SELECT DISTINCT author_platform, author_user_id, author_username, author_display_name "
        "FROM turns WHERE author_platform IS NOT NULL"
    )
    return [author for row in history.rows(sql) if (author := to_author(row))]


class Forgotten(Struct, frozen=True):
    """The turns affected by forgetting somebody.

    Args:
        said: Their own turns.
        replies: The familiar's turns that reply to them.
        to_others: What its replies to others lose, by turn: only a name or a quotation.
        quoted: Other turns that quote them, or name them or a namesake: a person decides on these.
        channels: New name of each channel in which nobody else spoke, or that has their name.
        names: Shared ids of all turns that lose their words.
        traces: Evidence by which their words are recognised.
    """

    said: frozenset[int] = frozenset()
    replies: frozenset[int] = frozenset()
    to_others: Mapping[int, tuple[Loss, ...]] = field(default_factory=dict)
    quoted: tuple[int, ...] = ()
    channels: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[TurnName] = frozenset()
    traces: Traces = field(default_factory=Traces)

    @property
    def turns(self) -> frozenset[int]:
        """All turns that lose their words."""
        return self.said | self.replies

    @property
    def changed(self) -> frozenset[int]:
        """All turns that lose words, if only some."""
        return self.turns | self.to_others.keys()


def find_forgotten(
    history: HistoryFile, order: ForgetOrder, own: str, names: NameForms, common: Iterable[str]
) -> Forgotten:
    """Find the turns that an order affects, changing nothing.

    Args:
        own: This instance's name; empty: it has never synchronised.
        names: The person's names.
        common: Texts whose words identify nobody, such as lore.
    """
    accounts = {(a.platform, a.user_id) for a in accounts_of(history) if order.covers(a)}
    with history.use(create=False) as connection:
        said = set(_said_by(connection, accounts))
        others = local_ids(connection, own, filter(None, map(_turn_name, order.turns)))
        said |= set(others.values())
        replies = _replies_to(connection, said, accounts)
        replies |= _alternatives(connection, replies) - said
        traces = _read_traces(connection, said, replies, names, common)
        quoted, to_others = _others_affected(connection, said | replies, traces)
        before = own or own_instance(connection)
        turns = said | replies
        return Forgotten(
            frozenset(said),
            frozenset(replies),
            to_others,
            tuple(quoted),
            _channels_to_rename(connection, order, accounts, traces),
            frozenset(turn_names(connection, before, turns).values()),
            traces,
        )


def _turn_name(text: str) -> TurnName | None:
    from familiar_cli.store.memory.pages.lines import parse_turn_name  # noqa: PLC0415  # rarely needed

    citation = parse_turn_name(text)
    return TurnName(citation.instance, citation.first) if citation else None


def _said_by(
    connection: sqlite3.Connection, accounts: AbstractSet[tuple[str, str]]
) -> Iterator[int]:
    for platform, user_id in accounts:
        sql = (
            "SELECT id FROM turns WHERE author_platform = ?1 AND author_user_id = ?2 UNION SELECT "
            "turn_id FROM one_to_one JOIN turns ON id = turn_id WHERE platform = ?1 AND "
            "user_id = ?2 AND role = 'user' AND author_platform IS NULL"
        )
        values = (pack(platform), pack(user_id))
        yield from (row[0] for row in connection.execute(sql, values))


def _replies_to(
    connection: sqlite3.Connection, said: AbstractSet[int], accounts: AbstractSet[tuple[str, str]]
) -> set[int]:
    """Return the familiar's turns that reply to these turns, or were addressed to nobody else."""
    rows = rows_among(connection, "SELECT turn_id FROM replies WHERE reply_to IN", said)
    items = {row[0] for row in rows}
    for platform, user_id in accounts:
        # The owner may have spoken there, too.
        sql = (
            "SELECT turn_id FROM one_to_one JOIN turns ON id = turn_id WHERE platform = ? "
            "AND user_id = ? AND author_platform IS NULL"
        )
        alone = {r[0] for r in connection.execute(sql, (pack(platform), pack(user_id)))}
        sql = "SELECT turn_id, reply_to FROM replies WHERE turn_id IN"
        to_others = {t for t, to in rows_among(connection, sql, alone) if to not in said}
        items |= alone - to_others
    sql = (  # an imported chat records only the order
        "SELECT (SELECT next.id FROM turns AS next WHERE next.channel_id = turns.channel_id "
        "AND next.id > turns.id AND next.role = 'assistant' AND NOT EXISTS (SELECT 1 FROM turns AS "
        "other WHERE other.channel_id = turns.channel_id AND other.id > turns.id AND "
        "other.id < next.id AND other.role != 'assistant') AND NOT EXISTS (SELECT 1 FROM replies "
        "WHERE replies.turn_id = next.id) ORDER BY next.id LIMIT 1) FROM turns WHERE id IN"
    )
    items.update(row[0] for row in rows_among(connection, sql, said) if row[0])
    return items - said


def _alternatives(connection: sqlite3.Connection, turns: AbstractSet[int]) -> set[int]:
    """Return the alternatives of these turns."""
    sql = "SELECT coalesce(slot, id) FROM turns LEFT JOIN slots ON turn_id = id WHERE id IN"
    slots = {row[0] for row in rows_among(connection, sql, turns)}
    sql = "SELECT turn_id FROM slots WHERE slot IN"
    return slots | {row[0] for row in rows_among(connection, sql, slots)}


def _read_traces(
    connection: sqlite3.Connection,
    said: AbstractSet[int],
    replies: AbstractSet[int],
    names: NameForms,
    common: Iterable[str],
) -> Traces:
    """Return by what texts of somebody, or about them, are recognised."""
    texts = {
        turn_id: words_of(unpack(content))
        for turn_id, content in rows_among(
            connection, "SELECT id, content FROM turns WHERE id IN", said | replies
        )
        if content != TOMBSTONE
    }
    counted = Counter[str](dict.fromkeys((w for t in texts.values() for w in t), 0))
    own = {run for turn in said & texts.keys() for run in runs_of(texts[turn])}
    counts = Counter[tuple[str, ...]]()
    for text in common:
        counted.update(dict.fromkeys(counted.keys() & set(words_of(text)), _RARE_TURNS + 1))
        names = names.without_ordinary(text)
    for _, _, content in _other_turns(connection, said | replies):
        words = words_of(content)
        counted.update(counted.keys() & set(words))
        counts.update(own.intersection(runs_of(words)))
        names = names.without_ordinary(content)
    rare = {w for w, n in counted.items() if n <= _RARE_TURNS and len(w) >= _RARE_CHARS}
    shared = {word for name in names.shared for word in words_of(name)}
    runs = {r for t in texts.values() for r in runs_of(t) if not rare.isdisjoint(r)}
    return Traces(
        names,
        frozenset(word for word in rare - shared if not counted[word]),
        frozenset(runs),
        frozenset(run for run in own & runs if counts[run] <= _RARE_TURNS),
    )


def _others_affected(
    connection: sqlite3.Connection, without: AbstractSet[int], traces: Traces
) -> tuple[list[int], dict[int, tuple[Loss, ...]]]:
    """Return other turns that may name or quote somebody, and what replies to others lose."""
    quoted: list[int] = []
    replies: dict[int, tuple[Loss, ...]] = {}
    is_unsure = bool(traces.names.ordinary or traces.names.shared)
    for turn_id, role, content in _other_turns(connection, without):
        losses, kept = tuple(traces.losses(content)), content
        if losses and role == "assistant":
            replies[turn_id] = losses
            losses, kept = (), traces.redacted(content)
        if losses or (is_unsure and traces.names.may_be_in(kept)):
            quoted.append(turn_id)
    return quoted, replies


def _other_turns(
    connection: sqlite3.Connection, without: AbstractSet[int]
) -> Iterator[tuple[int, str, str]]:
    sql = "SELECT id, role, content FROM turns ORDER BY id"
    for turn_id, role, content in connection.execute(sql):
        if turn_id not in without:
            yield turn_id, role, unpack(content)


def _channels_to_rename(
    connection: sqlite3.Connection,
    order: ForgetOrder,
    accounts: AbstractSet[tuple[str, str]],
    traces: Traces,
) -> dict[str, str]:
    """Return the channels in which only these accounts spoke, or that are named after them."""
    people: dict[str, set[tuple[str, str]]] = {}
    sql = "SELECT DISTINCT channel_id, author_platform, author_user_id FROM turns"
    for channel, platform, user_id in connection.execute(sql):
        matches = people.setdefault(unpack(channel), set())
        if platform is not None:
            matches.add((unpack(platform), unpack(user_id)))
    channels = (
        channel
        for channel, found in people.items()
        if (found and found <= accounts) or traces.is_named_in(channel)
    )
    return {channel: f"{PLATFORM}-{order.keyed_hash(channel)[:16]}" for channel in channels}


_CHANNEL_COLUMNS: Final = (
    *(
        (table, "channel_id")
        for table in [
            "turns",
            "speakers",
            "only_speakers",
            "chats",
            "message_ids",
            "places",
            "branches",
            "summary_channels",
            "channels_set_aside",
        ]
    ),
    ("branches", "parent"),
    ("events", "subject"),
    ("events", "value"),
)


def bury_turns(history: HistoryFile, order: ForgetOrder, result: Forgotten) -> None:
    """Replace turns with tombstones, leaving no trace of their words in the file.

    The order is stored as well, so turns of anyone it covers are refused from then on.

    Raises:
        FamiliarError: The file cannot be written; nothing was changed.
    """
    with history.use(create=True) as connection:
        connection.execute("PRAGMA secure_delete = ON")
    with history.change() as connection:
        connection.execute("INSERT OR REPLACE INTO sync_state VALUES (?, ?)", order.row)
        with _unguarded(connection):
            _remember_words(connection, order, result)
            _bury(connection, order, result)
            _rename_channels(connection, result)
            _scrub_sources(connection, order, result.traces)
        connection.execute("DROP TABLE IF EXISTS turns_fts")
    with history.use(create=True) as connection:
        connection.execute("VACUUM")
        for _ in range(_TRUNCATE_TRIES):
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                break


class _unguarded:  # noqa: N801  # reads as what it does
    """Drop the triggers that make turns immutable, and restore them afterwards."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._triggers: list[tuple[str, str]] = []

    def __enter__(self) -> None:
        sql = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%RAISE(%'"
        self._triggers = self._connection.execute(sql).fetchall()
        for name, _ in self._triggers:
            self._connection.execute(f'DROP TRIGGER "{name}"')

    def __exit__(self, *failed: object) -> None:
        if failed[0] is None:
            for _, sql in self._triggers:
                self._connection.execute(sql)


def _remember_words(connection: sqlite3.Connection, order: ForgetOrder, result: Forgotten) -> None:
    """Store a keyed hash of each turn, so that clients cannot bring it back."""
    sql = "SELECT content FROM turns WHERE id IN"
    for (content,) in list(rows_among(connection, sql, result.changed)):
        words = bare_words(unpack(content))
        if words and content != TOMBSTONE:
            name = order.words_name(words)
            connection.execute("INSERT OR REPLACE INTO sync_state VALUES (?, '')", (name,))


def _bury(connection: sqlite3.Connection, order: ForgetOrder, result: Forgotten) -> None:
    buried = [(turn_id,) for turn_id in result.turns]
    connection.executemany(
        f"UPDATE turns SET content = '{TOMBSTONE}', hidden = 1 WHERE id = ?",  # noqa: S608
        buried,
    )
    sql = "SELECT id, content FROM turns WHERE id IN"
    connection.executemany(
        "UPDATE turns SET content = ? WHERE id = ?",
        [
            (pack(result.traces.redacted(unpack(content))), turn_id)
            for turn_id, content in list(rows_among(connection, sql, result.to_others))
        ],
    )
    who = (order.pseudonym.platform, order.pseudonym.user_id)
    connection.executemany(
        "UPDATE turns SET author_platform = ?, author_user_id = ?, author_username = NULL, "
        "author_display_name = NULL WHERE id = ? AND author_platform IS NOT NULL",
        [(*who, turn_id) for turn_id in result.turns],
    )
    changed = [(turn_id,) for turn_id in result.changed]
    for sql in (
        "UPDATE turn_extras SET raw = '{}', identity = randomblob(16) WHERE turn_id = ?",
        "UPDATE elsewhere SET more = '' WHERE turn_id = ?",
        "DELETE FROM unread WHERE turn_id = ?",
    ):
        connection.executemany(sql, changed)
    connection.executemany("UPDATE set_aside SET hidden = NULL WHERE turn_id = ?", buried)
    connection.execute("UPDATE chats SET beginning = NULL")  # a plain hash of a line
    if changed:
        first = min(changed)
        connection.execute("DELETE FROM summaries WHERE last_turn_id >= ?", first)
    connection.execute("DELETE FROM turn_files")  # every file of turns is rewritten
    connection.execute("DELETE FROM lines_waiting")
    accounts = {
        (row[0], row[1])
        for row in connection.execute(
            "SELECT author_platform, author_user_id FROM speakers UNION "
            "SELECT platform, user_id FROM one_to_one UNION "
            "SELECT platform, user_id FROM only_speakers WHERE platform IS NOT NULL"
        )
        if order.covers(Author(unpack(row[0]), unpack(row[1])))
    }
    for platform, user_id in accounts:
        values = (platform, user_id)
        connection.execute(
            "DELETE FROM speakers WHERE author_platform = ? AND author_user_id = ?", values
        )
        for table in ("one_to_one", "only_speakers"):
            connection.execute(
                f"UPDATE {table} SET platform = ?, user_id = ? "  # noqa: S608
                "WHERE platform = ? AND user_id = ?",
                (*who, *values),
            )


def uncount_forgotten(connection: sqlite3.Connection) -> None:
    """Remove forgotten people from the speaker counts."""
    connection.execute("DELETE FROM speakers WHERE author_platform = ?", (PLATFORM,))


def _rename_channels(connection: sqlite3.Connection, result: Forgotten) -> None:
    for table, column in _CHANNEL_COLUMNS:
        unless = " AND kind IN ('channel', 'branch')" if table == "events" else ""
        connection.executemany(
            f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} = ?{unless}",  # noqa: S608
            [(new, pack(old)) for old, new in result.channels.items()],
        )
    connection.executemany(
        "UPDATE chats SET name = '', head = '{}' WHERE channel_id = ?",
        [(new,) for new in result.channels.values()],
    )


def _scrub_sources(connection: sqlite3.Connection, order: ForgetOrder, traces: Traces) -> None:
    """Scrub names and quotations from chat metadata and read receipts."""
    for number, *texts in connection.execute("SELECT id, key, name, head FROM chats").fetchall():
        key, name, head = map(unpack, texts)
        if traces.are_in(f"{name}\n{head}"):
            connection.execute("UPDATE chats SET name = '', head = '{}' WHERE id = ?", (number,))
        if traces.are_in(key) or key.startswith(PLATFORM):
            new = f"{PLATFORM}-{order.keyed_hash(key)[:16]}"
            connection.execute("UPDATE OR IGNORE chats SET key = ? WHERE id = ?", (new, number))
            values = (new, pack(key))
            connection.execute(
                "UPDATE events SET subject = ? WHERE kind = 'chat' AND subject = ?", values
            )
    connection.executemany(
        "UPDATE turn_extras SET raw = '{}' WHERE turn_id = ?",
        [
            (turn_id,)
            for turn_id, raw, content in connection.execute(
                "SELECT turn_id, raw, content FROM turn_extras JOIN turns ON id = turn_id"
            ).fetchall()
            if traces.are_in(unpack(raw)) and not traces.are_in(unpack(content))
        ],
    )
