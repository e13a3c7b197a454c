"""The table of formats, and recognition of a file by all of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.imports.contract import NO, Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.contract import Form, Sighting
    from familiar_cli.imports.source import ForeignFile

_HERE: Final = "familiar_cli.imports.formats."
TABLE: Final = [
    f"{_HERE}silly_tavern chat memories",
    f"{_HERE}world_info lorebook memories",
    f"{_HERE}character_card card",
    f"{_HERE}silly_tavern_settings settings",
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
    f"{_HERE}open_webui chat",
    f"{_HERE}librechat chat",
    f"{_HERE}sharegpt chat",
    f"{_HERE}openai_messages chat",
    f"{_HERE}plain chat",
    f"{_HERE}legacy_history chat",
    f"{_HERE}mem0 memories",
    f"{_HERE}letta memories",
    f"{_HERE}mcp_memory memories",
    f"{_HERE}memory_interchange memories",
    f"{_HERE}portable_memory memories",
    f"{_HERE}vector_storage memories",
    f"{_HERE}char_memory memories",
    f"{_HERE}basic_memory memories",
    f"{_HERE}daily_notes memories",
    f"{_HERE}memory_text memories",
    f"{_HERE}transcript chat",
    f"{_HERE}novelai lorebook",
    f"{_HERE}backyard card chat",
    f"{_HERE}site_card card",
    f"{_HERE}unread settings",
]
"""Each format's module, whose `FORMAT` is the format, and the forms that it can hold.

The order decides between equals. The most common come first, as no more are loaded once one is
certain; those that cannot hold a form are not loaded for it.
"""


@cache
def _load_module(module: str) -> Format:
    found: Format = import_module(module).FORMAT
    return found


def load_formats(form: Form | None = None) -> Iterator[Format]:
    """Yield the formats, or those that can hold a form, in the order of the table."""
    for row in TABLE:
        module, *forms = row.split()
        if form is None or not forms or form in forms:
            found = _load_module(module)
            if form is None or form in found.forms:
                yield found


def load_format(name: str) -> Format:
    """Return the format of a name.

    Raises:
        KeyError: There is none.
    """
    found = next((found for found in load_formats() if found.name == name), None)
    if found is None:
        raise KeyError(name)
    return found


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
    found: list[Recognition] = []
    for one in load_formats(form):
        seen = _sniff(one, source)
        forms = seen.forms or one.forms
        if seen.certainty == "no" or (form and form not in forms):
            continue
        is_certain = seen.certainty == "certain"
        recognition = Recognition(one, seen.program or one.program, forms, is_certain)
        if is_certain:
            return [recognition]
        found.append(recognition)
    return found


def _sniff(found: Format, source: ForeignFile) -> Sighting:
    try:
        return found.sniff(source)
    except FamiliarError:  # it cannot be read, as whoever reads it will say
        return NO
