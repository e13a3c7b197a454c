"""Ask the model for what the person might say next. Nothing of it is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from familiar_cli.context.types import Said

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
