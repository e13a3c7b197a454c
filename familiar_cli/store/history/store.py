"""The store of turns.

Turns are immutable. That a turn is replaced, withdrawn or hidden is recorded as a mark: a
timestamped event that a later mark can take back; see `marks`.

There are three views of turns: `standing`, for prompts; `shown`, for people, with hidden turns;
`turns`, for bookkeeping. A turn that replaced another has that one's place, which `places` records.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import ConflictError, NotFoundError
from familiar_cli.base.sqlite import connect, rows_among
from familiar_cli.base.times.clock import now, to_ms
from familiar_cli.base.who.identity import NEUTRAL, Author
from familiar_cli.base.who.visibility import OWNER, PUBLIC, Viewer
from familiar_cli.store.history import events, selection
from familiar_cli.store.history.forgetting import check_may_speak, is_forgotten
from familiar_cli.store.history.lines import own_former_names
from familiar_cli.store.history.rows import (
    HEARD,
    INSERT,
    SELECTED,
    STANDING,
    UNREAD,
    WRITER,
    ChannelSummary,
    Role,
    Row,
    Speaker,
    Turn,
    from_ms,
    in_ms,
    pack,
    to_author,
    to_number,
    to_row,
    to_turn,
    unpack,
)
from familiar_cli.store.history.schema import HistoryFile
from familiar_cli.store.history.selection import newest_rows, visible_condition

_OF_ID: Final = (
    f"SELECT {SELECTED} FROM turns JOIN message_ids ON message_ids.turn_id = turns.id "  # noqa: S608
    "WHERE message_ids.channel_id = ? AND message_id IN (?, ?)"
)


class KeptMessage(Struct, frozen=True):
    """A stored message; `is_new` is false if its id was stored before."""

    turn: Turn
    is_new: bool
    notices: tuple[str, ...] = ()


def insert_turn(connection: sqlite3.Connection, turn: Turn, message_id: str = "") -> Turn:
    """Insert a turn with its metadata; return it with its number.

    Raises:
        ConflictError: The channel has another turn with that message id.
    """
    message = find_message(connection, turn.channel_id, message_id, turn.author)
    if message:
        raise ConflictError(
            f"Message {message_id!r} of channel {turn.channel_id!r} is already kept as turn "
            f"{message.id}; nothing was added"
        )
    if find_message(connection, turn.channel_id, message_id):
        message_id = _qualified_id(message_id, turn.author)
    turn = replace(turn, author=_with_name(connection, turn.channel_id, turn.author))
    turn = replace(turn, id=connection.execute(INSERT, to_row(turn)).lastrowid or 0)
    note_id(connection, turn.channel_id, message_id, turn.id)
    if turn.reply_to is not None:
        connection.execute("INSERT INTO replies VALUES (?, ?)", (turn.id, turn.reply_to))
        selection.inherit_privacy(connection, turn.id, turn.reply_to)
    return replace(turn, one_to_one=selection.only_speaker_at(connection, turn.id))


# Not of an owner, whose name is a setting, nor one last used before others came into the channel.
_NAME_BEFORE: Final = """SELECT author_username, author_display_name
    FROM speakers JOIN turns ON turns.id = last_id
    WHERE speakers.channel_id = ?1 AND speakers.author_platform = ?2
    AND speakers.author_user_id = ?3 AND (?2, ?3) NOT IN owners AND (last_id NOT IN
        (SELECT turn_id FROM one_to_one) OR (SELECT platform FROM only_speakers
        WHERE only_speakers.channel_id = ?1) IS NOT NULL)"""


def _with_name(
    connection: sqlite3.Connection, channel_id: str, author: Author | None
) -> Author | None:
    """Return an author without a name with the one that they last had in the channel."""
    if author is None or author.display_name or author.username:
        return author
    values = (pack(channel_id), pack(author.platform), pack(author.user_id))
    names = connection.execute(_NAME_BEFORE, values).fetchone()
    return to_author((*values[1:], *names)) if names else author


def note_id(connection: sqlite3.Connection, channel_id: str, message_id: str, turn_id: int) -> None:
    """Record the message id of a turn; an empty id is ignored."""
    if message_id:
        values = (pack(channel_id), pack(message_id), turn_id)
        connection.execute("INSERT INTO message_ids VALUES (?, ?, ?)", values)


def find_message(
    connection: sqlite3.Connection, channel_id: str, message_id: str, author: Author | None = None
) -> Turn | None:
    """Return the turn of a channel with a message id, or None.

    Args:
        connection: The history.
        author: Only a turn of theirs counts, since others are not told that it exists. None, or an
            author on the command line, which has no message ids, matches any.
    """
    if not message_id:
        return None
    if author and author.platform == NEUTRAL.platform:
        author = None
    values = (pack(channel_id), pack(message_id), pack(_qualified_id(message_id, author)))
    for turn in map(to_turn, connection.execute(_OF_ID, values)):
        if author is None or turn.author is None or turn.author.slug == author.slug:
            return turn
    return None


def _qualified_id(message_id: str, author: Author | None) -> str:
    """Return the stored form of an id if a message of somebody else has the plain one."""
    return f"{author.slug}:{message_id}" if author else message_id


def turn_of_message(
    history: HistoryFile, channel_id: str, message_id: str, author: Author | None = None
) -> Turn | None:
    """Return the turn of a channel with a message id; see `find_message`."""
    if not message_id:
        return None
    with history.use(create=False) as connection:
        return find_message(connection, channel_id, message_id, author)


def keep_once(history: HistoryFile, turn: Turn, message_id: str = "") -> KeptMessage:
    """Store a message unless the channel has one with that id already.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        message = find_message(connection, turn.channel_id, message_id, turn.author)
        if message:
            return KeptMessage(message, is_new=False)
        check_may_speak(connection, turn.author)
        return KeptMessage(insert_turn(connection, turn, message_id), is_new=True)


