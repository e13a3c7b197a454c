"""Parse a Markdown page into independently mergeable blocks, and render it again.

A page is front matter and nested sections; a section holds list items, which may be nested, and
other text: paragraphs, tables, code, comments. Parsing is lossless: blank lines belong to the block
below them, and an unchanged page renders byte for byte the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.languages import heading_in
from familiar_cli.base.markdown import TextLine, body_start, bullet, comments, scan
from familiar_cli.base.text import changed_blocks, fold, matching_blocks, sha256_of
from familiar_cli.store.memory.pages.lines import without_references
from familiar_cli.store.memory.pages.visible_lines import is_damaged, private_scope


class Clash(Struct, frozen=True):
    """A place that both sides changed differently.

    Args:
        line: First line in our text, counted from 1.
        ours: Lines on our side.
        base: Lines in the common base.
        theirs: Lines on their side.
    """

    line: int
    ours: tuple[bytes, ...]
    base: tuple[bytes, ...]
    theirs: tuple[bytes, ...]


class MergedLines(NamedTuple):
    """The merged text, with our side where there are clashes."""

    content: bytes
    clashes: tuple[Clash, ...]


class _Hunk(NamedTuple):
    """Lines `begin` to `end` of the base replaced by `lines`, which begin at `at` on their side."""

    begin: int
    end: int
    at: int
    lines: tuple[bytes, ...]


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> MergedLines:
    """Apply the changes from `base` to `theirs` to `ours`.

    Edits clash when they change the same line, or insert different lines at the same place.
    Adjacent edits do not clash: a list extended at its end can still lose the line before. A final
    newline is merged separately.
    """
    (base_lines, base_ends), (our_lines, our_ends), (their_lines, their_ends) = map(
        lines_and_end, (base, ours, theirs)
    )
    out: list[bytes] = []
    clashes: list[Clash] = []
    at = 0
    for left, right in _group_hunks(
        _changed_hunks(base_lines, our_lines), _changed_hunks(base_lines, their_lines)
    ):
        begin, end = _span_of([*left, *right])
        out += base_lines[at:begin]
        mine, other = (_side_of(base_lines, begin, end, hunks) for hunks in (left, right))
        if left and right and mine != other:
            line = left[0].at - (left[0].begin - begin) + 1
            clashes.append(Clash(line, mine, tuple(base_lines[begin:end]), other))
        out += mine if left else other
        at = end
    out += base_lines[at:]
    ends = their_ends if our_ends == base_ends else our_ends
    return MergedLines(b"\n".join(out) + (b"\n" if ends and out else b""), tuple(clashes))


def lines_and_end(content: bytes) -> tuple[list[bytes], bool]:
    """Return the lines, and whether the last one ends in a newline."""
    if not content:
        return [], True
    lines = content.split(b"\n")
    return (lines, False) if lines[-1] else (lines[:-1], True)


def _changed_hunks(base: list[bytes], side: list[bytes]) -> list[_Hunk]:
    return [
        _Hunk(i, i_end, j, tuple(side[j:j_end]))
        for i, i_end, j, j_end in changed_blocks(base, side)
    ]


def _group_hunks(left: list[_Hunk], right: list[_Hunk]) -> list[tuple[list[_Hunk], list[_Hunk]]]:
    """Group the hunks that touch the same lines, in base order."""
    groups: list[tuple[list[_Hunk], list[_Hunk]]] = []
    rows = sorted([(h, 0) for h in left] + [(h, 1) for h in right], key=lambda r: (r[0][:2], r[1]))
    for hunk, side in rows:
        if not groups or not any(
            _do_overlap(hunk, other) for other in (*groups[-1][0], *groups[-1][1])
        ):
            groups.append(([], []))
        groups[-1][side].append(hunk)
    return groups


def _do_overlap(one: _Hunk, other: _Hunk) -> bool:
    if one.begin == one.end or other.begin == other.end:  # lines inserted between two others
        return one[:2] == other[:2] or _is_inside(one, other) or _is_inside(other, one)
    return max(one.begin, other.begin) < min(one.end, other.end)


def _is_inside(one: _Hunk, other: _Hunk) -> bool:
    return other.begin < one.begin == one.end < other.end


def _span_of(hunks: list[_Hunk]) -> tuple[int, int]:
    return min(h.begin for h in hunks), max(h.end for h in hunks)


def _side_of(base: list[bytes], begin: int, end: int, hunks: list[_Hunk]) -> tuple[bytes, ...]:
    """Return lines `begin` to `end` of the base as one side has them."""
    lines: list[bytes] = []
    at = begin
    for hunk in hunks:
        lines += [*base[at : hunk.begin], *hunk.lines]
        at = hunk.end
    return (*lines, *base[at:end])


Kind = Literal["section", "item", "text", "whole"]

_TAB_CHARS: Final = 4
_REMEMBERED: Final = 4096  # cached lines, most of which occur in three versions
_NOBODY: Final = "\0"  # no channel has this name
_COMMENT: Final = "<!--"
_CLOSED: Final = re.compile(r"<!--(?:(?!<!--|-->)[^\n])*-->")


class MergeBlock(Struct, dict=True, eq=False):
    """A part of a page. A section's contents are parsed on demand.

    Two blocks are equal if their lines are, regardless of position.

    Args:
        kind: A section with its heading, a list item, text, or text that cannot be extended.
        lines: Its own lines, without newlines.
        gap: Blank lines above it.
        level: Heading level of a section.
        indent: Columns before an item's bullet.
        words_at: Offset of an item's text in its first line, after bullet and checkbox.
        after: Its predecessor in the list.

    Attributes:
        sections: Subsections of a section.
    """

    kind: Kind
    lines: list[str] = field(default_factory=list)
    gap: list[str] = field(default_factory=list)
    level: int = 0
    indent: int = 0
    words_at: int = 0
    after: MergeBlock | None = None
    sections: list[MergeBlock] = field(default_factory=list)
    rows: list[Row] | None = None
    _inside: list[MergeBlock] | None = None
    _key: tuple[str, ...] | None = None

    @property
    def inside(self) -> list[MergeBlock]:
        """The items and texts in it, in order."""
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
        """Yield its lines and those of its contents."""
        yield from self.lines
        yield from self._body()
        for below in self.sections:
            yield from below.gap
            yield from below.all_lines()

    def copy(self, gap: list[str], after: MergeBlock | None) -> MergeBlock:
        """Return a copy for another position."""
        return replace(self, gap=gap, after=after)

    @cached_property
    def channel(self) -> str:
        """Private channel of a section; empty if public."""
        if self.kind != "section" or not self.lines:
            return ""
        scope = private_scope(self.lines[0])
        return scope if scope is not None else _NOBODY if is_damaged(self.lines[0]) else ""

    @property
    def key(self) -> tuple[str, ...]:
        """Key shared by two versions of a block with the same words."""
        if self._key is None:
            self._key = self._made_key()
        return self._key

    def _made_key(self) -> tuple[str, ...]:
        if self.kind == "section":
            text = self.lines[0].lstrip("#").rstrip(" \t\r#")
            holds = heading_in(text.partition("<!--")[0])  # a scope may have its own wishes section
            title = f"{self.channel} {holds}" if self.channel else normal_text(text)
            return "section", str(self.level), "private" if self.channel else "", title
        return "item" if self.kind == "item" else "text", normal_text(self.words)

    @property
    def words(self) -> str:
        """Its own text, without bullet and checkbox."""
        text = self.lines[0] if len(self.lines) == 1 else "\n".join(self.lines)
        return text[self.words_at :]


class Row(Struct, frozen=True):
    """A line, and whether it is code or continues code or a comment."""

    text: str
    goes_on: bool
    is_code: bool


class MergePage(Struct):
    """A parsed page.

    Args:
        root: Everything below the front matter.
        front: Lines of the front matter with its delimiters; empty without one.
        bom: Byte order mark, if any.
        tail: What follows the last non-blank line, starting with its newline.
    """

    root: MergeBlock
    front: str = ""
    bom: str = ""
    tail: str = ""


@lru_cache(maxsize=_REMEMBERED)
def normal_text(text: str) -> str:
    """Normalize `text` so that visually identical texts compare equal."""
    bare = without_references(text) if _COMMENT in text else text
    return " ".join(fold(bare).split())


def parse_blocks(text: str) -> MergePage:
    """Parse a page whose lines end in a newline."""
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    at = body_start(text)
    front, body = text[len(bom) : at], text[max(at, len(bom)) :]
    said = body.rstrip(" \t\r\n")
    end = body.find("\n", len(said)) if said else 0
    tail = "" if end < 0 else body[end:]
    return MergePage(_parse_sections(body[:end] if end >= 0 else body), front, bom, tail)


def render_blocks(page: MergePage) -> str:
    """Render the page as text."""
    lines = "\n".join(page.root.all_lines())
    return f"{page.bom}{page.front}{lines}{page.tail}"


def walk_sections(block: MergeBlock, depth: int = 0) -> Iterator[tuple[int, MergeBlock]]:
    """Yield a block and its descendants, each with its depth."""
    yield depth, block
    for below in (*block.inside, *block.sections):
        yield from walk_sections(below, depth + 1)


def reads_back(block: MergeBlock, again: MergeBlock) -> bool:
    """Tell whether a rendered section parses back into the same blocks."""
    if block.lines != again.lines or len(block.sections) != len(again.sections):
        return False
    if block.rows is None:
        one, other = (
            [
                (depth, each.kind, each.lines)
                for below in side.inside
                for depth, each in walk_sections(below)
            ]
            for side in (block, again)
        )
        if one != other:
            return False
    elif block.rows != again.rows:
        return False
    return all(map(reads_back, block.sections, again.sections))


def _parse_sections(text: str) -> MergeBlock:
    """Parse a text into a tree of sections."""
    root = MergeBlock("section")
    open_, rows = [root], list[Row]()
    root.rows = rows
    for row, level in _rows_with_level(text):
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


def _rows_with_level(text: str) -> Iterator[tuple[Row, int]]:
    """Yield the lines with the level of the heading on each; 0 for other lines."""
    lines = list(scan(text))
    held = _within_comments(text, lines) if _COMMENT in _CLOSED.sub("", text) else frozenset()
    in_code = False
    for at, line in enumerate(lines):
        row = Row(line.text.removesuffix("\n"), in_code or at in held, line.in_code)
        begins = not row.goes_on and row.text.startswith("#")
        yield row, line.level if begins else 0
        in_code ^= line.is_fence


def _within_comments(text: str, lines: list[TextLine]) -> frozenset[int]:
    """Return the lines that continue a comment from the line above."""
    starts = [line.start for line in lines]
    held = set[int]()
    for start, end in comments(text):
        first, last = (bisect_right(starts, place) for place in (start, end - 1))
        held.update(range(first, last))
    return frozenset(held)


class _Parser:
    """Parses the items and texts of a section."""

    def __init__(self, rows: list[Row]) -> None:
        self.blocks: list[MergeBlock] = []
        self._items: list[MergeBlock] = []
        self._last: MergeBlock | None = None
        self._gap: list[str] = []
        for row in rows:
            self._take(row)
        if self._gap:  # blank lines not yet assigned to a block
            self._begin(MergeBlock("whole"), self.blocks)

    def _take(self, row: Row) -> None:
        text = row.text
        if row.goes_on and self._last is not None:
            self._add(text)
            if self._last.kind == "text":
                self._last.kind = "whole"
        elif not text.strip():
            self._gap.append(text)
        elif not row.is_code and (item := _parse_item(text)):
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
        bare = text.lstrip(" \t")
        self._leave_items(len(text[: len(text) - len(bare)].expandtabs(_TAB_CHARS)))
        self._begin(MergeBlock("whole" if is_whole else "text", [text]), self._holder())

    def _leave_items(self, indent: int) -> None:
        while self._items and self._items[-1].indent >= indent:
            self._items.pop()

    def _holder(self) -> list[MergeBlock]:
        return self._items[-1].inside if self._items else self.blocks


@lru_cache(maxsize=_REMEMBERED)
def _parse_item(text: str) -> tuple[int, int] | None:
    """Return the columns before an item's bullet and the offset of its text, or None."""
    item = bullet(text)
    return (len(item.indent.expandtabs(_TAB_CHARS)), item.words_at) if item else None


