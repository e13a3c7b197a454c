"""What is new, told to a page as it happens: turns and changes of the memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.late_journal import state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from familiar_cli.config.home import FamiliarPaths

_LOOK_S: Final = 1.0
_BEAT_LOOKS: Final = 15  # a line now and then shows that the connection lives


async def changes(paths: FamiliarPaths, ending: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield a server-sent event whenever something was said or written, until `ending` is set."""
    known, quiet = state_of_files(paths), 0
    yield b"retry: 3000\n\n"
    while not ending.is_set():
        try:
            await asyncio.wait_for(ending.wait(), _LOOK_S)
        except TimeoutError:
            found, quiet = state_of_files(paths), quiet + 1
            if found != known:
                known, quiet = found, 0
                yield b"event: change\ndata: {}\n\n"
            elif quiet >= _BEAT_LOOKS:
                quiet = 0
                yield b": nothing new\n\n"


def state_of_files(paths: FamiliarPaths) -> object:
    """Return a value that differs when something was said or written; costs three looks."""
    history = (paths.history, paths.history.with_name(f"{paths.history.name}-wal"))
    return (*map(_stamp, history), state_of(str(paths.journal)))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
