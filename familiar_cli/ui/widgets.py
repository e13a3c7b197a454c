"""Pieces of pages: a bar of a budget, and a name or path that parts where its own parts end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement


WIDTH_CHARS = 24
NEARLY_FULL = 0.9


class Bar:
    """`used` of `whole` as a bar; a terminal that lacks block characters gets `#` and `.`.

    Args:
        used: How much.
        whole: Of how much.
        even: To have all of it is nothing to be warned of.
    """

    def __init__(self, used: int, whole: int, *, even: bool = False) -> None:
        self.used = used
        self.whole = whole
        self.even = even

    @property
    def filled_chars(self) -> int:
        """How many characters are filled: none only for nothing, all only for everything."""
        if self.used <= 0:
            return 0
        if self.used >= self.whole:
            return WIDTH_CHARS
        return min(max(round(WIDTH_CHARS * self.used / self.whole), 1), WIDTH_CHARS - 1)

    def lines(self, encoding: str) -> list[str]:
        """See `page.Part`."""
        full, empty = _marks(ascii_only=not encoding.lower().startswith("utf"))
        return [full * self.filled_chars + empty * (WIDTH_CHARS - self.filled_chars)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment
        from rich.style import Style

        full, empty = _marks(ascii_only=options.ascii_only)
        color = "green" if self.even or self.used < self.whole * NEARLY_FULL else "yellow"
        if self.used > self.whole:
            color = "red"
        yield Segment(full * self.filled_chars, Style(color=color))
        yield Segment(empty * (WIDTH_CHARS - self.filled_chars), Style(dim=True))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(WIDTH_CHARS, WIDTH_CHARS)


def _marks(*, ascii_only: bool) -> tuple[str, str]:
    return ("#", ".") if ascii_only else ("█", "░")


_PARTS = re.compile(r"[^/._:\s-]*[/._:\s-]+|[^/._:\s-]+")
_LONGEST = 1000


class Name:
    """A text without spaces that may take several lines, none of which begins amid a word."""

    def __init__(self, text: str, style: str = "") -> None:
        self.text = one_line(text, _LONGEST)
        self.style = style

    def lines(self, encoding: str) -> list[str]:
        """See `page.Part`."""
        del encoding
        return [self.text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        lines = list(_folded(self.text, max(options.max_width, 2)))
        yield Text("\n".join(lines), style=self.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.cells import cell_len
        from rich.measure import Measurement

        longest = max(map(cell_len, _PARTS.findall(self.text)), default=0)
        whole = min(cell_len(self.text), options.max_width)
        return Measurement(min(longest, whole), whole)


def _folded(text: str, width: int) -> Iterator[str]:
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
