"""`LLMClient`: any OpenAI-compatible server over HTTP.

Each call has a connection of its own, so that one client serves several event loops, one after
another, and a cancelled call leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from familiar_cli import __version__
from familiar_cli.config import environment
from familiar_cli.errors import BadReplyError, ModelUnreachableError
from familiar_cli.llm import failures
from familiar_cli.llm.body import make_body
from familiar_cli.llm.presets import PRESETS
from familiar_cli.llm.slots import check_usable
from familiar_cli.llm.slotted import Slotted
from familiar_cli.llm.streaming import ErrorInReplyError, Reply
from familiar_cli.llm.types import Completion, Message, PreparedRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx

    from familiar_cli.llm.slots import ResolvedSlot

CONNECT_S = 10.0
# A server that asks for a longer wait is believed and not asked again: the person decides.
LONGEST_WAIT_S = 30.0
_FIRST_WAIT_S = 0.5
_COUNTS_S = 3.0
_MAX_ERROR_BYTES = 64 * 1024
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
_OK = 200


class _FailedError(Exception):
    """One attempt failed; `failure` says how, and whether another may help."""

    def __init__(self, failure: failures.Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class LLMClient(Slotted):
    """A chat model behind an OpenAI-compatible server.

    Args:
        slot: The server, the model and the settings.
        on_wait: Told in one line before the client waits to ask a busy server again.
    """

    def __init__(self, slot: ResolvedSlot, *, on_wait: Callable[[str], None] | None = None) -> None:
        super().__init__(slot)
        self._on_wait = on_wait

    def prepare(
        self,
        messages: Sequence[Message],
        *,
        stream: bool = True,
        reply_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> PreparedRequest:
        """Return the exact bytes that `complete` would send."""
        preset = PRESETS[self._slot.preset]
        limits = {
            preset.limit_name: self._slot.max_tokens if max_tokens is None else max_tokens,
            "temperature": self._slot.temperature if temperature is None else temperature,
        }
        body = make_body(
            self._slot.model,
            messages,
            stream=stream,
            limits=limits,
            extra=preset.extra,
            reply_schema=reply_schema,
        )
        url = f"{self._slot.base_url}/chat/completions"
        return PreparedRequest(url, body, self._slot.model, stream)

    async def complete(
        self, request: PreparedRequest, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Send `request` and return the reply, handing each piece of text to `on_text` at once.

        A server that does not answer or says that it is busy is asked again, as often as the
        settings say and as late as it asks; never once a piece of text has come.

        Raises:
            ConfigError: Something is missing to talk to that server at all.
            ModelError: There is no whole reply; `.partial` holds the text that came.
        """
        check_usable(self._slot)
        _check_allowed(self._slot)
        for asked in range(self._slot.retries + 1):
            try:
                return await self._ask(request, on_text)
            except _FailedError as failed:
                failure = failed.failure
                wait_s = _wait_s(failure, asked)
                if asked == self._slot.retries or wait_s is None:
                    raise failure.error from failed.__cause__
            if self._on_wait:
                self._on_wait(f"{failure.error}; asking again in {wait_s:.1f} s")
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Do nothing: no connection outlives a call."""

    async def _ask(
        self, request: PreparedRequest, on_text: Callable[[str], None] | None
    ) -> Completion:
        import httpx  # noqa: PLC0415  # 0.13 s

        reply = Reply(on_text)
        try:
            async with (
                self._connection(request.url) as connection,
                connection.stream(
                    "POST", request.url, content=request.body, headers=self._headers(request)
                ) as response,
            ):
                await self._read(response, reply)
        except ErrorInReplyError as error:
            raise self._failed(failures.from_payload(self._slot, error.payload), reply) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            failure = failures.from_transport(self._slot, error, reply.text)
            raise self._failed(failure, reply) from error
        return reply.finished(request.model)

    def _failed(self, failure: failures.Failure, reply: Reply) -> Exception:
        """Return what to raise: an attempt that may be repeated, or the end."""
        failure.error.partial = reply.text
        return _FailedError(failure) if failure.again and not reply.text else failure.error

    def _connection(self, url: str) -> httpx.AsyncClient:
        import httpx  # noqa: PLC0415

        timeout_s = self._slot.timeout_s
        try:
            return httpx.AsyncClient(
                timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S)),
                trust_env=not is_loopback(url),  # no proxy stands between us and this machine
                verify=url.startswith("https:"),  # plain HTTP needs no certificates: 20 ms saved
            )
        except (OSError, ValueError, ImportError) as error:
            # Proxies and certificates named in the environment: a file that is not there, an
            # address that is none, a kind of proxy that needs another package.
            raise failures.from_transport(self._slot, error).error from error

    def _headers(self, request: PreparedRequest) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if request.stream else "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"familiar/{__version__}",
        }
        if self._slot.api_key:
            headers["Authorization"] = f"Bearer {self._slot.api_key}"
        return headers

    async def _read(self, response: httpx.Response, reply: Reply) -> None:
        if response.status_code != _OK:
            body = await _at_most(response, _MAX_ERROR_BYTES)
            raise _FailedError(
                failures.from_status(self._slot, response.status_code, response.headers, body)
            )
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == "text/event-stream":
            await self._read_stream(response, reply)
        elif "json" in content_type:
            body = await _at_most(response, _MAX_WHOLE_BYTES)
            reply.take_whole(body.decode("utf-8", errors="replace"))
        else:
            raise failures.not_a_chat_server(self._slot, content_type)

    async def _read_stream(self, response: httpx.Response, reply: Reply) -> None:
        """Read events until the reply is over. Comments keep a connection warm but say nothing."""
        import httpx  # noqa: PLC0415
        from httpx_sse import EventSource  # noqa: PLC0415

        now = asyncio.get_running_loop().time
        try:
            async with (
                asyncio.timeout(self._slot.timeout_s) as silence,
                aclosing(EventSource(response).aiter_sse()) as events,
            ):
                async for event in events:
                    reply.take_event(event.data)
                    if reply.done:
                        break
                    silence.reschedule(now() + self._patience_s(reply))
        except TimeoutError:
            if not reply.complete:
                raise failures.silence(self._slot, reply.text) from None
        except httpx.HTTPError:
            if not reply.complete:
                raise
        if not reply.complete:
            raise failures.cut_off(self._slot, reply.text)

    def _patience_s(self, reply: Reply) -> float:
        """Return how long to wait for the next event; once all is said, only for token counts."""
        timeout_s = self._slot.timeout_s
        return min(timeout_s, _COUNTS_S) if reply.complete else timeout_s


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


def _check_allowed(slot: ResolvedSlot) -> None:
    if environment.offline() and not is_loopback(slot.base_url):
        raise ModelUnreachableError(
            f"{slot.where} was not asked, because {environment.OFFLINE} is set",
            hint=f"Unset {environment.OFFLINE} to use servers on the network.",
        )


def _wait_s(failure: failures.Failure, asked: int) -> float | None:
    """Return how long to wait before asking again, or None when that would not help."""
    if not failure.again:
        return None
    if failure.wait_s is not None:
        return failure.wait_s if failure.wait_s <= LONGEST_WAIT_S else None
    # Not all clients of a server that was down should come back in the same moment.
    return float(_FIRST_WAIT_S * 2**asked * random.uniform(0.5, 1.0))  # noqa: S311


async def _at_most(response: httpx.Response, max_bytes: int) -> bytes:
    """Return the body; of an error its beginning is enough, a reply may not be larger."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > max_bytes:
            break
    if len(body) > max_bytes and response.status_code == _OK:
        raise BadReplyError(f"The server's reply is larger than {max_bytes:,} bytes")
    return bytes(body[:max_bytes])
