"""What a server does besides chat: background passes, embeddings, and `/mcp`."""

from __future__ import annotations

import asyncio
import base64
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.config.home import cache_dir, find_familiar, list_familiars
from familiar_cli.errors import FamiliarError
from familiar_cli.index.embedder import open_embedder
from familiar_cli.serve import api_format
from familiar_cli.serve.api_format import MOST_CHARS, ApiError, parse_object
from familiar_cli.sync.remotes import FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from familiar_cli.actions.familiar_pool import FamiliarPool
    from familiar_cli.familiar import Familiar
    from familiar_cli.index.embedder import EmbedderChoice
    from familiar_cli.mcp_server.http import Endpoint


_POLL_S: Final = 2.0
_PATIENCE_S: Final = 10.0  # for a pass that was told to stop between two steps


@dataclass(slots=True)
class _Worker:
    """A daemon under way."""

    thread: threading.Thread
    loop: asyncio.AbstractEventLoop | None = None
    stop: asyncio.Event | None = None
    is_told: threading.Event = field(default_factory=threading.Event)


class Background:
    """Runs the daemons.

    Args:
        home: Where the familiars live.
        tell: Told in words what a person should know; from several threads.
    """

    def __init__(self, home: Path, tell: Callable[[str], None]) -> None:
        self._home = home
        self._tell = tell
        self._workers: dict[str, _Worker] = {}

    def begin(self) -> None:
        """Begin with the familiars that sync, if there are any."""
        for familiar_id in list_familiars(self._home):
            if (self._home / familiar_id / FILE).is_file():
                self.look_after(familiar_id)

    def look_after(self, familiar_id: str) -> None:
        """Begin to do what is due for a familiar."""
        if familiar_id in self._workers:
            return
        thread = threading.Thread(
            target=self._work, args=(familiar_id,), daemon=True, name=f"familiar-{familiar_id}"
        )
        self._workers[familiar_id] = _Worker(thread)
        thread.start()

    def close(self) -> None:
        """Stop them all between two steps, and wait a little for that."""
        for worker in self._workers.values():
            worker.is_told.set()
            if worker.loop and worker.stop and not worker.loop.is_closed():
                worker.loop.call_soon_threadsafe(worker.stop.set)
        for worker in self._workers.values():
            worker.thread.join(_PATIENCE_S)

    def _work(self, familiar_id: str) -> None:
        try:
            asyncio.run(self._watch(familiar_id))
        except FamiliarError as error:
            self._tell(f"{familiar_id}: memory is not written while serving: {error}")

    async def _watch(self, familiar_id: str) -> None:
        from familiar_cli.actions.daemon import Daemon  # noqa: PLC0415
        from familiar_cli.familiar import Familiar  # noqa: PLC0415

        worker = self._workers[familiar_id]
        worker.stop, worker.loop = asyncio.Event(), asyncio.get_running_loop()
        if worker.is_told.is_set():
            return
        async with Familiar.load_from_disk(self._home, familiar_id) as familiar:
            daemon = Daemon(
                familiar,
                worker.stop,
                lambda _: None,
                lambda event: self._note(familiar_id, event.error),
            )
            await daemon.watch(_POLL_S)

    def _note(self, familiar_id: str, error: FamiliarError | None) -> None:
        if error:
            self._tell(f"{familiar_id}: {error}")


_MOST_TEXTS: Final = 2_048
_AUTO: Final = "auto"
_opened: dict[str, EmbedderChoice] = {}


def embed(raw: bytes) -> dict[str, Any]:
    """Return the vectors that a request asks for.

    Raises:
        ApiError: It is no such request, or the model is not here.
        EmbedderError: The model does not work.
    """
    body = parse_object(raw)
    texts = _texts(body.get("input"))
    name = body.get("model")
    opened = _embedder(name if isinstance(name, str) and name else _AUTO)
    if opened.embedder is None:
        hint = f". Run `{opened.hint}`" if opened.hint else ""
        raise ApiError(404, f"{opened.reason}{hint}", code="model_not_found", param="model")
    vectors = opened.embedder.passages(texts)
    encoding = body.get("encoding_format") or "float"
    if encoding == "base64":
        made: list[Any] = [
            base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors
        ]
    elif encoding == "float":
        made = [[float(x) for x in row] for row in vectors]
    else:
        raise ApiError(400, "'encoding_format' must be float or base64", param="encoding_format")
    words = sum(len(text.split()) for text in texts)
    return api_format.embeddings(opened.embedder.spec.name, made, words)


def _embedder(name: str) -> EmbedderChoice:
    if name not in _opened or _opened[name].embedder is None:
        _opened[name] = open_embedder(name, cache_dir())
    return _opened[name]


def _texts(given: object) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
        raise ApiError(400, "'input' must be a text or a list of texts", param="input")
    if sum(map(len, texts)) > MOST_CHARS:
        raise ApiError(413, f"'input' holds more than {MOST_CHARS:,} characters", param="input")
    if len(texts) > _MOST_TEXTS:
        raise ApiError(400, f"'input' holds more than {_MOST_TEXTS:,} texts", param="input")
    return texts


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
