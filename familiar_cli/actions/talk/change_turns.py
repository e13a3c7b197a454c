"""Change past turns: other replies, edits and branches; and helpers of the chat."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import NotFoundError, RefusedError, UsageError
from familiar_cli.base.text import channel_option, fold, slugify, whole_line
from familiar_cli.base.who.identity import NEUTRAL, Author, parse_author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.types import Modality, Said, Spoken
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import marks, store
from familiar_cli.store.history.events import Branch
from familiar_cli.store.history.rows import Turn, in_pairs
from familiar_cli.store.history.selection import SourcedTurn, kept_turns
from familiar_cli.store.memory.layout import NOTES

_LAST = 20  # newest turns searched for the question of the last reply


def again(familiar: Familiar, said: Said) -> Said:
    """Turn `said` into a request to answer the last message of its channel, or to answer it anew.

    Raises:
        NotFoundError: The channel has no turns.
        RefusedError: Its last turn is a greeting, or a reply to nothing.
    """
    first = answer_last_turn(familiar, said)  # as after an error
    return first or replace_last_reply(familiar, replace(said, remake="again"))


def go_on(familiar: Familiar, said: Said) -> Said:
    """Turn `said` into a request to continue the last reply of its channel.

    Raises:
        NotFoundError: The channel has no turns.
        RefusedError: Its last turn is not a reply.
    """
    return replace_last_reply(familiar, replace(said, remake="continue"))


def replace_last_reply(familiar: Familiar, said: Said) -> Said:
    """Update `said` with its channel's last reply and the turn that it answers.

    Raises:
        NotFoundError: The channel has no turns.
        RefusedError: Its last turn is not a reply.
    """
    channel_id = said.channel_id
    turns = in_pairs(familiar.history.recent(channel_id, _LAST, viewer=OWNER))
    if not turns:
        raise _without_turns(channel_id)
    last = turns[-1]
    question = _answered_turn(familiar, turns)
    if question is None:
        raise RefusedError(
            f"The newest turn of channel {channel_id!r}, turn {last.id}, answers no message; "
            "nothing was asked",
            hint=_retry_hint(last),
        )
    return replace(
        said,
        text=question.content,
        author=question.author,
        modality=Modality(question.modality),
        reply_to=question.id,
        instead_of=last,
    )


def _answered_turn(familiar: Familiar, turns: list[Turn]) -> Turn | None:
    """Find the turn that the last one replies to: the one it names, else the one before it."""
    last = turns[-1]
    if last.role != "assistant" or last.source == store.GREETING:
        return None
    if last.reply_to is not None:
        question = familiar.history.turn(last.reply_to)
        if question is not None and question.stands:
            return question
    before = turns[-2] if len(turns) > 1 else None
    return before if before is not None and before.role == "user" else None


def _retry_hint(last: Turn) -> str:
    if last.role == "user":
        return "Run `familiar again` to ask for a reply to it."
    if last.source == store.GREETING:
        return "Open another conversation with `familiar ask --channel NAME --greeting N`."
    return "Run `familiar history show`."


_LAST_TURNS: Final = 40  # newest turns searched for it


class StandingExchange(Struct, frozen=True):
    """A message and its replies that stand now."""

    said: Turn
    replies: tuple[Turn, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Its turns, in order."""
        return (self.said, *self.replies)


class Alternatives(Struct, frozen=True):
    """Alternative replies, of which one stands, in the order of their creation."""

    replies: tuple[Turn, ...]
    standing: int
    """Which one it is, from 1."""


def last_turn(familiar: Familiar, channel_id: str) -> Turn:
    """Return the last turn of a channel.

    Raises:
        NotFoundError: The channel has no turns.
    """
    turns = in_pairs(familiar.history.recent(channel_id, _LAST_TURNS, viewer=OWNER))
    if turns:
        return turns[-1]
    raise _without_turns(channel_id)


def _without_turns(channel_id: str) -> NotFoundError:
    hint = f'Say something first: `familiar ask "Hello"{channel_option(channel_id)}`.'
    return NotFoundError(f"Channel {channel_id!r} has no turns yet; nothing was changed", hint=hint)


def shared_exchange(familiar: Familiar, channel_id: str) -> StandingExchange:
    """Return the last exchange of a channel, which a branch may share with its parent.

    Raises:
        NotFoundError: The channel has no turns.
    """
    turns = in_pairs(familiar.history.recent(channel_id, _LAST_TURNS, viewer=OWNER))
    at = max((n for n, turn in enumerate(turns) if turn.role == "user"), default=None)
    if at is None:
        raise _without_turns(channel_id)
    return StandingExchange(turns[at], tuple(turns[at + 1 :]))


def last_exchange(familiar: Familiar, channel_id: str) -> StandingExchange:
    """Return the last exchange of a channel, to change it.

    Raises:
        NotFoundError: The channel has no turns.
        RefusedError: The exchange belongs to the channel from which this one branched.
    """
    exchange = shared_exchange(familiar, channel_id)
    if exchange.said.channel_id != channel_id:
        raise RefusedError(
            f"The last exchange is also in channel {exchange.said.channel_id!r}; "
            "nothing was changed",
            hint="Change it there, or say something here first.",
        )
    return exchange


