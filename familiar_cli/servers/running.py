"""Run the server: listen, serve until stopped, and run background passes of all familiars."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import uvicorn
from msgspec import Struct, field
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from familiar_cli.actions.health.daemon import LOOK_S, Daemon
from familiar_cli.base.config.home import FamiliarPaths, list_familiars
from familiar_cli.base.config.serving import GrantFile, check_reach, is_loopback_host
from familiar_cli.base.errors import ConfigError, FamiliarError, NotFoundError
from familiar_cli.familiar import Familiar
from familiar_cli.servers.application import CONNECTION, make_app
from familiar_cli.servers.chat_api.conversations import ServedFamiliar
from familiar_cli.servers.chat_api.turns import TurnTable
from familiar_cli.servers.familiar_pool import FamiliarPool, pages_pool
from familiar_cli.servers.guard import Rules, host_names
from familiar_cli.servers.web.site import Door, Site
from familiar_cli.store.passes import as_failure, stopped_by_signals, until_stopped

_BACKLOG: Final = 256
_MOST_CONNECTIONS: Final = 1_000
_LOADED_S: Final = 20.0


_POLL_S: Final = 2.0  # delay between a request and a visit to its familiar
_SLOTS: Final = 3  # familiars whose passes run at once
_RETRY_S: Final = 60.0  # after a visit that failed
_REST_S: Final = 3600.0  # maximum between visits to an idle familiar
_PATIENCE_S: Final = 10.0  # for a pass to stop between two steps


class _Visits(Struct):
    """When a familiar is visited next (event loop time in seconds), and its last error."""

    due_s: float
    rest_s: float = LOOK_S  # doubles while it is idle
    sync_s: float = 0.0
    is_first: bool = True
    is_active: bool = False
    complaint: str = ""


class Background:
    """Runs the background passes of all familiars, a few at a time, in one thread.

    Args:
        home: The directory of the familiars.
        tell: Callback for messages to a person; called from the thread.
    """

    def __init__(self, home: Path, tell: Callable[[str], None]) -> None:
        self._home = home
        self._tell = tell
        self._thread = threading.Thread(target=self._run, daemon=True, name="familiar-passes")
        self._pool = FamiliarPool(home, Familiar, most_open=_SLOTS)
        self._visits: dict[str, _Visits] = {}
        self._running: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._stop, self._woken = asyncio.Event(), asyncio.Event()

    def begin(self) -> None:
        """Schedule all familiars: they may have unwritten turns or remote changes."""
        self._thread.start()
        for familiar_id in list_familiars(self._home):
            self._schedule(familiar_id)

    def look_after(self, familiar_id: str) -> None:
        """Visit a familiar soon, since somebody talks to it."""
        self._schedule(familiar_id, is_active=True)

    def close(self) -> None:
        """Stop between two steps, waiting briefly."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_PATIENCE_S)

    def _schedule(self, familiar_id: str, *, is_active: bool = False) -> None:
        def schedule() -> None:
            now_s = self._loop.time()
            visits = self._visits.setdefault(familiar_id, _Visits(now_s))
            visits.due_s = min(visits.due_s, now_s + _POLL_S)
            if is_active:
                visits.is_active, visits.rest_s = True, LOOK_S
            self._woken.set()

        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(schedule)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._work())

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while not self._stop.is_set():
                self._woken.clear()
                now_s = self._loop.time()
                waiting = {n: v.due_s for n, v in self._visits.items() if n not in self._running}
                for familiar_id in sorted(waiting, key=waiting.__getitem__):
                    if waiting[familiar_id] <= now_s and len(self._running) < _SLOTS:
                        self._running.add(familiar_id)
                        tasks.create_task(self._visit(familiar_id))
                later = [due_s - now_s for due_s in waiting.values() if due_s > now_s]
                await self._rest(min(later, default=_RETRY_S))
        await self._end()

    async def _rest(self, wait_s: float) -> None:
        """Wait until a visit is due or has ended, for news, or for the end."""
        woken = (asyncio.ensure_future(one.wait()) for one in (self._woken, self._stop))
        _, pending = await asyncio.wait(
            {*woken}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()

    async def _visit(self, familiar_id: str) -> None:
        """Visit a familiar, and schedule the next visit."""
        visits, wait_s = self._visits[familiar_id], _RETRY_S
        visits.due_s = math.inf  # a request meanwhile brings it forward

        async def visit() -> None:
            nonlocal wait_s
            is_active, visits.is_active = visits.is_active, False
            async with self._pool.lease(familiar_id) as familiar:
                daemon = self._daemon(familiar)
                wait_s = await daemon.visit(is_first=visits.is_first, is_active=is_active)
                if self._loop.time() >= visits.sync_s:
                    visits.sync_s = self._loop.time() + await daemon.syncing.sync_if_due()
            visits.is_first = False

        try:
            await until_stopped(visit(), self._stop)
        except NotFoundError:
            wait_s = math.inf  # it was removed
        except Exception as error:  # noqa: BLE001  # one familiar never ends the passes of others
            self._complain(familiar_id, as_failure(error))
        finally:
            now_s = self._loop.time()
            visits.due_s = min(visits.due_s, now_s + min(wait_s, visits.rest_s), visits.sync_s)
            visits.rest_s = min(2 * visits.rest_s, _REST_S)
            self._running.discard(familiar_id)
            self._woken.set()

    async def _end(self) -> None:
        """Push unsynced changes of all familiars, and close them."""
        for familiar_id, visits in self._visits.items():
            if not (visits.is_first or math.isinf(visits.sync_s)):
                with suppress(FamiliarError):  # it was reported while serving
                    async with self._pool.lease(familiar_id) as familiar:
                        await self._daemon(familiar).syncing.last()
        await self._pool.aclose()

    def _daemon(self, familiar: Familiar) -> Daemon:
        familiar_id = familiar.paths.id
        return Daemon(
            familiar,
            self._stop,
            lambda _: None,
            lambda event: self._complain(familiar_id, event.error),
        )

    def _complain(self, familiar_id: str, error: FamiliarError | None) -> None:
        """Report an error, once until it changes."""
        visits = self._visits[familiar_id]
        if error and str(error) != visits.complaint:
            visits.complaint = str(error)
            self._tell(f"{familiar_id}: {error}")


class ListenOptions(Struct, frozen=True):
    """Address, access and limits of a server.

    Args:
        host: Address.
        port: Port; 0 for any free one.
        tokens: Accepted tokens; empty if none is required.
        owner_tokens: Tokens that also give access to what is private.
        hosts: Further host names that clients may use.
        origins: Web pages that may use the server.
        background: Whether to write memory and make periods meanwhile.
        head_s: Maximum time for a connection to send the whole head of a request.
        body_s: Maximum time for receiving a body.
        stalled_s: Maximum time for which a client may read nothing that is sent to it.
        drain_s: How long replies may continue after the server was asked to stop.
        api: Whether to serve chat programs; otherwise browsers only.
        embodiments: Whether embodiments may register.
        door: Access to the pages.
        familiar_id: The familiar of pages without a name; None for the chosen one.
    """

    host: str
    port: int
    tokens: tuple[str, ...] = ()
    owner_tokens: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    background: bool = True
    head_s: float = 10.0
    body_s: float = 30.0
    stalled_s: float = 60.0
    drain_s: int = 2
    api: bool = True
    embodiments: bool = False
    door: Door = field(default_factory=Door)
    familiar_id: str | None = None


async def serve(
    home: Path,
    listening: ListenOptions,
    *,
    on_ready: Callable[[str], None],
    tell: Callable[[str], None],
) -> None:
    """Serve the familiars of a home until a signal asks to stop; only in the main thread.

    A second signal ends the replies that the first one let continue.

    Raises:
        ConfigError: As `serve_until`.
    """
    stop, at_once = asyncio.Event(), asyncio.Event()
    # What is loaded by then stays; without this, the garbage collector looks at it in every turn.
    asyncio.get_running_loop().call_later(_LOADED_S, gc.freeze)
    with stopped_by_signals(stop, at_once):
        await serve_until(stop, home, listening, on_ready=on_ready, tell=tell, at_once=at_once)


async def serve_until(
    stop: asyncio.Event,
    home: Path,
    listening: ListenOptions,
    *,
    on_ready: Callable[[str], None],
    tell: Callable[[str], None] = lambda _: None,
    at_once: asyncio.Event | None = None,
) -> None:
    """Serve the familiars of a home until `stop` is set.

    Args:
        stop: Ends the server after the replies under way or `drain_s`; partial replies are stored.
        home: Their directory.
        listening: Address, access and limits.
        on_ready: Called with the server's address, without `/v1`, once it accepts requests.
        tell: Callback for messages to a person; called from several threads.
        at_once: Ends it without waiting, once `stop` is set; partial replies are stored.

    Raises:
        ConfigError: It cannot listen there, or must not without a token.
    """
    grants = GrantFile(home)
    check_reach(listening.host, (*listening.tokens, *grants.grants()))
    tell_of_read_only(home, tell)
    with _bound_socket(listening) as bound:
        host, port = bound.getsockname()[:2]
        background = Background(home, tell) if listening.background else None

        def open_served(paths: FamiliarPaths) -> ServedFamiliar:
            return ServedFamiliar(Familiar(paths, tell))

        pool = FamiliarPool(
            home, open_served, on_leave=background.look_after if background else None
        )

        @asynccontextmanager
        async def lease(name: str | None) -> AsyncIterator[Familiar]:
            async with pool.lease(name) as served:
                yield served.familiar

        site = Site(
            pages_pool(home, tell),
            listening.door,
            lease,
            begins_work=not listening.api,
            familiar_id=listening.familiar_id,
            programs=listening.api,
            reachable_at="" if is_loopback_host(listening.host) else listening.host,
        )
        rules = Rules(
            host_names(listening.host, port, listening.hosts),
            frozenset(listening.origins),
            listening.tokens,
            listening.owner_tokens,
            body_s=listening.body_s,
            grants=grants if listening.api else None,
            has_door=site.has_door,
        )
        shown = f"[{host}]" if ":" in host else host
        turns = TurnTable()
        app = make_app(
            pool,
            rules,
            site,
            turns,
            tell=tell,
            api=listening.api,
            embodiments=listening.embodiments,
        )
        server = _Server(app, listening, lambda: on_ready(f"http://{shown}:{port}"), site.end)
        try:
            if background:
                background.begin()
            await server.until(stop, bound, at_once or asyncio.Event(), turns)
        finally:
            if background:
                await asyncio.to_thread(background.close)


def tell_of_read_only(home: Path, tell: Callable[[str], None]) -> None:
    """Warn about familiars that cannot be written to, before anybody talks to them."""
    for familiar_id in list_familiars(home):
        if not os.access(home / familiar_id, os.W_OK):
            tell(
                f"{str(home / familiar_id)!r} cannot be written to: it can be read, but no "
                "message will be saved, and requests for a reply will fail"
            )


class _Server(uvicorn.Server):
    """Uvicorn's server without its signal handlers, with an event for being ready."""

    def __init__(
        self,
        app: ASGIApp,
        listening: ListenOptions,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=type(
                    "Protocol",
                    (_PatientProtocol,),
                    {"head_s": listening.head_s, "stalled_s": listening.stalled_s},
                ),
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=listening.drain_s,
                limit_concurrency=_MOST_CONNECTIONS,
            )
        )
        self._on_ready = on_ready
        self._on_stop = on_stop

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signal handling to the caller."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and set the event."""
        await super().startup(sockets)
        self._on_ready()

    async def until(
        self, stop: asyncio.Event, bound: socket.socket, at_once: asyncio.Event, turns: TurnTable
    ) -> None:
        """Serve on a socket until `stop` is set; `at_once` cancels the turns under way."""

        async def wait() -> None:
            await stop.wait()
            self._on_stop()
            self.should_exit = True
            await at_once.wait()
            await turns.cancel_all()
            for connection in tuple(self.server_state.connections):
                connection.transport.abort()
            for task in tuple(self.server_state.tasks):
                task.cancel()

        waiting = asyncio.ensure_future(wait())
        try:
            await self.serve([bound])
        finally:
            waiting.cancel()


