"""Run until told to stop: by Ctrl-C, or by a polite request to end."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any


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
