"""The values that chats of every format are read into."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime, tzinfo

    from familiar_cli.bootstrap.chats.casting import SpeakerRole
    from familiar_cli.bootstrap.chats.stamps import DateOrder
    from familiar_cli.history.types import Role
    from familiar_cli.identity import Author

PLAIN: Final = "plain"
SILLY_TAVERN: Final = "sillytavern"
CHATGPT: Final = "chatgpt"
CLAUDE: Final = "claude"
DISCORD: Final = "discord"
TRANSCRIPT: Final = "transcript"
TITLES: Final = {
    PLAIN: "plain lines",
    SILLY_TAVERN: "SillyTavern",
    CHATGPT: "ChatGPT export",
    CLAUDE: "Claude export",
    DISCORD: "Discord export",
    TRANSCRIPT: "transcript",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One line of a chat.

    Args:
        line: Where it stands: its line in the file, or its number in the conversation; from 1.
        role: As what a model is shown it.
        author: Who said it; None: the familiar, or nobody.
        speaker: Who said it, in the words of the source.
        text: What was said, as it was chosen.
        stated: The time in the words of the source; empty: it gives none.
        at: The time; None: there is none that can be read.
        raw: All that the source says of it, in JSON.
        hidden: No model is to be shown it.
        others: Other wordings that the source keeps.
        modality: `text` or `voice`.
        partial: It broke off before its end.
        estimated: `at` is a guess.
        message_id: What the source calls the message; empty: nothing.
    """

    line: int
    role: Role
    author: Author | None
    speaker: str
    text: str
    stated: str
    at: datetime | None
    raw: str
    hidden: bool = False
    others: tuple[str, ...] = ()
    modality: str = "text"
    partial: bool = False
    estimated: bool = False
    message_id: str = ""

    @property
    def fingerprint(self) -> bytes:
        """A digest of who said what when, in the words of the source."""
        said = f"{self.role != 'assistant'}\0{self.speaker}\0{self.stated}\0{self.text}"
        return blake2b(said.encode("utf-8", errors="surrogatepass"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Skip:
    """A line that was left out.

    Args:
        line: Where it stands, as in `Message`.
        reason: Why.
        damaged: It is no message that could be read, rather than one that is here already.
    """

    line: int
    reason: str
    damaged: bool = True


@dataclass(frozen=True, slots=True)
class Cast:
    """Who is who in the chats that are imported.

    Args:
        known: Names that the familiar bears anywhere.
        character: Names that are the familiar's in these chats; empty: `known`.
        user: Who every person is; None: as `person` has it.
        me: Whose home it is; None: people are as the source calls them.
        mine: Names of mine in these chats; empty: whoever the source says is its user.
        before: Slugs of those who spoke before: under these accounts they go on.
        unnamed: What the characters of a chat are when none bears a name of the familiar's: the
            chat is refused, they are the familiar under another name, or they are others.
    """

    known: tuple[str, ...] = ()
    character: tuple[str, ...] = ()
    user: Author | None = None
    unnamed: Literal["refuse", "familiar", "others"] = "refuse"
    me: Author | None = None
    mine: tuple[str, ...] = ()
    before: frozenset[str] = frozenset()

    def person(self, name: str, otherwise: Author, *, is_one_of_many: bool = False) -> Author:
        """Return who says something in a chat, other than the familiar.

        Args:
            name: What they are called there; empty: the source gives no name.
            otherwise: Who they are where it is neither said nor known.
            is_one_of_many: The source has several people, and does not say which one is its user.
        """
        known = self.user or self.me
        if known is None or (self.user is None and otherwise.slug in self.before):
            return otherwise
        names = self.mine or (known.display_name or "",)
        is_meant = self.user is not None or not is_one_of_many or not name
        if fold(name) in map(fold, names) or (is_meant and not self.mine):
            return replace(known, display_name=name or known.display_name)
        return otherwise

    @property
    def names(self) -> tuple[str, ...]:
        """What the familiar is called in these chats."""
        return self.character or self.known


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read.

    Args:
        cast: Who is who.
        zone: The timezone of times that have none; None: the system's.
        channels: Names for the channel of a chat, the best first; empty: made from its file's.
        format: The format of the files; empty: it is told from them.
        dates: The order of dates in numbers; None: it is told from all that a file has.
    """

    cast: Cast = Cast()
    zone: tzinfo | None = None
    channels: tuple[str, ...] = ()
    format: str = ""
    dates: DateOrder | None = None

    @property
    def insists(self) -> bool:
        """Whether a text is a transcript because a person says so."""
        return self.format == TRANSCRIPT


@dataclass(frozen=True, slots=True)
class Chat:
    """One chat of a file.

    Args:
        format: Its format.
        name: What the source calls it.
        channels: Names for its channel, the best first.
        began: When it began, if the source says so.
        head: Returns what the source says of the chat as a whole, in JSON; empty: nothing.
        messages: Yields its lines, again at each call.
        key: What it is known by everywhere; empty: nothing but its lines.
        aside: How many messages of other branches stand in its head.
        parent: What the source calls the chat that it left; empty: it says nothing of one.
        is_apart: The source says which chat it is, so it is never taken for a part of another one.
        kind: What the file was taken for, in words; empty: what its format says.
        notes: What a person should know of how it was read.
        roles: What each speaker is, where a person could doubt it.
        is_whole: The source always holds the whole chat as it stands, so what it lacks was deleted.
    """

    format: str
    name: str
    channels: tuple[str, ...]
    began: datetime | None
    head: Callable[[], str]
    messages: Callable[[], Iterator[Message | Skip]]
    key: str = ""
    aside: int = 0
    parent: str = ""
    is_apart: bool = False
    kind: str = ""
    notes: tuple[str, ...] = ()
    roles: Mapping[str, SpeakerRole] = field(default_factory=dict)
    is_whole: bool = False
