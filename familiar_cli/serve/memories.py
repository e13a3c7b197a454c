"""`/mcp`: the memories of the home's familiars for agents, opened when somebody first asks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from familiar_cli.config.home import find_familiar
from familiar_cli.serve.failing import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from familiar_cli.actions.familiar_pool import FamiliarPool
    from familiar_cli.familiar import Familiar
    from familiar_cli.mcp_server.http import Endpoint


CONNECTION: Final = "familiar.connection"
"""The key in a request's state of what tells its connection from all others."""


class Memories:
    """An ASGI application; `familiar` among its path's parameters names one, else the default.

    Args:
        pool: The familiars.
        tell: Told in words what a person should know.
    """

    def __init__(self, pool: FamiliarPool[Familiar], tell: Callable[[str], None]) -> None:
        self._pool = pool
        self._tell = tell
        self._open: dict[str, Endpoint] = {}
        self._opening = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            FamiliarError: There is no such familiar, or several and none is the default.
            ApiError: The package that it needs is not installed.
        """
        endpoint = await self._endpoint(scope["path_params"].get("familiar"))
        connection = scope.get("state", {}).get(CONNECTION, "")
        await endpoint(scope, receive, send, connection=connection)

    async def aclose(self) -> None:
        """Close all of them."""
        while self._open:
            _, endpoint = self._open.popitem()
            await endpoint.aclose()

    async def _endpoint(self, name: str | None) -> Endpoint:
        paths = find_familiar(self._pool.home, name)
        async with self._opening:
            if paths.id not in self._open:
                await asyncio.to_thread(_load)
                from familiar_cli.mcp_server.http import Endpoint  # noqa: PLC0415  # a second
                from familiar_cli.mcp_server.server import Manner  # noqa: PLC0415

                self._open[paths.id] = Endpoint(
                    paths, self._pool, Manner(client="http", tell=self._tell)
                )
            return self._open[paths.id]


def _load() -> None:
    """Import what takes a second.

    Raises:
        ApiError: It is not installed.
    """
    try:
        import familiar_cli.mcp_server.http  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise ApiError(
            501,
            f"The MCP server needs a package that is not installed: {error.name}. Run "
            "`pip install 'familiar-memory[mcp]'`",
            code="not_installed",
        ) from error
