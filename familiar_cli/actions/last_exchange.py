"""The last exchange of a channel: what a person said there, and the replies to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError, RefusedError
from familiar_cli.history.standing import choose, standings, withdraw
from familiar_cli.history.types import in_pairs
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn

_LAST: Final = 40  # turns of a channel among which it is looked for


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a person said, and what the familiar said to it, as it stands."""

    said: Turn
    replies: tuple[Turn, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All of it, in order."""
        return (self.said, *self.replies)


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The replies of which one stands, in the order in which they came."""

    replies: tuple[Turn, ...]
    standing: int
    """Which one it is, from 1."""


def last_turn(familiar: Familiar, channel_id: str) -> Turn:
    """Return what was said last in a channel.

    Raises:
        NotFoundError: Nothing was said there.
    """
    turns = in_pairs(familiar.history.recent(channel_id, _LAST, viewer=OWNER))
    if turns:
        return turns[-1]
    raise NotFoundError(f"Nothing was said in channel {channel_id!r} yet; nothing was changed")


def last_exchange(familiar: Familiar, channel_id: str) -> Exchange:
    """Return the last exchange of a channel.

    Raises:
        NotFoundError: Nothing was said there.
        RefusedError: The channel is a branch, and only shares it.
    """
    turns = in_pairs(familiar.history.recent(channel_id, _LAST, viewer=OWNER))
    at = max((n for n, turn in enumerate(turns) if turn.role == "user"), default=None)
    if at is None:
        raise NotFoundError(f"Nothing was said in channel {channel_id!r} yet; nothing was changed")
    if turns[at].channel_id != channel_id:
        raise RefusedError(
            f"The last exchange also belongs to channel {turns[at].channel_id!r}; "
            "nothing was changed",
            hint="Change it there, or say something here first.",
        )
    return Exchange(turns[at], tuple(turns[at + 1 :]))


def unanswered(familiar: Familiar, said: Said) -> Said | None:
    """Return what asks for a first reply to the last turn of a channel; None if that is a reply.

    Raises:
        NotFoundError: Nothing was said there.
    """
    last = last_turn(familiar, said.channel_id)
    if last.role != "user":
        return None
    return replace(said, text=last.content, author=last.author, reply_to=last.id)


def take_back(familiar: Familiar, channel_id: str) -> Exchange:
    """Withdraw the last exchange of a channel, and return it.

    Raises:
        NotFoundError: Nothing was said there.
    """
    exchange = last_exchange(familiar, channel_id)
    withdraw(familiar.history, [turn.id for turn in exchange.turns])
    return exchange


def alternatives(familiar: Familiar, channel_id: str) -> Alternatives:
    """Return the replies to what was said last in a channel.

    Raises:
        NotFoundError: Nothing was said there, or there is no reply to it.
    """
    exchange = last_exchange(familiar, channel_id)
    if not exchange.replies:
        raise NotFoundError(
            f"There is no reply to turn {exchange.said.id} yet", hint="Type /again to ask for one."
        )
    reply = exchange.replies[-1]
    ids = standings(familiar.history, [reply.id])[reply.id].alternatives or (reply.id,)
    found = [turn for turn in map(familiar.history.turn, ids) if turn is not None]
    return Alternatives(tuple(found), ids.index(reply.id) + 1)


def choose_reply(familiar: Familiar, channel_id: str, number: int) -> Turn:
    """Let one of the replies to what was said last stand, by its number from 1; return it.

    Raises:
        NotFoundError: There is none of that number.
        RefusedError: There is but one.
    """
    replies = alternatives(familiar, channel_id).replies
    if len(replies) == 1:
        raise RefusedError(
            "There is only one reply; nothing was changed", hint="Type /again for another one."
        )
    if not 1 <= number <= len(replies):
        raise NotFoundError(
            f"There is no reply {number}; nothing was changed",
            hint=f"Choose a number from 1 to {len(replies)}.",
        )
    chosen = replies[number - 1]
    choose(familiar.history, chosen.id)
    return chosen
