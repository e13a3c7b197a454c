"""The response to a request for a reply: whole or piece by piece, and what it tells of the turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError
from familiar_cli.serve import answering
from familiar_cli.serve.failing import ApiError, from_error
from familiar_cli.serve.guard import respond
from familiar_cli.serve.turns import Begun, Ended, Piece

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from familiar_cli.context.trace import Trace
    from familiar_cli.serve.conversations import Served
    from familiar_cli.serve.turns import ServedTurn, Wanted

_STREAM: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_MOST_NAMED: Final = 20  # pieces of memory in a header


class Replying:
    """An ASGI response that plays a turn. When the program hangs up, the turn is ended.

    Args:
        turn: The turn.
        wanted: What is wanted.
        served: Whose turn it is.
        ended: Awaited at the end, whatever the end is.
        created_s: When the reply was made, in seconds since 1970.
    """

    def __init__(
        self,
        turn: ServedTurn,
        wanted: Wanted,
        served: Served,
        ended: Callable[[], Awaitable[None]],
        *,
        created_s: int,
    ) -> None:
        self._turn = turn
        self._wanted = wanted
        self._served = served
        self._ended = ended
        self._created_s = created_s
        self._trace: Trace | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        del scope
        watching = asyncio.ensure_future(_hung_up(receive))
        playing = asyncio.ensure_future(self._play(send))
        try:
            await asyncio.wait({watching, playing}, return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                await playing
        finally:
            watching.cancel()
            playing.cancel()
            await self._turn.cancel()
            await asyncio.wait({watching, playing})
            await self._ended()

    async def _play(self, send: Send) -> None:
        first = await self._turn.next()
        if isinstance(first, Begun):
            self._trace = first.trace
            first = await self._turn.next()
        if isinstance(first, Ended) and first.error:
            await respond(send, _told(first.error), self._headers())
        elif self._wanted.asked.stream:
            await self._stream(send, first)
        else:
            await self._whole(send, first)

    async def _stream(self, send: Send, event: Begun | Piece | Ended) -> None:
        headers = [*_STREAM, *self._headers()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        shape = self._shape()
        raw = self._is_raw
        if not raw:
            await _put(send, answering.event(shape.first()))
        while isinstance(event, Piece):
            await _put(send, answering.event(event.text if raw else shape.piece(event.text)))
            event = await self._turn.next()
        assert isinstance(event, Ended)
        if event.error:
            await _put(send, answering.event(_told(event.error).to_json()))
        elif not raw and event.result:
            reason = event.result.trace.finish_reason or "stop"
            await _put(send, answering.event(shape.last(reason)))
            if self._wanted.asked.with_usage:
                await _put(send, answering.event(shape.counts(self._usage(event))))
        await _put(send, answering.DONE)
        await send({"type": "http.response.body", "body": b""})

    async def _whole(self, send: Send, event: Begun | Piece | Ended) -> None:
        pieces: list[str] = []
        while isinstance(event, Piece):
            pieces.append(event.text)
            event = await self._turn.next()
        assert isinstance(event, Ended)
        if event.error:
            await respond(send, _told(event.error), self._headers())
            return
        if self._is_raw:
            body = pieces[-1].encode() if pieces else b"{}"
        else:
            assert event.result is not None
            reason = event.result.trace.finish_reason or "stop"
            whole = self._shape().whole(event.result.text, reason, self._usage(event))
            body = answering.body(whole)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *self._headers(),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    @property
    def _is_raw(self) -> bool:
        """Whether the pieces are events of the model's server, which go on as they are."""
        return self._wanted.asked.memory_only or self._wanted.is_chore

    def _shape(self) -> answering.Shape:
        turn = self._trace.turn if self._trace else None
        return answering.Shape(
            f"chatcmpl-{turn or 'unkept'}", self._wanted.asked.model, self._created_s
        )

    def _usage(self, event: Ended) -> dict[str, int]:
        assert event.result is not None
        tokens = self._served.familiar.counter.count(event.result.text)
        return answering.usage_of(event.result.trace, tokens)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        """Describe the turn as far as the program may show it to a person."""
        trace = self._trace
        if trace is None or trace.turn is None:
            return [(b"x-familiar-kept", b"no")]
        recalled = list(dict.fromkeys(_recalled(trace)))
        names = ",".join(recalled[:_MOST_NAMED])
        found = f"{len(recalled)}; {names}" if recalled else "0"
        return [
            (b"x-familiar-turn", str(trace.turn).encode()),
            (b"x-familiar-recall", found.encode("ascii", "backslashreplace")),
            (b"x-familiar-kept", b"yes"),
            (b"x-familiar-channel", quoted(trace.channel_id)),
        ]


def quoted(text: str) -> bytes:
    """Return a text as it may stand in a header."""
    from urllib.parse import quote  # noqa: PLC0415

    return quote(text, safe="-_.~:/@ ", errors="surrogatepass").encode("ascii")


def _recalled(trace: Trace) -> list[str]:
    """List the paths and turns of the recalled pieces, each encoded for a header."""
    from urllib.parse import quote  # noqa: PLC0415

    found = []
    for piece in trace.contributions:
        if not piece.kept or piece.layer not in {"content", "pinned"}:
            continue
        if piece.rel_path:
            found.append(quote(piece.rel_path, safe="-_.~/", errors="surrogatepass"))
        elif piece.turns:
            found.append(f"turns:{piece.turns[0]}-{piece.turns[1]}")
        elif piece.turn_id:
            found.append(f"turn:{piece.turn_id}")
    return found


def _told(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, FamiliarError):
        return from_error(error)
    return ApiError(500, f"The server failed: {type(error).__name__}")


async def _hung_up(receive: Receive) -> None:
    """Return once the program has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _put(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
