"""Passes over what has piled up: one process at a time, remembered on failure, retried later.

Passes mostly run after a reply or in a daemon, where nobody reads their output. Each kind has one
file, `runs/failed/<pass>.json`, which is deleted when the pass succeeds.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, LockedError, UnsafePathError
from familiar_cli.base.files import check_own, read_record, remove, write_record
from familiar_cli.base.text import one_line, sha256_of
from familiar_cli.base.times import clock
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.store.memory.store.store import hold_lock, lock_holder

WRITING: Final = "write-memory"
CONSOLIDATING: Final = "consolidate"
SYNCING: Final = "sync"
DISTILLING: Final = "distill {name}"
SUMMARISING: Final = "summary"
COMMANDS: Final = (
    WRITING,
    CONSOLIDATING,
    SYNCING,
    *(DISTILLING.format(name=name) for name in ("short", "mid", "long")),
)
"""The passes that a person can run: what to type after `familiar`."""

JUDGING: Final = "housekeep"
COSTING: Final = (*(name for name in COMMANDS if name != SYNCING), SUMMARISING, JUDGING)
"""The passes that ask a model."""

_Count = Annotated[int, Meta(ge=0)]

RETRY_AFTER: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15))
"""How long after the first, second, ... failure in a row a pass is retried; the last repeats."""

T = TypeVar("T")
_MESSAGE_CHARS: Final = 300
_KEY_CHARS: Final = 16


class PassFailure(Struct, frozen=True):
    """The last failure of a pass.

    Args:
        command: Command that runs it again; empty: none.
        at: When, ISO 8601.
        code: The error's code, as in `--json`.
        message: What happened.
        hint: Suggested fix; empty: unknown.
        attempts: Number of consecutive failures.
    """

    command: str
    at: str
    code: str
    message: str
    hint: str
    attempts: Annotated[int, Meta(ge=1)] = 1

    @property
    def retry_in_s(self) -> float:
        """Seconds until it is retried; 0: now, also when the clock has been set back since."""
        wait = RETRY_AFTER[min(self.attempts, len(RETRY_AFTER)) - 1]
        return max(wait.total_seconds() - clock.elapsed_s(clock.parse_iso(self.at)), 0.0)


class _PassRecords:
    """A record of each pass, one file each. They may be deleted.

    Args:
        directory: The directory of their files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _read(self, name: str, kind: type[T]) -> T | None:
        with suppress(UnsafePathError):  # `doctor` says so
            self._check()
            return read_record(self._path(name), kind)
        return None

    def _write(self, name: str, record: PassFailure | PassCost) -> None:
        with suppress(UnsafePathError):
            self._check()
            write_record(self._path(name), record)

    def _check(self) -> None:
        check_own(self._directory.parent)
        check_own(self._directory)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name.replace(' ', '-')}.json"


class Failures(_PassRecords):
    """Storage of the failures of passes. Without one a pass is retried sooner."""

    def all(self) -> tuple[PassFailure, ...]:
        """Return the failures of the passes that a person can run."""
        return tuple(failure for name in COMMANDS if (failure := self.of(name)))

    def of(self, name: str) -> PassFailure | None:
        """Return the last failure of a pass; None if there is none or the file is damaged."""
        failure = self._read(name, PassFailure)
        with suppress(ValueError):
            if failure and clock.parse_iso(failure.at):
                return failure
        return None

    def record(self, name: str, error: FamiliarError) -> None:
        """Store the failure of a pass. Waiting for a lock is not a failure."""
        if isinstance(error, LockedError):
            return
        before, at = self.of(name), clock.iso(clock.now())
        command = f"familiar {name}" if name in COMMANDS else ""
        attempts = before.attempts + 1 if before else 1
        text, hint = str(error), error.hint or ""
        self._write(name, PassFailure(command, at, error.code, text, hint, attempts))

    def clear(self, name: str) -> None:
        """Delete the stored failure of a pass that has succeeded."""
        with suppress(OSError, UnsafePathError):
            self._check()
            remove(self._path(name))


class PassCost(Struct, frozen=True):
    """What the requests of one kind of pass have cost.

    Args:
        name: The pass.
        since: When the count began, ISO 8601.
        calls: How many requests were answered.
        tokens_read: Tokens of all prompts.
        tokens_written: Tokens of all replies.
        turns: How many turns it went through, where it counts them.
    """

    name: str
    since: str
    calls: _Count = 0
    tokens_read: _Count = 0
    tokens_written: _Count = 0
    turns: _Count = 0


class PassCosts(_PassRecords):
    """Storage of the costs of passes."""

    def all(self) -> tuple[PassCost, ...]:
        """Return the costs of all passes that have asked a model, or gone through turns."""
        return tuple(cost for name in COSTING if (cost := self.of(name)).calls or cost.turns)

    def of(self, name: str) -> PassCost:
        """Return the cost of a pass; zero if its file is missing or damaged."""
        return self._read(name, PassCost) or PassCost(name, clock.iso(clock.now()))

    def add(self, name: str, read: int = 0, written: int = 0, *, turns: int = 0) -> None:
        """Add an answered request, or turns that a pass went through."""
        cost = self.of(name)
        made = replace(
            cost,
            calls=cost.calls + (not turns),
            tokens_read=cost.tokens_read + read,
            tokens_written=cost.tokens_written + written,
            turns=cost.turns + turns,
        )
        self._write(name, made)


