"""Background passes: exclusive, remembered when they fail, retried later, and stopped politely."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from familiar_cli.errors import FamiliarError
from familiar_cli.passes.exclusive import exclusive
from familiar_cli.passes.failures import SYNCING, WRITING, as_failure, summary_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from pathlib import Path
    from typing import Any

    from familiar_cli.passes.failures import Failures


T = TypeVar("T")

_LOCKS: Final = {WRITING: ".writer.lock", SYNCING: ".sync.lock"}

PATIENCE_S: Final = 3600.0
"""How long whoever can wait does so while another process runs the same pass."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One kind of background work.

    Args:
        name: Its name, under which a failure is kept.
        lock_path: The lock that it holds while it runs.
        failures: Where its failure is kept.
    """

    name: str
    lock_path: Path
    failures: Failures

    @property
    def retry_in_s(self) -> float:
        """Seconds until whoever polls may run it; 0: now. A person's command need not wait."""
        failure = self.failures.of(self.name)
        return failure.retry_in_s if failure else 0.0

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        wait_s: float = PATIENCE_S,
        on_wait: Callable[[str], None] = lambda _: None,
        error_in: Callable[[T], FamiliarError | None] = lambda _: None,
        is_whole: bool = True,
    ) -> T:
        """Run the work while no other process does, and remember how it ended.

        Args:
            work: Does it, and returns what came of it.
            wait_s: The longest wait for another process.
            on_wait: Told once, who is waited for.
            error_in: Returns the failure that a result reports, if any.
            is_whole: Success clears an earlier failure; False: only a part of the work is done.

        Raises:
            LockedError: Another process is still at it; that is no failure.
            FamiliarError: The work failed, whatever it raised.
        """
        async with exclusive(self.lock_path, wait_s, on_wait):
            with self.recording():
                result = await work()
                error = error_in(result)
            if error:
                self.failures.record(self.name, error)
            elif is_whole:
                self.failures.clear(self.name)
            return result

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Remember an exception, and raise it as an error that can be told in one line.

        Raises:
            FamiliarError: What was raised inside.
        """
        try:
            yield
        except FamiliarError as error:
            self.failures.record(self.name, error)
            raise
        except Exception as error:  # whatever it is, the pass has failed and is retried
            failure = as_failure(error)
            self.failures.record(self.name, failure)
            raise failure from error


class Passes:
    """The background passes of one familiar.

    Args:
        root: The familiar's directory.
        failures: Where their failures are kept.
    """

    def __init__(self, root: Path, failures: Failures) -> None:
        self._root = root
        self._failures = failures

    def named(self, name: str) -> Pass:
        """Return a pass that a person can run, too; see `failures.COMMANDS`."""
        lock = _LOCKS.get(name, ".consolidation.lock")
        return Pass(name, self._root / lock, self._failures)

    def summary(self, scope: str) -> Pass:
        """Return the pass that summarises the turns of a scope; see `history.summaries`."""
        name = summary_name(scope)
        return Pass(name, self._root / "runs" / "locks" / f"{name}.lock", self._failures)


Kind = Literal["started", "wrote", "made", "held", "failed", "note"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Args:
        kind: What kind of thing; see docs/reference/json-and-exit-codes.md.
        message: It in words, for a person; may have several lines.
        command: The command that does by itself what was done; empty for a note.
        data: It in fields, for a program.
        error: What went wrong; None: nothing.
    """

    kind: Kind
    message: str
    command: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    error: FamiliarError | None = None

    def to_json(self, at: str) -> dict[str, Any]:
        """Return the event as one line of `familiar daemon --json` shows it."""
        command = {"command": self.command} if self.command else {}
        return {"event": self.kind, "at": at, **command, "message": self.message, **self.data}


def failed(command: str, error: FamiliarError, retry_in_s: float) -> Event:
    """Return the event of a pass that failed."""
    data = {
        "code": error.code,
        "hint": error.hint,
        "retry_in_s": round(retry_in_s, 1),
    }
    return Event("failed", str(error), command, data, error)


_HANGUP = getattr(signal, "SIGHUP", 0)  # not on Windows
_BREAK = getattr(signal, "SIGBREAK", 0)  # only there
_ENDING = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _HANGUP, _BREAK)))


async def until_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Await `work`; when `stop` is set, cancel it and return."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        working.cancel()
        await asyncio.wait({working, stopping})
    if not working.cancelled():
        working.result()


@contextmanager
def stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Let what asks a program to end set `stop`. Only the main thread may use it.

    That is Ctrl-C, a polite kill, a terminal that closes and, on Windows, Ctrl-Break. With `nohup`
    a closing terminal is ignored, as before.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _ENDING}
    if before.get(_HANGUP) == signal.SIG_IGN:
        del before[_HANGUP]

    def tell(*_: object) -> None:
        loop.call_soon_threadsafe(stop.set)

    for number in before:
        signal.signal(number, tell)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
