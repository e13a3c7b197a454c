"""The files of `self/`: which field of a character card each one holds, and how.

A file is one H1, a blank line, and the field's text exactly as the card had it. Fields without a
file of their own stand in `self/card.json`; the card as it came is `self/.original.<suffix>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from familiar_cli.markdown import body_start
from familiar_cli.memory.layout import SELF_DIR

PERSONA_DIR: Final = f"{SELF_DIR}/.persona"
"""Where the files of a persona that was imported are kept as they came."""

TIERS_NOTE: Final = f"{PERSONA_DIR}/CONTEXT_TIERS.md"
"""What such a persona says of its own tiers."""

ORIGINAL_STEM: Final = ".original"  # the suffix tells the container: .png .json .yaml .charx


@dataclass(frozen=True, slots=True)
class SelfFile:
    """One field of a card that has a file.

    Args:
        field: The field's name in a V3 card.
        title: What stands in the file's H1.
    """

    field: str
    title: str

    @property
    def rel_path(self) -> str:
        """Where the file is, below the memory root."""
        return f"{SELF_DIR}/{self.field}.md"


SELF_FILES: Final = (
    SelfFile("description", "Description"),
    SelfFile("personality", "Personality"),
    SelfFile("scenario", "Scenario"),
    SelfFile("first_mes", "First message"),
    SelfFile("mes_example", "Example messages"),
    SelfFile("system_prompt", "System prompt"),
    SelfFile("post_history_instructions", "Post-history instructions"),
)


def self_file(field: str) -> SelfFile:
    """Return the file that holds `field`.

    Raises:
        KeyError: The field has no file.
    """
    for entry in SELF_FILES:
        if entry.field == field:
            return entry
    raise KeyError(field)


def field_markdown(field: str, text: str) -> str:
    """Return the content of the file that holds `text` as `field`."""
    return f"# {self_file(field).title}\n\n{text}"


def field_text(markdown: str) -> str:
    """Return the field's text: all below the H1 and one blank line, unchanged.

    Front matter above the H1 is no part of it. A file whose H1 was taken away by hand is text from
    its first line on.
    """
    below = markdown[body_start(markdown) :]
    first, newline, rest = (below if below.startswith("# ") else markdown).partition("\n")
    if not first.startswith("# "):
        return markdown
    if not newline:
        return ""
    for blank in ("\n", "\r\n"):
        if rest.startswith(blank):
            return rest[len(blank) :]
    return rest
