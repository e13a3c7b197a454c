"""From turns to rows and back, so that every text comes back as it went in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args

from familiar_cli.clock import to_ms
from familiar_cli.errors import BadInputError
from familiar_cli.history.types import Role, Turn
from familiar_cli.identity import Author

COLUMNS: Final = (
    "channel_id",
    "author_platform",
    "author_user_id",
    "author_username",
    "author_display_name",
    "role",
    "content",
    "at_ms",
    "modality",
    "source",
    "partial",
)
SELECTED: Final = (
    f"{', '.join(f'turns.{name}' for name in ('id', *COLUMNS))}, "  # noqa: S608
    "coalesce((SELECT hidden FROM set_aside WHERE turn_id = turns.id), turns.hidden), "
    "(SELECT reply_to FROM replies WHERE replies.turn_id = turns.id), "
    "(SELECT place FROM places WHERE places.turn_id = turns.id), "
    "EXISTS (SELECT 1 FROM standing WHERE standing.id = turns.id), "
    "(SELECT platform FROM one_to_one WHERE one_to_one.turn_id = turns.id), "
    "(SELECT user_id FROM one_to_one WHERE one_to_one.turn_id = turns.id)"
)
"""What `to_turn` reads from `turns`, or from a view under that name."""

UNREAD: Final = "FROM unread CROSS JOIN standing ON standing.id = unread.turn_id"
"""The turns that stand and that the memory writer has not read."""

PLACE: Final = len(COLUMNS) + 3
"""Where among them the turn is whose place a turn took; None: its own."""

INSERT: Final = f"INSERT INTO turns ({', '.join(COLUMNS)}) SELECT {', '.join('?' * len(COLUMNS))}"
"""Writes a turn down, given what `to_row` returns."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[Any, ...]


class DamagedRowError(BadInputError):
    """A row of the history holds what was never written there."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The history is damaged: {what}; it was not changed",
            hint="Replace `history.db` with a backup copy, or run `familiar history salvage`.",
        )
        self.what = what


def to_row(turn: Turn) -> Row:
    """Return the values of `COLUMNS`."""
    who: tuple[str | None, ...] = (None,) * 4
    if turn.author:
        person = turn.author
        who = (person.platform, person.user_id, person.username, person.display_name)
    texts = [pack(text) for text in (turn.channel_id, *who, turn.role, turn.content)]
    return (*texts, in_ms(turn.at), pack(turn.modality), pack(turn.source), int(turn.partial))


def to_turn(row: Row) -> Turn:
    """Return the turn that the values of `SELECTED` stand for, or those of id and `COLUMNS`.

    Raises:
        DamagedRowError: They stand for none.
    """
    turn_id, channel_id, platform, user_id, username, display_name, role, content, *rest = row
    at_ms, modality, source, partial, *more = rest
    hidden, reply_to, place, stands, *only = more or (0, None, None, 1, None, None)
    author = None
    if platform is not None:
        author = to_author((platform, user_id, username, display_name))
    return Turn(
        id=turn_id,
        channel_id=unpack(channel_id),
        author=author,
        role=_role(role),
        content=unpack(content),
        at=from_ms(at_ms),
        modality=unpack(modality),
        source=unpack(source),
        partial=bool(partial),
        hidden=bool(hidden),
        reply_to=None if reply_to is None else to_number(reply_to),
        place=None if place in {None, turn_id} else to_number(place),
        stands=bool(stands),
        one_to_one=None if only[0] is None else to_author((*only, None, None)),
    )


def to_author(row: Row) -> Author:
    """Return the author whom platform, user id, username and display name stand for."""
    platform, user_id, username, display_name = row
    return Author(unpack(platform), unpack(user_id), _some(username), _some(display_name))


def pack(text: str | None) -> str | bytes | None:
    """Return `text` as SQLite takes it: half a surrogate pair goes as bytes."""
    if text is None:
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="surrogatepass")
    return text


def unpack(stored: object) -> str:
    """Return the text that `pack` was given.

    Raises:
        DamagedRowError: `stored` is no text.
    """
    if isinstance(stored, str):
        return stored
    if not isinstance(stored, bytes):
        raise DamagedRowError("found a number instead of text")
    try:
        return stored.decode("utf-8", errors="surrogatepass")
    except UnicodeDecodeError as error:
        raise DamagedRowError("a text is not UTF-8") from error


def in_ms(moment: datetime) -> int:
    """Return milliseconds since 1970 in UTC."""
    return (to_ms(moment) - _EPOCH) // timedelta(milliseconds=1)


def from_ms(milliseconds: object) -> datetime:
    """Return the moment that `in_ms` counted.

    Raises:
        DamagedRowError: There is no such moment.
    """
    if not isinstance(milliseconds, int):
        raise DamagedRowError("a time is not a number")
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise DamagedRowError("a time is out of range") from error


def to_number(stored: object) -> int:
    """Return a whole number.

    Raises:
        DamagedRowError: `stored` is none.
    """
    if not isinstance(stored, int):
        raise DamagedRowError("a number is missing")
    return stored


def _role(stored: object) -> Role:
    found = unpack(stored)
    if found in get_args(Role):
        return found  # type: ignore[return-value]
    raise DamagedRowError(f"unknown role {found!r:.40}")


def _some(stored: object) -> str | None:
    return None if stored is None else unpack(stored)
