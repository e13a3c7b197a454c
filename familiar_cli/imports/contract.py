"""Formats: what the module of each registers, the table of them, the common forms they read to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, tzinfo
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct, field

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import digest_of
from familiar_cli.imports.cards import Card
from familiar_cli.imports.cast import Cast, SpeakerRole
from familiar_cli.imports.lorebook import Lorebook

if TYPE_CHECKING:
    from familiar_cli.base.who.identity import Author
    from familiar_cli.imports.source import ForeignFile, Skip
    from familiar_cli.store.history.rows import Role

Certainty = Literal["certain", "possible", "no"]
"""How sure a format is of a file; a certain one goes before those that find it possible."""


Form = Literal["card", "lorebook", "chat", "memories", "settings"]
"""The common forms, in the order in which they are imported: who it is comes first."""


class Sighting(Struct, frozen=True):
    """What a format finds in a file.

    Args:
        certainty: How sure it is.
        program: The program and what the file is; empty: as the format says.
        forms: What this file can hold, the main form first; empty: as the format says.
    """

    certainty: Certainty
    program: str = ""
    forms: tuple[Form, ...] = ()


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
        is_owners: Whether only the owner may hear of it.
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
    is_owners: bool = False

    @property
    def fingerprint(self) -> bytes:
        """A digest of speaker, time and words as the source has them."""
        said = f"{self.role != 'assistant'}\0{self.speaker}\0{self.stated}\0{self.text}"
        return digest_of(said, 16)


class Reading(Struct, frozen=True):
    """Options for reading chat files.

    Args:
        cast: Identities of the speakers.
        zone: The timezone of times without one; None: the system's.
        channels: Channel names for a chat, best first; empty: derived from its file's.
        format: The format of the files; empty: detect it.
        dates: The order of numeric dates; None: infer it from all dates of a file.
        year: The year of the first date, for dates without one; None: unknown.
    """

    cast: Cast = Cast()
    zone: tzinfo | None = None
    channels: tuple[str, ...] = ()
    format: str = ""
    dates: DateOrder | None = None
    year: int | None = None


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
        is_private: Whether its source says that it is private; None: it does not say.
        is_broadcast: Whether nobody converses in it.
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
    is_private: bool | None = None
    is_broadcast: bool = False


class ForeignMemory(Struct, frozen=True):
    """A line that another program remembers.

    Args:
        text: The line, without its date.
        line: Its line in the file, or its number; from 1.
        day: The day it is from; None: undated.
        about: The person or topic it belongs to, as the source names it; empty: its user.
        file: Its file below the source, if that is a directory; empty: the source itself.
        is_private: Whether not everybody may hear of it.
    """

    text: str
    line: int
    day: date | None = None
    about: str = ""
    file: str = ""
    is_private: bool = False


class ForeignMemories(Struct, frozen=True):
    """What another program remembers.

    Args:
        name: Their name in the source.
        memories: The lines, in the order of the source.
        notes: Remarks on how they were read.
    """

    program: str
    name: str
    memories: tuple[ForeignMemory, ...]
    notes: tuple[str, ...] = ()


class ForeignPersona(Struct, frozen=True):
    """A persona of another program's user.

    Args:
        description: Its description; may contain macros.
        is_current: Whether it was selected when the file was written.
        is_default: Whether it is the default for new chats.
    """

    name: str
    description: str = ""
    is_current: bool = False
    is_default: bool = False


class ForeignSettings(Struct, frozen=True):
    """Settings of another program: its user's personas, in order."""

    personas: tuple[ForeignPersona, ...]


ForeignItem: TypeAlias = "Card | Lorebook | ForeignChat | ForeignMemories | ForeignSettings"
"""A common form, as a format reads it from a file."""


class Format(Struct, frozen=True):
    """A foreign format: the one value that its module registers.

    Args:
        name: Its name in options and in the history.
        program: The program and what its file is, for people.
        forms: What its files can hold, the main form first.
        sniff: Tells whether a file is of this format, as a `Sighting` or, if it is certain, just
            whether it is; it looks, and does not read.
        read: Yields what a file holds, and a `Skip` for a part that is damaged.
        write: Writes it, if it can be written.
        advice: What to do with it; empty: import it, as its form is.
    """

    name: str
    program: str
    forms: tuple[Form, ...]
    sniff: Callable[[ForeignFile], object]
    read: Callable[[ForeignFile, Reading], Iterable[ForeignItem | Skip]]
    write: Callable[..., Any] | None = None
    advice: str = ""


NO: Final = Sighting("no")
CERTAIN: Final = Sighting("certain")


def certain_if(condition: object, program: str = "", *forms: Form) -> Sighting:
    """Return a certain sighting if `condition` holds, else none."""
    return Sighting("certain", program, forms) if condition else NO


