"""The parts of pages, as values: plain text in a pipe, rendered by Rich on a terminal."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct, field

from familiar_cli.base.text import harmless, one_line
from familiar_cli.base.times.clock import parse_iso, to_zone

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement


_GAP = "  "


class PagePart(Protocol):
    """A part of a page, which Rich renders by its `__rich__` or `__rich_console__`."""

    def lines(self, encoding: str) -> list[str]:
        """Return its lines for a pipe with that encoding."""


class Words(Struct):
    """Untrusted text in pieces with a style each: `bold`, `dim`, a colour, or empty."""

    spans: list[tuple[str, str]]

    def append(self, text: object, style: str = "") -> None:
        """Append text."""
        self.spans.append((str(text), style))

    def __str__(self) -> str:
        return "".join([harmless(text) for text, _ in self.spans])

    def lines(self, encoding: str) -> list[str]:
        """See `PagePart`."""
        del encoding
        return str(self).split("\n")

    def __rich__(self) -> RenderableType:
        from familiar_cli.pages import terminal

        text = terminal.plain("")
        for words, style in self.spans:
            text.append(harmless(words), style=style)
        return text


class IndentedPart(Struct):
    """A part that keeps its indentation where a terminal wraps it."""

    part: PagePart
    by: int = 4

    def lines(self, encoding: str) -> list[str]:
        """See `PagePart`."""
        return [" " * self.by + line for line in self.part.lines(encoding)]

    def __rich__(self) -> RenderableType:
        from rich.padding import Padding

        is_text = isinstance(self.part, Words)  # not padded on the right
        return Padding(_draw_part(self.part), (0, 0, 0, self.by), expand=not is_text)


class Stack:
    """Parts, one below the other."""

    def __init__(self, *parts: PagePart) -> None:
        self.parts = parts

    def lines(self, encoding: str) -> list[str]:
        """See `PagePart`."""
        return [line for part in self.parts for line in part.lines(encoding)]

    def __rich__(self) -> RenderableType:
        from rich.console import Group as Drawn

        return Drawn(*map(_draw_part, self.parts))


class Columns(Struct):
    """Rows in columns without lines between them; see `terminal.columns`.

    A cell is a part, or anything that `plain` converts to text.
    """

    rows: Iterable[Sequence[object]]
    header: Sequence[str] = ()
    right: Sequence[int] = ()
    _cells: list[list[PagePart]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Convert every cell to a part."""
        self._cells = [[_as_part(cell) for cell in row] for row in self.rows]

    def lines(self, encoding: str) -> list[str]:
        """See `PagePart`."""
        rows = [[[name] for name in self.header]] if self.header else []
        rows += [[cell.lines(encoding) for cell in row] for row in self._cells]
        widths: dict[int, int] = {}
        for row in rows:
            for number, cell in enumerate(row):
                widths[number] = max(widths.get(number, 0), *map(_count_cells, cell))
        right = set(self.right)
        lines = [line for row in rows for line in _side_by_side(row, widths, right)]
        return lines or [""]  # as Rich renders a table without columns

    def __rich__(self) -> RenderableType:
        from familiar_cli.pages import terminal

        rows = [[_draw_part(cell) for cell in row] for row in self._cells]
        return terminal.column_table(rows, self.header, right=self.right)


def named_values(values: Iterable[tuple[str, object]]) -> Columns:
    """Pair names, dimmed, with their values."""
    return Columns([[plain(name, "dim"), plain(value)] for name, value in values])


def plain(text: object, style: str = "") -> Words:
    """Convert untrusted text: never markup, never an escape sequence."""
    return Words([(str(text), style)])


def mark_query(query: str, text: str) -> Words:
    """Mark the words of a query in a text, in any inflected form."""
    from familiar_cli.store.fts import match_spans  # few pages are results of a search

    words, at = plain(""), 0
    for first, last in match_spans(query, text):
        words.append(text[at:first])
        words.append(text[first:last], "bold yellow")
        at = last
    words.append(text[at:])
    return words


def local_time(moment: datetime | str | None, zone: tzinfo | None, *, seconds: bool = False) -> str:
    """Format a moment in a timezone, to the minute, or to the second with its offset.

    Args:
        moment: A moment, or one in the form of `clock.iso`; other text is returned unchanged, and
            None as an empty string.
        zone: The timezone; None for the system's.
        seconds: Show seconds and the offset.
    """
    shape = "%Y-%m-%d %H:%M:%S %z" if seconds else "%Y-%m-%d %H:%M"
    if not moment:
        return ""
    try:
        at = parse_iso(moment) if isinstance(moment, str) else moment
        return to_zone(at, zone).strftime(shape)
    except (ValueError, OverflowError):
        return str(moment)


