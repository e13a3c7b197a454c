"""A bar with the time left, on stderr, while something long is counted to its end."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.ui.emit import Output

    Report = Callable[[str, int, int], None]


FEW: Final = 40


@contextmanager
def steps(out: Output) -> Iterator[Report]:
    """Show what the block reports as (what, done, total).

    Nothing is shown when nobody watches, or of less than `FEW` things, which are done in a moment.
    """
    if out.quiet or not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    from familiar_cli.ui.terminal import console

    shown = TextColumn("{task.description}", markup=False)
    bars = Progress(
        shown, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console(sys.stderr)
    )
    tasks: dict[str, TaskID] = {}

    def report(what: str, done: int, total: int) -> None:
        if total < FEW:
            return
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total)
        bars.update(tasks[what], completed=done, total=total)

    with bars:
        yield report