def summary_name(scope: str) -> str:
    """Return the name of the pass that makes the summary of a scope; see `context.summarising`."""
    if not scope:
        return SUMMARISING
    digest = sha256_of(scope)
    return f"{SUMMARISING}-{digest[:_KEY_CHARS]}"


def as_failure(error: Exception) -> FamiliarError:
    """Convert an exception to a one-line error; ours stay as they are."""
    if isinstance(error, FamiliarError):
        return error
    what = one_line(f"{type(error).__name__}: {error}", _MESSAGE_CHARS)
    return FamiliarError(f"Unexpected error: {what}", hint="This is a bug; please report it.")


_STEP_S: Final = 0.2


class WaitMessages(Struct, frozen=True):
    """Messages for somebody waiting for a lock; `{who}` is its holder.

    Args:
        notice: Shown once, when the wait begins.
        refused: Error message after the time limit.
        hint: Hint of that error.
        error: Class of that error.
    """

    notice: str = "Waiting for {who}, which is writing memory."
    refused: str = "Memory is being written by {who}; this pass did not start"
    hint: str = "Try again when it has finished; no turn is lost."
    error: type[FamiliarError] = LockedError


@asynccontextmanager
async def exclusive(
    lock_path: Path,
    wait_s: float,
    on_wait: Callable[[str], None] = lambda _: None,
    waiting: WaitMessages = WaitMessages(),  # noqa: B008  # frozen
) -> AsyncIterator[None]:
    """Hold the lock at `lock_path`. A crash of the holder frees it.

    Args:
        wait_s: The longest wait.
        on_wait: Called once with a message that names the holder.
        waiting: The messages.

    Raises:
        LockedError: Another pass held it for longer than `wait_s`; or `waiting.error`.
        FamiliarError: The lock file cannot be made.
    """
    lock = await _acquired(lock_path, wait_s, on_wait, waiting)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


async def _acquired(
    lock_path: Path, wait_s: float, on_wait: Callable[[str], None], waiting: WaitMessages
) -> AbstractContextManager[None]:
    until = stopwatch_s() + wait_s
    notified = False
    while True:
        lock = hold_lock(lock_path, 0)
        try:
            lock.__enter__()
        except LockedError as error:
            who = lock_holder(lock_path) or "another process"
            if stopwatch_s() >= until:
                text = waiting.refused.format(who=who)
                raise waiting.error(text, hint=waiting.hint) from error
            if not notified:
                on_wait(waiting.notice.format(who=who))
                notified = True
        else:
            return lock
        await asyncio.sleep(_STEP_S)


_LOCKS: Final = {WRITING: ".writer.lock", SYNCING: ".sync.lock"}

PATIENCE_S: Final = 3600.0
"""How long whoever can wait does so while another process runs the same pass."""


class Pass(Struct, frozen=True):
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
    def failure(self) -> PassFailure | None:
        """Its last failure, or None."""
        return self.failures.of(self.name)

    @property
    def retry_in_s(self) -> float:
        """Seconds until automatic retry; 0: now. Manual commands need not wait."""
        return self.failure.retry_in_s if self.failure else 0.0

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        wait_s: float = PATIENCE_S,
        on_wait: Callable[[str], None] = lambda _: None,
        error_in: Callable[[T], FamiliarError | None] = lambda _: None,
        is_whole: bool = True,
    ) -> T:
        """Run the work under the pass's lock, and record how it ended.

        Args:
            work: Does the work, and returns the result.
            wait_s: The longest wait for another process.
            on_wait: Called once with a message that names the holder of the lock.
            error_in: Returns the failure that a result reports, if any.
            is_whole: Whether success clears an earlier failure; False: only part of the work is
                done.

        Raises:
            LockedError: Another process still holds the lock; that is not a failure.
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
        """Record an exception, and raise it as a one-line error.

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

    def job(self, job_id: str) -> Pass:
        """Return the pass of a job that a person has scheduled."""
        name = f"job {job_id}"
        return Pass(name, self._root / "runs" / "locks" / f"job-{job_id}.lock", self._failures)

    def summary(self, scope: str) -> Pass:
        """Return the pass that summarises the turns of a scope; see `context.summarising`."""
        name = summary_name(scope)
        return Pass(name, self._root / "runs" / "locks" / f"{name}.lock", self._failures)


Kind = Literal["started", "wrote", "made", "held", "failed", "note"]


class Event(Struct, frozen=True):
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
    data = {"code": error.code, "hint": error.hint, "retry_in_s": round(retry_in_s, 1)}
    return Event("failed", str(error), command, data, error)


_HANGUP = getattr(signal, "SIGHUP", 0)  # not on Windows
_BREAK = getattr(signal, "SIGBREAK", 0)  # only there
_ENDING = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _HANGUP, _BREAK)))
_NEW_OBJECTS: Final = 10_000  # after which the garbage collector runs; at the start, after more


async def until_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Await `work`, but cancel it and return once `stop` is set."""
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
def stopped_by_signals(stop: asyncio.Event, at_once: asyncio.Event | None = None) -> Iterator[None]:
    """Set `stop` on termination signals, in a process that stays. Main thread only.

    These are SIGINT, SIGTERM, SIGHUP and, on Windows, Ctrl-Break. With `nohup`, SIGHUP is still
    ignored.
    """
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _ENDING}
    if before.get(_HANGUP) == signal.SIG_IGN:
        del before[_HANGUP]

    def note() -> None:
        if at_once and stop.is_set():
            at_once.set()
        stop.set()

    def tell(*_: object) -> None:
        loop.call_soon_threadsafe(note)

    for number in before:
        signal.signal(number, tell)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
