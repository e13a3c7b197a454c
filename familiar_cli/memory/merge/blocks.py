"""A Markdown page taken apart into what is merged on its own, and put together again.

A page is its front matter and sections within sections; a section holds list items, which may hold
more, and other text: paragraphs, tables, code, comments. Nothing is thrown away: blank lines stand
in the block below them, and a page that is put together unchanged is the same, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from familiar_cli.markdown import body_start, bullet, comments, scan
from familiar_cli.memory.pages.evidence import without_references
from familiar_cli.memory.pages.privacy import is_damaged, private_scope
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.markdown import TextLine

Kind = Literal["section", "item", "text", "whole"]

_TAB_CHARS: Final = 4
_REMEMBERED: Final = 4096  # lines, of which most stand in three versions
_NOBODY: Final = "\0"  # no channel is called so
_COMMENT: Final = "<!--"
_CLOSED: Final = re.compile(r"<!--(?:(?!<!--|-->)[^\n])*-->")


class MergeBlock:
    """A part of a page. What is in a section is taken apart only when it is asked for.

    Two are equal whose lines are the same, however they stand.

    Args:
        kind: A section with its heading, a list item, text, or text that no line is added to.
        lines: Its own lines, without their ends.
        gap: The blank lines above it.
        level: Of a section's heading.
        indent: The columns before an item's mark.
        words_at: Where the words of an item begin in its first line, behind its mark and box.
        after: What stands above it in its list.

    Attributes:
        sections: The sections within a section.
    """

    def __init__(
        self,
        kind: Kind,
        lines: list[str] | None = None,
        gap: list[str] | None = None,
        *,
        level: int = 0,
        indent: int = 0,
        words_at: int = 0,
        after: MergeBlock | None = None,
    ) -> None:
        self.kind = kind
        self.lines = lines or []
        self.gap = gap or []
        self.level = level
        self.indent = indent
        self.words_at = words_at
        self.after = after
        self.sections: list[MergeBlock] = []
        self.rows: list[Row] | None = None
        self._inside: list[MergeBlock] | None = None
        self._key: tuple[str, ...] | None = None

    @property
    def inside(self) -> list[MergeBlock]:
        """The items and texts in it, in their order."""
        if self._inside is None:
            self._inside = _Parser(self.rows).blocks if self.rows else []
        return self._inside

    @inside.setter
    def inside(self, blocks: list[MergeBlock]) -> None:
        self._inside, self.rows = blocks, None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MergeBlock) and (self.lines, self._body(), self.sections) == (
            other.lines,
            other._body(),
            other.sections,
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _body(self) -> list[str]:
        if self.rows is not None:
            return [row.text for row in self.rows]
        return [line for below in self._inside or () for line in (*below.gap, *below.all_lines())]

    def all_lines(self) -> Iterator[str]:
        """Yield its lines and those of all in it."""
        yield from self.lines
        yield from self._body()
        for below in self.sections:
            yield from below.gap
            yield from below.all_lines()

    def copy(self, gap: list[str], after: MergeBlock | None) -> MergeBlock:
        """Return it as it stands at another place."""
        same = MergeBlock(
            self.kind,
            self.lines,
            gap,
            level=self.level,
            indent=self.indent,
            words_at=self.words_at,
            after=after,
        )
        same.sections, same.rows, same._inside = self.sections, self.rows, self._inside
        return same

    @cached_property
    def channel(self) -> str:
        """The private channel that a section belongs to; empty: none."""
        if self.kind != "section" or not self.lines:
            return ""
        found = private_scope(self.lines[0])
        return found if found is not None else _NOBODY if is_damaged(self.lines[0]) else ""

    @property
    def key(self) -> tuple[str, ...]:
        """What two versions of one block share as long as it says the same."""
        if self._key is None:
            self._key = self._made_key()
        return self._key

    def _made_key(self) -> tuple[str, ...]:
        if self.kind == "section":
            title = self.channel or normal(self.lines[0].lstrip("#").rstrip(" \t\r#"))
            return "section", str(self.level), "private" if self.channel else "", title
        return "item" if self.kind == "item" else "text", normal(self.words)

    @property
    def words(self) -> str:
        """Its own text, without an item's mark and box."""
        text = self.lines[0] if len(self.lines) == 1 else "\n".join(self.lines)
        return text[self.words_at :]


class Row(NamedTuple):
    """A line, and whether it goes on with code or a comment from the one above, or is code."""

    text: str
    goes_on: bool
    is_code: bool


@dataclass(slots=True)
class MergePage:
    """A page, taken apart.

    Args:
        root: What is below the front matter.
        front: The lines of the front matter with their frame; empty: there is none.
        bom: The mark that some editors begin a file with.
        tail: What stands below the last line that says something, beginning with that line's end.
    """

    root: MergeBlock
    front: str = ""
    bom: str = ""
    tail: str = ""


@lru_cache(maxsize=_REMEMBERED)
def normal(text: str) -> str:
    """Return `text` so that what a reader takes for the same compares equal."""
    bare = without_references(text) if _COMMENT in text else text
    return " ".join(fold(bare).split())


