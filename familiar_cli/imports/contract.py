"""The contract of a format: what its module registers, and the common forms it reads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from familiar_cli.imports.cards import Card
from familiar_cli.imports.foreign_chat import ForeignChat, Reading
from familiar_cli.imports.lorebook import Lorebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date

    from familiar_cli.imports.source import ForeignFile, Skip

Certainty = Literal["certain", "possible", "no"]
"""How sure a format is of a file; a certain one goes before those that find it possible."""


class Sighting(Struct, frozen=True):
    """What a format finds in a file.

    Args:
        certainty: How sure it is.
        program: The program and what the file is; empty: as the format says.
    """

    certainty: Certainty
    program: str = ""


Form = Literal["card", "lorebook", "chat", "memories", "settings"]
"""The common forms, in the order in which they are imported: who it is comes first."""


class ForeignMemory(Struct, frozen=True):
    """A line that another program remembers.

    Args:
        text: The line, without its date.
        line: Its line in the file, or its number; from 1.
        day: The day it is from; None: undated.
        about: The person or topic it belongs to, as the source names it; empty: its user.
        file: Its file below the source, if that is a directory; empty: the source itself.
    """

    text: str
    line: int
    day: date | None = None
    about: str = ""
    file: str = ""


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


Imported: TypeAlias = "Card | Lorebook | ForeignChat | ForeignMemories | ForeignSettings"
"""A common form, as a format reads it from a file."""


class Format(Struct, frozen=True):
    """A foreign format: the one value that its module registers.

    Args:
        name: Its name in options and in the history.
        program: The program and what its file is, for people.
        forms: What it can hold, the main form first.
        sniff: Tells whether a file is of this format; it looks, and does not read.
        read: Yields what a file holds, and a `Skip` for a part that is damaged.
        write: Writes it, if it can be written.
        advice: What to do with it; empty: import it, as its form is.
    """

    name: str
    program: str
    forms: tuple[Form, ...]
    sniff: Callable[[ForeignFile], Sighting]
    read: Callable[[ForeignFile, Reading], Iterable[Imported | Skip]]
    write: Callable[..., Any] | None = None
    advice: str = ""

    @property
    def form(self) -> Form:
        """Its main form."""
        return self.forms[0]


NO: Final = Sighting("no")
CERTAIN: Final = Sighting("certain")


def certain_if(condition: object, program: str = "") -> Sighting:
    """Return a certain sighting if `condition` holds, else none."""
    return Sighting("certain", program) if condition else NO


def possible_if(condition: object) -> Sighting:
    """Return a possible sighting if `condition` holds, else none."""
    return Sighting("possible") if condition else NO


def form_of(value: Imported | Skip | None) -> Form | None:
    """Return the form of a value that a format read; None for a damaged part, or for none."""
    return _FORMS.get(type(value))


_FORMS: Final[dict[type, Form]] = {
    Card: "card",
    Lorebook: "lorebook",
    ForeignChat: "chat",
    ForeignMemories: "memories",
    ForeignSettings: "settings",
}
