"""Who wants to know of changes, and a look at the memory each second while somebody does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from familiar_cli.errors import FamiliarError
from familiar_cli.mcp_server.resources import uri_of
from familiar_cli.mcp_server.sight import is_readable
from familiar_cli.memory.store.listing import list_all

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.types import SubscriptionsListenRequestParams, SubscriptionsListenResult

    from familiar_cli.config.home import FamiliarPaths

EVERY_S: Final = 1.0
"""How often memory is looked at: an `lstat` for each file."""

Look = dict[str, tuple[int, int]]


class Watching:
    """Tells clients which files changed, whoever changed them.

    Args:
        paths: The familiar's files.
    """

    def __init__(self, paths: FamiliarPaths) -> None:
        self._paths = paths
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._listening = 0
        self._sessions: dict[str, list[ServerSession]] = {}
        self._work: asyncio.Task[None] | None = None

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Tell a client of changes for as long as it listens; protocol 2026-07-28 and later."""
        self._listening += 1
        self._begin()
        try:
            return await self._listen(ctx, params)
        finally:
            self._listening -= 1

    def subscribe(self, uri: str, session: ServerSession) -> None:
        """Tell a client of changes of one file; before protocol 2026-07-28."""
        self._sessions.setdefault(uri, []).append(session)
        self._begin()

    def unsubscribe(self, uri: str) -> None:
        """Tell the client no more."""
        self._sessions.pop(uri, None)

    async def aclose(self) -> None:
        """End it."""
        self._listen.close()
        if self._work:
            self._work.cancel()
            await asyncio.wait({self._work})

    def _begin(self) -> None:
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._watch(self._look()))

    async def _watch(self, before: Look) -> None:
        while self._listening or self._sessions:
            await asyncio.sleep(EVERY_S)
            now = await asyncio.to_thread(self._look)
            for path in sorted(before.keys() | now.keys()):
                if before.get(path) != now.get(path):
                    await self._tell(uri_of(self._paths.id, path))
            if before.keys() != now.keys():
                await self._bus.publish(ResourcesListChanged())
            before = now

    async def _tell(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri))
        for session in self._sessions.get(uri, ()):
            await session.send_resource_updated(uri)

    def _look(self) -> Look:
        try:
            files = list_all(str(self._paths.memory)).files()
            return {
                path: (seen.st_mtime_ns, seen.st_size) for path, seen in files if is_readable(path)
            }
        except FamiliarError:
            return {}