def take_apart(text: str) -> MergePage:
    """Return a page whose lines end in a newline, taken apart."""
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    at = body_start(text)
    front, body = text[len(bom) : at], text[max(at, len(bom)) :]
    said = body.rstrip(" \t\r\n")
    end = body.find("\n", len(said)) if said else 0
    tail = "" if end < 0 else body[end:]
    return MergePage(_sections(body[:end] if end >= 0 else body), front, bom, tail)


def put_together(page: MergePage) -> str:
    """Return the page as text."""
    lines = "\n".join(page.root.all_lines())
    return f"{page.bom}{page.front}{lines}{page.tail}"


def walk(block: MergeBlock, depth: int = 0) -> Iterator[tuple[int, MergeBlock]]:
    """Yield a block and all in it, each with how deep it stands."""
    yield depth, block
    for below in (*block.inside, *block.sections):
        yield from walk(below, depth + 1)


def reads_back(block: MergeBlock, again: MergeBlock) -> bool:
    """Return whether a section that was put together is taken apart into the same blocks."""
    if block.lines != again.lines or len(block.sections) != len(again.sections):
        return False
    if block.rows is None:
        one, other = (
            [(depth, each.kind, each.lines) for below in side.inside for depth, each in walk(below)]
            for side in (block, again)
        )
        if one != other:
            return False
    elif block.rows != again.rows:
        return False
    return all(map(reads_back, block.sections, again.sections))


def _sections(text: str) -> MergeBlock:
    """Return the sections of a text, in the one that holds all."""
    root = MergeBlock("section")
    open_, rows = [root], list[Row]()
    root.rows = rows
    for row, level in _rows(text):
        if not level:
            rows.append(row)
            continue
        gap = list[str]()
        while rows and not rows[-1].goes_on and not rows[-1].text.strip():
            gap.insert(0, rows.pop().text)
        while open_[-1].level >= level:
            open_.pop()
        section = MergeBlock("section", [row.text], gap, level=level)
        section.rows = rows = []
        section.after = open_[-1].sections[-1] if open_[-1].sections else None
        open_[-1].sections.append(section)
        open_.append(section)
    return root


def _rows(text: str) -> Iterator[tuple[Row, int]]:
    """Yield the lines, each with the level of the section that it begins; 0: it begins none."""
    lines = list(scan(text))
    held = _within_comments(text, lines) if _COMMENT in _CLOSED.sub("", text) else frozenset()
    in_code = False
    for at, line in enumerate(lines):
        row = Row(line.text.removesuffix("\n"), in_code or at in held, line.in_code)
        begins = not row.goes_on and row.text.startswith("#")
        yield row, line.level if begins else 0
        in_code ^= line.is_fence


def _within_comments(text: str, lines: list[TextLine]) -> frozenset[int]:
    """Return the places of the lines that go on with a comment from the line above."""
    starts = [line.start for line in lines]
    held = set[int]()
    for start, end in comments(text):
        first, last = (bisect_right(starts, place) for place in (start, end - 1))
        held.update(range(first, last))
    return frozenset(held)


class _Parser:
    """Finds the items and texts of a section."""

    def __init__(self, rows: list[Row]) -> None:
        self.blocks: list[MergeBlock] = []
        self._items: list[MergeBlock] = []
        self._last: MergeBlock | None = None
        self._gap: list[str] = []
        for row in rows:
            self._take(row)
        if self._gap:  # blank lines that no block is below
            self._begin(MergeBlock("whole"), self.blocks)

    def _take(self, row: Row) -> None:
        text = row.text
        if row.goes_on and self._last is not None:
            self._add(text)
            if self._last.kind == "text":
                self._last.kind = "whole"
        elif not text.strip():
            self._gap.append(text)
        elif not row.is_code and (item := _item(text)):
            indent, words_at = item
            self._leave_items(indent)
            block = MergeBlock("item", [text], indent=indent, words_at=words_at)
            self._begin(block, self._holder())
            self._items.append(block)
        else:
            self._take_text(text, is_whole=row.is_code or text.lstrip().startswith(_COMMENT))

    def _add(self, text: str) -> None:
        if self._last is not None:
            self._last.lines += (*self._gap, text)
            self._gap = []

    def _begin(self, block: MergeBlock, among: list[MergeBlock]) -> None:
        block.gap, self._gap = self._gap, []
        block.after = among[-1] if among else None
        among.append(block)
        self._last = block

    def _take_text(self, text: str, *, is_whole: bool) -> None:
        last = self._last.kind if self._last else ""
        if last in {"item", "text"} and not self._gap and not is_whole:
            self._add(text)
            return
        self._leave_items(_indent(text))
        self._begin(MergeBlock("whole" if is_whole else "text", [text]), self._holder())

    def _leave_items(self, indent: int) -> None:
        while self._items and self._items[-1].indent >= indent:
            self._items.pop()

    def _holder(self) -> list[MergeBlock]:
        return self._items[-1].inside if self._items else self.blocks


@lru_cache(maxsize=_REMEMBERED)
def _item(text: str) -> tuple[int, int] | None:
    """Return the columns before an item's mark, and where its words begin; None: it is no item."""
    item = bullet(text)
    return (len(item.indent.expandtabs(_TAB_CHARS)), item.words_at) if item else None


def _indent(text: str) -> int:
    bare = text.lstrip(" \t")
    return len(text[: len(text) - len(bare)].expandtabs(_TAB_CHARS))
