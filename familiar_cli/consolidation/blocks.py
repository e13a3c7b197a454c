"""Cut Markdown into the blocks that a person moves, changes and removes as a whole.

A block is a heading, a list item with everything that continues it, a paragraph, or a code block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli.markdown import bullet, scan, without_marker
from familiar_cli.memory.pages.evidence import without_references
from familiar_cli.memory.pages.machine_text import TAG
from familiar_cli.text import fold, sha256_of

if TYPE_CHECKING:
    from familiar_cli.markdown import Line

Kind = Literal["heading", "item", "paragraph", "code"]
_INDENTED: Final = re.compile(r"(?: {2,}|\t)\S")
_MARK_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class Block:
    """A block with the blank lines above it.

    Args:
        kind: What it is.
        gap: The blank lines above it.
        text: Its lines with their ends.
    """

    kind: Kind
    gap: str
    text: str

    @property
    def mark(self) -> str:
        """What shows that it is still the same block, however its lines are wrapped."""
        words = " ".join(self.text.split())
        return sha256_of(words)[:_MARK_CHARS]

    @property
    def key(self) -> str:
        """Equal for two blocks that say the same, with whatever tags."""
        return key_of(without_marker(self.text))


def key_of(text: str) -> str:
    """Return `text` so that two that say the same compare equal; no word is left out."""
    shown = TAG.sub("", without_references(text))
    return " ".join(fold(shown).split()).strip(" .")


@dataclass(slots=True)
class _Cutting:
    found: list[Block] = field(default_factory=list)
    gap: str = ""
    is_inside: bool = False

    def line(self, line: Line) -> None:
        if self.is_inside or (line.text.strip() and self._continues(line)):
            last = self.found[-1]
            self.found[-1] = Block(last.kind, last.gap, last.text + self.gap + line.text)
            self.gap = ""
        elif line.text.strip():
            self.found.append(Block(_kind(line), self.gap, line.text))
            self.gap = ""
        else:
            self.gap += line.text
        self.is_inside ^= line.is_fence

    def _continues(self, line: Line) -> bool:
        last = self.found[-1].kind if self.found else "heading"
        if last == "item" and _INDENTED.match(line.text):
            return True
        return last in {"item", "paragraph"} and not self.gap and _kind(line) == "paragraph"


def blocks(text: str) -> tuple[tuple[Block, ...], str]:
    """Return the blocks of `text`, and the blank lines at its end; joined, they are `text`."""
    cutting = _Cutting()
    for line in scan(text):
        cutting.line(line)
    return tuple(cutting.found), cutting.gap


def _kind(line: Line) -> Kind:
    if line.in_code:
        return "code"
    if line.level:
        return "heading"
    item = bullet(line.text)
    return "item" if item and item.indent in {"", " "} else "paragraph"
