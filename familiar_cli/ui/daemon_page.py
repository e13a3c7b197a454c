"""What `familiar daemon` prints while it runs, and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from familiar_cli.clock import iso, now
from familiar_cli.passes.events import Event
from familiar_cli.passes.failures import WRITING
from familiar_cli.text import counted
from familiar_cli.ui.emit import write_json
from familiar_cli.ui.writer_page import report_text, told_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.errors import FamiliarError
    from familiar_cli.ui.emit import Output
    from familiar_cli.writer.types import WriterReport


class Narrator:
    """Prints what happens: lines for people on stderr, and with `--json` one line each on stdout.

    Args:
        out: Where the command's words go.
        once: It does what is due and ends: with `--json` there is only the answer, and failures are
            told at the end.

    Attributes:
        passes: The passes of the memory writer that did something, as `--json` shows them.
    """

    def __init__(self, out: Output, *, once: bool) -> None:
        self._out = out
        self._once = once
        self.passes: list[dict[str, Any]] = []

    def report(self, report: WriterReport) -> None:
        """Print what a pass of the memory writer did, unless that is nothing."""
        if not report.turns_covered and report.error is None:
            return
        self.passes.append(report.to_json())
        lines = [*report_text(report).splitlines(), *told_after(report)]
        data = {"report": report.to_json()}
        self.event(Event("wrote", "\n".join(lines), WRITING, data))

    def event(self, event: Event) -> None:
        """Print an event."""
        if self._out.as_json and not self._once:
            write_json(event.to_json(iso(now())))
        if not (event.error and self._once):
            self._out.note(f"error: {event.message}" if event.error else event.message)

    def end(self, data: dict[str, Any], errors: Sequence[FamiliarError]) -> None:
        """Print the answer, and what failed."""
        imported = data["imported"]
        waiting = data["remaining"] - imported
        self._out.note(
            f"{counted(waiting, 'turn')} {'is' if waiting == 1 else 'are'} waiting."
            if waiting
            else "All turns have been processed."
        )
        if imported:
            wait = "waits" if imported == 1 else "wait"
            told = f"{counted(imported, 'imported turn')} {wait} for `familiar write-memory`."
            self._out.note(told)
        if errors:  # it ended because it was told to, so the exit code is that of success
            self._out.partial(data, errors, lambda: None, exit_code=0)
        self._out.answer(data, lambda: None)
