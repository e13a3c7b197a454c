"""Who may ask at all: hosts, origins, tokens, and how much and how slowly a request may come.

A page that somebody reads in a browser can reach a server on their machine. So the `Host` must be
one of ours, and what changes anything must come from no page, or from one that the settings name.
"""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from familiar_cli.serve import answering
from familiar_cli.serve.failing import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATHS: Final = frozenset({"/health"})
"""What anybody may ask, since it says nothing."""

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE: Final = frozenset({"", "same-origin", "none"})
_SHOWN: Final = "x-familiar-turn, x-familiar-recall, x-familiar-kept, x-familiar-channel"
_MOST_HEADERS: Final = 100
_MOST_HEADER_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may ask, and how much.

    Args:
        hosts: The values of `Host` that mean this server, in lower case, with their ports.
        origins: The pages that may ask from a browser, e.g. `http://127.0.0.1:8000`.
        tokens: One of them must be sent along; empty: none is needed.
        most_body_bytes: The largest body.
        body_s: How long a body may take to come.
        has_door: Tells of a path, and a request's headers, whether what answers asks for a key of
            its own.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    tokens: tuple[str, ...] = field(default=(), repr=False)
    most_body_bytes: int = 32 * 1024 * 1024
    body_s: float = 30.0
    has_door: Callable[[str, dict[str, str]], bool] = lambda *_: False


class Guard:
    """Lets requests through to `app` that follow the rules, and answers the others itself.

    The body is read here, whole, so that nobody behind it waits for a slow one.

    Args:
        app: The application.
        rules: The rules.
    """

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._digests = [sha256(token.encode()).digest() for token in rules.tokens]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        origin = headers.get("origin", "")
        allowed = origin in self._rules.origins
        out = _with_cors(send, origin) if allowed else send
        try:
            self._check(scope, headers, allowed=allowed)
            if scope["method"] == "OPTIONS":
                await _preflight(out, headers, allowed=allowed)
                return
            body = await self._body(headers, receive)
        except ApiError as error:
            await respond(out, error)
            return
        except _Gone:
            return
        await self._app(scope, _once(body, receive), out)

    def _check(self, scope: Scope, headers: dict[str, str], *, allowed: bool) -> None:
        """Make sure that a request follows the rules, as far as its head tells.

        Raises:
            ApiError: It does not.
        """
        raw = scope["headers"]
        size = sum(len(k) + len(v) for k, v in raw)
        if len(raw) > _MOST_HEADERS or size > _MOST_HEADER_BYTES:
            raise ApiError(431, "The request has too many headers")
        hosts = [value for name, value in raw if name.lower() == b"host"]
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._rules.hosts:
            raise ApiError(
                421,
                "This server does not answer under that host name. Use the address that it "
                "printed, or add the name to `hosts` in serve.toml",
                code="wrong_host",
            )
        if scope["method"] == "OPTIONS":
            return
        if scope["method"] not in _READING:
            self._check_origin(headers, allowed=allowed)
        path = scope["path"]
        if self._digests and path not in OPEN_PATHS and not self._rules.has_door(path, headers):
            self._check_token(headers.get("authorization", ""))

    def _check_origin(self, headers: dict[str, str], *, allowed: bool) -> None:
        own = f"http://{headers.get('host', '').lower()}"
        origin, site = headers.get("origin", own), headers.get("sec-fetch-site", "")
        if not allowed and (origin.lower() != own or site not in _OWN_SITE):
            raise ApiError(
                403,
                "Web pages from elsewhere may not use this server. To allow one, add its origin "
                "to `origins` in serve.toml",
                code="wrong_origin",
            )

    def _check_token(self, sent: str) -> None:
        scheme, _, token = sent.partition(" ")
        digest = sha256(token.strip().encode("utf-8", "surrogatepass")).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if scheme.lower() != "bearer" or not any(matches):
            raise ApiError(
                401,
                "A token is needed: send the header 'Authorization: Bearer TOKEN'",
                code="invalid_api_key",
            )

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """Return the whole body.

        Raises:
            ApiError: It is too large, or too slow.
        """
        most = self._rules.most_body_bytes
        stated = headers.get("content-length", "")
        if stated.isdecimal() and len(stated) < 20 and int(stated) > most:  # noqa: PLR2004
            raise _too_large(most)
        pieces, size = [], 0
        try:
            async with asyncio.timeout(self._rules.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > most:
                        raise _too_large(most)
                    if not message.get("more_body"):
                        return b"".join(pieces)
        except TimeoutError:
            raise ApiError(
                408, f"The request did not arrive within {self._rules.body_s:g} s"
            ) from None


class _Gone(Exception):  # noqa: N818  # no error: nobody is there any more
    """The program hung up before its request was whole."""


async def respond(send: Send, error: ApiError, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Answer with an error."""
    body = answering.body(error.to_json())
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *extra,
    ]
    if error.status == 401:  # noqa: PLR2004
        headers.append((b"www-authenticate", b"Bearer"))
    if error.status in {408, 413}:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def host_names(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the values of `Host` that mean a server; a name without a port gets this one."""
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    given = {name.lower() for name in more}
    with_port = {name for name in given if urlsplit(f"//{name}").port is not None}
    return frozenset({f"{name}:{port}" for name in names | (given - with_port)} | with_port)


def _once(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body, and then waits for the program to hang up."""
    given = False

    async def take() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return take


def _with_cors(send: Send, origin: str) -> Send:
    """Return a `send` that lets one page read the response."""
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _SHOWN.encode()),
        (b"vary", b"Origin"),
    ]

    async def put(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return put


async def _preflight(send: Send, headers: dict[str, str], *, allowed: bool) -> None:
    """Tell a browser whether a page may ask."""
    if not allowed:
        raise ApiError(403, "Web pages from elsewhere may not use this server", code="wrong_origin")
    wanted = headers.get("access-control-request-headers", "")
    safe = wanted if wanted.isascii() and wanted.isprintable() else ""
    out = [
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", safe.encode() or b"authorization, content-type"),
        (b"access-control-max-age", b"600"),
        (b"content-length", b"0"),
    ]
    if headers.get("access-control-request-private-network") == "true":
        out.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": out})
    await send({"type": "http.response.body", "body": b""})


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"The request is larger than {most:,} bytes")
