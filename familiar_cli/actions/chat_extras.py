"""What a chat offers besides replies: branches, notes, speaking as somebody, suggested lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import UsageError
from familiar_cli.identity import NEUTRAL, Author, parse_author
from familiar_cli.memory.layout import NOTES
from familiar_cli.text import fold, harmless, slugify
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.events import Branch


_ASKED: Final = (
    "[Write the next message of the person you are talking to, in their voice and as long as what "
    "they usually write. Write only that message: no name in front of it, and nothing that you "
    "say or do yourself.]"
)


def as_the_person(said: Said) -> Said:
    """Return what asks for a line that `said.author` could say next."""
    return replace(said, text=_ASKED, off_record=True)


def only_words(reply: str, name: str) -> str:
    """Return a line as it was asked for: without the name that models put in front all the same."""
    line = reply.strip()
    head, colon, rest = line.partition(":")
    return rest.strip() if colon and head.strip(" *").casefold() == name.casefold() else line


def speaking_as(familiar: Familiar, named: str) -> Author:
    """Return who is meant by `PLATFORM:ID`, by my name, or by that of somebody who spoke before.

    Another name is that of a new person, with an account of their own.

    Raises:
        UsageError: No account can be made of the name.
    """
    if ":" in named:
        return parse_author(named)
    me = familiar.me()
    if fold(me.name_of(me.author)) == fold(named):
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
