"""HTTP to a model server, within limits, and errors that a person can act on.

Responses are never decompressed, redirects never followed, and reads are bounded. Total time limits
are up to the caller, with `asyncio.timeout`: a server that trickles bytes never triggers the
timeouts of httpx. Failures are a `ModelError` and whether to retry; the key is removed from
messages, since servers repeat it.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from familiar_cli import __version__
from familiar_cli.base import errors
from familiar_cli.base.config import environment
from familiar_cli.base.text import one_line
from familiar_cli.base.times import clock
from familiar_cli.llm.slots import PRESETS, ResolvedSlot

if TYPE_CHECKING:
    import httpx


_BUSY = {408, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
_TOO_LONG = re.compile(
    r"context.{0,3}(length|size|window)|exceed_context|too many (input )?tokens"
    r"|prompt is too long|maximum.{0,20}tokens|input is too long|too large to process",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model.{0,200}(not found|not exist|not a valid|unknown|not loaded|no longer)|not a valid model"
    r"|model_not_found|no endpoints found|invalid model|unknown model",
    re.IGNORECASE | re.DOTALL,
)
_NO_QUOTA = re.compile(
    r"insufficient_quota|insufficient credits|add \d+ credits|billing|current quota|"
    r"per[ _-]?day|daily",
    re.IGNORECASE,
)
_WORDS_CHARS = 300
_PAYLOAD_CHARS = 64 * 1024
_ADDRESS = "Correct the address in `llm.base_url`; it usually ends in /v1."
# HTTP status -> error class, message, hint.
_BY_STATUS: dict[int, tuple[type[errors.ModelError], str, str]] = {
    400: (
        errors.RequestRefusedError,
        "did not accept the request",
        "Some models accept only one temperature: `familiar config set llm.temperature 1`.",
    ),
    402: (
        errors.ModelKeyError,
        "requires an account with credit",
        "Add credit there, or choose a free model.",
    ),
    404: (errors.ModelUnknownError, "returned", _ADDRESS),
    405: (errors.ModelUnknownError, "does not offer chat at this address", _ADDRESS),
    413: (
        errors.PromptTooLongError,
        "does not accept a prompt that long",
        "Run `familiar config set llm.context_tokens N` with a smaller number.",
    ),
    429: (
        errors.RateLimitError,
        "accepts no more requests for now",
        "Wait a minute; a smaller `llm.context_tokens` makes smaller requests.",
    ),
}
_BY_STATUS[422] = _BY_STATUS[400]
_MOVED = (errors.ModelError, "has moved", "Run `familiar config set llm.base_url URL`.")
_FAILED = (errors.ModelError, "failed", "The server's log may say why.")


class Failure(Struct, frozen=True):
    """A failed attempt.

    Args:
        error: The error to raise.
        again: Whether a retry may help.
        wait_s: Seconds to wait before a retry as requested by the server, or None.
    """

    error: errors.ModelError
    again: bool = False
    wait_s: float | None = None


class FailedError(Exception):
    """An attempt failed; `failure` says how, and whether to retry."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


def from_status(
    slot: ResolvedSlot, status: int, headers: Mapping[str, str], body: bytes
) -> Failure:
    """Translate an HTTP error status."""
    raw = body.decode("utf-8", errors="replace")
    words = _server_words(slot, raw, headers)
    error = _error_for(slot, status, words, raw)
    again = status in _BUSY and not _is_out_of_quota(status, raw)
    return Failure(error, again, retry_after_s(headers.get("retry-after")))


def from_payload(slot: ResolvedSlot, payload: dict[str, Any]) -> Failure:
    """Translate an error inside a reply, with or without a status of its own."""
    error = payload.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and not isinstance(code, bool) else 0
    try:
        body = json.dumps(payload)[:_PAYLOAD_CHARS].encode()
    except RecursionError:  # nested deeply enough to be parsed but not serialised
        body = b""
    return from_status(slot, status, {}, body)


def from_environment(slot: ResolvedSlot, error: Exception) -> Failure:
    """Translate a failure to set up a connection: invalid proxies or certificates.

    Proxy addresses may contain a password that httpx repeats: only names are reported.
    """
    if isinstance(error, OSError | ImportError):  # certificates; a package for a kind of proxy
        return from_transport(slot, error)
    names = ", ".join(environment.proxy_variables()) or "the settings of this system"
    return Failure(
        errors.ModelError(
            f"The request to {slot.where} could not be sent: {names} must contain a valid proxy "
            "address",
            hint="A proxy address begins with http:// and has a port up to 65535.",
        )
    )


