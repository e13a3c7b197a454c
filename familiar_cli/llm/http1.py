"""HTTP/1.1 to one server, without a proxy, over connections that stay open between requests."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Final, cast
from urllib.parse import quote, unquote, urlsplit

import h11

from familiar_cli.base.times.clock import stopwatch_s

_HEAD_BYTES: Final = 100 * 1024
_UNREAD_BYTES: Final = 512 * 1024  # received, but not asked for yet; then the server has to wait
_MOST_KEPT: Final = 20
_NEXT_ADDRESS_S: Final = 1.0  # an address that does not answer holds up the next one so long
_CLOSING_S: Final = 1.0  # the news that a server closed a connection takes no longer
_NO_RESPONSE: Final = "Server disconnected without sending a response."
_AS_IN_URLS: Final = "/?%:@!$&'()*+,;=~[]"


class _Connection(asyncio.Protocol):
    """One connection, and the state of its exchange."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self.kept_at_s = 0.0
        self.has_response = False
        self.received = bytearray()
        self._news: asyncio.Future[None] | None = None
        self._has_ended = False
        self._error: Exception | None = None
        self._is_paused = False

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came since the last exchange, not even its end."""
        return not (self.received or self._has_ended)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) > _UNREAD_BYTES and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        self._tell()

    def eof_received(self) -> None:
        self._has_ended = True
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended, self._error = True, exc
        self._tell()

    def _tell(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)

    async def _read(self) -> bytes:
        """Return what came; nothing at the end."""
        while self.is_quiet:
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        if self._error and not self.received:
            raise self._error
        data, self.received = bytes(self.received), bytearray()
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    async def next_event(self, timeout_s: float) -> h11.Event | type[h11.PAUSED]:
        """Return the next part of the response."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(timeout_s):
                data = await self._read()
            if not data and self.http.their_state is h11.SEND_RESPONSE:
                raise h11.RemoteProtocolError(_NO_RESPONSE)
            self.has_response = self.has_response or bool(data)
            self.http.receive_data(data)
        return cast("h11.Event", event)


class ServerResponse:
    """A response whose body is not read yet.

    Attributes:
        status_code: Its status.
        headers: Its headers, with names in lower case.
    """

    def __init__(
        self, client: ServerConnections, connection: _Connection, head: h11.Response
    ) -> None:
        self._client, self._connection = client, connection
        self.status_code = head.status_code
        self.headers: dict[str, str] = {}
        for name, value in head.headers:
            key, text = name.decode("ascii"), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    async def aiter_raw(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives."""
        try:
            while True:
                event = await self._connection.next_event(self._client.timeout_s)
                if not isinstance(event, h11.Data):
                    return
                yield bytes(event.data)
        except (OSError, h11.RemoteProtocolError) as error:
            raise _as_httpx(error, "Read") from error

    async def aclose(self) -> None:
        """Keep the connection if the whole body was read, or close it."""
        self._client.release(self._connection)


class ServerConnections:
    """Sends requests to one server.

    Args:
        url: An address there.
        tls: What certificates are checked with; None: they are not needed.
        timeout_s: Maximum wait for the next part of a response.
        connect_s: Maximum time for connecting.
        kept_s: How long an idle connection is kept.
    """

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext | None,
        *,
        timeout_s: float,
        connect_s: float,
        kept_s: float,
    ) -> None:
        parts = urlsplit(url)
        self._host = (parts.hostname or "").encode("idna").decode("ascii")
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls, self._connect_s, self._kept_s = tls, connect_s, kept_s
        self._kept: list[_Connection] = []
        self.timeout_s = timeout_s
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._headers = {"Host": f"{host}:{parts.port}" if parts.port else host}
        if parts.username or parts.password:
            user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> ServerResponse:
        """Send a request; again if it met a kept connection that the server was just closing.

        Such a server has not read the request. One that closes a new connection, begins a response
        or takes its time may have.

        Raises:
            httpx.TransportError: There is no response.
        """
        parts = urlsplit(url)
        target = quote(f"{parts.path or '/'}{parts.query and f'?{parts.query}'}", _AS_IN_URLS)
        given = {**headers, **self._headers, "Connection": "keep-alive"}
        if content is not None:
            given["Content-Length"] = str(len(content))
        request = h11.Request(method=method, target=target, headers=list(given.items()))
        while True:
            kept, start_s = self._take_kept(), stopwatch_s()
            connection = kept or await self._connect()
            try:
                return await self._exchange(connection, request, content)
            except (OSError, h11.RemoteProtocolError) as error:
                connection.transport.abort()
                is_late = stopwatch_s() - start_s > _CLOSING_S
                if is_late or not kept or connection.has_response:
                    raise _as_httpx(error, "Read") from error
            except BaseException:
                connection.transport.abort()
                raise

    async def aclose(self) -> None:
        """Close all connections that nobody uses."""
        while self._kept:
            self._kept.pop().transport.abort()

    def release(self, connection: _Connection) -> None:
        """Keep a connection after an exchange, or close it if the exchange is not complete."""
        http = connection.http
        is_done = http.our_state is h11.DONE and http.their_state is h11.DONE
        is_quiet = connection.is_quiet and not http.trailing_data[0]
        if is_done and is_quiet and len(self._kept) < _MOST_KEPT:
            http.start_next_cycle()
            connection.kept_at_s, connection.has_response = stopwatch_s(), False
            self._kept.append(connection)
        else:
            connection.transport.abort()

    def _take_kept(self) -> _Connection | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.is_quiet and stopwatch_s() - connection.kept_at_s < self._kept_s:
                return connection
            connection.transport.abort()
        return None

    async def _exchange(
        self, connection: _Connection, request: h11.Request, content: bytes | None
    ) -> ServerResponse:
        http = connection.http
        parts = [http.send(request), http.send(h11.Data(content)) if content else b""]
        connection.transport.write(b"".join([*filter(None, parts), http.send(h11.EndOfMessage())]))
        while True:
            event = await connection.next_event(self.timeout_s)
            if isinstance(event, h11.Response):
                return ServerResponse(self, connection, event)
            if not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError(_NO_RESPONSE)

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                return await self._first_of([address for *_, address in found])
        except OSError as error:
            raise _as_httpx(error, "Connect") from error

    async def _first_of(self, addresses: Sequence[tuple[Any, ...]]) -> _Connection:
        """Connect to the first address that answers."""
        name = self._host if self._tls else None
        for number, (host, port, *_) in enumerate(addresses, 1):
            is_last = number == len(addresses)
            with nullcontext() if is_last else suppress(OSError):
                async with asyncio.timeout(None if is_last else _NEXT_ADDRESS_S):
                    _, connection = await asyncio.get_running_loop().create_connection(
                        _Connection, host, port, ssl=self._tls, server_hostname=name
                    )
                    return connection
        raise OSError("The name of the server has no address")


def _as_httpx(error: Exception, action: str) -> Exception:
    """Translate an error of a connection into one of httpx, whose errors are ours, too."""
    import httpx  # noqa: PLC0415  # 0.13 s

    if isinstance(error, h11.RemoteProtocolError):
        return httpx.RemoteProtocolError(str(error))
    kind = "Timeout" if isinstance(error, TimeoutError) else "Error"
    translated: Exception = getattr(httpx, f"{action}{kind}")(str(error))
    return translated