def reply_to_turn(history: HistoryFile, turn_id: int, channel_id: str | None = None) -> Turn | None:
    """Find the newest complete reply to a turn, else the newest that was cut off.

    Args:
        channel_id: Only replies in the past of this channel count; None: any.
    """
    sql = (
        f"SELECT {SELECTED} FROM shown AS turns JOIN replies ON replies.turn_id = turns.id "  # noqa: S608
        "WHERE replies.reply_to = ? ORDER BY turns.partial, turns.id DESC"
    )
    with history.use(create=False) as connection:
        replies = map(to_turn, connection.execute(sql, (turn_id,)).fetchall())
        past = () if channel_id is None else events.parts_of(connection, channel_id)
    return next((r for r in replies if not past or any(part.holds(r) for part in past)), None)


# For so long the same words again are a retry; "Good morning" of the next day is not.
_RETRY: Final = timedelta(hours=12)
_MOST_WAITING: Final = 40


def unanswered_message(
    history: HistoryStore, channel_id: str, author: Author | None, text: str
) -> Turn | None:
    """Find the message that a person repeats because it has no complete reply.

    It is the last thing they said to the familiar in the channel, with the same words.
    """
    since, key = now() - _RETRY, _account(author)
    if all(map(_is_reply, history.recent(channel_id, 1, viewer=OWNER))):
        return None  # as mostly, without reading more
    for turn in reversed(history.recent(channel_id, _MOST_WAITING, viewer=OWNER)):
        if _is_reply(turn):
            return None
        if turn.role == "user" and _account(turn.author) == key and turn.source != HEARD:
            is_same = turn.content.strip() == text.strip() and turn.at > since
            return turn if is_same else None
    return None


def _is_reply(turn: Turn) -> bool:
    """Tell whether a turn is a complete reply."""
    return turn.role == "assistant" and not turn.partial


def _account(author: Author | None) -> tuple[str, str] | None:
    return (author.platform, author.user_id) if author else None