def from_transport(slot: ResolvedSlot, error: Exception, partial: str = "") -> Failure:
    """Translate an exception of httpx or of a lower layer."""
    import httpx  # noqa: PLC0415  # 0.13 s

    error = _one_of(error)
    start = PRESETS[slot.preset].start or None
    what = one_line(_without_key(slot, str(error)), _WORDS_CHARS) or type(error).__name__
    failed: errors.ModelError
    match error:
        case httpx.ConnectTimeout():
            failed = errors.ModelUnreachableError(
                f"Connecting to {slot.where} timed out", hint=start
            )
            return Failure(failed, again=True)
        case httpx.TimeoutException():
            return Failure(silence_error(slot, partial))
        case httpx.ConnectError() if _is_tls(error):
            failed = errors.ModelUnreachableError(
                f"The connection to {slot.where} is not secure: {what}",
                hint="Check the address and the clock; set `SSL_CERT_FILE` if your company uses "
                "its own certificates.",
            )
        case httpx.ConnectError():
            failed = errors.ModelUnreachableError(
                f"No answer from {slot.where}: {what}", hint=start
            )
            return Failure(failed, again=True)
        case httpx.ProxyError():
            failed = errors.ModelUnreachableError(
                f"The proxy refused to connect to {slot.where}: {what}",
                hint="Check the environment variables HTTPS_PROXY and NO_PROXY.",
            )
        case (
            httpx.RemoteProtocolError()
            | httpx.NetworkError()
            | httpx.StreamError()
            | ConnectionError()
            | EOFError()
        ):
            failed = errors.CutOffError(
                f"The connection to {slot.where} broke before the reply was complete: {what}",
                hint="The server's log may say why.",
                partial=partial,
            )
        case httpx.DecodingError() | httpx.TooManyRedirects() | MemoryError() | RecursionError():
            failed = errors.BadReplyError(
                f"The response from {slot.where} cannot be read: {what}", partial=partial
            )
        case _:
            failed = errors.ModelError(
                f"The request to {slot.where} could not be sent: {what}",
                hint="Check `llm.base_url`, and the proxy settings of the environment.",
                partial=partial,
            )
    return Failure(failed)


def silence_error(slot: ResolvedSlot, partial: str) -> errors.ModelTimeoutError:
    """Build the error for a server that is silent for too long."""
    return errors.ModelTimeoutError(
        f"{slot.subject} sent nothing for {slot.timeout_s:g} s",
        hint="A slow machine or a reasoning model needs longer: "
        "`familiar config set llm.timeout_s 600`.",
        partial=partial,
    )


def too_long(slot: ResolvedSlot, partial: str) -> errors.ModelTimeoutError:
    """Build the error for a reply that exceeds the total time limit."""
    return errors.ModelTimeoutError(
        f"The reply from {slot.where} was not complete after {slot.deadline_s:g} s",
        hint="A slow machine needs longer: `familiar config set llm.deadline_s 7200`.",
        partial=partial,
    )


def encoding_failure(slot: ResolvedSlot, encoding: str) -> Failure:
    """Build the failure for an unrequested content encoding, which is not decoded."""
    return Failure(
        errors.BadReplyError(
            f"{slot.subject} sent its response as {one_line(encoding)!r}, which was not requested; "
            "it was not read",
            hint="Turn off compression in that server or its proxy.",
        )
    )


def cut_off(slot: ResolvedSlot, partial: str, words: str = "") -> errors.CutOffError:
    """Build the error for a stream that ended before the reply was complete."""
    text = f": {_quote(slot, words)}" if words else ""
    return errors.CutOffError(
        f"The reply from {slot.where} stopped in the middle{text}",
        hint="The server's log may say why.",
        partial=partial,
    )


def refusal(slot: ResolvedSlot, words: str, partial: str) -> errors.BadReplyError:
    """Build the error for a model that refuses to reply."""
    return errors.BadReplyError(
        f"The model {slot.model!r} refused to reply: {_quote(slot, words)}",
        hint="Rephrase the message, or use another model: `familiar config set llm.model NAME`.",
        partial=partial,
    )


