"""Requests over connections of our own, as servers of all kinds answer them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

from familiar_cli.llm.http1 import ServerConnections

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@asynccontextmanager
async def server(*answers: bytes, then: bytes = b""):
    """Answer one request after another on a connection; yield a client and the heads that came."""
    heads: list[bytes] = []

    async def serve(reader, writer) -> None:
        for answer in answers:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
        writer.write(then)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        url = f"http://me:se%20cret@127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        client = ServerConnections(url, None, timeout_s=5, connect_s=5, kept_s=60)
        yield client, heads
        await client.aclose()


async def get(client: ServerConnections, target: str = "/v1/models?a=ä b") -> bytes:
    answer = await client.send("GET", f"http://host{target}", {"Accept": "x"}, None)
    try:
        return b"".join([block async for block in answer.aiter_raw()])
    finally:
        await answer.aclose()


async def test_a_request_names_host_target_and_user() -> None:
    async with server(OK) as (client, heads):
        assert await get(client) == b"hi"
    lines = heads[0].split(b"\r\n")
    assert lines[0] == b"GET /v1/models?a=%C3%A4%20b HTTP/1.1"
    assert b"Authorization: Basic bWU6c2UgY3JldA==" in lines
    assert lines[-1] == b""
    assert any(line.startswith(b"Host: 127.0.0.1:") for line in lines)


async def test_what_comes_before_a_response_is_skipped_and_pieces_are_joined() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n"
    async with server(early + pieces, OK) as (client, heads):
        assert [await get(client), await get(client)] == [b"hi", b"hi"]
    assert len(heads) == 2


async def test_a_connection_on_which_more_came_than_was_asked_for_is_not_used_again() -> None:
    late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
    async with server(OK, then=late) as (client, heads):
        assert await get(client) == b"hi"
        await asyncio.sleep(0)
        assert await get(client) == b"hi"
    assert len(heads) == 2


@pytest.mark.parametrize(
    "end", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", b"no HTTP\r\n\r\n"]
)
async def test_a_response_that_breaks_off_is_an_error(end) -> None:
    async with server(end) as (client, _):
        with pytest.raises(httpx.RemoteProtocolError):
            await get(client)


async def test_what_nobody_reads_yet_waits_at_the_server() -> None:
    flood = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + 30_000_000 * b"x"
    async with server(flood) as (client, _):
        answer = await client.send("GET", "http://host/", {}, None)
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(answer._connection.received) < 2_000_000
        await answer.aclose()


async def test_the_next_address_is_tried(monkeypatch) -> None:
    async with server(OK) as (client, _):

        async def addresses(*_args, **_options):
            return [(2, 1, 6, "", (host, client._port)) for host in ("127.9.9.9", "127.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        assert await get(client) == b"hi"