_FROM_LINES: Final = 500
_SHORTEST: Final = 8  # minimum length of a run to be replaced by one item
_WINDOW: Final = 200  # how many lines ahead the next common line is searched
_STRIDE: Final = 1024
_ITEM: Final = re.compile(r" *[-*+] [^\s<*+-][^<\n]*(?:<!-- turns [^<>\n]*-->)?|[-*+] \*\*[^<\n]*")
_TOP: Final = ("- ", "* ", "+ ")
_FENCES: Final = ("```", "~~~")


class LongLists:
    """Three versions of a page, with shared parts of long lists left out.

    A run of lines present in all versions is replaced by one uniquely named item until the rest is
    merged. So the cost depends on the number of changes rather than on the length of the list.

    Args:
        texts: The same texts, shortened.

    Attributes:
        texts: The same, shortened.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self._runs: dict[str, list[str]] = {}
        if min(text.count("\n") for text in texts) >= _FROM_LINES and _is_plain(texts[0]):
            self._shorten()

    @property
    def is_short(self) -> bool:
        """Whether anything was left out."""
        return bool(self._runs)

    def restored(self, text: str) -> str | None:
        """Restore a merged text, or return None unless each placeholder occurs once."""
        if not self._runs:
            return text
        out: list[str] = []
        left = dict(self._runs)
        for line in text.split("\n"):
            if line in self._runs:
                if line not in left:
                    return None
                out += left.pop(line)
            else:
                out.append(line)
        return None if left else "\n".join(out)

    def _shorten(self) -> None:
        heads = [text[: body_start(text)] for text in self.texts]
        sides = [
            text[len(head) :].split("\n") for text, head in zip(self.texts, heads, strict=True)
        ]
        common = list(_common_runs(*sides))
        gaps = list(_lines_between(sides, common))
        changed = {line for gap in gaps for line in gap if line}  # they may have moved
        if not _is_plain("\n".join(changed)):
            return
        name = sha256_of("".join(self.texts).encode())[:16]  # which none of them can hold
        out: list[list[str]] = [[], [], []]
        at = [0, 0, 0]
        for gap, (begins, size) in zip(gaps, common, strict=False):
            if any(line.startswith("#") for line in gap):  # what follows may be in another section
                break
            for first, last in _runs_of(sides[0][begins[0] : begins[0] + size], changed):
                item = f"- {name} {len(self._runs)}"
                self._runs[item] = sides[0][begins[0] + first : begins[0] + last]
                for side, begin in enumerate(begins):
                    out[side] += [*sides[side][at[side] : begin + first], item]
                    at[side] = begin + last
        self.texts = [
            head + "\n".join([*short, *lines[end:]])
            for head, short, lines, end in zip(heads, out, sides, at, strict=True)
        ]


def _is_plain(text: str) -> bool:
    """Tell whether each line can be parsed without the lines above it."""
    comments = text.split("<!--")[1:]
    ends = [comment.find("-->") for comment in comments]
    return not any(fence in text for fence in _FENCES) and all(
        end >= 0 and "\n" not in comment[:end] for comment, end in zip(comments, ends, strict=True)
    )


def _common_runs(
    base: list[str], ours: list[str], theirs: list[str]
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield runs common to all three texts: the start in each, and the length."""
    left, right = list(_matching_runs(base, ours)), list(_matching_runs(base, theirs))
    while left and right:
        (i, j, n), (k, m, size) = left[0], right[0]
        begin, end = max(i, k), min(i + n, k + size)
        if begin < end:
            yield (begin, j + begin - i, m + begin - k), end - begin
        done = left if i + n <= k + size else right
        done.pop(0)