def not_a_chat_server(
    slot: ResolvedSlot, response: httpx.Response, line: str
) -> errors.BadReplyError:
    """Build the error for a server that answers with a web page or the like."""
    text = repr(_quote(slot, line)) if line else "nothing"
    return errors.BadReplyError(
        f"{slot.subject} is not an OpenAI-compatible server: it sent {text} with status "
        f"{response.status_code}",
        hint="Correct the address in `llm.base_url`; it usually ends in /v1.",
    )


def _quote(slot: ResolvedSlot, words: str) -> str:
    return one_line(_without_key(slot, words[:_PAYLOAD_CHARS]), _WORDS_CHARS)


def retry_after_s(value: str | None) -> float | None:
    """Return the seconds requested by a `Retry-After` header, given as a number or a date."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (moment - clock.now()).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _error_for(slot: ResolvedSlot, status: int, words: str, raw: str) -> errors.ModelError:
    text = f": {words}" if words else ""
    if status in {400, 404, 413, 422, 500} and _TOO_LONG.search(raw):
        return errors.PromptTooLongError(
            f"The prompt is too long for {slot.model!r}{text}",
            hint="Lower `llm.context_tokens` to what the model really supports: "
            "`familiar config set llm.context_tokens N`.",
        )
    if status in {400, 404, 422} and _NO_MODEL.search(raw):
        return errors.ModelUnknownError(
            f"{slot.subject} does not have the model {slot.model!r}{text}",
            hint=PRESETS[slot.preset].choose,
        )
    if _is_out_of_quota(status, raw):
        return errors.RateLimitError(
            f"The quota of this account is used up at {slot.where} ({status}){text}",
            hint="Add credit there, choose another model, or wait until the quota is renewed.",
        )
    return _error_by_status(slot, status, text)


def _is_out_of_quota(status: int, raw: str) -> bool:
    """Tell whether no request will be accepted for hours."""
    return status == 429 and bool(_NO_QUOTA.search(raw))  # noqa: PLR2004


def _error_by_status(slot: ResolvedSlot, status: int, text: str) -> errors.ModelError:
    if status in {401, 403}:
        key = f"the key in {slot.api_key_env!r}" if slot.api_key else "a request without a key"
        return errors.ModelKeyError(
            f"{slot.subject} rejected {key} ({status}){text}", hint=_key_source(slot)
        )
    if status == 404:  # noqa: PLR2004
        text = f": {slot.model!r} or this address is unknown there{text}"
    kind, what, hint = _BY_STATUS.get(status, _MOVED if 300 <= status < 400 else _FAILED)  # noqa: PLR2004
    number = f" {status}" if status == 404 else f" ({status})" if status else ""  # noqa: PLR2004
    return kind(f"{slot.subject} {what}{number}{text}", hint=hint)


def _key_source(slot: ResolvedSlot) -> str:
    if slot.api_key_env:
        return f"Put a valid key into the environment variable {slot.api_key_env}."
    return "Run `familiar config set llm.api_key_env NAME` with the variable that holds the key."


def _server_words(slot: ResolvedSlot, raw: str, headers: Mapping[str, str]) -> str:
    """Return the server's error message as one short line without the key."""
    if "html" in headers.get("content-type", "") or raw.lstrip().startswith("<"):
        return ""
    if headers.get("location"):
        raw = f"it points to {headers['location']}"
    try:
        words = _message_in(json.loads(raw))
    except (ValueError, RecursionError):
        words = raw
    return one_line(_without_key(slot, words), _WORDS_CHARS)


def _message_in(value: object) -> str:
    """Return the message in a JSON error; servers differ in where they put it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    result = next((value[k] for k in ("error", "message", "detail") if value.get(k)), "")
    words = _message_in(result) if isinstance(result, str | dict) else json.dumps(result)
    metadata = value.get("metadata")  # OpenRouter: the message of the provider behind it
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f"{words} ({raw})" if isinstance(raw, str) and raw not in words else words


def _without_key(slot: ResolvedSlot, text: str) -> str:
    return text.replace(slot.api_key, "[key]") if slot.api_key else text


def _one_of(error: Exception) -> Exception:
    """Return the first exception of a group; others unchanged."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_tls(error: BaseException | None) -> bool:
    seen = 0
    while error is not None and seen < 10:  # noqa: PLR2004  # a chain may loop
        if isinstance(error, ssl.SSLError):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


