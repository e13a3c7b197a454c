"""The ASGI application: all routes behind one guard."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from familiar_cli.base.config.environment import install_command
from familiar_cli.base.config.home import find_familiar, list_familiars
from familiar_cli.base.config.serving import Access, access_of
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.servers.api_errors import ApiError, to_api_error
from familiar_cli.servers.chat_api.server import Server
from familiar_cli.servers.guard import METRICS, Guard, Rules, with_error_pages
from familiar_cli.servers.web.drawing import preload_pages

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from familiar_cli.familiar import Familiar
    from familiar_cli.servers.chat_api.conversations import ServedFamiliar
    from familiar_cli.servers.chat_api.turns import TurnTable
    from familiar_cli.servers.familiar_pool import FamiliarPool
    from familiar_cli.servers.mcp.transports import Endpoint
    from familiar_cli.servers.web.site import Site

# Addresses of Anthropic's, Ollama's and OpenAI's other APIs.
_FOREIGN: Final = ("/v1/messages", "/v1/completions", "/api/chat", "/api/generate")

CONNECTION: Final = "familiar.connection"
"""The key in a request's state of what tells its connection from all others."""


class McpEndpoints(Struct):
    """ASGI application for `/mcp`; `/mcp/NAME` or `?familiar=NAME` selects a familiar.

    Args:
        pool: The familiars.
        tell: Callback for messages to a person.
        embodiments: Whether embodiments may register.
    """

    pool: FamiliarPool[Familiar]
    tell: Callable[[str], None]
    embodiments: bool = False
    _default: str = ""  # the familiar that requests without a name got last
    _open: dict[str, Endpoint] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Raises:
            FamiliarError: No such familiar, or several without a default.
            ApiError: A required package is not installed.
        """
        familiar = scope["path_params"].get("familiar")
        name = familiar or Request(scope).query_params.get("familiar")
        endpoint = await self._endpoint(name, access_of(scope, self.pool.home))
        connection = scope.get("state", {}).get(CONNECTION, "")
        await endpoint(scope, receive, send, connection=connection)

    async def aclose(self) -> None:
        """Close all sessions."""
        while self._open:
            _, endpoint = self._open.popitem()
            await endpoint.aclose()

    async def _endpoint(self, name: str | None, access: Access) -> Endpoint:
        value = name if name or access.grant else self._default_name()
        paths = access.find_familiar(value)
        if not name and access.grant is None:
            self._default = paths.id
        async with self._opening:
            if paths.id not in self._open:
                await asyncio.to_thread(_load_modules)
                from familiar_cli.servers.mcp.server import ServerOptions  # noqa: PLC0415  # so is this
                from familiar_cli.servers.mcp.transports import Endpoint  # noqa: PLC0415  # a second

                self._open[paths.id] = Endpoint(
                    paths,
                    self.pool,
                    ServerOptions(client="http", embodiments=self.embodiments, tell=self.tell),
                )
            return self._open[paths.id]

    def _default_name(self) -> str | None:
        """Choose the familiar for requests that name none.

        If one was added since and none is chosen, clients keep the earlier one.

        Raises:
            UsageError: There are several, and none is chosen.
        """
        home = self.pool.home
        try:
            return find_familiar(home).id
        except UsageError as error:
            familiars = list_familiars(home)
            if self._default in familiars:
                return self._default
            raise UsageError(
                str(error), hint=f"Ask /mcp/{familiars[0]}, or /mcp?familiar={familiars[0]}."
            ) from error


def _load_modules() -> None:
    """Import the MCP modules, which takes a second.

    Raises:
        ApiError: They are not installed.
    """
    try:
        import familiar_cli.servers.mcp.transports  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise ApiError(
            501,
            f"The MCP server needs a package that is not installed: {error.name}. Run "
            f"`{install_command('mcp')}`",
            code="not_installed",
        ) from error


def make_app(
    pool: FamiliarPool[ServedFamiliar],
    rules: Rules,
    site: Site,
    turns: TurnTable,
    *,
    tell: Callable[[str], None] = lambda _: None,
    api: bool = True,
    embodiments: bool = False,
) -> ASGIApp:
    """Build the application.

    Args:
        pool: The familiars.
        rules: Access rules.
        site: The web pages.
        turns: The turns under way.
        tell: Callback for messages to a person.
        api: Whether to serve chat programs, too.
        embodiments: Whether embodiments may register.
    """
    endpoints = McpEndpoints(site.pool, tell, embodiments=embodiments)
    server = Server(pool, site.ending, turns, site.slots)
    routes = [Route("/health", server.health), Route("/ready", server.ready)]
    if api:
        from familiar_cli.servers.metrics import ServerMetrics  # noqa: PLC0415  # not for pages

        metrics = ServerMetrics(pool, turns)
        routes += [
            Route(METRICS, metrics.show),
            Route("/v1/models", server.models),
            Route("/v1/models/{model:path}", server.model),
            Route("/v1/chat/completions", server.chat, methods=["POST"]),
            Route("/familiar/context", server.context, methods=["POST"]),
            Route("/familiar/turns", server.keep, methods=["POST"]),
            Route("/familiar/chat", server.keep_chat, methods=["POST"]),
            Route("/familiar/events", server.events),
            Route("/v1/responses", server.responses, methods=["POST"]),
            *(Route(path, server.foreign_api, methods=["POST"]) for path in _FOREIGN),
            Route("/v1/embeddings", server.embeddings, methods=["POST"]),
            Route("/mcp", endpoints, methods=["POST"]),
            Route("/mcp/{familiar}", endpoints, methods=["POST"]),
        ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        ahead = asyncio.create_task(asyncio.to_thread(_import_ahead))
        try:
            yield
        finally:
            await ahead
            await server.aclose()
            await endpoints.aclose()
            await pool.aclose()
            await site.aclose()

    app = Starlette(
        routes=routes,
        exception_handlers=dict.fromkeys(
            (ApiError, FamiliarError, HTTPException, Exception), _handle_refused
        ),
        lifespan=lifespan,
    )

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and site.owns(scope["path"])
        await (site if is_page else app)(scope, receive, send)

    guarded = with_error_pages(Guard(either, rules))
    return metrics.measured(guarded) if api else guarded


def _import_ahead() -> None:
    """Import ahead what the first message and the first pages need."""
    import familiar_cli.context.budget  # noqa: PLC0415
    import familiar_cli.llm.client  # noqa: PLC0415
    import familiar_cli.llm.wire  # noqa: F401, PLC0415

    preload_pages()


async def _handle_refused(request: Request, error: Exception) -> Response:
    """Build the response to a failed request."""
    match error:
        case HTTPException(status_code=404):
            error = ApiError(404, f"There is nothing at {request.url.path!r}")
        case HTTPException(status_code=status):
            error = ApiError(status, f"{request.url.path!r} does not support {request.method}")
    told = to_api_error(error, request.scope)
    retry = {} if told.retry_s is None else {"retry-after": str(math.ceil(told.retry_s))}
    return JSONResponse(told.to_json(), told.status, retry)
