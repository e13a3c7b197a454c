"""What pages are made of, as values. In a pipe they are plain text; Rich draws them on a terminal.

Rich takes as long to load as everything else that a reading command needs, so it is left to those
who see what it does.
"""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from familiar_cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

_GAP = "  "


class Part(Protocol):
    """A part of a page, which Rich draws by its `__rich__` or `__rich_console__`."""

    def lines(self, encoding: str) -> list[str]:
        """Return its lines as they stand in a pipe of that encoding."""


@dataclass(slots=True)
class Words:
    """Text from outside, piece by piece with its style: `bold`, `dim`, a colour, or empty."""

    spans: list[tuple[str, str]]

    def append(self, text: object, style: str = "") -> None:
        """Put more at the end."""
        self.spans.append((str(text), style))

    def __str__(self) -> str:
        return "".join(harmless(text) for text, _ in self.spans)

    def lines(self, encoding: str) -> list[str]:
        """See `Part`."""
        del encoding
        return str(self).split("\n")

    def __rich__(self) -> RenderableType:
        from familiar_cli.ui import terminal

        text = terminal.plain("")
        for words, style in self.spans:
            text.append(harmless(words), style=style)
        return text


@dataclass(slots=True)
class Indented:
    """A part that stays indented where a terminal wraps it."""

    part: Part
    by: int = 4

    def lines(self, encoding: str) -> list[str]:
        """See `Part`."""
        return [" " * self.by + line for line in self.part.lines(encoding)]

    def __rich__(self) -> RenderableType:
        from rich.padding import Padding

        is_text = isinstance(self.part, Words)  # which is not filled with spaces to its right
        return Padding(_drawn(self.part), (0, 0, 0, self.by), expand=not is_text)


@dataclass(slots=True)
class Group:
    """Parts, one below the other."""

    parts: Sequence[Part]

    def lines(self, encoding: str) -> list[str]:
        """See `Part`."""
        return [line for part in self.parts for line in part.lines(encoding)]

    def __rich__(self) -> RenderableType:
        from rich.console import Group as Drawn

        return Drawn(*map(_drawn, self.parts))


@dataclass(slots=True)
class Columns:
    """Rows as columns without lines between them; see `terminal.columns`."""

    rows: Sequence[Sequence[Part]]
    header: Sequence[str] = ()
    right: Sequence[int] = ()

    def lines(self, encoding: str) -> list[str]:
        """See `Part`."""
        rows = [[[name] for name in self.header]] if self.header else []
        rows += [[cell.lines(encoding) for cell in row] for row in self.rows]
        widths: dict[int, int] = {}
        for row in rows:
            for number, cell in enumerate(row):
                widths[number] = max(widths.get(number, 0), *map(_cells, cell))
        right = set(self.right)
        return [line for row in rows for line in _side_by_side(row, widths, right)]

    def __rich__(self) -> RenderableType:
        from familiar_cli.ui import terminal

        rows = [[_drawn(cell) for cell in row] for row in self.rows]
        return terminal.columns(rows, self.header, right=self.right)


def plain(text: object, style: str = "") -> Words:
    """Return text from outside: never markup, never an escape sequence."""
    return Words([(str(text), style)])


def print_page(*parts: Part) -> None:
    """Print a page on stdout; nothing if it has no parts."""
    if not parts:
        return
    if sys.stdout.isatty():
        from familiar_cli.ui import terminal

        terminal.print_page(*map(_drawn, parts))
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    lines = (line for part in parts for line in part.lines(encoding))
    sys.stdout.write("".join(line.rstrip(" ") + "\n" for line in lines))
    sys.stdout.flush()


def _drawn(part: Part) -> RenderableType:
    return cast("RenderableType", part)


def _side_by_side(
    row: Sequence[Sequence[str]], widths: Mapping[int, int], to_right: set[int]
) -> list[str]:
    """Return the lines of one row, whose cells may have several."""
    height = max(map(len, row), default=0)
    made = []
    for at in range(height):
        cells = (cell[at] if at < len(cell) else "" for cell in row)
        made.append(
            _GAP.join(
                _filled(cell, widths[number], to_right=number in to_right)
                for number, cell in enumerate(cells)
            )
        )
    return made


def _filled(text: str, width: int, *, to_right: bool) -> str:
    space = " " * (width - _cells(text))
    return space + text if to_right else text + space


def _cells(text: str) -> int:
    """Return how wide a terminal shows `text`."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
