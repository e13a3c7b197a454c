"""A bar that shows how much of a budget is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        full, empty = ("#", ".") if options.ascii_only else ("█", "░")
        color = "green" if self.even or self.used < self.whole * NEARLY_FULL else "yellow"
        if self.used > self.whole:
            color = "red"
        yield Segment(full * self.filled_chars, Style(color=color))
        yield Segment(empty * (WIDTH_CHARS - self.filled_chars), Style(dim=True))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(WIDTH_CHARS, WIDTH_CHARS)