OK: Final = 200
CONNECT_S: Final = 10.0
_KEPT_S: Final = 60.0  # so long an idle connection waits for the next message
_CLOSING_S: Final = 1.0  # the news that a server closed a connection takes no longer
# One JSON object: an event of a stream, or a whole body. Parsed, it takes up to thirty times
# as much memory.
MAX_OBJECT_BYTES: Final = 8 * 1024 * 1024
# A streamed token takes some 300 bytes, so this is about a hundred thousand.
MAX_STREAM_BYTES: Final = 32 * 1024 * 1024
MAX_EVENTS: Final = 400_000
MAX_ERROR_BYTES: Final = 64 * 1024
# The status of an error is what matters; wait only briefly for its message.
_ERROR_BODY_S: Final = 3.0
_UNCHANGED = {"", "identity"}


@asynccontextmanager
async def open_answer(
    slot: ResolvedSlot, method: str, url: str, *, accept: str, body: bytes = b""
) -> AsyncIterator[httpx.Response]:
    """Yield the server's response with its body unread; the connection is closed afterwards.

    Raises:
        FailedError: The exchange failed, here or while reading the body.
    """
    connections = Connections()
    try:
        async with connections.ask(slot, method, url, accept=accept, body=body) as response:
            yield response
    finally:
        await connections.aclose()


class _LoopClient(Struct):
    """A client of one event loop, and the generator that closes it with the loop."""

    client: httpx.AsyncClient
    holder: AsyncGenerator[None]
    urls: dict[str, httpx.URL] = field(default_factory=dict)


class Connections:
    """Connections to one server that stay open from one request to the next.

    Each event loop has its own. They are closed by `aclose`, or by their loop as it ends.
    """

    def __init__(self) -> None:
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClient] = WeakKeyDictionary()

    @asynccontextmanager
    async def ask(
        self, slot: ResolvedSlot, method: str, url: str, *, accept: str, body: bytes = b""
    ) -> AsyncIterator[httpx.Response]:
        """Yield the server's response with its body unread.

        Raises:
            FailedError: The exchange failed, here or while reading the body.
        """
        import httpx  # noqa: PLC0415

        headers = {"Accept": accept, "Accept-Encoding": "identity", "Connection": "keep-alive"}
        headers["User-Agent"] = f"familiar/{__version__}"
        if body:
            headers["Content-Type"] = "application/json"
        if slot.api_key:
            headers["Authorization"] = f"Bearer {slot.api_key}"
        try:
            held = await self._open(slot, url)
            where = held.urls[url] = held.urls.get(url) or httpx.URL(url)
            request = httpx.Request(method, where, content=body or None, headers=headers)
            response = await _send(held.client, request)
            try:
                yield response
            finally:
                await response.aclose()
        except (errors.FamiliarError, FailedError):
            raise
        except Exception as error:  # whatever a transport raises is a failure of the exchange
            raise FailedError(from_transport(slot, error)) from error

    async def aclose(self) -> None:
        """Close all of them that nobody uses."""
        while self._held:
            loop, held = self._held.popitem()
            if loop is asyncio.get_running_loop():
                await held.holder.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(held.holder.aclose(), loop)

    async def _open(self, slot: ResolvedSlot, url: str) -> _LoopClient:
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            client = _open_client(slot, url)
            # A loop closes the generators that it has begun.
            held = self._held[loop] = _LoopClient(client, _close_at_end(client))
            await anext(held.holder)
        return held


async def _close_at_end(client: httpx.AsyncClient) -> AsyncGenerator[None]:
    async with client:
        yield


