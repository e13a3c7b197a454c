"""The turns that came through the server: the newest ones, and those that come."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.clock import iso
from familiar_cli.history.selection import newest_from, turns_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from familiar_cli.familiar import Familiar
    from familiar_cli.history.rows import Turn

SOURCE: Final = "serve"
"""The source of every turn that came through the server."""

_LOOK_S: Final = 0.5
_BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class ServedLine:
    """One turn, as the log of the server shows it.

    Args:
        turn: Its number.
        at: When it was said, in UTC.
        channel_id: Where.
        who: Who said it.
        text: The words.
        partial: It broke off before its end.
        reply_to: The turn that it replies to; None: it is no reply.
        match: As what it was recognised: new words, a reply, or another wording of a turn.
    """

    turn: int
    at: datetime
    channel_id: str
    who: str
    text: str
    partial: bool
    reply_to: int | None
    match: str

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "turn": self.turn,
            "at": iso(self.at),
            "channel": self.channel_id,
            "who": self.who,
            "text": self.text,
            "partial": self.partial,
            "reply_to": self.reply_to,
            "match": self.match,
        }


def newest(familiar: Familiar, limit: int) -> list[ServedLine]:
    """Return the newest `limit` turns that came through the server, oldest first."""
    name = familiar.name
    return [_line(turn, name) for turn in newest_from(familiar.history, SOURCE, limit)]


def follow(familiar: Familiar, first: Sequence[ServedLine]) -> Iterator[ServedLine]:
    """Yield `first`, and then each turn that comes, until the caller stops asking."""
    yield from first
    name, seen = familiar.name, familiar.history.newest_id()
    while True:
        time.sleep(_LOOK_S)
        while found := turns_from(familiar.history, SOURCE, seen, _BATCH):
            for turn_id, *_ in found:
                turn = familiar.history.turn(turn_id)
                if turn:
                    yield _line(turn, name)
            seen = found[-1][0]


def _line(turn: Turn, name: str) -> ServedLine:
    who = name if turn.role == "assistant" else (turn.author.label if turn.author else "")
    return ServedLine(
        turn.id,
        turn.at,
        turn.channel_id,
        who,
        turn.content,
        turn.partial,
        turn.reply_to,
        match_of(turn),
    )


def match_of(turn: Turn) -> str:
    """Describe how a line was recognised when it came: new, a reply, or another wording."""
    if turn.place is not None and turn.place != turn.id:
        return f"in place of turn {turn.place}"
    return "new" if turn.reply_to is None else f"reply to turn {turn.reply_to}"
