"""Where pages meet the terminal: the one place that makes a Rich console.

A page is a Rich renderable. On a terminal it fits the width and has colour, unless `NO_COLOR` says
otherwise; in a pipe the same page is plain text of its natural width, with no space at line ends.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from familiar_cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import JustifyMethod, RenderableType

_NATURAL_WIDTH = 100_000  # wider than any line a page has


def print_page(*parts: RenderableType, stream: TextIO | None = None) -> None:
    """Print a page on `stream`, by default stdout."""
    out = stream or sys.stdout
    if out.isatty():
        console(out).print(*parts, sep="\n")
        return
    out.write(as_plain(*parts, encoding=getattr(out, "encoding", None) or "utf-8"))
    out.flush()


def console(stream: TextIO) -> Console:
    """Return a console on a terminal; nothing printed on it is read as markup."""
    return Console(file=stream, markup=False, highlight=False, emoji=False)


def as_plain(*parts: RenderableType, encoding: str = "utf-8") -> str:
    """Return a page as plain text; marks that `encoding` lacks are drawn with ASCII."""
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
    return "".join(line.rstrip(" ") + "\n" for line in buffer.getvalue().splitlines())


def plain(text: object, style: str = "") -> Text:
    """Return text from outside as a renderable: never markup, never an escape sequence."""
    return Text(harmless(str(text)), style=style)


def columns(
    rows: Iterable[Iterable[RenderableType]],
    header: Iterable[str] = (),
    *,
    right: Iterable[int] = (),
) -> Table:
    """Return rows as columns without lines between them.

    Args:
        rows: The cells, row by row.
        header: The names of the columns, if they shall be shown.
        right: Which columns are aligned to the right.
    """
    names, to_right = list(header), set(right)
    table = Table(
        box=None, show_header=bool(names), padding=(0, 2, 0, 0), pad_edge=False, header_style="dim"
    )
    made = [list(row) for row in rows]
    for number in range(len(names) or max(map(len, made), default=0)):
        justify: JustifyMethod = "right" if number in to_right else "left"
        table.add_column(names[number] if names else "", justify=justify, overflow="fold")
    for row in made:
        table.add_row(*row)
    return table


class _Buffer(io.StringIO):
    """A text buffer that says which encoding its text will end in."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding
