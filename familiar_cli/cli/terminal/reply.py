"""A conversation on a terminal or in a pipe: input lines, replies, and background work."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self, TextIO

from familiar_cli.actions.memory.due_work import leave_due_work, make_way, waiting_words
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.files import ON_WINDOWS
from familiar_cli.base.jobs import Drained
from familiar_cli.base.text import counted, one_line
from familiar_cli.context.turn import TurnResult
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.llm.thinking import split_thinking
from familiar_cli.pages.emit import Output, exact, print_error
from familiar_cli.store.passes import Event
from familiar_cli.writing.writer.schedule import WRITER_SLOT

PROMPT = "> "
_HELD_S: Final = 1.5


def can_edit() -> bool:
    """Tell whether line editing works; on Windows it needs stdout to be the console."""
    return not ON_WINDOWS or sys.stdout.isatty()


def prompt_stream() -> TextIO:
    """Return the stream of the prompt: stderr, or stdout if stderr is redirected."""
    return sys.stdout if sys.stdout.isatty() and not sys.stderr.isatty() else sys.stderr


def asked_lines() -> Iterator[str]:
    """Yield lines typed without a line editor, until Ctrl-D."""
    while True:
        prompt_stream().write(PROMPT)
        prompt_stream().flush()
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            prompt_stream().write("\n")
            continue
        if not line:
            return
        yield line.rstrip("\r\n")


def piped_lines() -> Iterator[str]:
    """Yield the lines of standard input.

    Raises:
        UsageError: A line is not UTF-8.
    """
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"Line {number} of standard input is not UTF-8 text; it was not sent"
            ) from error


class ReplyPrinter:
    """Prints pieces of a reply, and always ends it with a newline.

    Args:
        silent: Print nothing.
        begun: Text before the first piece.
        waits: Hold back the beginning for a moment, for reasoning that has no opening mark.
    """

    def __init__(self, *, silent: bool = False, begun: str = "", waits: bool = False) -> None:
        self._silent = silent
        self._begun = begun
        self._last = ""
        self._held: list[str] | None = [] if waits else None

    def __call__(self, piece: str) -> None:
        """Print one piece."""
        if self._held is not None:
            if not self._held:
                asyncio.get_running_loop().call_later(_HELD_S, self._release)
            self._held.append(piece)
        elif piece and not self._silent:
            exact(self._begun + piece)
            self._begun, self._last = "", piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()
        if self._last and not self._last.endswith("\n"):
            exact("\n")

    def _release(self) -> None:
        if self._held is not None:
            text, self._held = "".join(self._held), None
            self(split_thinking(text, is_whole=False)[0])


def note_slow_model(out: Output, familiar: Familiar) -> None:
    """Say that a model inside the program takes its time."""
    slot = familiar.models.slot()
    if slot.preset == "local":
        out.note(f"{slot.model} runs on this machine's processor; a reply takes 10 to 60 seconds.")


def begun_text(said: Said) -> str:
    """Return the beginning of a reply that is continued."""
    return said.instead_of.content if said.instead_of and said.remake == "continue" else ""


def tell_thinking(out: Output, result: TurnResult) -> dict[str, str]:
    """Print the reasoning behind a reply on stderr; return it as a field for `--json`."""
    if result.trace.thinking:
        out.note(f"Thinking: {result.trace.thinking}")
    return {"thinking": result.trace.thinking}


class SpokenReply:
    """Shows a reply to a person who waits for it: the speaker, then the text.

    Args:
        name: The speaker.
        begun: Text before the first piece.
    """

    def __init__(self, name: str, begun: str = "") -> None:
        from familiar_cli.pages.stream import StreamedText

        self._name = name
        self._begun = begun
        self._text = StreamedText(sys.stdout, name)
        self._waits = False

    def __call__(self, piece: str) -> None:
        """Show one piece."""
        if piece:
            self._stop_waiting()
            self._text(self._begun + piece)
            self._begun = ""

    def note(self, text: str) -> None:
        """Show why the reply is delayed; the message disappears when it comes."""
        self._stop_waiting()
        self._show_waiting(text)

    def __enter__(self) -> Self:
        self._show_waiting(f"{self._name} is writing …")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_waiting()
        self._text.end()

    def _show_waiting(self, text: str) -> None:
        from familiar_cli.pages.stream import columns_of
        from familiar_cli.pages.terminal import console, plain

        self._waits = True
        columns = columns_of(sys.stdout)
        shown = plain(one_line(text, columns), "dim")
        shown.truncate(columns - 1, overflow="ellipsis")
        console(sys.stdout).print(shown, end="", soft_wrap=True)
        sys.stdout.flush()

    def _stop_waiting(self) -> None:
        if self._waits:
            self._waits = False
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()


@contextmanager
def keys_kept() -> Iterator[None]:
    """Keep keys typed meanwhile off the screen, for the line editor.

    Ctrl-C still works.
    """
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    here = sys.stdin.fileno()
    before = termios.tcgetattr(here)
    quiet = termios.tcgetattr(here)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(here, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(here, termios.TCSANOW, before)


@contextmanager
def ctrl_c_interrupts() -> Iterator[None]:
    """Let Ctrl-C interrupt this block, as it usually does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_STAYS: Final = {
    "summary": "The summary of earlier turns is unchanged",
    "memory": "Memory is unchanged",
    "index": "The index is unchanged",
    "jobs": "Jobs did not run",
}
_DOING: Final = {
    "summary": "summarising earlier turns",
    "memory": "writing memory",
    "index": "indexing memory",
    "jobs": "running jobs",
}
_DETAILS: Final = {"index": "index status", "jobs": "job list"}
_JOBS: Final = "jobs"
_REASON_CHARS: Final = 120
_LOOK_EVERY_S: Final = 5.0


def begin_work(out: Output, familiar: Familiar, result: TurnResult) -> None:
    """Start the work that a turn made due, and report it."""
    from familiar_cli.actions.memory.due_work import begin_due_work

    work = begin_due_work(familiar, result, stays=False)
    out.warn(*work.problems)
    if turns := work.summarised_turns:
        out.note(f"Summarising {counted(turns, 'earlier turn')}; Ctrl-C postpones that.")
    if turns := work.written_turns:
        out.note(f"Writing memory from {counted(turns, 'turn')}; Ctrl-C postpones that.")
    if work.plans:
        out.note(f"{waiting_words(work.plans)}.")


class BackgroundNotices:
    """Starts background work after turns, never waiting for it, and reports it briefly.

    Args:
        out: Where errors are reported.
    """

    def __init__(self, out: Output, familiar: Familiar) -> None:
        self._out = out
        self._familiar = familiar
        self._words: dict[str, str] = {}
        self._plans = 0
        self._looked_s: float | None = None
        self._events: deque[Event] = deque()  # called from the jobs' thread

    def begin(self, result: TurnResult) -> None:
        """Start the work that a turn made due."""
        from familiar_cli.actions.memory.due_work import begin_due_work

        work = begin_due_work(self._familiar, result)
        self._out.warn(*work.problems)
        if turns := work.summarised_turns:
            self._words["summary"] = f"summarising {counted(turns, 'earlier turn')}"
        if turns := work.written_turns:
            self._words["memory"] = f"writing memory from {counted(turns, 'turn')}"
        if work.plans and work.plans != self._plans:  # reported once, not after each reply
            self._out.note(f"{waiting_words(work.plans)}.")
        self._plans = work.plans

    def make_way(self) -> None:
        """Pause for a new turn."""
        make_way(self._familiar)

    def status(self) -> str:
        """Describe current work, and report errors since the last call."""
        _tell_failures(self._out, self._familiar.jobs.ended())
        self._check_due()
        self._tell_jobs()
        return self._under_way()

    def _check_due(self) -> None:
        """Report due reminders, once each, and start due jobs."""
        from familiar_cli.actions.health.job_schedule import has_due_jobs
        from familiar_cli.actions.memory.desk import fire_reminders, reminder_line
        from familiar_cli.base.times.clock import stopwatch_s

        now_s = stopwatch_s()
        if self._looked_s is not None and now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        with suppress(FamiliarError, OSError):  # `familiar todo list` reports the error
            self._out.note(*map(reminder_line, fire_reminders(self._familiar, "chat")))
        with suppress(FamiliarError, OSError):  # `familiar job list` reports the error
            if has_due_jobs(self._familiar):
                self._familiar.jobs.add(_JOBS, self._run_jobs)
                self._familiar.jobs.start()

    async def _run_jobs(self) -> None:
        from familiar_cli.actions.health.job_schedule import run_due_jobs

        own = Familiar(self._familiar.paths, self._familiar.tell)  # models are bound to threads
        async with own:
            await run_due_jobs(own, self._events.append)

    def _tell_jobs(self) -> None:
        while self._events:
            event = self._events.popleft()
            turn = self._familiar.history.turn(event.data.get("turn") or 0)
            if event.error:
                self._out.warn(event.message)
            elif turn:
                self._out.note(f"{self._familiar.name} in {turn.channel_id}: {turn.content}")
            else:
                self._out.note(event.message)

    def leave(self) -> None:
        """Wait visibly for the work under way; Ctrl-C stops it."""
        _tell_failures(self._out, self._familiar.jobs.ended())
        words = self._under_way()
        if words:
            self._out.note(f"{words.capitalize()}; Ctrl-C postpones that.")
        finish_work(self._out, self._familiar)
        self._tell_jobs()

    def _under_way(self) -> str:
        kinds = dict.fromkeys(map(_job_kind, self._familiar.jobs.names))
        return " · ".join(self._words.get(kind, _DOING[kind]) for kind in kinds)


def leave_work(out: Output, familiar: Familiar, result: TurnResult) -> None:
    """Leave the work that a turn made due to a daemon or a later turn."""
    try:
        leave_due_work(familiar, result)
    except FamiliarError as error:
        out.warn(f"{_STAYS['summary']} as it is: {error}")


def finish_work(out: Output, familiar: Familiar) -> None:
    """Wait for the work after a reply, and report what was not done; Ctrl-C stops it."""
    limit_s = familiar.config.context.jobs_limit_s
    try:
        _tell_undone(out, familiar.jobs.drain(limit_s), f"took more than {limit_s:g} s")
    except KeyboardInterrupt:
        _tell_undone(out, familiar.jobs.cancel(), "was interrupted")


def _tell_undone(out: Output, drained: Drained, why: str) -> None:
    _tell_failures(out, drained)
    if any(_job_kind(name) == "summary" for name in drained.cancelled):
        out.note(f"The summary {why}; a later turn continues it.")
    if any(_job_kind(name) == "memory" for name in drained.cancelled):
        out.note(f"Writing memory {why}; `familiar write-memory` continues it.")


def _tell_failures(out: Output, drained: Drained) -> None:
    for name, reason in drained.failed:
        kind, text = _job_kind(name), one_line(reason, _REASON_CHARS).rstrip(".")
        details = _DETAILS.get(kind, "status")
        out.warn(f"{_STAYS[kind]}: {text}. Details: `familiar {details}`.")


def _job_kind(job: str) -> str:
    from familiar_cli.store.search.finding import INDEX_JOB

    return {WRITER_SLOT: "memory", INDEX_JOB: "index", _JOBS: "jobs"}.get(job, "summary")


class ChatOutput(Output, frozen=True):
    """The output of a chat with a person."""

    def note(self, *texts: str) -> None:
        """Print progress messages on stderr."""
        if self.quiet or not sys.stderr.isatty():
            Output.note(self, *texts)
        else:
            for text in texts:
                _print_notice(text, "dim")


def tell_error(error: FamiliarError) -> None:
    """Report an error and its hint; the chat continues."""
    if not sys.stderr.isatty():
        print_error(error)
        return
    _print_notice(f"error: {error}", "red")
    if error.hint:
        _print_notice(f"hint: {error.hint}", "dim")


def _print_notice(text: str, style: str) -> None:
    from familiar_cli.pages.stream import print_wrapped

    print_wrapped(sys.stderr, text, style)
