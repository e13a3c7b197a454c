"""Access control (hosts, origins, tokens) and resource limits (bytes, time) of requests.

A page in a browser can reach a server on the same machine. So the `Host` must be one of ours, and a
request that changes anything must come from no page, or from one that the settings name.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import ClassVar, Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from familiar_cli.base.config import serving
from familiar_cli.base.errors import ConfigError
from familiar_cli.base.text import Discreet
from familiar_cli.servers.api_errors import ApiError, respond_error, to_api_error, too_many_requests
from familiar_cli.servers.limits import LARGE_BYTES, BodyPool, RequestBudget
from familiar_cli.servers.web.drawing import refused_page
from familiar_cli.servers.web.site import OPEN_TO_PROGRAMS, SAFE_HEADERS, add_headers

OPEN_PATHS: Final = frozenset({"/health", "/ready"})
"""What anybody may ask, since it says nothing."""

METRICS: Final = "/metrics"
"""Tells of all familiars together, so no token for some of them opens it."""

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE: Final = frozenset({"", "same-origin", "none"})
_SHOWN: Final = "x-familiar-turn, x-familiar-recall, x-familiar-kept, x-familiar-channel"
_MOST_HEADERS: Final = 100
_MOST_HEADER_BYTES: Final = 32 * 1024
_METHODS: Final = frozenset({*_READING, "POST", "PUT", "PATCH", "DELETE"})
_WITH_PICTURES: Final = ("/v1/", "/familiar/")  # only these routes take whole conversations
_MOST_OTHER_BYTES: Final = 8 * 1024 * 1024
_MOST_VALUES: Final = 500_000  # of a JSON body; each takes far more memory than bytes
_MOST_TEXT_BYTES: Final = 16 * 1024 * 1024  # of a body without pictures
_MOST_ESCAPES: Final = 4_000_000  # long texts are slow to process


class Rules(Discreet, frozen=True):
    """Access rules and limits.

    Args:
        hosts: `Host` values of this server, in lower case, with ports.
        origins: Pages that may use the server from a browser, e.g. `http://127.0.0.1:8000`.
        tokens: Accepted tokens; empty if none is required.
        owner_tokens: Tokens that also give access to what is private.
        most_body_bytes: Maximum size of a body.
        most_bodies_bytes: Maximum size of all bodies, from their first byte until they are
            answered.
        body_s: Maximum time for receiving a body.
        work_s: Maximum working time per request, without the model's.
        grants: Tokens with restricted access; None if there are none.
        has_door: Tells for a path and headers whether the route checks a key of its own.
    """

    shown: ClassVar = ("hosts", "origins")

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    tokens: tuple[str, ...] = ()
    owner_tokens: frozenset[str] = frozenset()
    most_body_bytes: int = 32 * 1024 * 1024
    most_bodies_bytes: int = 96 * 1024 * 1024
    body_s: float = 30.0
    work_s: float = 8.0
    grants: serving.GrantFile | None = None
    has_door: Callable[[str, dict[str, str]], bool] = lambda *_: False


class Guard:
    """Middleware that passes permitted requests to `app` and rejects the others.

    It reads the whole body, so that no handler waits for a slow client.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._pool = BodyPool(rules.most_bodies_bytes)
        self._rates = serving.RequestRates()
        self._digests = {
            sha256(token.encode()).digest(): token in rules.owner_tokens for token in rules.tokens
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        origin = headers.get("origin", "")
        allowed = origin in self._rules.origins
        out = _with_cors(send, origin) if allowed else send
        budget = scope["familiar.budget"] = RequestBudget(self._pool, self._rules.work_s)
        try:
            await self._answer(scope, headers, receive, out, budget, allowed=allowed)
        finally:
            budget.close()

    async def _answer(
        self,
        scope: Scope,
        headers: dict[str, str],
        receive: Receive,
        out: Send,
        budget: RequestBudget,
        *,
        allowed: bool,
    ) -> None:
        try:
            self._check(scope, headers, allowed=allowed)
            if scope["method"] == "OPTIONS":
                await _answer_preflight(out, headers, allowed=allowed)
                return
            body = await self._body(scope["path"], headers, receive, budget)
            _check_values(body, headers)
        except (ApiError, ConfigError) as error:
            await respond_error(out, to_api_error(error))
            return
        except _DisconnectError:
            return
        leaving = _BodyReceiver(body, receive, budget)
        try:
            await self._app(scope, leaving.receive, out)
        finally:
            leaving.close()

    def _check(self, scope: Scope, headers: dict[str, str], *, allowed: bool) -> None:
        """Check a request's headers against the rules.

        Raises:
            ApiError: A rule forbids it.
        """
        raw = scope["headers"]
        size = sum(len(k) + len(v) for k, v in raw)
        if len(raw) > _MOST_HEADERS or size > _MOST_HEADER_BYTES:
            raise ApiError(431, "The request has too many headers")
        names = {name.lower() for name, _ in raw}
        if names >= {b"content-length", b"transfer-encoding"}:
            raise ApiError(400, "A request has Content-Length or Transfer-Encoding, not both")
        hosts = [value for name, value in raw if name.lower() == b"host"]
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._rules.hosts:
            raise ApiError(
                421,
                "This server does not answer under that host name. Use the address that it "
                "printed, or add the name to `hosts` in serve.toml",
                code="wrong_host",
            )
        if scope["method"] not in _METHODS:
            raise ApiError(405, f"This server does not support {scope['method'][:40]!r}")
        if scope["method"] == "OPTIONS":
            return
        if scope["method"] not in _READING:
            self._check_origin(headers, allowed=allowed)
        path = scope["path"]
        scope[serving.BY_OWNER] = False
        if path in OPEN_PATHS or self._rules.has_door(path, headers):
            return
        file = self._rules.grants
        grants = file.grants() if file else {}
        if not (self._digests or grants):
            return
        grant, scope[serving.BY_OWNER] = self._check_token(headers.get("authorization", ""), grants)
        scope[serving.BY_OTHERS] = not scope[serving.BY_OWNER]
        if grant and file:
            scope[serving.ACCESS] = serving.Access(file.home, grant)
            scope[serving.RATES] = self._rates
            self._check_grant(grant, scope)

    def _check_origin(self, headers: dict[str, str], *, allowed: bool) -> None:
        own = f"http://{headers.get('host', '').lower()}"
        origin, site = headers.get("origin", own), headers.get("sec-fetch-site", "")
        if not allowed and (origin.lower() != own or site not in _OWN_SITE):
            raise ApiError(
                403,
                "Web pages from other origins may not use this server. To allow one, add that"
                " origin to `origins` in serve.toml",
                code="wrong_origin",
            )

    def _check_grant(self, grant: serving.Grant, scope: Scope) -> None:
        """Check that a token covers a route and is within its limits.

        Raises:
            ApiError: It does not, or the limit is exceeded.
        """
        is_for_all = scope["path"].startswith(OPEN_TO_PROGRAMS) and "*" not in grant.users
        if is_for_all or scope["path"] == METRICS:
            raise ApiError(403, "This token gives no access to this address", code="not_covered")
        key = ("token", grant.digest)
        if retry_s := self._rates.count(key, grant.per_minute, grant.per_day):
            raise too_many_requests(retry_s)

    def _check_token(
        self, sent: str, grants: Mapping[str, serving.Grant]
    ) -> tuple[serving.Grant | None, bool]:
        """Return a token's grant (None for everything), and whether it is the owner's.

        Raises:
            ApiError: No token, or an unknown one.
        """
        scheme, _, token = sent.partition(" ")
        digest = sha256(token.strip().encode("utf-8", "surrogatepass")).digest()
        known = {**dict.fromkeys(self._digests), **{bytes.fromhex(k): v for k, v in grants.items()}}
        matches = [hmac.compare_digest(digest, one) for one in known]
        if scheme.lower() != "bearer" or not any(matches):
            is_sent = scheme.lower() == "bearer" and token.strip()
            told = (
                "Unknown token: send one from the token file, or `familiar serve token add`"
                if is_sent
                else "A token is needed: send the header 'Authorization: Bearer TOKEN'"
            )
            raise ApiError(401, told, code="invalid_api_key")
        return known[digest], self._digests.get(digest, False)

    async def _body(
        self, path: str, headers: dict[str, str], receive: Receive, budget: RequestBudget
    ) -> bytes:
        """Receive the whole body.

        Raises:
            ApiError: It is too large or too slow, or the pool is exhausted.
        """
        most = self._rules.most_body_bytes
        if not path.startswith(_WITH_PICTURES):
            most = min(most, _MOST_OTHER_BYTES)
        stated = headers.get("content-length", "")
        if stated.isdecimal() and len(stated) < 20 and int(stated) > most:  # noqa: PLR2004
            raise _too_large(most)
        pieces, size = [], 0
        try:
            async with asyncio.timeout(self._rules.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _DisconnectError
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > most:
                        raise _too_large(most)
                    budget.grow(len(pieces[-1]))
                    if not message.get("more_body"):
                        return b"".join(pieces)
        except TimeoutError:
            raise ApiError(
                408, f"The request did not arrive within {self._rules.body_s:g} s"
            ) from None


class _DisconnectError(Exception):
    """The client disconnected before its request was complete."""


def with_error_pages(app: ASGIApp) -> ASGIApp:
    """Wrap an application so that browsers get errors as pages and programs as JSON."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        accept = b",".join(v for k, v in scope.get("headers", ()) if k.lower() == b"accept")
        is_browser = scope["type"] == "http" and b"text/html" in accept
        await app(scope, receive, _ErrorPages(send).put if is_browser else send)

    return answer


class _ErrorPages:
    """Replaces an error's JSON body by a page with its message and a link back."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def put(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = {k.lower(): v for k, v in message.get("headers", ())}
            is_json = headers.get(b"content-type", b"").startswith(b"application/json")
            if message["status"] >= 400 and is_json:  # noqa: PLR2004
                self._start = message
                return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        page = refused_page(_message_of(self._body))
        kept = [
            (k, v)
            for k, v in self._start.get("headers", ())
            if k.lower() not in {b"content-type", b"content-length"}
        ]
        added = (
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(page)).encode()),
        )
        known = {k.lower() for k, _ in kept}
        safe = (header for header in SAFE_HEADERS if header[0] not in known)
        await self._send({**self._start, "headers": [*kept, *added, *safe]})
        await self._send({"type": "http.response.body", "body": page})


