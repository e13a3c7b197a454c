"""Values the history room hands out, and the order in which turns are shown.

The history itself is in the order in which turns were written down; what was heard late is shown
at its time, each reply by its question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from familiar_cli.identity import Author

WRITER: Final = "memory_writer"
"""Watermark: the newest turn read by the memory writer; `waiting` has the unread ones."""

IMPORTED: Final = "import-chat"
"""The source of turns that were brought in with a chat."""

HEARD: Final = "hear"
"""The source of a turn that was kept without a reply, perhaps later than it was said."""

T = TypeVar("T")
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


def place_of(turn: Turn) -> int:
    """Return the number of the turn where it stands: its own, unless it took another's place."""
    return turn.id if turn.place is None else turn.place


def by_time(items: Sequence[T], turn_of: Callable[[T], Turn]) -> list[T]:
    """Return `items` with each turn that was heard moved up to the time when it was said.

    All others keep their order: an imported chat has that of its file, whatever its times are.
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

    Of several replies to one turn, as when the first broke off, only the last is among them. A
    reply to a turn that is not here stays at its place.
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
