"""A Markdown page taken apart into what is merged on its own, and put together again.

A page is its front matter and sections within sections; a section holds list items, which may hold
more, and other text: paragraphs, tables, code, comments. Nothing is thrown away: blank lines stand
in the block below them, and a page that is put together unchanged is the same, byte for byte.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli.markdown import body_start, bullet, comments, scan
from familiar_cli.memory.pages.evidence import without_references
from familiar_cli.memory.pages.privacy import is_damaged, private_channel
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.markdown import Line

Kind = Literal["section", "item", "text", "whole"]

_TAB_CHARS: Final = 4
_NOBODY: Final = "\0"  # no channel is called so
_COMMENT: Final = "<!--"


@dataclass
class Block:
    """A part of a page.

    Args:
        kind: A section with its heading, a list item, text, or text that no line is added to.
        lines: Its own lines, without their ends.
        gap: The blank lines above it.
        inside: The items and texts in it, in their order.
        sections: The sections within a section.
        level: Of a section's heading.
        indent: The columns before an item's mark.
        after: What stands above it in its list.
    """

    kind: Kind
    lines: list[str] = field(default_factory=list)
    gap: list[str] = field(default_factory=list, compare=False)
    inside: list[Block] = field(default_factory=list)
    sections: list[Block] = field(default_factory=list)
    level: int = field(default=0, compare=False)
    indent: int = field(default=0, compare=False)
    after: Block | None = field(default=None, compare=False)

    @cached_property
    def channel(self) -> str:
        """The private channel that a section belongs to; empty: none."""
        if self.kind != "section" or not self.lines:
            return ""
        found = private_channel(self.lines[0])
        return found if found is not None else _NOBODY if is_damaged(self.lines[0]) else ""

    @cached_property
    def key(self) -> tuple[str, ...]:
        """What two versions of one block share as long as it says the same."""
        if self.kind == "section":
            title = self.channel or normal(self.lines[0].lstrip("#").rstrip(" \t\r#"))
            return "section", str(self.level), "private" if self.channel else "", title
        kind = "item" if self.kind == "item" else "text"
        return kind, normal(self.words)

    @cached_property
    def words_at(self) -> int:
        """Where the words of an item begin in its first line, behind its mark and box."""
        found = bullet(self.lines[0]) if self.kind == "item" else None
        return found.words_at if found else 0

    @cached_property
    def words(self) -> str:
        """Its own text, without an item's mark and box."""
        return "\n".join(self.lines)[self.words_at :]


@dataclass(slots=True)
class Page:
    """A page, taken apart.

    Args:
        root: What is below the front matter.
        front: The lines of the front matter with their frame; empty: there is none.
        bom: The mark that some editors begin a file with.
        tail: What stands below the last line that says something, beginning with that line's end.
    """

    root: Block
    front: str = ""
    bom: str = ""
    tail: str = ""


def normal(text: str) -> str:
    """Return `text` so that what a reader takes for the same compares equal."""
    return " ".join(fold(without_references(text)).split())


def take_apart(text: str) -> Page:
    """Return a page whose lines end in a newline, taken apart."""
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    at = body_start(text)
    front, body = text[len(bom) : at], text[max(at, len(bom)) :]
    said = body.rstrip(" \t\r\n")
    end = body.find("\n", len(said))
    kept = body if end < 0 else body[:end]
    parser = _Parser()
    for line, goes_on in _with_going_on(kept):
        parser.take(line, goes_on=goes_on)
    if not said:
        return Page(parser.root, front, bom, body)
    return Page(parser.root, front, bom, "" if end < 0 else body[end:])


def put_together(page: Page) -> str:
    """Return the page as text."""
    lines = list(_lines(page.root))
    return f"{page.bom}{page.front}{chr(10).join(lines)}{page.tail}"


def walk(block: Block, depth: int = 0) -> Iterator[tuple[int, Block]]:
    """Yield a block and all in it, each with how deep it stands."""
    yield depth, block
    for below in (*block.inside, *block.sections):
        yield from walk(below, depth + 1)


def _lines(block: Block) -> Iterator[str]:
    yield from block.lines
    for below in (*block.inside, *block.sections):
        yield from below.gap
        yield from _lines(below)


def _with_going_on(text: str) -> Iterator[tuple[Line, bool]]:
    """Yield the lines, and whether each goes on with code or a comment from the line above."""
    lines = list(scan(text))
    starts = [line.start for line in lines]
    held = set[int]()
    for start, end in comments(text) if _COMMENT in text else ():
        first, last = (bisect_right(starts, place) for place in (start, end - 1))
        held.update(range(first, last))
    in_code = False
    for at, line in enumerate(lines):
        yield line, in_code or at in held
        in_code ^= line.is_fence


class _Parser:
    """Takes lines and finds the block of each."""

    def __init__(self) -> None:
        self.root = Block("section")
        self._sections = [self.root]
        self._items: list[Block] = []
        self._last = self.root
        self._gap: list[str] = []

    def take(self, line: Line, *, goes_on: bool) -> None:
        """Take the next line."""
        text = line.text.removesuffix("\n")
        if goes_on and self._last is not self.root:
            self._add(text)
            if self._last.kind == "text":
                self._last.kind = "whole"
        elif not text.strip():
            self._gap.append(text)
        elif line.level and text.startswith("#"):
            self._begin_section(text, line.level)
        elif not line.in_code and bullet(text):
            self._begin_item(text)
        else:
            self._take_text(text, is_whole=line.in_code or text.lstrip().startswith(_COMMENT))

    def _add(self, text: str) -> None:
        self._last.lines += (*self._gap, text)
        self._gap = []

    def _begin(self, block: Block, among: list[Block]) -> None:
        block.gap, self._gap = self._gap, []
        block.after = among[-1] if among else None
        among.append(block)
        self._last = block

    def _begin_section(self, text: str, level: int) -> None:
        while self._sections[-1].level >= level:
            self._sections.pop()
        block = Block("section", [text], level=level)
        self._begin(block, self._sections[-1].sections)
        self._sections.append(block)
        self._items = []

    def _begin_item(self, text: str) -> None:
        self._leave_items(indent := _indent(text))
        block = Block("item", [text], indent=indent)
        self._begin(block, self._holder().inside)
        self._items.append(block)

    def _take_text(self, text: str, *, is_whole: bool) -> None:
        joins = self._last.kind in {"item", "text"} and not self._gap and not is_whole
        if joins:
            self._add(text)
            return
        self._leave_items(_indent(text))
        self._begin(Block("whole" if is_whole else "text", [text]), self._holder().inside)

    def _leave_items(self, indent: int) -> None:
        while self._items and self._items[-1].indent >= indent:
            self._items.pop()

    def _holder(self) -> Block:
        return self._items[-1] if self._items else self._sections[-1]


def _indent(text: str) -> int:
    bare = text.lstrip(" \t")
    return len(text[: len(text) - len(bare)].expandtabs(_TAB_CHARS))
