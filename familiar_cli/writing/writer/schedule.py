"""When a pass of the memory writer is due, and one pass at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.base.times.clock import now
from familiar_cli.store.passes import RETRY_AFTER, as_failure
from familiar_cli.sync.turns_outgoing import count_settled, newest_waiting

if TYPE_CHECKING:
    from familiar_cli.base.config.schema import MemoryWriterSettings
    from familiar_cli.base.errors import FamiliarError
    from familiar_cli.store.history.store import HistoryStore

WRITER_SLOT: Final = "memory_writer"
"""The slot whose model writes memory."""

RETRY_S: Final = RETRY_AFTER[0].total_seconds()
_EXCHANGE: Final = 3  # the turn before, the new turn, and its reply


def is_due(waiting: int, silence_s: float, *, turn_threshold: int, idle_timeout: float) -> bool:
    """Tell whether a pass is due: enough turns are unread, or it has been quiet long enough."""
    return waiting >= turn_threshold or (waiting > 0 and silence_s >= idle_timeout)


def due_turns(history: HistoryStore, set_to: MemoryWriterSettings, *, is_local: bool) -> int:
    """Return how many turns a pass after a reply should cover; 0: no pass is due.

    Imported turns wait for a manual pass, the newest exchange until it is settled.

    Args:
        history: What was said.
        set_to: The settings.
        is_local: Whether the slow built-in model is used; `auto` then ignores silences.
    """
    if set_to.auto == "off":
        return 0
    waiting = count_settled(history, now() - timedelta(seconds=set_to.idle_timeout))
    silence_s = 0.0 if set_to.auto == "auto" and is_local else _silence_s(history)
    threshold, timeout = set_to.turn_threshold, set_to.idle_timeout
    due = is_due(waiting, silence_s, turn_threshold=threshold, idle_timeout=timeout)
    return waiting if due else 0


def _silence_s(history: HistoryStore) -> float:
    """Return the silence before the last exchange, if earlier turns said here are unread."""
    last = newest_waiting(history, _EXCHANGE)
    if len(last) < _EXCHANGE:
        return 0.0
    return (last[1].at - last[0].at).total_seconds()


class MemoryWriterScheduler:
    """Runs one pass at a time. A request during a pass leads to one more pass.

    It belongs to one event loop; `close` ends it. Exceptions in a pass do not stop it.

    Args:
        write: Runs one pass.
        waiting: Counts the unread turns that are worth a pass.
        turn_threshold: Number of unread turns that makes a pass due.
        idle_timeout: Seconds of silence that make a pass due.
        on_error: Called with the error of a failed pass; the pass is retried after `retry_s`.
        retry_in_s: Returns the seconds until an earlier failed pass may be retried.
        retry_s: Minimum seconds between a failure and the retry.
    """

    def __init__(
        self,
        write: Callable[[], Awaitable[object]],
        waiting: Callable[[], int],
        *,
        turn_threshold: int = 50,
        idle_timeout: float = 1800.0,
        on_error: Callable[[FamiliarError], None] = lambda _: None,
        retry_in_s: Callable[[], float] = lambda: 0.0,
        retry_s: float = RETRY_S,
    ) -> None:
        self._write = write
        self._waiting = waiting
        self._turn_threshold = turn_threshold
        self._idle_timeout = idle_timeout
        self._on_error = on_error
        self._retry_in_s = retry_in_s
        self._retry_s = retry_s
        self._not_before = 0.0
        self._wanted = self._flushed = self._done = 0  # last pass requested, last one finished
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether a pass is running."""
        return self._task is not None and not self._task.done()

    def notify_turn(self) -> None:
        """Signal a new turn: restart the idle timer and check the threshold."""
        self.watch()
        if self._waiting() >= self._turn_threshold:
            self.catch_up()

    def watch(self) -> None:
        """Check once the idle timeout has passed from now, even if there are new turns."""
        self._look_in(self._idle_timeout)

    def catch_up(self) -> None:
        """Run a pass now, or later if the last one failed recently."""
        rest_s = self._rest_s()
        if rest_s > 0:
            self._look_in(rest_s)
        else:
            self._want()

    async def flush(self) -> None:
        """Run a pass over all unread turns now, and wait for it."""
        self._flushed = target = self._want()
        while self._done < target and self.running:
            await self.idle()

    async def idle(self) -> None:
        """Wait for the running pass, if any."""
        if self._task:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Shut down: start nothing more, and cancel a running pass between two steps."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        if self._task:
            self._task.cancel()
            await self.idle()

    def _want(self) -> int:
        """Request a pass that starts after this moment; return its number."""
        # All requests made during a pass are served by the next one.
        self._wanted += 1
        self._begin()
        return self._wanted

    def _begin(self) -> None:
        if not self.running and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._pass(self._wanted))
            self._task.add_done_callback(self._end_pass)

    def _end_pass(self, _: asyncio.Task[None]) -> None:
        if self._done < self._flushed or (self._done < self._wanted and self._rest_s() <= 0):
            self._begin()

    async def _pass(self, number: int) -> None:
        try:
            await self._write()
        except Exception as error:  # noqa: BLE001  # the scheduler survives any failed pass
            self._not_before = asyncio.get_running_loop().time() + self._retry_s
            self._look_in(self._rest_s())
            self._on_error(as_failure(error))
        finally:
            self._done = number

    def _rest_s(self) -> float:
        """Return how long to wait after a failure in this process or an earlier one."""
        return max(self._not_before - asyncio.get_running_loop().time(), self._retry_in_s())

    def _look_in(self, seconds: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_waiting)

    def _check_waiting(self) -> None:
        try:
            waiting = self._waiting()
        except Exception as error:  # noqa: BLE001  # a callback of the loop: nobody else could handle it
            self._on_error(as_failure(error))
            self._look_in(self._retry_s)
            return
        if waiting:
            self.catch_up()
        else:  # few turns wait for more, but not for ever
            self.watch()