def _message_of(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "The request could not be answered"


def host_names(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """List the `Host` values of a server.

    A name of `more` without a port is meant with this one, or none. Clients leave out 80 and 443.
    """
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    values = {name.lower() for name in more}
    bare = {name for name in values if urlsplit(f"//{name}").port is None}
    usual = {name.removesuffix(":443").removesuffix(":80") for name in values}
    return frozenset({f"{name}:{port}" for name in names | bare} | values | usual)


class _BodyReceiver:
    """An ASGI `receive` that supplies the body once and then watches for a disconnect.

    Args:
        receive: The original callable.
        budget: Notified of the disconnect.
    """

    def __init__(self, body: bytes, receive: Receive, budget: RequestBudget) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._budget = budget
        self._left = asyncio.Event()
        self._watching = asyncio.ensure_future(self._watch())

    async def receive(self) -> Message:
        """Return the body, then wait for the disconnect."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    def close(self) -> None:
        """Stop watching."""
        self._watching.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left.set()
        self._budget.client_left()


def _check_values(body: bytes, headers: dict[str, str]) -> None:
    """Reject a JSON body made of millions of tiny values or escapes.

    Raises:
        ApiError: It has too many. Characters inside strings count, too: the count is an upper
            bound.
    """
    if not headers.get("content-type", "").lower().lstrip().startswith("application/json"):
        return
    if len(body) > _MOST_TEXT_BYTES and b'"image' not in body:
        raise _too_large(_MOST_TEXT_BYTES, " without pictures")
    values = escapes = 0
    for start in range(0, len(body), LARGE_BYTES):
        part = body[start : start + LARGE_BYTES]
        values += sum(map(part.count, (b"[", b"{", b",")))
        escapes += part.count(b"\\")
        if values > _MOST_VALUES or escapes > _MOST_ESCAPES:
            raise ApiError(413, f"The request holds more than {_MOST_VALUES:,} values")


def _with_cors(send: Send, origin: str) -> Send:
    """Wrap `send` so that one page may read the response."""
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _SHOWN.encode()),
        (b"vary", b"Origin"),
    ]
    return add_headers(send, added)


async def _answer_preflight(send: Send, headers: dict[str, str], *, allowed: bool) -> None:
    """Answer a browser's preflight request."""
    if not allowed:
        raise ApiError(
            403, "Web pages from other origins may not use this server", code="wrong_origin"
        )
    target = headers.get("access-control-request-headers", "")
    safe = target if target.isascii() and target.isprintable() else ""
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


def _too_large(most: int, what: str = "") -> ApiError:
    return ApiError(413, f"A request{what} may have at most {most:,} bytes; this one has more")
