"""When a pass of the memory writer is due: in a process that stays, and after a single reply."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.history import WRITER
from familiar_cli.history.waiting import settled
from familiar_cli.passes.failures import RETRY_AFTER, as_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from familiar_cli.errors import FamiliarError
    from familiar_cli.history.store import HistoryStore

RETRY_S: Final = RETRY_AFTER[0].total_seconds()
_EXCHANGE: Final = 3  # what was said last before, what was said now, and the reply


def is_due(waiting: int, silence_s: float, *, turn_threshold: int, idle_timeout: float) -> bool:
    """Return whether a pass is due: enough turns wait, or it has been quiet for long enough."""
    return waiting >= turn_threshold or (waiting > 0 and silence_s >= idle_timeout)


def due_turns(
    history: HistoryStore,
    *,
    turn_threshold: int,
    idle_timeout: float,
    switch: str,
    is_local: bool,
) -> int:
    """Return how many turns a pass after a reply should cover; 0: none is due.

    Imported turns wait for a person, and the newest exchange until it is settled.

    Args:
        history: What was said.
        turn_threshold: So many turns make a pass due.
        idle_timeout: So many seconds of silence before the last exchange make a pass due.
        switch: `auto`, `on` or `off`.
        is_local: The model is the slow one inside the program; `auto` then ignores silences.
    """
    if switch == "off":
        return 0
    waiting = settled(history, now() - timedelta(seconds=idle_timeout))
    silence_s = 0.0 if switch == "auto" and is_local else _silence_s(history)
    due = is_due(waiting, silence_s, turn_threshold=turn_threshold, idle_timeout=idle_timeout)
    return waiting if due else 0


def _silence_s(history: HistoryStore) -> float:
    """Return how long it had been quiet before the last exchange, if what came before it waits."""
    last = history.since(history.watermark(WRITER), _EXCHANGE)
    if len(last) < _EXCHANGE:
        return 0.0
    return (last[1].at - last[0].at).total_seconds()


class MemoryWriterScheduler:
    """Runs one pass at a time. A pass asked for while one runs is one more pass, never none.

    It belongs to one event loop; `close` ends it. Whatever a pass raises, it goes on.

    Args:
        write: Makes one pass.
        waiting: Counts the turns that wait.
        turn_threshold: So many turns make a pass due.
        idle_timeout: So many seconds of silence make a pass due.
        on_error: Called with the failure of a pass; the pass is retried after `retry_s`.
        retry_in_s: Returns the seconds until a pass that failed earlier may be retried.
        retry_s: The least time between a failure and the retry.
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
        self._wanted = self._flushed = self._done = 0  # numbers of passes asked for and ended
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether a pass is under way."""
        return self._task is not None and not self._task.done()

    def notify_turn(self) -> None:
        """Tell that something was said: the silence begins anew, and enough may be waiting."""
        self.watch()
        if self._waiting() >= self._turn_threshold:
            self.catch_up()

    def watch(self) -> None:
        """Look in once it has been quiet for long enough, whatever is said until then."""
        self._look_in(self._idle_timeout)

    def catch_up(self) -> None:
        """Make a pass now, or later if the last one failed a short time ago."""
        rest_s = self._rest_s()
        if rest_s > 0:
            self._look_in(rest_s)
        else:
            self._want()

    async def flush(self) -> None:
        """Make a pass over all that waits now, and return when it has ended."""
        self._flushed = wanted = self._want()
        while self._done < wanted and self.running:
            await self.idle()

    async def idle(self) -> None:
        """Return when the pass under way, if any, has ended."""
        if self._task:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """End: nothing more begins, and a pass under way is cancelled between two steps."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        if self._task:
            self._task.cancel()
            await self.idle()

    def _want(self) -> int:
        """Ask for a pass that begins from now on; return its number."""
        # All that are asked for while a pass runs are met by the one after it.
        self._wanted += 1
        self._begin()
        return self._wanted

    def _begin(self) -> None:
        if not self.running and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._pass(self._wanted))
            self._task.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[None]) -> None:
        if self._done < self._flushed or (self._done < self._wanted and self._rest_s() <= 0):
            self._begin()

    async def _pass(self, number: int) -> None:
        try:
            await self._write()
        except Exception as error:  # noqa: BLE001  # whoever stays survives what one pass raises
            self._not_before = asyncio.get_running_loop().time() + self._retry_s
            self._look_in(self._rest_s())
            self._on_error(as_failure(error))
        finally:
            self._done = number

    def _rest_s(self) -> float:
        """Return how long to wait after a failure, in this process or an earlier one."""
        return max(self._not_before - asyncio.get_running_loop().time(), self._retry_in_s())

    def _look_in(self, seconds: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        try:
            waiting = self._waiting()
        except Exception as error:  # noqa: BLE001  # a callback of the loop: nobody else hears of it
            self._on_error(as_failure(error))
            self._look_in(self._retry_s)
            return
        if waiting:
            self.catch_up()
