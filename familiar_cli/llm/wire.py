"""HTTP to a model server, within bounds: nothing is unpacked, followed, or read without end.

How long all of it may take is the caller's to say, with `asyncio.timeout`: a server that sends a
byte now and then never lets a limit of httpx pass.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from familiar_cli import __version__
from familiar_cli.errors import BadReplyError, FamiliarError
from familiar_cli.llm import failures
from familiar_cli.llm.failures import FailedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import httpx

    from familiar_cli.llm.slots import ResolvedSlot

OK: Final = 200
CONNECT_S: Final = 10.0
# One JSON object: an event of a stream, or a whole body. Python needs up to thirty times as
# much for what it says.
MAX_OBJECT_BYTES: Final = 8 * 1024 * 1024
# A stream says each token in some 300 bytes, so this is a hundred thousand of them.
MAX_STREAM_BYTES: Final = 32 * 1024 * 1024
MAX_EVENTS: Final = 400_000
MAX_ERROR_BYTES: Final = 64 * 1024
# Of an error the status matters; its words are not waited for much longer.
_ERROR_BODY_S: Final = 3.0
_UNCHANGED = {"", "identity"}


@asynccontextmanager
async def answer(
    slot: ResolvedSlot, method: str, url: str, *, accept: str, body: bytes = b""
) -> AsyncIterator[httpx.Response]:
    """Yield the answer of the server, its body still to be read.

    Raises:
        FailedError: The exchange failed, here or while the body was read.
    """
    headers = {"Accept": accept, "Accept-Encoding": "identity"}
    headers["User-Agent"] = f"familiar/{__version__}"
    if body:
        headers["Content-Type"] = "application/json"
    if slot.api_key:
        headers["Authorization"] = f"Bearer {slot.api_key}"
    try:
        async with (
            _connection(slot, url) as connection,
            connection.stream(method, url, content=body or None, headers=headers) as response,
        ):
            yield response
    except (FamiliarError, FailedError):
        raise
    except Exception as error:  # whatever a transport raises is a failure of the exchange
        raise FailedError(failures.from_transport(slot, error)) from error


async def whole(slot: ResolvedSlot, response: httpx.Response) -> bytes:
    """Return the body of an answer.

    Raises:
        FailedError: It is packed, or larger than `MAX_OBJECT_BYTES`.
    """
    pieces = [block async for block in _blocks(slot, response, MAX_OBJECT_BYTES)]
    return b"".join(pieces)


async def beginning(response: httpx.Response) -> bytes:
    """Return what can soon be had of the body of an error; nothing of a packed one."""
    body = bytearray()
    if not _is_plain(response):
        return b""
    try:
        async with asyncio.timeout(_ERROR_BODY_S), aclosing(_raw(response)) as blocks:
            async for block in blocks:
                body += block
                if len(body) > MAX_ERROR_BYTES:
                    break
    except TimeoutError:
        pass
    return bytes(body[:MAX_ERROR_BYTES])


async def events(slot: ResolvedSlot, response: httpx.Response) -> AsyncGenerator[str]:
    """Yield the data of each event of a stream.

    Raises:
        FailedError: It is packed, an event (and so a line, or what comes between two events) is
            larger than `MAX_OBJECT_BYTES`, or the stream larger than `MAX_STREAM_BYTES`.
    """
    import httpx  # noqa: PLC0415  # 0.13 s
    from httpx_sse import EventSource  # noqa: PLC0415

    event_bytes = 0

    class Bounded(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal event_bytes
            async with aclosing(_blocks(slot, response, MAX_STREAM_BYTES)) as blocks:
                async for block in blocks:
                    event_bytes += len(block)
                    if event_bytes > MAX_OBJECT_BYTES:
                        raise _too_large(slot, "An event", f"{MAX_OBJECT_BYTES:,} bytes")
                    yield block

    # Events are UTF-8, whatever charset the server names: some of Python's unpack.
    plain = httpx.Response(OK, headers={"content-type": "text/event-stream"}, stream=Bounded())
    number = 0
    async with aclosing(EventSource(plain).aiter_sse()) as found:
        async for event in found:
            event_bytes, number = 0, number + 1
            if number > MAX_EVENTS:
                raise _too_large(slot, "The response", f"{MAX_EVENTS:,} events")
            yield event.data


def is_loopback(url: str) -> bool:
    """Return whether `url` leads to this machine, which no proxy and no network is needed for."""
    import ipaddress  # noqa: PLC0415

    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _connection(slot: ResolvedSlot, url: str) -> httpx.AsyncClient:
    import httpx  # noqa: PLC0415

    try:
        return httpx.AsyncClient(
            timeout=httpx.Timeout(slot.timeout_s, connect=min(slot.timeout_s, CONNECT_S)),
            trust_env=not is_loopback(url),  # no proxy stands between us and this machine
            verify=url.startswith("https:"),  # plain HTTP needs no certificates: 20 ms saved
        )
    except Exception as error:  # noqa: BLE001  # proxies and certificates named in the environment
        raise FailedError(failures.from_environment(slot, error)) from None


async def _blocks(
    slot: ResolvedSlot, response: httpx.Response, max_bytes: int
) -> AsyncGenerator[bytes]:
    if not _is_plain(response):
        packed = response.headers["content-encoding"]
        raise FailedError(failures.packed(slot, packed))
    read_bytes = 0
    async with aclosing(_raw(response)) as blocks:
        async for block in blocks:
            read_bytes += len(block)
            if read_bytes > max_bytes:
                raise _too_large(slot, "The response", f"{max_bytes:,} bytes")
            yield block


async def _raw(response: httpx.Response) -> AsyncGenerator[bytes]:
    async for block in response.aiter_raw():
        yield block


def _is_plain(response: httpx.Response) -> bool:
    return response.headers.get("content-encoding", "").strip().lower() in _UNCHANGED


def _too_large(slot: ResolvedSlot, what: str, than: str) -> FailedError:
    error = BadReplyError(f"{what} of {slot.where} is larger than {than}; the rest was not read")
    return FailedError(failures.Failure(error))
