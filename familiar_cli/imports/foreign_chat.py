"""A foreign chat: the common form of every format that holds messages."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from familiar_cli.imports.cast import Cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime, tzinfo

    from familiar_cli.base.who.identity import Author
    from familiar_cli.imports.cast import SpeakerRole
    from familiar_cli.imports.source import Skip
    from familiar_cli.store.history.rows import Role

DateOrder = Literal["dmy", "mdy", "ymd"]
"""What stands first, second and third in a date of numbers."""


class ForeignMessage(Struct, frozen=True):
    """A message of a chat.

    Args:
        line: Its line in the file, or its number in the conversation; from 1.
        role: Its role in a prompt.
        author: Its author; None: the familiar, or nobody.
        speaker: The speaker's name in the source.
        text: Its text, the selected alternative.
        stated: The time as the source writes it; empty: none.
        at: The time; None: none is readable.
        raw: The original record, in JSON.
        hidden: Whether to leave it out of prompts.
        others: Its alternatives in the source.
        modality: `text` or `voice`.
        partial: Whether it was cut off before its end.
        estimated: Whether `at` is a guess.
        message_id: Its id in the source; empty: none.
        is_one_to_one: Whether it was said to the familiar alone.
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
    is_one_to_one: bool = False

    @property
    def fingerprint(self) -> bytes:
        """A digest of speaker, time and words as the source has them."""
        said = f"{self.role != 'assistant'}\0{self.speaker}\0{self.stated}\0{self.text}"
        return blake2b(said.encode("utf-8", errors="surrogatepass"), digest_size=16).digest()


class Reading(Struct, frozen=True):
    """Options for reading chat files.

    Args:
        cast: Identities of the speakers.
        zone: The timezone of times without one; None: the system's.
        channels: Channel names for a chat, best first; empty: derived from its file's.
        format: The format of the files; empty: detect it.
        dates: The order of numeric dates; None: infer it from all dates of a file.
    """

    cast: Cast = Cast()
    zone: tzinfo | None = None
    channels: tuple[str, ...] = ()
    format: str = ""
    dates: DateOrder | None = None


class ForeignChat(Struct, frozen=True):
    """One chat of a file.

    Args:
        name: Its name in the source.
        channels: Channel names, best first.
        began: Its start, if the source states it.
        head: Returns the source's metadata for the whole chat, in JSON; empty: none.
        messages: Yields its lines, afresh at each call.
        key: Its globally stable key; empty: only its lines identify it.
        aside: Number of messages of other branches in its metadata.
        parent: The source's name of the chat it branched off; empty: none stated.
        is_apart: Whether the source identifies the chat, so that it is never merged into another.
        kind: The detected kind of file, in words; empty: as its format says.
        notes: Remarks on how it was read.
        roles: The role of each speaker where it could be doubted.
        is_whole: Whether the source always contains the whole current chat, so that missing
            messages were deleted.
        stranger: The only person in it, if nobody said whose account that is.
    """

    format: str
    name: str
    channels: tuple[str, ...]
    began: datetime | None
    head: Callable[[], str]
    messages: Callable[[], Iterator[ForeignMessage | Skip]]
    key: str = ""
    aside: int = 0
    parent: str = ""
    is_apart: bool = False
    kind: str = ""
    notes: tuple[str, ...] = ()
    roles: Mapping[str, SpeakerRole] = field(default_factory=dict)
    is_whole: bool = False
    stranger: Author | None = None
