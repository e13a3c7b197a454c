"""Turns and other values of the history, and their conversion from and to rows.

The history itself keeps the order in which turns were written; for display, a turn heard late is
moved to its time, and each reply next to its question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, get_args

from msgspec import Struct

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.times.clock import to_ms
from familiar_cli.base.who.identity import Author

WRITER: Final = "memory_writer"
"""Watermark: the newest turn read by the memory writer; `waiting` has the unread ones."""

IMPORTED: Final = "import-chat"
"""The source of turns that were brought in with a chat."""

SERVED: Final = "serve"
"""The source of turns that came through the server."""

HEARD: Final = "hear"
"""The source of a turn that was kept without a reply, perhaps later than it was said."""

T = TypeVar("T")
Role = Literal["user", "assistant", "system"]
_ROLES: Final = get_args(Role)


class Turn(Struct, frozen=True):
    """One immutable turn of a conversation.

    Args:
        id: Its number; later turns have higher ones.
        author: Its author; None: the familiar.
        role: Its role in a prompt.
        content: Its text, verbatim.
        at: Its time in UTC, to the millisecond.
        modality: `text` or `voice`.
        source: What wrote it, e.g. `cli`, `greeting`, `serve`.
        partial: Whether it was cut off before its end.
        hidden: Whether it is left out of prompts.
        reply_to: The turn that it replies to; None: none, or unknown.
        place: The turn whose place it took; None: its own place.
        stands: Whether it may appear in prompts: it is not hidden, withdrawn or superseded.
        one_to_one: The only person who had spoken in the channel by then; None: there were several.
    """

    id: int
    channel_id: str
    author: Author | None
    role: Role
    content: str
    at: datetime
    modality: str
    source: str
    partial: bool
    hidden: bool = False
    reply_to: int | None = None
    place: int | None = None
    stands: bool = True
    one_to_one: Author | None = None


class ChannelSummary(Struct, frozen=True):
    """A channel with its number of turns and the time of its last one (UTC)."""

    channel_id: str
    turns: int
    last_at: datetime


class Speaker(Struct, frozen=True):
    """A person with their number of turns in all channels and the time of the last one (UTC)."""

    author: Author
    turns: int
    last_at: datetime


def place_of(turn: Turn) -> int:
    """Return a turn's place: its own number, unless it took another turn's place."""
    return turn.id if turn.place is None else turn.place


def by_time(items: Sequence[T], turn_of: Callable[[T], Turn]) -> list[T]:
    """Sort turns that were heard late to the time when they were said.

    All others keep their order: an imported chat stays in file order, whatever its times.
    """
    arranged: list[T] = []
    for item in items:
        turn, place = turn_of(item), len(arranged)
        while turn.source == HEARD and place and turn_of(arranged[place - 1]).at > turn.at:
            place -= 1
        arranged.insert(place, item)
    return arranged


def in_pairs(turns: Sequence[Turn]) -> list[Turn]:
    """Return `turns` by time, with each reply right after what it replies to.

    Of several replies to one turn, as when the first was cut off, only the last is returned. A
    reply to a turn that is not among `turns` stays at its place.
    """
    ordered = by_time(turns, lambda turn: turn)
    questions = {turn.id for turn in turns}
    replies = {turn.reply_to: turn for turn in turns if turn.reply_to in questions}
    arranged: list[Turn] = []
    for turn in ordered:
        if turn.reply_to in questions:
            continue
        arranged.append(turn)
        if turn.id in replies:
            arranged.append(replies[turn.id])
    return arranged


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
_SELECTED: Final = (
    f"{', '.join(f'turns.{name}' for name in ('id', *COLUMNS))}, "  # noqa: S608
    "{}, (SELECT reply_to FROM replies WHERE replies.turn_id = turns.id), "
    "(SELECT place FROM places WHERE places.turn_id = turns.id), "
    "{}, (SELECT platform FROM one_to_one WHERE one_to_one.turn_id = turns.id), "
    "(SELECT user_id FROM one_to_one WHERE one_to_one.turn_id = turns.id)"
)
SELECTED: Final = _SELECTED.format(
    "coalesce((SELECT hidden FROM set_aside WHERE turn_id = turns.id), turns.hidden)",
    "EXISTS (SELECT 1 FROM standing WHERE standing.id = turns.id)",
)
"""What `to_turn` reads from `turns`, or from a view under that name."""

SELECTED_STANDING: Final = _SELECTED.format("0", "1")
"""The same of turns that are known to stand, such as those of `standing`."""
STANDING: Final = f"SELECT {SELECTED_STANDING} FROM standing AS turns"  # noqa: S608
"""Selects the turns that stand."""

UNREAD: Final = "FROM unread CROSS JOIN standing ON standing.id = unread.turn_id"
"""The turns that stand and that the memory writer has not read."""

PLACE: Final = len(COLUMNS) + 3
"""Where among them the turn is whose place a turn took; None: its own."""

INSERT: Final = f"INSERT INTO turns ({', '.join(COLUMNS)}) SELECT {', '.join('?' * len(COLUMNS))}"
"""Writes a turn down, given what `to_row` returns."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[Any, ...]