def answer_last_turn(familiar: Familiar, said: Said) -> Said | None:
    """Turn `said` into a request to answer its channel's last turn; None if that is a reply.

    Raises:
        NotFoundError: The channel has no turns.
    """
    last = last_turn(familiar, said.channel_id)
    if last.role != "user":
        return None
    return replace(said, text=last.content, author=last.author, reply_to=last.id)


def take_back(familiar: Familiar, channel_id: str) -> StandingExchange:
    """Withdraw the last exchange of a channel, and return it.

    Raises:
        NotFoundError: The channel has no turns.
    """
    exchange = last_exchange(familiar, channel_id)
    marks.withdraw_turns(familiar.history, [turn.id for turn in exchange.turns])
    return exchange


def alternatives(familiar: Familiar, channel_id: str) -> Alternatives:
    """Return the alternative replies to the last message of a channel.

    Raises:
        NotFoundError: The channel has no turns, or no reply to the last message.
    """
    exchange = last_exchange(familiar, channel_id)
    if not exchange.replies:
        raise NotFoundError(
            f"There is no reply to turn {exchange.said.id} yet", hint="Type /again to ask for one."
        )
    reply = exchange.replies[-1]
    ids = marks.turn_statuses(familiar.history, [reply.id])[reply.id].alternatives or (reply.id,)
    turns = [turn for turn in map(familiar.history.turn, ids) if turn is not None]
    return Alternatives(tuple(turns), ids.index(reply.id) + 1)


