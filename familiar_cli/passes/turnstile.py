"""One pass at a time, in whatever process: whoever comes second waits."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import stopwatch_s
from familiar_cli.errors import LockedError
from familiar_cli.memory.store.lock import held, holder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

_STEP_S: Final = 0.2


@asynccontextmanager
async def one_at_a_time(
    lock_path: Path, wait_s: float, on_wait: Callable[[str], None] = lambda _: None
) -> AsyncIterator[None]:
    """Hold the writer's lock. A crash of the holder sets it free.

    Args:
        lock_path: The lock file.
        wait_s: Longest wait.
        on_wait: Told once, who is waited for.

    Raises:
        LockedError: Another pass took longer than `wait_s`.
    """
    lock = await _taken(lock_path, wait_s, on_wait)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


async def _taken(
    lock_path: Path, wait_s: float, on_wait: Callable[[str], None]
) -> AbstractContextManager[None]:
    until = stopwatch_s() + wait_s
    told = False
    while True:
        lock = held(lock_path, 0)
        try:
            lock.__enter__()
        except LockedError as error:
            who = holder(lock_path) or "another process"
            if stopwatch_s() >= until:
                raise LockedError(
                    f"Memory is being written by {who}; this pass did not begin",
                    hint="Try again when it has ended; no turn is lost.",
                ) from error
            if not told:
                on_wait(f"Waiting for {who}, which is writing memory.")
                told = True
        else:
            return lock
        await asyncio.sleep(_STEP_S)