class DamagedRowError(BadInputError):
    """A row of the history holds a value that was never written."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The history is damaged: {what}; it was not changed",
            hint="Replace `history.db` with a backup copy, or run `familiar history salvage`.",
        )
        self.what = what


def to_row(turn: Turn) -> Row:
    """Convert a turn to the values of `COLUMNS`."""
    who: tuple[str | None, ...] = (None,) * 4
    if turn.author:
        person = turn.author
        who = (person.platform, person.user_id, person.username, person.display_name)
    texts = [pack(text) for text in (turn.channel_id, *who, turn.role, turn.content)]
    return (*texts, in_ms(turn.at), pack(turn.modality), pack(turn.source), int(turn.partial))


def new_turn(
    channel_id: str,
    role: Role,
    content: str,
    at: datetime,
    *,
    author: Author | None = None,
    modality: str,
    source: str,
    partial: bool = False,
    reply_to: int | None = None,
) -> Turn:
    """Build a turn that is to be added, which gives it its number."""
    return Turn(
        id=0,
        channel_id=channel_id,
        author=author,
        role=role,
        content=content,
        at=at,
        modality=modality,
        source=source,
        partial=partial,
        reply_to=reply_to,
    )


@lru_cache(maxsize=1024)  # a prompt reads the newest turns several times, the next one again
def to_turn(row: Row) -> Turn:
    """Convert the values of `SELECTED`, or an id and those of `COLUMNS`, to a turn.

    Raises:
        DamagedRowError: They are not valid values of a turn.
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
        role=_to_role(role),
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


@lru_cache(maxsize=1024)  # few people said most turns
def to_author(row: Row) -> Author:
    """Build an author from platform, user id, username and display name."""
    platform, user_id, username, display_name = row
    return Author(
        unpack(platform), unpack(user_id), _unpack_some(username), _unpack_some(display_name)
    )


def pack(text: str | None) -> str | bytes | None:
    """Encode `text` for SQLite: text with lone surrogates is stored as bytes."""
    if text is None:
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="surrogatepass")
    return text


def unpack(stored: object) -> str:
    """Decode the output of `pack`.

    Raises:
        DamagedRowError: `stored` is not text.
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
    """Convert a moment to milliseconds since 1970 in UTC."""
    return (to_ms(moment) - _EPOCH) // timedelta(milliseconds=1)


def from_ms(milliseconds: object) -> datetime:
    """Convert milliseconds since 1970 to a moment.

    Raises:
        DamagedRowError: The value is out of range or not a number.
    """
    if not isinstance(milliseconds, int):
        raise DamagedRowError("a time is not a number")
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise DamagedRowError("a time is out of range") from error


def to_number(stored: object) -> int:
    """Check that a stored value is an integer.

    Raises:
        DamagedRowError: `stored` is not one.
    """
    if not isinstance(stored, int):
        raise DamagedRowError("a number is missing")
    return stored


def _to_role(stored: object) -> Role:
    value = unpack(stored)
    if value in _ROLES:
        return value  # type: ignore[return-value]
    raise DamagedRowError(f"unknown role {value!r:.40}")


def _unpack_some(stored: object) -> str | None:
    return None if stored is None else unpack(stored)