def possible_if(condition: object) -> Sighting:
    """Return a possible sighting if `condition` holds, else none."""
    return Sighting("possible") if condition else NO


def form_of(value: ForeignItem | Skip | None) -> Form | None:
    """Return the form of a value that a format read; None for a damaged part, or for none."""
    return _FORMS.get(type(value))


_FORMS: Final[dict[type, Form]] = {
    Card: "card",
    Lorebook: "lorebook",
    ForeignChat: "chat",
    ForeignMemories: "memories",
    ForeignSettings: "settings",
}


_HERE: Final = "familiar_cli.imports.formats."
TABLE: Final = [
    f"{_HERE}silly_tavern chat memories settings",
    f"{_HERE}world_info lorebook memories",
    f"{_HERE}character_card card",
    f"{_HERE}chatgpt chat",
    f"{_HERE}claude chat memories",
    f"{_HERE}gemini chat",
    f"{_HERE}discord chat",
    f"{_HERE}discord_package chat",
    f"{_HERE}telegram chat",
    f"{_HERE}messenger chat",
    f"{_HERE}replika chat",
    f"{_HERE}character_ai chat card",
    f"{_HERE}textgen_history chat",
    f"{_HERE}agnai chat lorebook card",
    f"{_HERE}risu chat lorebook memories",
    f"{_HERE}kobold chat lorebook",
    f"{_HERE}model_clients:OPEN_WEBUI chat",
    f"{_HERE}model_clients:LIBRECHAT chat",
    f"{_HERE}model_clients:SHAREGPT chat",
    f"{_HERE}model_clients:OPENAI chat",
    f"{_HERE}plain chat",
    f"{_HERE}legacy_history chat",
    f"{_HERE}stored_memories:MEM0 memories",
    f"{_HERE}stored_memories:LETTA memories",
    f"{_HERE}stored_memories:MCP memories",
    f"{_HERE}stored_memories:INTERCHANGE memories",
    f"{_HERE}portable_memory memories",
    f"{_HERE}stored_memories:VECTORS memories",
    f"{_HERE}char_memory memories",
    f"{_HERE}noted_memories:BASIC_MEMORY memories",
    f"{_HERE}noted_memories:DAILY_NOTES memories",
    f"{_HERE}memory_text memories",
    f"{_HERE}transcript chat",
    f"{_HERE}novelai lorebook",
    f"{_HERE}backyard card chat",
    f"{_HERE}character_card:SITE card",
    f"{_HERE}unread settings",
]
"""Each format's module, whose `FORMAT` or named value is the format, and the forms it can hold.

The order decides between equals. The most common come first, as no more are loaded once one is
certain; those that cannot hold a form are not loaded for it.
"""


@cache
def _load_place(place: str) -> Format:
    module, _, name = place.partition(":")
    format_: Format = getattr(import_module(module), name or "FORMAT")
    return format_


def load_formats(form: Form | None = None) -> Iterator[Format]:
    """Yield the formats, or those that can hold a form, in the order of the table."""
    for row in TABLE:
        place, *forms = row.split()
        if form is None or not forms or form in forms:
            format_ = _load_place(place)
            if form is None or form in format_.forms:
                yield format_


def load_format(name: str) -> Format:
    """Return the format of a name.

    Raises:
        KeyError: There is none.
    """
    format_ = next((found for found in load_formats() if found.name == name), None)
    if format_ is None:
        raise KeyError(name)
    return format_


class Recognition(Struct, frozen=True):
    """A format that a file is of.

    Args:
        program: The program and what the file is, for people.
        forms: What the file can hold, the main form first.
        is_certain: Whether the format is certain.
    """

    format: Format
    program: str
    forms: tuple[Form, ...]
    is_certain: bool

    @property
    def form(self) -> Form:
        """Its main form."""
        return self.forms[0]

    @property
    def title(self) -> str:
        """What the file is, for people, with an article."""
        return f"a chat ({self.program})" if self.form == "chat" else self.program


def recognise(source: ForeignFile, form: Form | None = None) -> list[Recognition]:
    """Return the format that a file is certain to be of, else those that it can be of.

    The formats that come after a certain one are not loaded.
    """
    recognitions: list[Recognition] = []
    for one in load_formats(form):
        seen = _sniff(one, source)
        forms = seen.forms or one.forms
        if seen.certainty == "no" or (form and form not in forms):
            continue
        is_certain = seen.certainty == "certain"
        recognition = Recognition(one, seen.program or one.program, forms, is_certain)
        if is_certain:
            return [recognition]
        recognitions.append(recognition)
    return recognitions


def _sniff(format_: Format, source: ForeignFile) -> Sighting:
    try:
        seen = format_.sniff(source)
    except FamiliarError:  # it cannot be read, as whoever reads it will say
        return NO
    return seen if isinstance(seen, Sighting) else certain_if(seen)
