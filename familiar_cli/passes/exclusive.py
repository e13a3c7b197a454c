"""A lock between processes: the second one waits, or is told who holds it."""

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
async def exclusive(
    lock_path: Path, wait_s: float, on_wait: Callable[[str], None] = lambda _: None
) -> AsyncIterator[None]:
    """Hold the lock at `lock_path`. A crash of the holder frees it.

    Args:
        lock_path: The lock file.
        wait_s: The longest wait.
        on_wait: Told once, who is waited for.

    Raises:
        LockedError: Another pass held it for longer than `wait_s`.
        FamiliarError: The lock file cannot be made.
    """
    lock = await _acquired(lock_path, wait_s, on_wait)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


async def _acquired(
    lock_path: Path, wait_s: float, on_wait: Callable[[str], None]
) -> AbstractContextManager[None]:
    until = stopwatch_s() + wait_s
    notified = False
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
            if not notified:
                on_wait(f"Waiting for {who}, which is writing memory.")
                notified = True
        else:
            return lock
        await asyncio.sleep(_STEP_S)
