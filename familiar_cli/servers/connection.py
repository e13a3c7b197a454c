"""Long connections: streams of changes, and replies that end with their client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.store.memory.store.store import state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from pathlib import Path

    from starlette.types import Receive

    from familiar_cli.base.config.home import FamiliarPaths

_LOOK_S: Final = 1.0
_BEAT_LOOKS: Final = 15  # keep-alive interval


async def watch_changes(paths: FamiliarPaths, ending: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield a server-sent event for each new turn or change, until `ending` is set."""
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
    """Return a value that changes with each turn or memory change; costs three stats."""
    history = (paths.history, paths.history.with_name(f"{paths.history.name}-wal"))
    return (*map(_file_stamp, history), state_of(str(paths.journal)))


def _file_stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


async def play_while_connected(
    receive: Receive, play: Coroutine[Any, Any, None], cancel: Callable[[], Awaitable[None]]
) -> None:
    """Send a reply with `play` until it ends or the client disconnects, then call `cancel`."""

    async def wait_for_hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    watching, playing = map(asyncio.ensure_future, (wait_for_hang_up(), play))
    try:
        await asyncio.wait({watching, playing}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            await playing
    finally:
        watching.cancel()
        playing.cancel()
        await cancel()
        await asyncio.wait({watching, playing})
