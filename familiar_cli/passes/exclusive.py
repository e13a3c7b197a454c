"""A lock between processes: the second one waits, or is told who holds it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import stopwatch_s
from familiar_cli.errors import FamiliarError, LockedError
from familiar_cli.memory.store.store import hold_lock, lock_holder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

_STEP_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Waiting:
    """What somebody who waits is told; `{who}` is whom they wait for.

    Args:
        notice: Told once, when the wait begins.
        refused: The error when it was too long.
        hint: What to do then.
        error: The kind of that error.
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
    waiting: Waiting = Waiting(),  # frozen
) -> AsyncIterator[None]:
    """Hold the lock at `lock_path`. A crash of the holder frees it.

    Args:
        lock_path: The lock file.
        wait_s: The longest wait.
        on_wait: Told once, who is waited for.
        waiting: The words for that.

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
    lock_path: Path, wait_s: float, on_wait: Callable[[str], None], waiting: Waiting
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
                told = waiting.refused.format(who=who)
                raise waiting.error(told, hint=waiting.hint) from error
            if not notified:
                on_wait(waiting.notice.format(who=who))
                notified = True
        else:
            return lock
        await asyncio.sleep(_STEP_S)
