"""Cut Markdown into the blocks that a person moves, changes and removes as a whole.

A block is a heading, a list item with everything that continues it, a paragraph, or a code block.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from familiar_cli.memory.pages.evidence import without_references
from familiar_cli.text import fold

Kind = Literal["heading", "item", "paragraph", "code"]
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+$")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_ITEM: Final = re.compile(r" ?(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_INDENTED: Final = re.compile(r"(?: {2,}|\t)\S")
_MARK_CHARS: Final = 8
_TAG: Final = re.compile(r"(?<!\\)\[(?:chat|via):[^\[\]\s]+\]")


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
        return hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()[:_MARK_CHARS]

    @property
    def key(self) -> str:
        """Equal for two blocks that say the same, with whatever tags."""
        return key_of(_ITEM.sub("", self.text, count=1))


def key_of(text: str) -> str:
    """Return `text` so that two that say the same compare equal; no word is left out."""
    shown = _TAG.sub("", without_references(text))
    return " ".join(fold(shown).split()).strip(" .")


@dataclass(slots=True)
class _Cutting:
    found: list[Block] = field(default_factory=list)
    gap: str = ""
    fence: str = ""

    def line(self, line: str) -> None:
        if self.fence:
            self._more(line)
            mark = _FENCE.match(line.strip())
            if mark and mark[1].startswith(self.fence) and not line.strip().strip(self.fence[0]):
                self.fence = ""
        elif not line.strip():
            self.gap += line
        elif self._continues(line):
            self._more(line)
            self._open_fence(line.strip())
        else:
            self.found.append(Block(_kind(line), self.gap, line))
            self.gap = ""
            self._open_fence(line)

    def _continues(self, line: str) -> bool:
        last = self.found[-1].kind if self.found else "heading"
        if last == "item" and _INDENTED.match(line):
            return True
        return last in {"item", "paragraph"} and not self.gap and _kind(line) == "paragraph"

    def _more(self, line: str) -> None:
        last = self.found[-1]
        self.found[-1] = Block(last.kind, last.gap, last.text + self.gap + line)
        self.gap = ""

    def _open_fence(self, line: str) -> None:
        mark = _FENCE.match(line)
        self.fence = mark[1] if mark else ""


def blocks(text: str) -> tuple[tuple[Block, ...], str]:
    """Return the blocks of `text`, and the blank lines at its end; joined, they are `text`."""
    cutting = _Cutting()
    for line in _LINE.findall(text):
        cutting.line(line)
    return tuple(cutting.found), cutting.gap


def _kind(line: str) -> Kind:
    if _HEADING.match(line):
        return "heading"
    if _ITEM.match(line):
        return "item"
    return "code" if _FENCE.match(line) else "paragraph"
