"""From turns to rows and back, so that every text comes back as it went in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from familiar_cli.clock import to_ms
from familiar_cli.history.types import Turn
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
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[Any, ...]


def to_row(turn: Turn) -> Row:
    """Return the values of `COLUMNS`."""
    who: tuple[str | None, ...] = (None,) * 4
    if turn.author:
        person = turn.author
        who = (person.platform, person.user_id, person.username, person.display_name)
    texts = [pack(text) for text in (turn.channel_id, *who, turn.role, turn.content)]
    return (*texts, in_ms(turn.at), pack(turn.modality), pack(turn.source), int(turn.partial))


def to_turn(row: Row) -> Turn:
    """Return the turn that `id` and the values of `COLUMNS` stand for."""
    turn_id, channel_id, platform, user_id, username, display_name, role, content, *rest = row
    at_ms, modality, source, partial = rest
    author = None
    if platform is not None:
        author = to_author((platform, user_id, username, display_name))
    return Turn(
        id=turn_id,
        channel_id=unpack(channel_id),
        author=author,
        role=role,
        content=unpack(content),
        at=from_ms(at_ms),
        modality=unpack(modality),
        source=unpack(source),
        partial=bool(partial),
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


def unpack(stored: str | bytes) -> str:
    """Return the text that `pack` was given."""
    if isinstance(stored, bytes):
        return stored.decode("utf-8", errors="surrogatepass")
    return stored


def in_ms(moment: datetime) -> int:
    """Return milliseconds since 1970 in UTC."""
    return (to_ms(moment) - _EPOCH) // timedelta(milliseconds=1)


def from_ms(milliseconds: int) -> datetime:
    """Return the moment that `in_ms` counted."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _some(stored: str | bytes | None) -> str | None:
    return None if stored is None else unpack(stored)
