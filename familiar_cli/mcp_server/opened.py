"""A familiar that stays open for callers: one thread works for it, one call after another."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from familiar_cli.clock import stopwatch_s
from familiar_cli.errors import FamiliarError
from familiar_cli.familiar import Familiar
from familiar_cli.jobs import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.config.home import FamiliarPaths

T = TypeVar("T")
_KEEP_UP_EVERY_S: Final = 10.0  # it takes about a second where a model is


class Opened:
    """A familiar, and the thread that works for it.

    Args:
        paths: Its files.
        tell: Told in words what a person should know.
    """

    def __init__(self, paths: FamiliarPaths, tell: Callable[[str], None]) -> None:
        self.paths = paths
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="familiar-mcp")
        self._familiar: Familiar | None = None
        self._stamp: tuple[int, ...] = ()
        self._keeping_up: asyncio.Task[None] | None = None
        self._kept_up_at_s = 0.0

    async def ask(self, work: Callable[[Familiar], T]) -> T:
        """Return what `work` makes of the familiar, as its settings are now."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(self._current()))

    def keep_up(self) -> None:
        """Give some of what waits for a vector one, beside the calls, and not all the time.

        Whatever goes wrong, the next search tells of it.
        """
        if self._keeping_up is None or stopwatch_s() - self._kept_up_at_s > _KEEP_UP_EVERY_S:
            self._kept_up_at_s = stopwatch_s()
            self._keeping_up = asyncio.create_task(self._embed_some())

    async def _embed_some(self) -> None:
        familiar = self._familiar
        embedder = familiar.embedder.embedder if familiar else None
        if familiar is None or embedder is None:
            return
        from familiar_cli.index.build import SOME

        with suppress(FamiliarError):
            await in_thread(lambda: familiar.index.embed_waiting(embedder, at_most=SOME))

    async def aclose(self) -> None:
        """Wait for the work under way, and let go of the familiar's files."""
        if self._keeping_up:
            self._keeping_up.cancel()
            await asyncio.wait({self._keeping_up})
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _current(self) -> Familiar:
        stamp = self._look()
        if self._familiar is None or stamp != self._stamp:
            self._close()
            self._familiar, self._stamp = Familiar(self.paths, self._tell), stamp
        return self._familiar

    def _close(self) -> None:
        familiar, self._familiar = self._familiar, None
        if familiar:
            asyncio.run(familiar.aclose())

    def _look(self) -> tuple[int, ...]:
        """Return what shows whether settings were changed."""
        stamp: list[int] = []
        for path in (self.paths.config, self.paths.me):
            try:
                found = path.stat()
            except OSError:
                stamp += (0, 0)
            else:
                stamp += (found.st_mtime_ns, found.st_size)
        return tuple(stamp)
