"""The table of formats, and recognition of a file by all of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.imports.contract import NO, Format

if TYPE_CHECKING:
    from familiar_cli.imports.contract import Form, Sighting
    from familiar_cli.imports.source import ForeignFile

_HERE: Final = "familiar_cli.imports.formats."
TABLE: Final = [
    f"{_HERE}chatgpt",
    f"{_HERE}claude",
    f"{_HERE}discord",
    f"{_HERE}discord_package",
    f"{_HERE}telegram",
    f"{_HERE}messenger",
    f"{_HERE}replika",
    f"{_HERE}character_ai",
    f"{_HERE}textgen_history",
    f"{_HERE}agnai_chat",
    f"{_HERE}risu_chat",
    f"{_HERE}kobold_save",
    f"{_HERE}open_webui",
    f"{_HERE}librechat",
    f"{_HERE}sharegpt",
    f"{_HERE}openai_messages",
    f"{_HERE}silly_tavern",
    f"{_HERE}plain",
    f"{_HERE}legacy_history",
    f"{_HERE}claude_memories",
    f"{_HERE}mem0",
    f"{_HERE}letta",
    f"{_HERE}mcp_memory",
    f"{_HERE}memory_interchange",
    f"{_HERE}memory_text",
    f"{_HERE}transcript",
    f"{_HERE}novelai",
    f"{_HERE}agnai_book",
    f"{_HERE}risu_book",
    f"{_HERE}kobold_world",
    f"{_HERE}agnai_character",
    f"{_HERE}backyard",
    f"{_HERE}site_card",
    f"{_HERE}character_card",
    f"{_HERE}world_info",
    f"{_HERE}silly_tavern_settings",
    f"{_HERE}unread",
]
"""Each format's module, whose `FORMAT` is the format; the order decides between equals."""


@cache
def _load_module(module: str) -> Format:
    found: Format = import_module(module).FORMAT
    return found


def load_formats(form: Form | None = None) -> list[Format]:
    """Return the formats, or those that can hold a form, in the order of the table."""
    formats = map(_load_module, TABLE)
    return [found for found in formats if form is None or form in found.forms]


def load_format(name: str) -> Format:
    """Return the format of a name.

    Raises:
        KeyError: There is none.
    """
    return {found.name: found for found in load_formats()}[name]


class Recognition(Struct, frozen=True):
    """A format that a file is of.

    Args:
        program: The program and what the file is, for people.
        is_certain: Whether the format is certain.
    """

    format: Format
    program: str
    is_certain: bool

    @property
    def title(self) -> str:
        """What the file is, for people, with an article."""
        return f"a chat ({self.program})" if self.format.form == "chat" else self.program


def recognise(source: ForeignFile, form: Form | None = None) -> list[Recognition]:
    """Return the formats that a file can be of: the certain ones, else the possible ones."""
    found = [
        Recognition(one, seen.program or one.program, seen.certainty == "certain")
        for one in load_formats(form)
        if (seen := _sniff(one, source)).certainty != "no"
    ]
    return [one for one in found if one.is_certain] or found


def _sniff(found: Format, source: ForeignFile) -> Sighting:
    try:
        return found.sniff(source)
    except FamiliarError:  # it cannot be read, as whoever reads it will say
        return NO
