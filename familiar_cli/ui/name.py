"""A name or a path in a narrow column: it is parted where its own parts end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.measure import Measurement
from rich.text import Text

from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderResult

_PARTS = re.compile(r"[^/._:\s-]*[/._:\s-]+|[^/._:\s-]+")
_LONGEST = 1000


class Name:
    """A text without spaces that may take several lines, none of which begins amid a word."""

    def __init__(self, text: str, style: str = "") -> None:
        self.text = one_line(text, _LONGEST)
        self.style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = list(_folded(self.text, max(options.max_width, 2)))
        yield Text("\n".join(lines), style=self.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = max(map(cell_len, _PARTS.findall(self.text)), default=0)
        whole = min(cell_len(self.text), options.max_width)
        return Measurement(min(longest, whole), whole)


def _folded(text: str, width: int) -> Iterator[str]:
    """Yield lines of at most `width` cells."""
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