T = TypeVar("T")
GREETING: Final = "greeting"
"""The source of a turn with which the familiar opened a channel."""

_BITS: Final = 63  # digits of an id, without its sign
_SHARED: Final = 200  # turns of a parent searched for people
_NEWEST_REPLIES: Final = 2000  # turns searched for a reply
_WHO: Final = "author_platform, author_user_id, author_username, author_display_name"

_MOST_ALONE: Final = 2  # people who may have spoken in a channel before others came
RECENT: Final = f"""SELECT {SELECTED} FROM (
        SELECT last_id FROM speakers WHERE channel_id = ? AND turns ORDER BY last_id DESC LIMIT ?
    ) JOIN turns ON turns.id = last_id ORDER BY last_id DESC"""  # noqa: S608  # our own names

# `is_private` is an SQL function. A person's name is the last one that they used outside private
# conversations.
_ALL: Final = """SELECT person.author_platform, person.author_user_id, named.author_username,
        named.author_display_name, counted, latest.at_ms FROM (
        SELECT speakers.author_platform, speakers.author_user_id, sum(turns) AS counted,
            max(last_id) AS last,
            max(CASE WHEN coalesce(author_display_name, author_username) IS NOT NULL
            AND NOT is_private(speakers.channel_id, platform, user_id) THEN last_id END)
            AS last_public FROM speakers LEFT JOIN one_to_one ON turn_id = last_id
            JOIN turns AS said ON said.id = last_id
        WHERE turns AND speakers.channel_id NOT IN (SELECT channel_id FROM channels_set_aside)
        GROUP BY speakers.author_platform, speakers.author_user_id
    ) AS person JOIN turns AS latest ON latest.id = last
    LEFT JOIN turns AS named ON named.id = last_public ORDER BY last DESC"""

_SEEN: Final = """SELECT author_platform, author_user_id, sum(said), max(last) FROM (
        SELECT author_platform, author_user_id, channel_id, platform, user_id,
            count(*) AS said, max(at_ms) AS last
        FROM shown LEFT JOIN one_to_one ON turn_id = id WHERE author_platform IS NOT NULL
        GROUP BY 1, 2, 3, 4, 5
    ) WHERE NOT is_private(channel_id, platform, user_id) GROUP BY 1, 2"""
_NEVER: Final = from_ms(0)

_LAST_TIMES: Final = """SELECT author_platform, author_user_id, max(at_ms) FROM shown
    WHERE author_platform IS NOT NULL GROUP BY author_platform, author_user_id"""

# Not counted in `shown`: of a million turns, only those set aside are looked up.
_CHANNELS: Final = """SELECT turns.channel_id, at_ms,
        iif(turns.channel_id IN (SELECT channel_id FROM channels_set_aside), 0,
            said - coalesce(gone, 0))
    FROM turns JOIN (SELECT max(id) AS last, count(*) AS said FROM turns GROUP BY channel_id)
        ON id = last
    LEFT JOIN (SELECT channel_id, count(*) AS gone FROM set_aside JOIN turns ON id = turn_id
        WHERE superseded_by OR withdrawn GROUP BY channel_id) AS out
        ON out.channel_id = turns.channel_id
    ORDER BY id DESC"""
_SAID: Final = "SELECT coalesce(sum(turns), 0) FROM speakers WHERE channel_id = ?"
_SELECT: Final = f"SELECT {SELECTED} FROM turns"  # noqa: S608