def _lines_between(
    sides: Sequence[list[str]], common: Sequence[tuple[tuple[int, int, int], int]]
) -> Iterator[list[str]]:
    """Yield the lines of each side before each common run and after the last."""
    at = [0, 0, 0]
    for begins, size in [*common, (tuple(map(len, sides)), 0)]:
        yield [line for lines, a, b in zip(sides, at, begins, strict=True) for line in lines[a:b]]
        at = [begin + size for begin in begins]


def _matching_runs(base: list[str], side: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield matching runs in order, much like `matching_blocks` but faster."""
    i = j = 0
    while i < len(base) and j < len(side):
        size = _equal_lines(base, side, i, j)
        if size:
            yield i, j, size
            i, j = i + size, j + size
            continue
        there = {line: at for at, line in reversed([*enumerate(side[j : j + _WINDOW])]) if line}
        near = [
            (at + there[line], at, there[line])
            for at, line in enumerate(base[i : i + _WINDOW])
            if line in there
        ]
        if not near:
            yield from ((i + a, j + b, n) for a, b, n in matching_blocks(base[i:], side[j:]))
            return
        _, skipped, more = min(near)
        i, j = i + skipped, j + more


def _equal_lines(base: list[str], side: list[str], i: int, j: int) -> int:
    """Return the number of equal lines from two positions on."""
    size, stride = 0, _STRIDE
    while stride:
        one = base[i + size : i + size + stride]
        if one and one == side[j + size : j + size + stride]:
            size += len(one)
        else:
            stride //= 2
    return size


def _runs_of(lines: list[str], changed: set[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of long runs of list items, without the first and last of each."""
    begin = 0
    for end in range(len(lines) + 1):
        line = lines[end] if end < len(lines) else None
        if line is None or line in changed or (line and not _ITEM.fullmatch(line)):
            tops = (at for at in range(begin, end) if lines[at].startswith(_TOP))
            first = next(islice(tops, 1, None), end)
            last = next(
                (at for at in range(end - 1, first, -1) if lines[at].startswith(_TOP)), first
            )
            while last > first and not lines[last - 1]:
                last -= 1
            if last - first >= _SHORTEST:
                yield first, last
            begin = end + 1
