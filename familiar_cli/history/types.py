"""Values the history room hands out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from familiar_cli.identity import Author

WRITER: Final = "memory_writer"
"""Watermark: the newest turn read by the memory writer; `waiting` has the unread ones."""

Role = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said. It never changes.

    Args:
        id: Its number; later turns have higher ones.
        channel_id: Where it was said.
        author: Who said it; None is the familiar itself.
        role: As what a model is shown it.
        content: The words, as they were said.
        at: When, in UTC, to the millisecond.
        modality: `text` or `voice`.
        source: What wrote it down, e.g. `cli`, `greeting`, `legacy`.
        partial: It broke off before its end.
        hidden: It is kept, and no model is shown it.
        reply_to: The turn that it replies to; None: it replies to none, or nobody wrote it down.
        place: The turn whose place it took; None: its own place.
        stands: A model may be shown it: it is not hidden, withdrawn or superseded.
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
    one_to_one: Author | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ChannelSummary:
    """One channel: how many turns it has, and when its last one was said (UTC)."""

    channel_id: str
    turns: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Speaker:
    """Someone who spoke: how many turns, in all channels, and when last (UTC)."""

    author: Author
    turns: int
    last_at: datetime