async def _send(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send a request; again if it met a kept connection that the server was just closing.

    Such a server has not read the request. One that closes a new connection, begins a response or
    takes its time may have.
    """
    import httpx  # noqa: PLC0415

    while True:
        events, start_s = list[str](), clock.stopwatch_s()
        request.extensions["trace"] = partial(_note_event, events)
        try:
            return await client.send(request, stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            is_new = any(".connect_" in event for event in events)
            is_late = clock.stopwatch_s() - start_s > _CLOSING_S
            if is_new or is_late or _has_response(error):
                raise


async def _note_event(events: list[str], event: str, _: object) -> None:
    events.append(event)


def _has_response(error: Exception) -> bool:
    """Tell whether an exchange failed because of the response, not for want of one."""
    import h11  # noqa: PLC0415  # loaded by httpx

    reasons = error.__cause__.args if error.__cause__ else ()
    return any(isinstance(reason, h11.RemoteProtocolError) for reason in reasons)


async def read_whole(slot: ResolvedSlot, response: httpx.Response) -> bytes:
    """Read the body of a response.

    Raises:
        FailedError: It is compressed, or larger than `MAX_OBJECT_BYTES`.
    """
    pieces = [block async for block in read_blocks(slot, response, MAX_OBJECT_BYTES)]
    return b"".join(pieces)


async def read_beginning(response: httpx.Response) -> bytes:
    """Read the start of an error's body, for a short time; nothing if it is compressed."""
    body = bytearray()
    if not _is_plain(response):
        return b""
    try:
        async with asyncio.timeout(_ERROR_BODY_S), aclosing(_raw_blocks(response)) as blocks:
            async for block in blocks:
                body += block
                if len(body) > MAX_ERROR_BYTES:
                    break
    except TimeoutError:
        pass
    return bytes(body[:MAX_ERROR_BYTES])


async def read_blocks(
    slot: ResolvedSlot, response: httpx.Response, max_bytes: int = 0
) -> AsyncGenerator[bytes]:
    """Yield the bytes of a response as they arrive.

    Raises:
        FailedError: It is compressed, or larger than `max_bytes`, by default `MAX_STREAM_BYTES`.
    """
    if not _is_plain(response):
        raise FailedError(encoding_failure(slot, response.headers["content-encoding"]))
    read_bytes, most_bytes = 0, max_bytes or MAX_STREAM_BYTES
    async with aclosing(_raw_blocks(response)) as blocks:
        async for block in blocks:
            read_bytes += len(block)
            if read_bytes > most_bytes:
                raise _too_large(slot, "The response", f"{most_bytes:,} bytes")
            yield block


def check_events(slot: ResolvedSlot, pending_bytes: int, number: int) -> None:
    """Check the size of an event that is not complete yet, and the number of events.

    Raises:
        FailedError: It exceeds `MAX_OBJECT_BYTES`, or they exceed `MAX_EVENTS`.
    """
    if pending_bytes > MAX_OBJECT_BYTES:
        raise _too_large(slot, "An event", f"{MAX_OBJECT_BYTES:,} bytes")
    if number > MAX_EVENTS:
        raise _too_large(slot, "The response", f"{MAX_EVENTS:,} events")


def is_loopback(url: str) -> bool:
    """Tell whether `url` is on this machine, which needs no proxy or network."""
    import ipaddress  # noqa: PLC0415

    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_allowed(slot: ResolvedSlot) -> None:
    """Check that connections to a server are not forbidden.

    Raises:
        ModelUnreachableError: They are, by `FAMILIAR_OFFLINE`.
    """
    if environment.offline() and not is_loopback(slot.base_url):
        raise errors.ModelUnreachableError(
            f"{slot.subject} was not contacted, because {environment.OFFLINE} is set",
            hint=f"Unset {environment.OFFLINE} to use servers on the network.",
        )


def _open_client(slot: ResolvedSlot, url: str) -> httpx.AsyncClient:
    from http.cookiejar import CookieJar, DefaultCookiePolicy  # noqa: PLC0415  # loaded by httpx

    import httpx  # noqa: PLC0415

    trust_env = not is_loopback(url)  # no proxy is needed for this machine
    try:
        trusted = environment.certificates() if url.startswith("https:") else None
        return httpx.AsyncClient(
            timeout=httpx.Timeout(slot.timeout_s, connect=min(slot.timeout_s, CONNECT_S)),
            limits=httpx.Limits(keepalive_expiry=_KEPT_S),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # none are kept
            trust_env=trust_env,
            verify=_tls_context(trust_env, trusted),
        )
    except Exception as error:  # noqa: BLE001  # proxies and certificates named in the environment
        raise FailedError(from_environment(slot, error)) from None


@lru_cache(maxsize=4)  # reading all certificates takes 20 ms
def _tls_context(trust_env: bool, trusted: tuple[object, ...] | None) -> ssl.SSLContext:  # noqa: FBT001
    import httpx  # noqa: PLC0415

    return httpx.create_ssl_context(verify=trusted is not None, trust_env=trust_env)


def _raw_blocks(response: httpx.Response) -> AsyncGenerator[bytes]:
    return cast("AsyncGenerator[bytes]", response.aiter_raw())


def _is_plain(response: httpx.Response) -> bool:
    return response.headers.get("content-encoding", "").strip().lower() in _UNCHANGED


def _too_large(slot: ResolvedSlot, what: str, than: str) -> FailedError:
    error = errors.BadReplyError(
        f"{what} of {slot.where} is larger than {than}; the rest was not read"
    )
    return FailedError(Failure(error))
