"""Stay, notice what is said in whatever process, and write it down in time."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.writer.scheduler import MemoryWriterScheduler

POLL_S: Final = 2.0
"""How often the history is looked at; one look costs less than a millisecond."""


async def watch(
    scheduler: MemoryWriterScheduler,
    newest: Callable[[], int],
    stop: asyncio.Event,
    *,
    poll_s: float = POLL_S,
    on_error: Callable[[FamiliarError], None] = lambda _: None,
) -> None:
    """Catch up, then watch until `stop` is set. A pass under way is then broken off.

    Args:
        scheduler: Makes the passes.
        newest: Gives the id of the newest turn.
        stop: Ends it.
        poll_s: How often to look.
        on_error: Told when the history cannot be read; it is looked at again.
    """
    seen = newest()
    catching_up = asyncio.ensure_future(scheduler.flush())
    try:
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), poll_s)
            try:
                now = newest()
                if now != seen:
                    seen = now
                    scheduler.notify_turn()
            except FamiliarError as error:
                on_error(error)
    finally:
        catching_up.cancel()
        await scheduler.close()


async def until(stop: asyncio.Event, scheduler: MemoryWriterScheduler) -> None:
    """Make one pass over all that waits; `stop` breaks it off between two steps."""
    working = asyncio.ensure_future(scheduler.flush())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        working.cancel()
        await scheduler.close()


@contextmanager
def stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Let Ctrl-C and a polite request to end set `stop`."""
    loop = asyncio.get_running_loop()
    wanted = [s for s in (signal.SIGINT, signal.SIGTERM) if s is not None]
    before = {number: signal.getsignal(number) for number in wanted}

    def tell(*_: object) -> None:
        loop.call_soon_threadsafe(stop.set)

    for number in wanted:
        signal.signal(number, tell)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