class HistoryStore(HistoryFile):
    """The turns of one familiar. Thread-safe and safe across processes.

    The file is opened on first use and created with the first turn, so reading leaves no trace.

    Args:
        path: The SQLite file.
        busy_timeout_s: How long to wait for another process that is writing.
    """

    def append(
        self,
        channel_id: str,
        role: Role,
        content: str,
        *,
        author: Author | None = None,
        at: datetime | None = None,
        modality: str = "text",
        source: str = "cli",
        partial: bool = False,
        message_id: str = "",
        reply_to: int | None = None,
    ) -> Turn:
        """Store a turn, and return it once it is durable.

        Args:
            role: Its role in a prompt.
            author: Its author; None: the familiar.
            at: Its time; None: now.
            modality: `text` or `voice`.
            source: What writes it.
            partial: Whether it was cut off before its end.
            message_id: Its id on the platform; unique within a channel.
            reply_to: The turn that it replies to.

        Raises:
            ConflictError: The channel has a turn with that message id.
            ForgottenPersonError: `author` was forgotten.
            LockedError: Another process kept the file locked for too long.
            BadInputError: The file is not a history.
            RefusedError: A newer version of this program wrote the file.
            FamiliarError: The disk is full or the file is not writable.
        """
        when = to_ms(at or now())
        turn = Turn(0, channel_id, author, role, content, when, modality, source, partial)
        with self.change() as connection:
            check_may_speak(connection, author)
            return insert_turn(connection, replace(turn, reply_to=reply_to), message_id)

    def append_all(self, turns: Iterable[Turn]) -> None:
        """Store many turns in one transaction, with new ids. Forgotten ones are skipped.

        Raises:
            FamiliarError: As `append`.
        """
        with self.change() as connection:
            for turn in turns:
                if not is_forgotten(connection, turn):
                    insert_turn(connection, turn, "")

    def begin(
        self, channel_id: str, content: str, *, at: datetime | None = None, modality: str = "text"
    ) -> Turn | None:
        """Store the familiar's greeting if the channel has no turns yet.

        Returns:
            The greeting's turn; None if the channel has turns already.

        Raises:
            FamiliarError: As `append`.
        """
        when = to_ms(at or now())
        turn = Turn(0, channel_id, None, "assistant", content, when, modality, GREETING, False)  # noqa: FBT003
        unless = (
            " WHERE NOT EXISTS (SELECT 1 FROM turns WHERE channel_id = ?) "
            "AND NOT EXISTS (SELECT 1 FROM branches WHERE channel_id = ?)"
        )
        with self.use(create=True) as connection:
            cursor = connection.execute(INSERT + unless, (*to_row(turn), *[pack(channel_id)] * 2))
            return replace(turn, id=cursor.lastrowid or 0) if cursor.rowcount else None

    def recent(
        self,
        channel_id: str | None,
        limit: int,
        before_id: int | None = None,
        *,
        viewer: Viewer,
        start: int = 0,
    ) -> list[Turn]:
        """Return the newest `limit` standing turns of a channel's past, oldest first.

        A turn that replaced another has that one's place. The cost does not grow with the history.

        Args:
            channel_id: The channel; None: all channels.
            limit: Maximum number of turns, >= 0.
            before_id: Only turns with a lower id.
            viewer: Who will see them; turns hidden from them are left out.
            start: Only turns at this place or later.
        """
        end = 2**_BITS - 1 if before_id is None else before_id
        with self.use(create=False) as connection:
            sql, values = visible_condition(viewer)
            known, key = self.known(connection), (channel_id, end, start, sql, *values)
            most, turns = known.get(key, (-1, ()))
            if most < limit:
                where = f" AND {sql}", values
                rows = newest_rows(
                    connection, STANDING, where, limit, end, start=start, channel_id=channel_id
                )
                turns = [to_turn(row) for row in rows]
                known[key] = limit, turns
            return list(turns[max(len(turns) - limit, 0) :])

    def shows_reply(self, text: str, *, viewer: Viewer) -> bool:
        """Tell whether one of the newest replies that a viewer sees has this text."""
        sql, values = visible_condition(viewer)
        where = f"role = 'assistant' AND content = ? AND id > ? AND {sql}"
        asked = (text, self.newest_id() - _NEWEST_REPLIES, *values)
        return bool(self._number(f"SELECT 1 FROM turns WHERE {where} LIMIT 1", asked))  # noqa: S608

    def turn(self, turn_id: int) -> Turn | None:
        """Return a turn by its id, or None."""
        if turn_id.bit_length() > _BITS:
            return None
        return next(iter(self._rows(_SELECT + " WHERE id = ?", (turn_id,), to_turn)), None)

    def last_turn(self, channel_id: str | None = None) -> Turn | None:
        """Return the newest turn, of one channel or of all; None without turns."""
        if channel_id is not None:
            return next(iter(self.recent(channel_id, 1, viewer=OWNER)), None)
        return next(iter(self._rows(_SELECT + " ORDER BY id DESC LIMIT 1", (), to_turn)), None)

    def said_in(self, channel_id: str, text: str) -> Turn | None:
        """Return the newest standing turn of a channel with exactly this text, or None."""
        sql = STANDING + " WHERE channel_id = ? AND content = ? ORDER BY id DESC LIMIT 1"
        return next(iter(self._rows(sql, (pack(channel_id), pack(text)), to_turn)), None)

    def latest_turn(self) -> Turn | None:
        """Return the turn that was said last, in whatever order turns were imported."""
        sql = _SELECT + " ORDER BY at_ms DESC, id DESC LIMIT 1"
        return next(iter(self._rows(sql, (), to_turn)), None)

    def mentions(self, text: str) -> bool:
        """Tell whether any turn contains a text."""
        return bool(self._number("SELECT 1 FROM turns WHERE instr(content, ?) LIMIT 1", (text,)))

    def newest_id(self) -> int:
        """Return the highest id of a turn; 0 without turns."""
        return self._number("SELECT coalesce(max(id), 0) FROM turns")

    def own_ids(self) -> frozenset[int]:
        """Return the ids of all turns under this instance's name."""
        sql = "SELECT id FROM turns WHERE NOT EXISTS (SELECT 1 FROM elsewhere WHERE turn_id = id)"
        return frozenset(row[0] for row in self.rows(sql))

    def newest_own(self) -> int:
        """Return the highest id of a turn under this instance's name; 0 without."""
        return self._number(
            "SELECT id FROM turns WHERE NOT EXISTS (SELECT 1 FROM elsewhere WHERE turn_id = id)"
            " ORDER BY id DESC LIMIT 1"
        )

    def was_named(self, instance: str) -> bool:
        """Tell whether this history once belonged to an instance with another id."""
        with self.use(create=False) as connection:
            return instance in own_former_names(connection)

    def count(self, *, everything: bool = False) -> int:
        """Count the turns that are shown: all but those replaced or withdrawn, or `everything`."""
        if everything:
            return self._number("SELECT count(*) FROM turns")
        return sum(channel.turns for channel in self.channels())

    def branch(self, channel_id: str, turn_id: int, parent: str | None = None) -> events.Branch:
        """Create a channel that shares another one's past up to a turn; return the branch.

        Idempotent: a branch that already starts at that turn is returned as it is.

        Args:
            channel_id: The new channel's id.
            turn_id: The last shared turn.
            parent: The channel to branch off, possibly itself a branch; None: that of the turn.

        Raises:
            NotFoundError: The turn does not exist, or is not in the past of `parent`.
            ConflictError: The new channel has turns already, or is another branch.
            RefusedError: The turn was replaced or withdrawn.
            FamiliarError: As `append`.
        """
        turn = self.turn(turn_id)
        if turn is None:
            raise NotFoundError(
                f"There is no turn {turn_id}; nothing was changed",
                hint="Run `familiar history show`.",
            )
        with self.change() as connection:
            return events.branch_off(connection, channel_id, turn, parent)

    def branches(self) -> list[events.Branch]:
        """Return all branches, oldest first."""
        with self.use(create=False) as connection:
            return events.all_branches(connection)

    def holds(self, channel_id: str, turn: Turn) -> bool:
        """Tell whether a turn is in a channel's past, whether it stands or not."""
        if turn.channel_id == channel_id:
            return True
        with self.use(create=False) as connection:
            return any(part.holds(turn) for part in events.parts_of(connection, channel_id))

    def family(self, channel_id: str) -> frozenset[str]:
        """Return a channel with its branches and parents, and theirs."""
        with self.use(create=False) as connection:
            return events.family_of(connection, channel_id)

    def channels(self) -> list[ChannelSummary]:
        """Return all channels with the number of turns shown, most recently active first."""
        return self._rows(
            _CHANNELS, (), lambda r: ChannelSummary(unpack(r[0]), r[2], from_ms(r[1]))
        )

    def recent_distinct_authors(
        self, channel_id: str, limit: int, *, viewer: Viewer
    ) -> list[Author]:
        """Return the last `limit` people who spoke in a channel, latest first.

        Those are left out of whom the viewer heard nothing there. The cost does not grow with the
        history or the number of people. Only the end of what a branch shares with its parent is
        examined.
        """
        most = max(limit, 0) + (0 if viewer.sees_everything else _MOST_ALONE)
        with self.use(create=False) as connection:
            known, asked = self.known(connection), (RECENT, pack(channel_id), most)
            if asked not in known:
                turns = [to_turn(row) for row in connection.execute(RECENT, asked[1:])]
                known[asked] = turns, events.parts_of(connection, channel_id)[1:]
            turns, parts = known[asked]
        heard = [turn.author for turn in turns if turn.author and viewer.sees_turn(turn)]
        authors = heard[: max(limit, 0)]
        if not parts or len(authors) >= limit:
            return authors
        shared = self.recent(parts[0].channel_id, _SHARED, parts[0].end, viewer=viewer)
        distinct: dict[str, Author] = {}
        for author in (*authors, *(turn.author for turn in reversed(shared))):
            if author:
                distinct.setdefault(author.slug, author)
        return list(distinct.values())[:limit]

    def has_speaker(self, author: Author) -> bool:
        """Tell whether an account has any turns."""
        where = "SELECT count(*) FROM speakers WHERE (author_platform, author_user_id) = (?, ?)"
        return bool(self._number(where, (pack(author.platform), pack(author.user_id))))

    def since(self, turn_id: int, limit: int) -> list[Turn]:
        """Return the newest `limit` standing turns of all channels after a turn, oldest first."""
        where = " WHERE id > ? ORDER BY id DESC LIMIT ?"
        return self._rows(STANDING + where, (turn_id, max(limit, 0)), to_turn)[::-1]

    def after(self, turn_id: int, limit: int) -> list[Turn]:
        """Return the oldest `limit` turns of all channels after a turn, oldest first.

        Turns that do not stand are included.
        """
        where = " WHERE id > ? ORDER BY id LIMIT ?"
        return self._rows(_SELECT + where, (turn_id, max(limit, 0)), to_turn)

    def first_since(self, moment: datetime) -> int | None:
        """Return the lowest id of a turn said at or after `moment`, or None.

        Imported turns may be older than turns with lower ids.
        """
        sql = "SELECT id FROM turns WHERE at_ms >= ? ORDER BY id LIMIT 1"
        return self._number(sql, (in_ms(moment),)) or None

    def said_count(self, channel_id: str) -> int:
        """Count the turns of people, as opposed to the familiar, in a channel."""
        return self._number(_SAID, (pack(channel_id),))

    def speakers(self, viewer: Viewer) -> list[Speaker]:
        """Return everyone who ever spoke in any channel, latest first.

        Args:
            viewer: Who will see them. Each person has the name they last used in a channel where
                it is not hidden from the viewer, or none, and the turns that the viewer may see.
        """
        private = viewer.rules.private_channels
        hidden = {pack(channel) for channel in private if not viewer.sees_channel(channel)}

        def is_private(channel: str, *only: str | None) -> bool:
            if channel in hidden or only[0] is None:
                return channel in hidden
            scope = viewer.rules.scope_said(unpack(channel), to_author((*only, None, None)))
            return not viewer.sees({scope} - {PUBLIC})

        with self.use(create=False) as connection:
            connection.create_function("is_private", 3, is_private, deterministic=True)
            rows = connection.execute(_ALL)
            found = [Speaker(to_author(r[:4]), r[4], from_ms(r[5])) for r in rows]
            if viewer.sees_everything:
                return found
            seen = {
                (platform, user_id): (count, from_ms(last))
                for platform, user_id, count, last in connection.execute(_SEEN)
            }
        nothing = 0, _NEVER
        heard = (
            Speaker(one.author, *seen.get((one.author.platform, one.author.user_id), nothing))
            for one in found
        )
        return sorted(heard, key=lambda one: (one.last_at, one.author.slug), reverse=True)

    def last_times(self) -> dict[str, datetime]:
        """Return when each person last spoke, by slug, in whatever order turns were imported."""
        with self.use(create=False) as connection:
            rows = connection.execute(_LAST_TIMES)
            return {to_author((*who, None, None)).slug: from_ms(at) for *who, at in rows}

    def unsummarised_count(self) -> int:
        """Count the turns that the memory writer has not read yet."""
        return self._number(f"SELECT count(*) {UNREAD}")

    def unsummarised_among(self, turn_ids: Iterable[int]) -> set[int]:
        """Return those of these turns that the memory writer has not read yet."""
        sql = "SELECT turn_id FROM unread WHERE turn_id IN"
        with self.use(create=False) as connection:
            return {row[0] for row in rows_among(connection, sql, sorted(set(turn_ids)))}

    def unsummarised_times(self) -> list[datetime]:
        """Return the times of standing turns that the memory writer has not read yet."""
        return [from_ms(row[0]) for row in self.rows(f"SELECT at_ms {UNREAD}")]

    def watermark(self, name: str) -> int:
        """Return the id of the last turn that process `name` has finished; 0: none."""
        return self._number("SELECT turn_id FROM watermarks WHERE name = ?", (name,))

    def move_watermark(self, name: str, turn_id: int) -> None:
        """Advance the watermark of `name` to `turn_id`. It never moves back.

        Call it only once the results of processing those turns are durable.

        Raises:
            FamiliarError: As `append`.
        """
        with self.change() as connection:
            if name == WRITER:
                connection.execute("DELETE FROM unread WHERE turn_id <= ?", (turn_id,))
            _raise_watermark(connection, name, turn_id)

    def note_read(self, connection: sqlite3.Connection, turn_id: int) -> None:
        """Store the watermark of the memory writer, inside a transaction."""
        _raise_watermark(connection, WRITER, turn_id)

    def copy_to(self, path: Path) -> HistoryStore:
        """Return a scratch copy in a file of its own; empty without turns.

        Raises:
            FamiliarError: The history cannot be read, or the copy cannot be written.
        """
        with self.use(create=False) as connection, closing(connect(path, 0)) as copy:
            connection.backup(copy)
        return HistoryStore(path)

    def _number(self, sql: str, values: Sequence[Any] = ()) -> int:
        return next(iter(self._rows(sql, values, lambda row: to_number(row[0]))), 0)

    def _rows(self, sql: str, values: Sequence[Any], make: Callable[[Row], T]) -> list[T]:
        """Convert each row with `make`; a row that cannot be converted is reported as damage."""
        with self.use(create=False) as connection:
            return [make(row) for row in connection.execute(sql, values)]


def _raise_watermark(connection: sqlite3.Connection, name: str, turn_id: int) -> None:
    sql = (
        "INSERT INTO watermarks (name, turn_id) VALUES (?, ?) ON CONFLICT (name) "
        "DO UPDATE SET turn_id = max(turn_id, excluded.turn_id)"
    )
    connection.execute(sql, (name, turn_id))
