"""`MemoryWriterScheduler`: when a pass is due, and that no wish for one is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def is_due(waiting: int, silence_s: float, *, turn_threshold: int, idle_timeout: float) -> bool:
    """Return whether a pass is due: enough turns wait, or it has been quiet for long enough."""
    return waiting >= turn_threshold or (waiting > 0 and silence_s >= idle_timeout)


class MemoryWriterScheduler:
    """Runs one pass at a time. A wish that comes while one runs is one more pass, never none.

    It belongs to one event loop; `close` ends it.

    Args:
        write: Makes one pass.
        waiting: Counts the turns that wait.
        turn_threshold: So many turns make a pass due.
        idle_timeout: So many seconds of silence make a pass due.
        on_error: Told of a pass that failed; what waits is tried again after the next silence.
    """

    def __init__(
        self,
        write: Callable[[], Awaitable[object]],
        waiting: Callable[[], int],
        *,
        turn_threshold: int = 50,
        idle_timeout: float = 1800.0,
        on_error: Callable[[FamiliarError], None] = lambda _: None,
    ) -> None:
        self._write = write
        self._waiting = waiting
        self._turn_threshold = turn_threshold
        self._idle_timeout = idle_timeout
        self._on_error = on_error
        self._wished = 0
        self._done = 0
        self._ended = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether a pass is under way."""
        return self._task is not None and not self._task.done()

    def notify_turn(self) -> None:
        """Tell that something was said: the silence begins anew, and enough may be waiting."""
        self._restart_timer()
        if self._waiting() >= self._turn_threshold:
            self._wish()

    async def flush(self) -> None:
        """Make a pass over all that waits now, and return when it is done."""
        wish = self._wish()
        async with self._ended:
            await self._ended.wait_for(lambda: self._done >= wish or not self.running)

    async def close(self) -> None:
        """End: nothing more begins, and a pass under way is broken off between two steps."""
        if self._timer:
            self._timer.cancel()
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _wish(self) -> int:
        """Ask for a pass that begins from now on; return the number of the wish."""
        # All wishes that come while a pass runs are met by the one after it.
        self._wished += 1
        if not self.running:
            self._task = asyncio.get_running_loop().create_task(self._work())
        return self._wished

    async def _work(self) -> None:
        while self._done < self._wished:
            met = self._wished
            try:
                await self._write()
            except FamiliarError as error:
                self._on_error(error)
                self._restart_timer()
            async with self._ended:
                self._done = met
                self._ended.notify_all()

    def _restart_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._idle_timeout, self._on_silence)

    def _on_silence(self) -> None:
        if self._waiting():
            self._wish()
