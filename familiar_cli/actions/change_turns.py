"""Change what was said: other replies, other words, branches; and the small things of a chat."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.context.types import Modality, Said, Spoken
from familiar_cli.errors import NotFoundError, RefusedError, UsageError
from familiar_cli.history import store
from familiar_cli.history.rows import in_pairs
from familiar_cli.history.selection import kept_turns
from familiar_cli.history.store import (
    GREETING,
    select_alternative,
    supersede_turn,
    turn_statuses,
    withdraw_turns,
)
from familiar_cli.identity import NEUTRAL, Author, parse_author
from familiar_cli.memory.layout import NOTES
from familiar_cli.text import fold, harmless, slugify
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.events import Branch
    from familiar_cli.history.rows import Turn
    from familiar_cli.history.selection import Kept

_LAST = 20  # turns of a channel among which the question of its last reply is looked for


def again(familiar: Familiar, said: Said) -> Said:
    """Turn `said` into a request to replace the last reply of its channel.

    Raises:
        NotFoundError: Nothing was said in the channel.
        RefusedError: Its last turn is not a reply.
    """
    return replace_last_reply(familiar, replace(said, remake="again"))


def go_on(familiar: Familiar, said: Said) -> Said:
    """Turn `said` into a request to continue the last reply of its channel.

    Raises:
        NotFoundError: Nothing was said in the channel.
        RefusedError: Its last turn is not a reply.
    """
    return replace_last_reply(familiar, replace(said, remake="continue"))


def replace_last_reply(familiar: Familiar, said: Said) -> Said:
    """Return `said` with the last reply of its channel, and what that replies to, as they are now.

    What asks for no reply in place of another is returned as it is.

    Raises:
        NotFoundError: Nothing was said in the channel.
        RefusedError: Its last turn is not a reply.
    """
    if not said.remake:
        return said
    channel_id = said.channel_id
    turns = in_pairs(familiar.history.recent(channel_id, _LAST, viewer=OWNER))
    if not turns:
        raise NotFoundError(
            f"There are no turns in channel {channel_id!r}", hint="Run `familiar channel ls`."
        )
    last = turns[-1]
    question = _answered_turn(familiar, turns)
    if question is None:
        raise RefusedError(
            f"The last turn of channel {channel_id!r}, turn {last.id}, is no reply; "
            "nothing was asked",
            hint=_retry_hint(last, channel_id),
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
    if last.role != "assistant" or last.source == GREETING:
        return None
    if last.reply_to is not None:
        question = familiar.history.turn(last.reply_to)
        if question is not None and question.stands:
            return question
    before = turns[-2] if len(turns) > 1 else None
    return before if before is not None and before.role == "user" else None


def _retry_hint(last: Turn, channel_id: str) -> str:
    if last.role == "user":
        where = "" if last.channel_id == channel_id else f" --channel {channel_id}"
        return f"Run `familiar ask --reply-to {last.id}{where}` for a first reply to it."
    if last.source == GREETING:
        return "Open another conversation with `familiar ask --channel NAME --greeting N`."
    return "Run `familiar history show`."


_LAST_TURNS: Final = 40  # turns of a channel among which it is looked for


@dataclass(frozen=True, slots=True)
class StandingExchange:
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
    """Return the last turn of a channel.

    Raises:
        NotFoundError: Nothing was said there.
    """
    turns = in_pairs(familiar.history.recent(channel_id, _LAST_TURNS, viewer=OWNER))
    if turns:
        return turns[-1]
    raise NotFoundError(f"Nothing was said in channel {channel_id!r} yet; nothing was changed")


def last_exchange(familiar: Familiar, channel_id: str) -> StandingExchange:
    """Return the last exchange of a channel.

    Raises:
        NotFoundError: Nothing was said there.
        RefusedError: The channel is a branch, and only shares it.
    """
    turns = in_pairs(familiar.history.recent(channel_id, _LAST_TURNS, viewer=OWNER))
    at = max((n for n, turn in enumerate(turns) if turn.role == "user"), default=None)
    if at is None:
        raise NotFoundError(f"Nothing was said in channel {channel_id!r} yet; nothing was changed")
    if turns[at].channel_id != channel_id:
        raise RefusedError(
            f"The last exchange also belongs to channel {turns[at].channel_id!r}; "
            "nothing was changed",
            hint="Change it there, or say something here first.",
        )
    return StandingExchange(turns[at], tuple(turns[at + 1 :]))


def answer_last_turn(familiar: Familiar, said: Said) -> Said | None:
    """Turn `said` into a request to answer the last turn of its channel; None if it is a reply.

    Raises:
        NotFoundError: Nothing was said there.
    """
    last = last_turn(familiar, said.channel_id)
    if last.role != "user":
        return None
    return replace(said, text=last.content, author=last.author, reply_to=last.id)


def take_back(familiar: Familiar, channel_id: str) -> StandingExchange:
    """Withdraw the last exchange of a channel, and return it.

    Raises:
        NotFoundError: Nothing was said there.
    """
    exchange = last_exchange(familiar, channel_id)
    withdraw_turns(familiar.history, [turn.id for turn in exchange.turns])
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
    ids = turn_statuses(familiar.history, [reply.id])[reply.id].alternatives or (reply.id,)
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
    select_alternative(familiar.history, chosen.id)
    return chosen


def swipes_in(kept: Kept) -> tuple[str, ...]:
    """Return the swipes that an imported turn came with."""
    from familiar_cli.imports.chat_lines import swipes_of
    from familiar_cli.imports.foreign_chat import SILLY_TAVERN

    return swipes_of(json.loads(kept.raw)) if kept.format == SILLY_TAVERN else ()


def choose_swipe(familiar: Familiar, turn_id: int, number: int) -> tuple[int, tuple[int, ...]]:
    """Let a swipe of an imported reply stand, as a turn of its own.

    Returns:
        That turn, and those that do not stand any more.

    Args:
        familiar: Whose.
        turn_id: The reply as it was imported, or what stands in its place.
        number: The swipe, counted from 1.

    Raises:
        NotFoundError: There is no such turn, or no such swipe.
        RefusedError: What stands there was withdrawn.
    """
    history = familiar.history
    became = turn_statuses(history, [turn_id]).get(turn_id)
    if became is None:
        raise NotFoundError(
            f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
        )
    group = kept_turns(history, became.alternatives or (turn_id,))
    swipes = next((found for kept in group.values() if (found := swipes_in(kept))), ())
    if not 1 <= number <= len(swipes):
        there = f"there are {len(swipes)}" if swipes else "it has none"
        raise NotFoundError(
            f"Turn {turn_id} has no swipe {number}: {there}; nothing was changed",
            hint="Run `familiar history show --all --json` for all of them.",
        )
    text = swipes[number - 1]
    known = next((kept.turn for kept in group.values() if kept.turn.content == text), None)
    if known is not None:
        return known.id, select_alternative(history, known.id) if len(group) > 1 else ()
    standing = next(
        kept.turn for i, kept in group.items() if not turn_statuses(history, [i])[i].superseded_by
    )
    new = supersede_turn(history, standing, replace(standing, content=text, partial=False))
    return new.id, (standing.id,)


EDIT: Final = "edit"
"""The source of a turn whose text replaces that of another."""


def edit_turn(familiar: Familiar, turn_id: int, text: str) -> Turn:
    """Write down what a turn should have said, in its place; return the new turn.

    Raises:
        NotFoundError: There is no such turn.
        UsageError: The text is empty, or the same as before.
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
    return store.supersede_turn(
        familiar.history, turn, replace(turn, content=text, source=EDIT, partial=False)
    )


