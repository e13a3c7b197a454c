"""The only place that creates Rich consoles.

A page is a Rich renderable. On a terminal it fits the width and has colour, unless `NO_COLOR` says
otherwise; in a pipe the same page is plain text of its natural width, without trailing spaces.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from familiar_cli.base.config.environment import pager_has_colour
from familiar_cli.base.text import bare_lines, harmless

_WORD = 16  # columns: longer text, such as a path, may be folded
_NATURAL_WIDTH = 100_000  # wider than any line of a page


def print_page(
    *parts: RenderableType, stream: TextIO | None = None, in_pager: bool = False
) -> None:
    """Print a page on `stream`, by default stdout; see `page.print_page`."""
    out = stream or sys.stdout
    if out.isatty():
        shown = console(out)
        height = sum(len(shown.render_lines(part)) for part in parts) if in_pager else 0
        if height < shown.height:
            shown.print(*parts, sep="\n")
            return
        shown.width -= 1  # a line that fills its row takes two in `less`
        with shown.pager(styles=pager_has_colour()):
            shown.print(*parts, sep="\n")
        return
    out.write(as_plain(*parts, encoding=getattr(out, "encoding", None) or "utf-8"))
    out.flush()


def console(stream: TextIO) -> Console:
    """Create a console for a terminal; nothing printed on it is parsed as markup."""
    return Console(file=stream, markup=False, highlight=False, emoji=False)


def as_plain(*parts: RenderableType, encoding: str = "utf-8") -> str:
    """Render a page as plain text; characters missing in `encoding` are replaced by ASCII."""
    buffer = _Buffer(encoding)
    plain = Console(
        file=buffer,
        width=_NATURAL_WIDTH,
        color_system=None,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal=False,
        _environ={},
    )
    plain.print(*parts, sep="\n")
    return "".join(line.rstrip(" ") + "\n" for line in bare_lines(buffer.getvalue()))


def plain(text: object, style: str = "") -> Text:
    """Convert untrusted text to a renderable: never markup, never an escape sequence."""
    return Text(harmless(str(text)), style=style)


def column_table(
    rows: Iterable[Iterable[RenderableType]],
    header: Iterable[str] = (),
    *,
    right: Iterable[int] = (),
) -> RenderableType:
    """Render rows as columns without lines between them.

    With a header, on a terminal too narrow for them, each row is rendered line by line instead.

    Args:
        rows: The cells, row by row.
        header: Names of the columns, if they are to be shown.
        right: Columns aligned to the right.
    """
    names, items = list(header), [list(row) for row in rows]
    table = _make_table(items, names, set(right))
    return _Rows(table, items, names) if names else table


def _make_table(rows: list[list[RenderableType]], names: list[str], to_right: set[int]) -> Table:
    table = Table(
        box=None, show_header=bool(names), padding=(0, 2, 0, 0), pad_edge=False, header_style="dim"
    )
    for number in range(len(names) or max(map(len, rows), default=0)):
        justify: JustifyMethod = "right" if number in to_right else "left"
        table.add_column(names[number] if names else "", justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


class _Rows:
    """A table with a header that changes its form if words would be broken."""

    def __init__(self, table: Table, rows: list[list[RenderableType]], names: list[str]) -> None:
        self._table, self._cells, self._names = table, rows, names

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._table)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._needed_width(console, options) <= options.max_width:
            yield self._table
            return
        for first, *others in self._cells:
            told = zip(self._names[1:], others, strict=True)
            pairs = [[plain(name, "dim"), cell] for name, cell in told if str(cell)]
            yield first
            yield Padding(_make_table(pairs, [], set()), (0, 0, 0, 2))

    def _needed_width(self, console: Console, options: ConsoleOptions) -> int:
        """Return the width at which no column breaks a word of ordinary length."""
        needed = 2 * (len(self._names) - 1)
        for cells in zip(self._names, *self._cells, strict=True):
            least = (Measurement.get(console, options, cell).minimum for cell in cells)
            needed += min(max(least), _WORD)
        return needed


class _Buffer(io.StringIO):
    """A text buffer that reports the encoding of its target."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding
