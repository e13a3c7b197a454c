"""Work beside the event loop that nothing has to wait for."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Return what `call` returns, without holding up the event loop.

    Code in a thread cannot be stopped. When the caller is cancelled, the thread goes on alone, what
    it returns is dropped, and the program may end before it. So `call` reads, and never writes.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if answer.done() else act())

    def work() -> None:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the waiting side raises it
            failure = error
            settle(lambda: answer.set_exception(failure))
        else:
            settle(lambda: answer.set_result(value))

    threading.Thread(target=work, daemon=True, name="familiar-read").start()
    return await answer