class _PatientProtocol(H11Protocol):
    """HTTP/1.1 with limits for slow clients.

    A connection is closed if it does not send a whole head in time, or reads nothing that is sent
    to it; a reply under way is stored.
    """

    head_s = 10.0
    stalled_s = 60.0
    _impatience: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  # uvicorn's own signature
        """Start the timeout for a head."""
        self.app_state = {**self.app_state, CONNECTION: secrets.token_hex(16)}
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Receive data; a complete header ends the timeout, and the next request restarts it."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for_head()
        elif self._impatience:
            self._impatience.cancel()
            self._impatience = None

    def pause_writing(self) -> None:
        """Start the timeout for a client that does not read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.stalled_s, self.transport.abort)

    def resume_writing(self) -> None:
        """End it: the client reads."""
        super().resume_writing()
        if self._stalled:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeouts."""
        for timer in (self._impatience, self._stalled):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._impatience is None:
            self._impatience = self.loop.call_later(self.head_s, self._give_up)

    def _give_up(self) -> None:
        self._impatience = None
        is_waiting = self.cycle is None or self.cycle.response_complete
        if is_waiting and not self.transport.is_closing():
            self.transport.close()


@contextmanager
def _bound_socket(listening: ListenOptions) -> Iterator[socket.socket]:
    """Open a bound socket, so that its port is known before the server accepts requests."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            listening.host.strip("[]"), listening.port, type=socket.SOCK_STREAM
        )[0]
        bound = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        # Connections inherit it. asyncio does not see that they are TCP, and answers wait 40 ms.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise ConfigError(
            f"The server cannot listen on {listening.host}:{listening.port}: "
            f"{error.strerror or error}",
            hint="Choose another port with `--port N`; `--port 0` takes any that is free.",
        ) from error
    with bound:
        yield bound
