"""Progress on stderr: of downloads, and of long work with a known total."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from familiar_cli.base.text import one_line, size_words
from familiar_cli.base.times.clock import stopwatch_s

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from familiar_cli.llm.models.fetch import Progress
    from familiar_cli.pages.emit import Output

    Report = Callable[[Progress], None]
    StepReport = Callable[[str, int, int], None]


_EVERY_S = 10.0  # between two lines in a pipe
_SHOWN_EVERY = 100  # files between two updates of a terminal


@contextmanager
def show_downloads(out: Output) -> Iterator[Report]:
    """Show the progress of downloads in the block, and end with a newline."""
    if out.quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        from rich.progress import DownloadColumn, TransferSpeedColumn

        with _bars(DownloadColumn(), TransferSpeedColumn()) as update:
            yield lambda now: update(
                (now.what, now.origin), one_line(now.what, 40), now.done_bytes, now.total_bytes
            )
    else:
        yield _report_lines(out)


@contextmanager
def show_count(out: Output, what: str) -> Iterator[Callable[[str, int], None]]:
    """Show a count of processed lines: a spinner, or a line now and then in a pipe."""
    with spinner(out, f"{what} …") as show:
        tell = show if sys.stderr.isatty() else _note_rarely(out)

        def report(name: str, count: int) -> None:
            lines = f": {count:,} lines" if count else ""
            tell(f"{what} {one_line(name, 40)}{lines} …")

        yield report


def _note_rarely(out: Output) -> Callable[[str], None]:
    """Return a function that prints what it is called with, if it printed nothing for a while."""
    told_s = stopwatch_s()

    def tell(text: str) -> None:
        nonlocal told_s
        if stopwatch_s() - told_s >= _EVERY_S:
            told_s = stopwatch_s()
            out.note(text)

    return tell


@contextmanager
def show_steps(out: Output) -> Iterator[Callable[[str, int], None]]:
    """Show the current step and file count on a terminal; nothing in a pipe."""
    with spinner(out, "reading …") as show:
        told = ""

        def report(step: str, files: int) -> None:
            nonlocal told
            if step != told or files % _SHOWN_EVERY == 0:
                told = step
                show(f"{step} ({files:,} files) …")

        yield report


@contextmanager
def show_messages(out: Output) -> Iterator[Callable[[str], None]]:
    """Show the current activity on a terminal; in a pipe, print a line for each."""
    with spinner(out, "syncing …") as show:
        tell = show if sys.stderr.isatty() else out.note
        yield lambda what: tell(f"{one_line(what)} …")


@contextmanager
def spinner(out: Output, text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` beside a spinner on a terminal; calling the yielded function changes it."""
    if out.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from familiar_cli.pages.terminal import console, plain

    with console(sys.stderr).status(plain(text)) as status:
        yield lambda text: status.update(plain(text))


def _report_lines(out: Output) -> Report:
    told: set[tuple[str, str]] = set()

    def report(now: Progress) -> None:
        if (now.what, now.origin) not in told:
            told.add((now.what, now.origin))
            size = f" ({size_words(now.total_bytes)})" if now.total_bytes else ""
            out.note(f"fetching {one_line(now.what)} from {one_line(now.origin)}{size}")

    return report


@contextmanager
def _bars(*columns: ProgressColumn) -> Iterator[Callable[[object, str, int, int | None], None]]:
    """Show a bar for each key that the yielded function is called with."""
    from rich.progress import BarColumn, TaskID, TextColumn
    from rich.progress import Progress as Bars

    from familiar_cli.pages.terminal import console

    shown = TextColumn("{task.description}", markup=False)
    tasks: dict[object, TaskID] = {}
    with Bars(shown, BarColumn(), *columns, console=console(sys.stderr)) as bars:

        def update(key: object, what: str, done: int, total: int | None) -> None:
            if key not in tasks:
                tasks[key] = bars.add_task(what, total=total)
            bars.update(tasks[key], completed=done, total=total)

        yield update


FEW: Final = 40


@contextmanager
def show_totals(out: Output) -> Iterator[StepReport]:
    """Show progress as (kind of work, done, total); in a pipe, a line now and then.

    Nothing is shown on a terminal for fewer than `FEW` items, which take a moment.
    """
    if out.quiet or not sys.stderr.isatty():
        tell = _note_rarely(out)
        yield lambda what, done, total: tell(f"{what}: {done:,} of {total:,} …")
        return
    from rich.progress import MofNCompleteColumn, TimeRemainingColumn

    with _bars(MofNCompleteColumn(), TimeRemainingColumn()) as update:

        def report(what: str, done: int, total: int) -> None:
            if total >= FEW:
                update(what, what, done, total)

        yield report
