"""Long connections: streams of changes, and replies that end with their client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct
from starlette.responses import StreamingResponse

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import status_of
from familiar_cli.base.text import digest_of
from familiar_cli.store.memory.store.store import state_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from familiar_cli.base.config.home import FamiliarPaths

_LOOK_S: Final = 1.0
_BEAT_S: Final = 15.0  # keep-alive interval
_KEPT: Final = 100  # changes, for listeners that are slower than they come
RETRY: Final = b"retry: 3000\n\n"
CHANGED: Final = b"event: change\ndata: {}\n\n"
BEAT: Final = b": nothing new\n\n"

T = TypeVar("T")


class Change(Struct, Generic[T], frozen=True):
    """A change of a familiar, with the news since the last one."""

    number: int
    news: T


class ChangeFeed(Generic[T]):
    """Watches the files of a familiar on behalf of all listeners.

    Args:
        paths: The familiar.
        ending: Set when the server shuts down.
        read: Reads what is new, once for each change.
    """

    def __init__(
        self, paths: FamiliarPaths, ending: asyncio.Event, read: Callable[[], Awaitable[T]]
    ) -> None:
        self._paths = paths
        self._ending = ending
        self._read = read
        self._known = state_of_files(paths)
        self._changes: list[Change[T]] = []
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._listeners = 0
        self.number = 0

    @property
    def is_in_use(self) -> bool:
        """Whether there are listeners."""
        return self._listeners > 0

    async def listen(self, since: int) -> AsyncGenerator[list[Change[T]]]:
        """Yield changes after a number as they happen; an empty list keeps the connection alive."""
        self._listeners += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._watch_files())
        try:
            while not self._ending.is_set():
                new = [one for one in self._changes if one.number > since]
                if not new:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), _BEAT_S)
                    new = [one for one in self._changes if one.number > since]
                since = self.number
                if not self._ending.is_set():
                    yield new
        finally:
            self._listeners -= 1

    async def _watch_files(self) -> None:
        while self._listeners and not self._ending.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _LOOK_S)
            found = await asyncio.to_thread(state_of_files, self._paths)
            if found != self._known and not self._ending.is_set():
                self._known = found
                with suppress(FamiliarError):  # it was moved away, or cannot be read now
                    news = await self._read()
                    self.number += 1
                    self._changes = [*self._changes[1 - _KEPT :], Change(self.number, news)]
                    self._wake()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class ChangeFeeds(Generic[T]):
    """The change feeds of a server, one for each familiar with listeners.

    Args:
        ending: Set when the server shuts down.
    """

    def __init__(self, ending: asyncio.Event) -> None:
        self._ending = ending
        self._feeds: dict[Path, ChangeFeed[T]] = {}

    def of(self, paths: FamiliarPaths, read: Callable[[], Awaitable[T]]) -> ChangeFeed[T]:
        """Return the feed of a familiar; only its first listener's `read` is used."""
        self._feeds = {root: feed for root, feed in self._feeds.items() if feed.is_in_use}
        if paths.root not in self._feeds:
            self._feeds[paths.root] = ChangeFeed(paths, self._ending, read)
        return self._feeds[paths.root]


class EventStream(StreamingResponse):
    """A response of server-sent events that calls `release` when it ends for any reason."""

    def __init__(self, events: AsyncGenerator[bytes], release: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the client disconnects."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()
            await self._events.aclose()


async def stream_changes(feed: ChangeFeed[None], *, is_late: bool) -> AsyncGenerator[bytes]:
    """Yield a server-sent event for each new turn or change, and one for those before it."""
    yield RETRY
    if is_late:
        yield CHANGED
    async with aclosing(feed.listen(feed.number)) as changes:
        async for new in changes:
            yield CHANGED if new else BEAT


def state_of_files(paths: FamiliarPaths) -> object:
    """Return a value that changes with each turn or memory change; costs three stats."""
    history = (paths.history, paths.history.with_name(f"{paths.history.name}-wal"))
    return (*map(_file_stamp, history), state_of(str(paths.journal)))


def stamp_of_files(paths: FamiliarPaths) -> str:
    """Return `state_of_files` as a short text."""
    return digest_of(repr(state_of_files(paths)), 8).hex()


def _file_stamp(path: Path) -> tuple[int, int]:
    """Return a value that changes with a file; an empty log of SQLite counts as none."""
    status = status_of(path)
    return (status.st_mtime_ns, status.st_size) if status and status.st_size else (0, 0)


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