def choose_reply(familiar: Familiar, channel_id: str, number: int) -> Turn:
    """Select one of the replies to a channel's last message, by number from 1; return it.

    Raises:
        NotFoundError: No such reply.
        RefusedError: There is only one.
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
    turn = replies[number - 1]
    marks.select_alternative(familiar.history, turn.id)
    return turn


def swipes_in(selection: SourcedTurn) -> tuple[str, ...]:
    """Return the swipes of an imported turn."""
    from familiar_cli.imports.cast import SILLY_TAVERN
    from familiar_cli.imports.conversation import swipes_of

    return swipes_of(json.loads(selection.record_of(SILLY_TAVERN) or "{}"))


def choose_swipe(familiar: Familiar, turn_id: int, number: int) -> tuple[int, tuple[int, ...]]:
    """Select a swipe of an imported reply, which becomes a turn of its own.

    Returns:
        That turn, and the turns that it replaces.

    Args:
        turn_id: The imported reply, or the turn in its place.
        number: The swipe, from 1.

    Raises:
        NotFoundError: No such turn or swipe.
        RefusedError: The turn was withdrawn.
    """
    history = familiar.history
    became = marks.turn_statuses(history, [turn_id]).get(turn_id)
    if became is None:
        raise NotFoundError(
            f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
        )
    group = kept_turns(history, became.alternatives or (turn_id,))
    swipes = next(
        (matches for selection in group.values() if (matches := swipes_in(selection))), ()
    )
    if not 1 <= number <= len(swipes):
        there = f"there are {len(swipes)}" if swipes else "it has none"
        raise NotFoundError(
            f"Turn {turn_id} has no swipe {number}: {there}; nothing was changed",
            hint="Run `familiar history show --all --json` for all of them.",
        )
    text = swipes[number - 1]
    known = next((kept.turn for kept in group.values() if kept.turn.content == text), None)
    if known is not None:
        return known.id, marks.select_alternative(history, known.id) if len(group) > 1 else ()
    statuses = marks.turn_statuses(history, group)
    standing = next(kept.turn for i, kept in group.items() if not statuses[i].superseded_by)
    new = replace(standing, content=text, source=EDIT, partial=False)
    return marks.supersede_turn(history, standing, new).id, (standing.id,)


EDIT: Final = "edit"
"""The source of a turn whose text replaces that of another."""


def edit_turn(familiar: Familiar, turn_id: int, text: str) -> Turn:
    """Replace a turn's text by adding a new turn in its place; return the new turn.

    Raises:
        NotFoundError: No such turn.
        UsageError: The text is empty or unchanged.
        RefusedError: The turn was replaced or withdrawn.
    """
    turn = familiar.history.turn(turn_id)
    if turn is None:
        raise NotFoundError(
            f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
        )
    if not text.strip():
        raise UsageError(
            "The new text is empty; nothing was changed",
            hint=f"Run `familiar history withdraw {turn_id}` to leave the turn out.",
        )
    if text == turn.content:
        raise UsageError(f"Turn {turn_id} says that already; nothing was changed")
    return marks.supersede_turn(
        familiar.history, turn, replace(turn, content=text, source=EDIT, partial=False)
    )


def say_again(familiar: Familiar, said: Said, turn: Turn) -> Said:
    """Replace a turn's text by `said.text`; return a request for a reply to it.

    The new reply replaces the old one, if any.

    Raises:
        RefusedError: The turn is no longer the last message.
        UsageError: The text is empty or unchanged.
    """
    exchange = last_exchange(familiar, turn.channel_id)
    if exchange.said.id != turn.id:
        raise RefusedError(
            f"Turn {turn.id} is not the last one; nothing was changed",
            hint=f"Run `familiar history edit {turn.id} TEXT`.",
        )
    new = edit_turn(familiar, turn.id, said.text)
    return replace(
        said,
        author=new.author,
        channel_id=new.channel_id,
        modality=Modality(new.modality),
        reply_to=new.id,
        instead_of=exchange.replies[-1] if exchange.replies else None,
    )


def forget_last(said: Said) -> Said:
    """Return `said` with the message of the last off-the-record exchange, which is dropped.

    Raises:
        NotFoundError: There is none.
    """
    messages = said.remembered
    at = max((n for n, spoken in enumerate(messages) if spoken.role == "user"), default=None)
    if at is None:
        raise NotFoundError("Nothing has been said off the record yet")
    return replace(said, text=messages[at].text, remembered=messages[:at])


def with_exchange(messages: tuple[Spoken, ...], said: Said, reply: str) -> tuple[Spoken, ...]:
    """Append an exchange to the off-the-record memory; the reply may be empty."""
    spoken = (Spoken("user", said.text, said.author), Spoken("assistant", reply))
    return (*messages, *(spoken if reply.strip() else spoken[:1]))


_ASKED: Final = (
    "[Write the next message of the person you are talking to, in their voice and as long as what "
    "they usually write. Write only that message: no name in front of it, and nothing that you "
    "say or do yourself.]"
)


def as_the_person(said: Said) -> Said:
    """Turn `said` into a request for a line that its author could say next."""
    return replace(said, text=_ASKED, off_record=True)


def only_words(reply: str, name: str) -> str:
    """Remove the name that some models put in front of a line."""
    line = reply.strip()
    head, colon, rest = line.partition(":")
    return rest.strip() if colon and head.strip(" *").casefold() == name.casefold() else line


def speaking_as(familiar: Familiar, named: str) -> Author:
    """Resolve `PLATFORM:ID`, or the name of an owner or an earlier speaker.

    Any other name creates a new person with an account of their own.

    Raises:
        UsageError: The name cannot form an account.
    """
    if ":" in named:
        return parse_author(named)
    for me in familiar.me().owners:
        if fold(named) in {fold(me.name_of(me.author)), fold(me.account.user_id)}:
            return me.author
    for name, author in people_here(familiar).items():
        if fold(name) == fold(named):
            return author
    slug = slugify(named)
    if not slug:
        raise UsageError(f"{named!r} is not a name", hint="Use PLATFORM:ID, e.g. `discord:1234`.")
    return Author(NEUTRAL.platform, slug, display_name=named)


def people_here(familiar: Familiar) -> dict[str, Author]:
    """List the speakers, most recent last, by the names that the owner uses."""
    me = familiar.me()
    speakers = [speaker.author for speaker in familiar.history.speakers(OWNER)]
    return {me.name_of(author): author for author in reversed(speakers)}


def take_note(familiar: Familiar, text: str) -> str:
    """Append a line to the notes as a list item; return the path of the file.

    Raises:
        UsageError: The line is empty.
        LimitError: The file is full.
    """
    line = whole_line(text)
    if not line:
        raise UsageError("The note is empty; nothing was changed")
    with familiar.memory.transaction("human", f"note in {NOTES}") as tx:
        tx.append(NOTES, f"- {line}\n", on_new_line=True)
    return NOTES


class NewBranch(Struct, frozen=True):
    """A branch, and whether it is private."""

    branch: Branch
    private: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "channel": self.branch.channel_id,
            "parent": self.branch.parent,
            "parent_turn": self.branch.turn_id,
            "private": self.private,
            "changed": self.branch.is_new,
        }


def branch_channel(
    familiar: Familiar, channel_id: str, turn_id: int, parent: str | None = None
) -> NewBranch:
    """Start a channel that shares another one's past up to a turn, and its settings.

    Args:
        channel_id: The new channel.
        turn_id: The last shared turn.
        parent: The channel to branch from; None for that of the turn.

    Raises:
        NotFoundError: No such turn, or it is not in the past of `parent`.
        ConflictError: The new channel has turns already, or is another branch.
        RefusedError: The turn was replaced or withdrawn.
        ConfigError: The parent's settings cannot be read or written; no branch was made.
    """
    familiar.channels.path(channel_id)  # it has a name
    turn = familiar.history.turn(turn_id)
    if turn is not None:
        familiar.channels.read(parent or turn.channel_id)
    branch = familiar.history.branch(channel_id, turn_id, parent)
    familiar.channels.copy(branch.parent, channel_id)
    return NewBranch(branch, channel_id in familiar.channels.private())
