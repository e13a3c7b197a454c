"""What is known of a turn besides its words: its id on a platform, and which turn it replies to.

Both stand in tables beside the turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConflictError
from familiar_cli.history import one_to_one
from familiar_cli.history.branches import parts_of
from familiar_cli.history.rows import INSERT, SELECTED, pack, to_row, to_turn
from familiar_cli.identity import NEUTRAL

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.history.file import HistoryFile
    from familiar_cli.history.types import Turn
    from familiar_cli.identity import Author
_OF_ID: Final = (
    f"SELECT {SELECTED} FROM turns JOIN message_ids ON message_ids.turn_id = turns.id "  # noqa: S608
    "WHERE message_ids.channel_id = ? AND message_id IN (?, ?)"
)


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that is kept; `is_new` unless it was kept before, under the same id."""

    turn: Turn
    is_new: bool


def insert(connection: sqlite3.Connection, turn: Turn, message_id: str = "") -> Turn:
    """Write a turn down with what is known of it, and return it with its number.

    Raises:
        ConflictError: The channel has another turn with that message id.
    """
    known = find(connection, turn.channel_id, message_id, turn.author)
    if known:
        raise ConflictError(
            f"Message {message_id!r} of channel {turn.channel_id!r} is already kept as turn "
            f"{known.id}; nothing was added"
        )
    if find(connection, turn.channel_id, message_id):
        message_id = _qualified(message_id, turn.author)
    turn = replace(turn, id=connection.execute(INSERT, to_row(turn)).lastrowid or 0)
    note_id(connection, turn.channel_id, message_id, turn.id)
    if turn.reply_to is not None:
        connection.execute("INSERT INTO replies VALUES (?, ?)", (turn.id, turn.reply_to))
        one_to_one.inherit(connection, turn.id, turn.reply_to)
    return replace(turn, one_to_one=one_to_one.of_turn(connection, turn.id))


def note_id(connection: sqlite3.Connection, channel_id: str, message_id: str, turn_id: int) -> None:
    """Write down which message a turn is; an empty id is none."""
    if message_id:
        values = (pack(channel_id), pack(message_id), turn_id)
        connection.execute("INSERT INTO message_ids VALUES (?, ?, ?)", values)


def find(
    connection: sqlite3.Connection, channel_id: str, message_id: str, author: Author | None = None
) -> Turn | None:
    """Return the turn of a channel with a message id, or None.

    Args:
        connection: To the history.
        channel_id: The channel.
        message_id: The id.
        author: Only a turn from this author's platform counts; None, or one of the command line,
            which numbers no messages: from any.
    """
    if not message_id:
        return None
    if author and author.platform == NEUTRAL.platform:
        author = None
    values = (pack(channel_id), pack(message_id), pack(_qualified(message_id, author)))
    for turn in map(to_turn, connection.execute(_OF_ID, values)):
        if author is None or turn.author is None or turn.author.platform == author.platform:
            return turn
    return None


def _qualified(message_id: str, author: Author | None) -> str:
    """Return the stored form of an id whose plain form belongs to another platform's message."""
    return f"{author.platform}:{message_id}" if author else message_id


def of_id(
    history: HistoryFile, channel_id: str, message_id: str, author: Author | None = None
) -> Turn | None:
    """Return the turn of a channel with a message id, as `find` does."""
    if not message_id:
        return None
    with history.use(create=False) as connection:
        return find(connection, channel_id, message_id, author)


def keep_once(history: HistoryFile, turn: Turn, message_id: str = "") -> Heard:
    """Write a message down, unless the channel has one with that id already.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.change() as connection:
        known = find(connection, turn.channel_id, message_id, turn.author)
        if known:
            return Heard(known, is_new=False)
        return Heard(insert(connection, turn, message_id), is_new=True)


def whole_reply(history: HistoryFile, turn_id: int, channel_id: str | None = None) -> Turn | None:
    """Return the reply to a turn that did not break off; None: there is none.

    Args:
        history: The history.
        turn_id: The turn.
        channel_id: Only a reply in the past of this channel counts; None: one anywhere.
    """
    sql = (
        f"SELECT {SELECTED} FROM shown AS turns JOIN replies ON replies.turn_id = turns.id "  # noqa: S608
        "WHERE replies.reply_to = ? AND NOT turns.partial ORDER BY turns.id DESC"
    )
    with history.use(create=False) as connection:
        replies = map(to_turn, connection.execute(sql, (turn_id,)).fetchall())
        past = () if channel_id is None else parts_of(connection, channel_id)
    return next((r for r in replies if not past or any(part.holds(r) for part in past)), None)