def print_page(*parts: PagePart | RenderableType, in_pager: bool = False) -> None:
    """Print a page on stdout; nothing if it has no parts. Rich is loaded only on a terminal.

    Args:
        in_pager: Use the person's pager if the page is higher than the terminal.
    """
    if not parts:
        return
    if sys.stdout.isatty() or not all(hasattr(part, "lines") for part in parts):
        from familiar_cli.pages import terminal

        terminal.print_page(*map(_draw_part, parts), in_pager=in_pager)
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    lines = (line for part in parts for line in cast("PagePart", part).lines(encoding))
    sys.stdout.write("".join(line.rstrip(" ") + "\n" for line in lines))
    sys.stdout.flush()


def _as_part(cell: object) -> PagePart:
    return cast("PagePart", cell) if hasattr(cell, "lines") else plain(cell)


def _draw_part(part: object) -> RenderableType:
    return cast("RenderableType", part)


def _side_by_side(
    row: Sequence[Sequence[str]], widths: Mapping[int, int], to_right: set[int]
) -> list[str]:
    """Return the lines of one row, whose cells may have several."""
    height = max(map(len, row), default=0)
    items = []
    for at in range(height):
        cells = (cell[at] if at < len(cell) else "" for cell in row)
        filled = (
            _fill_width(cell, widths[number], to_right=number in to_right)
            for number, cell in enumerate(cells)
        )
        items.append(_GAP.join(filled))
    return items


def _fill_width(text: str, width: int, *, to_right: bool) -> str:
    space = " " * (width - _count_cells(text))
    return space + text if to_right else text + space


def _count_cells(text: str) -> int:
    """Return the width of `text` on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_character_cells, text))


def _character_cells(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


WIDTH_CHARS = 24
NEARLY_FULL = 0.9


class Bar(Struct, frozen=True):
    """`used` of `whole` as a bar; terminals without block characters get `#` and `.`.

    Args:
        used: The amount used.
        whole: The limit.
        even: Do not warn about a full bar.
    """

    used: int
    whole: int
    even: bool = False

    @property
    def filled_chars(self) -> int:
        """The number of filled characters: 0 only for nothing, all only for everything."""
        if self.used <= 0:
            return 0
        if self.used >= self.whole:
            return WIDTH_CHARS
        return min(max(round(WIDTH_CHARS * self.used / self.whole), 1), WIDTH_CHARS - 1)

    def lines(self, encoding: str) -> list[str]:
        """See `page.Part`."""
        full, empty = _cut_marks(ascii_only=not encoding.lower().startswith("utf"))
        return [full * self.filled_chars + empty * (WIDTH_CHARS - self.filled_chars)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment
        from rich.style import Style

        full, empty = _cut_marks(ascii_only=options.ascii_only)
        color = "green" if self.even or self.used < self.whole * NEARLY_FULL else "yellow"
        if self.used > self.whole:
            color = "red"
        yield Segment(full * self.filled_chars, Style(color=color))
        yield Segment(empty * (WIDTH_CHARS - self.filled_chars), Style(dim=True))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(WIDTH_CHARS, WIDTH_CHARS)


def _cut_marks(*, ascii_only: bool) -> tuple[str, str]:
    return ("#", ".") if ascii_only else ("█", "░")


_PARTS = re.compile(r"[^/._:\s-]*[/._:\s-]+|[^/._:\s-]+")
_LONGEST = 1000


class Name:
    """A text without spaces that may be wrapped, but not within words."""

    def __init__(self, text: str, style: str = "") -> None:
        self.text = one_line(text, _LONGEST)
        self.style = style

    def lines(self, encoding: str) -> list[str]:
        """See `page.Part`."""
        del encoding
        return [self.text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        lines = list(_fold_lines(self.text, max(options.max_width, 2)))
        yield Text("\n".join(lines), style=self.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.cells import cell_len
        from rich.measure import Measurement

        longest = max(map(cell_len, _PARTS.findall(self.text)), default=0)
        whole = min(cell_len(self.text), options.max_width)
        return Measurement(min(longest, whole), whole)


def _fold_lines(text: str, width: int) -> Iterator[str]:
    """Yield lines of at most `width` cells."""
    from rich.cells import cell_len, chop_cells

    line = ""
    for part in _PARTS.findall(text):
        if cell_len(line) + cell_len(part) <= width:
            line += part
            continue
        if line:
            yield line
        *full, line = chop_cells(part, width)
        yield from full
    if line:
        yield line