def say_again(familiar: Familiar, said: Said, turn: Turn) -> Said:
    """Write `said.text` down in place of a turn; return what asks for a reply to it.

    The new reply takes the place of the old one, if there is one.

    Raises:
        RefusedError: The turn is not the last that was said any more.
        UsageError: The text is empty, or the same as before.
    """
    exchange = last_exchange(familiar, turn.channel_id)
    if exchange.said.id != turn.id:
        raise RefusedError(
            f"Something was said after turn {turn.id}; nothing was changed",
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
    """Return `said` with the words of the last exchange off the record, which is forgotten.

    Raises:
        NotFoundError: Nothing was said off the record.
    """
    heard = said.remembered
    at = max((n for n, spoken in enumerate(heard) if spoken.role == "user"), default=None)
    if at is None:
        raise NotFoundError("Nothing was said off the record yet")
    return replace(said, text=heard[at].text, remembered=heard[:at])


def with_exchange(heard: tuple[Spoken, ...], said: Said, reply: str) -> tuple[Spoken, ...]:
    """Return what is remembered off the record after another exchange; the reply may be empty."""
    spoken = (Spoken("user", said.text, said.author), Spoken("assistant", reply))
    return (*heard, *(spoken if reply.strip() else spoken[:1]))


_ASKED: Final = (
    "[Write the next message of the person you are talking to, in their voice and as long as what "
    "they usually write. Write only that message: no name in front of it, and nothing that you "
    "say or do yourself.]"
)


def as_the_person(said: Said) -> Said:
    """Turn `said` into a request for a line that its author could say next."""
    return replace(said, text=_ASKED, off_record=True)


def only_words(reply: str, name: str) -> str:
    """Return a line as it was asked for: without the name that models put in front all the same."""
    line = reply.strip()
    head, colon, rest = line.partition(":")
    return rest.strip() if colon and head.strip(" *").casefold() == name.casefold() else line


def speaking_as(familiar: Familiar, named: str) -> Author:
    """Return who is meant by `PLATFORM:ID`, by the name of an owner or of an earlier speaker.

    Another name is that of a new person, with an account of their own.

    Raises:
        UsageError: No account can be made of the name.
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
    """Return who spoke, the latest last, by the names that the owner knows them by."""
    me = familiar.me()
    speakers = [speaker.author for speaker in familiar.history.speakers(OWNER)]
    return {me.name_of(author): author for author in reversed(speakers)}


def take_note(familiar: Familiar, text: str) -> str:
    """Put a line at the end of the notes, as an item of a list; return the path of the file.

    Raises:
        UsageError: There are no words.
        LimitError: The file has no room for it.
    """
    line = " ".join(harmless(text).split())
    if not line:
        raise UsageError("The note is empty; nothing was changed")
    with familiar.memory.transaction("human", f"note in {NOTES}") as tx:
        tx.append(NOTES, f"- {line}\n", on_new_line=True)
    return NOTES


@dataclass(frozen=True, slots=True)
class Branched:
    """A branch, and whether what is said there stays there."""

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
) -> Branched:
    """Begin a channel whose past is that of another one up to a turn, with its settings.

    Args:
        familiar: Whose.
        channel_id: The new channel.
        turn_id: The last turn that it shares.
        parent: The channel that it leaves; None: that of the turn.

    Raises:
        NotFoundError: There is no such turn, or it is not in the past of `parent`.
        ConflictError: The new channel has turns already, or is another branch.
        RefusedError: The turn was replaced or withdrawn.
        ConfigError: The parent's settings cannot be read or written; there is no branch.
    """
    familiar.channels.path(channel_id)  # it has a name
    turn = familiar.history.turn(turn_id)
    if turn is not None:
        familiar.channels.read(parent or turn.channel_id)
    branch = familiar.history.branch(channel_id, turn_id, parent)
    familiar.channels.copy(branch.parent, channel_id)
    return Branched(branch, channel_id in familiar.channels.private())
