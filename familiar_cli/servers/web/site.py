"""The site: one ASGI application that checks the link, finds the page and renders it."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from familiar_cli.base.config.home import find_familiar, list_familiars
from familiar_cli.base.config.serving import BY_OWNER, access_of
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import sha256_of
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.servers.connection import ChangeFeeds, EventStream, stamp_of_files, stream_changes
from familiar_cli.servers.limits import StreamSlots
from familiar_cli.servers.web import (
    asking,
    bring_pages,
    home_pages,
    memory_pages,
    people_pages,
    relation_pages,
    search_pages,
    setup_pages,
    talk_pages,
    time_pages,
    turn_pages,
    upkeep_pages,
)
from familiar_cli.servers.web.drawing import draw_page, static_file, stylesheet
from familiar_cli.servers.web.setup_pages import (
    KEY,
    make_familiar,
    read_model_fields,
    read_upload,
    setup_values,
    try_choice,
)
from familiar_cli.servers.web.talk_pages import PageTurn, TalkResponse, show_outcome

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from familiar_cli.actions.talk.talk import ReplyEnd
    from familiar_cli.familiar import Familiar
    from familiar_cli.servers.familiar_pool import FamiliarPool


TOKEN: Final = "token"  # noqa: S105  # the name of a parameter
LINK_S: Final = 600.0
"""Lifetime of the link, in seconds."""

_BYTES: Final = 32


class Door:
    """Access control for one server's pages, for as long as it runs.

    A cookie is sent to every port of a machine, so its name holds the port: two servers do not
    take each other's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link: str | None = secrets.token_urlsafe(_BYTES)
        self._made_at_s = stopwatch_s()
        self._key = secrets.token_urlsafe(_BYTES)
        self.link = f"/?{TOKEN}={self._link}"
        """Path and query that open the pages once, within `LINK_S`."""

    def take(self, token: str) -> bool:
        """Consume the link's `token`; tell whether it was valid, unused and recent."""
        with self._lock:
            if stopwatch_s() - self._made_at_s > LINK_S:
                self._link = None
            if self._link is None or not _is_same(token, self._link):
                return False
            self._link = None
            return True

    def is_open(self, cookie: str, host: str) -> bool:
        """Tell whether the request headers carry a valid cookie."""
        try:
            result = SimpleCookie(cookie).get(_host_name(host))
        except CookieError:
            return False
        return result is not None and _is_same(result.value, self._key)

    def cookie(self, host: str) -> str:
        """Return the header that sets the session cookie."""
        return f"{_host_name(host)}={self._key}; Path=/; HttpOnly; SameSite=Strict"


def _host_name(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"familiar-{port if port.isdecimal() and port.isascii() else 80}"


def _is_same(value: str, known: str) -> bool:
    def digest(text: str) -> bytes:
        return sha256(text.encode("utf-8", "surrogatepass")).digest()

    return hmac.compare_digest(digest(value), digest(known))


PAGES: Final = (
    *home_pages.PAGES,
    *people_pages.PAGES,
    *turn_pages.PAGES,
    *talk_pages.PAGES,
    *memory_pages.PAGES,
    *search_pages.PAGES,
    *time_pages.PAGES,
    *relation_pages.PAGES,
    *bring_pages.PAGES,
    *upkeep_pages.PAGES,
    *setup_pages.PAGES,
)
"""The first matching route wins."""

SETUP: Final = "/setup/persona"
# The page that makes a familiar; the first page of a home that has none.
_SETUPS: Final = (SETUP, "/setup")


def find_place(here: str) -> str | None:
    """Return the page of `NAVIGATION` that an address belongs to."""
    parts = here.replace("/as-of", "/asof", 1).strip("/").split("/")
    above = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
    paths = {path for pages in asking.NAVIGATION.values() for path in pages}
    return next((path for path in above if path in paths), None)


POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With `no-referrer`, browsers would send `Origin: null` with our own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""Sent with every page: nothing may be loaded from elsewhere, and no other page may embed it."""

_STATIC: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "talk.js": "text/javascript; charset=utf-8",
    "relations.js": "text/javascript; charset=utf-8",
    "d3-force.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
OPEN_TO_PROGRAMS: Final = ("/distill/", "/sessions/")
"""Prefixes of addresses for programs rather than people."""

_OWN_SITE: Final = frozenset({"", "same-origin", "none"})
_PURPOSES: Final = ("sec-purpose", "purpose", "x-purpose", "x-moz")

_PREFETCH: Final = {"prefetch", "prerender", "preview"}  # a prefetch, not a visit
_MOST_NOTES: Final = 100
_NOTE: Final = "note"


class Site:
    """The pages about the familiars of one home.

    Args:
        pool: The familiars.
        door: Access control.
        lease: Leases a familiar for a turn.
        begins_work: Whether turns here start the background work that falls due.
        familiar_id: Familiar of pages without a name; None for the chosen one.
        programs: Whether addresses for programs (`/distill/…`, `/sessions/…`) need no cookie,
            because the server in front authenticates their clients.
        reachable_at: Address for other machines; empty if unreachable.
    """

    def __init__(
        self,
        pool: FamiliarPool[Familiar],
        door: Door,
        lease: Callable[[str | None], AbstractAsyncContextManager[Familiar]],
        *,
        begins_work: bool = False,
        familiar_id: str | None = None,
        programs: bool = False,
        reachable_at: str = "",
    ) -> None:
        self._reachable_at = reachable_at
        self.pool = pool
        self._door = door
        self._lease = lease
        self._begins_work = begins_work
        self._familiar_id = familiar_id
        self._programs = programs
        self._notes: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._notes_lock = threading.Lock()
        self.ending = asyncio.Event()
        self.slots = StreamSlots()
        self._feeds: ChangeFeeds[None] = ChangeFeeds(self.ending)
        pages = [Route(p.path, self._endpoint(p), methods=[p.method]) for p in PAGES]
        pages.append(Route("/events", self._events))
        pages.append(Route("/chat", self._talk, methods=["POST"]))
        self._app = Starlette(
            routes=[
                Route("/static/{name}", _static_response),
                Route("/favicon.ico", _icon_response),
                *(Route(path, self._set_up, methods=["GET", "POST"]) for path in _SETUPS),
                Mount("/f/{familiar}", routes=list(pages)),
                *pages,
            ],
            exception_handlers={HTTPException: self._refuse_request, Exception: self._broken},
        )
        self._segments = {p.path.split("/")[1] for p in PAGES if p.path != "/"}
        self._segments |= {"f", "static", "events", "favicon.ico", "setup"}

    def owns(self, path: str) -> bool:
        """Tell whether an address is one of the pages."""
        return path == "/" or path.split("/")[1] in self._segments

    def is_for_programs(self, path: str) -> bool:
        """Tell whether an address is for programs rather than for people."""
        return path.startswith(OPEN_TO_PROGRAMS)

    def has_door(self, path: str, headers: dict[str, str]) -> bool:
        """Tell whether a request is subject to the cookie check instead of a token."""
        if not self.owns(path):
            return False
        is_known = self._door.is_open(headers.get("cookie", ""), headers.get("host", ""))
        return is_known or not self.is_for_programs(path)

    def end(self) -> None:
        """Stop streams that wait for changes, so that the server can stop."""
        self.ending.set()

    async def aclose(self) -> None:
        """Cancel turns in progress and close the familiars."""
        await talk_pages.cancel_turns()
        await self.pool.aclose()

    @contextmanager
    def _lease_familiar(self, name: str | None, *, alone: bool) -> Iterator[Familiar]:
        """Lease a familiar for one page, and close its journal afterwards."""
        with self.pool.hold(name, alone=alone) as familiar:
            try:
                yield familiar
            finally:
                if "journal" in familiar.__dict__:
                    familiar.journal.repository.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        out = add_headers(send, SAFE_HEADERS)
        app = self._let_in(scope, headers) or self._app
        await app(scope, receive, out)

    def _let_in(self, scope: Scope, headers: dict[str, str]) -> ASGIApp | None:
        """Return the response for a request without a valid cookie, or None to proceed."""
        host, path = headers.get("host", ""), scope["path"]
        if path.startswith("/static/") or (self._programs and self.is_for_programs(path)):
            return None
        query = QueryParams(scope["query_string"])
        is_visit = scope["method"] == "GET" and not _PREFETCH & {
            headers.get(name, "").partition(";")[0].strip() for name in _PURPOSES
        }
        if path == "/" and TOKEN in query and is_visit and self._door.take(query[TOKEN]):
            cookie = {"set-cookie": self._door.cookie(host)}
            return RedirectResponse("/", status_code=303, headers=cookie)
        if not self._door.is_open(headers.get("cookie", ""), host):
            return _page_response("locked", {"was_used": TOKEN in query and is_visit}, 403)
        foreign = headers.get("sec-fetch-site", "") not in _OWN_SITE
        if foreign and headers.get("sec-fetch-mode") != "navigate":
            return _page_response("locked", {"was_used": False}, 403)
        return RedirectResponse("/", status_code=303) if TOKEN in query else None

    def _endpoint(self, page: asking.WebPage) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            body = await request.body() if page.method == "POST" else b""
            return await asyncio.to_thread(self._answer, page, request, body)

        return answer

    async def _talk(self, request: Request) -> Response | TalkResponse:
        """Take a turn, streaming it to browsers that accept events."""
        lease, body = AsyncExitStack(), await request.body()
        try:
            form, files = await asyncio.to_thread(_read_body, request, body)
            familiar = await lease.enter_async_context(self._lease(self._asked_name(request)))
        except FamiliarError as error:
            return self._answer_error(request, error, _base_of(request))
        streams = "text/event-stream" in request.headers.get("accept", "")
        turn = PageTurn(familiar, form, files, begins_work=self._begins_work)

        def draw(end: ReplyEnd) -> Response:
            page = asking.WebPage("/chat", partial(show_outcome, turn, end, streams=streams))
            return self._answer(page, request, body)

        return TalkResponse(turn, draw, lease.aclose, streams=streams)

    def _asked_name(self, request: Request) -> str | None:
        """Return the familiar named by a request, or None for the chosen one."""
        name = request.path_params.get("familiar", self._familiar_id)
        if self.is_for_programs(request.url.path):
            name = request.query_params.get("persona") or name
            access = access_of(request.scope, self.pool.home)
            return access.find_familiar(name).id if access.grant else name
        return name

    def _answer(self, page: asking.WebPage, request: Request, body: bytes) -> Response:
        base = _base_of(request)
        try:
            name = self._asked_name(request)
            form, files = _read_body(request, body)
            with self._lease_familiar(name, alone=page.is_long) as familiar:
                is_person = self._door.is_open(
                    request.headers.get("cookie", ""), request.headers.get("host", "")
                )
                grant = access_of(request.scope, self.pool.home).grant
                users = grant.users if grant else ()
                by_owner = request.scope.get(BY_OWNER, False)
                asked = asking.PageRequest(
                    familiar,
                    OWNER if is_person else familiar.privacy.of_token(users, by_owner=by_owner),
                    tuple(list_familiars(self.pool.home)),
                    base,
                    {k: str(v) for k, v in request.path_params.items()},
                    dict(request.query_params),
                    form,
                    *(files[-1] if files else ()),
                )
                stamp = stamp_of_files(familiar.paths)  # before anything is read
                return self._response(asked, request, page.answer(asked), stamp)
        except FamiliarError as error:
            return self._answer_error(request, error, base)

    def _response(
        self, asked: asking.PageRequest, request: Request, answer: asking.Answer, stamp: str
    ) -> Response:
        if isinstance(answer, asking.Redirect):
            return RedirectResponse(self._with_note(answer), status_code=303)
        if isinstance(answer, asking.Data):
            return _data_response(answer)
        shared = self._shared_values(asked.base, asked.ids, request)
        shared["notes"] = (*shared["notes"], *_due_reminders(asked))
        zone = asked.familiar.zone
        return _page_response(
            answer.template,
            {
                **shared,
                "current": asked.familiar.paths.id,
                "zone": zone,
                "stamp": stamp,
                **answer.values,
            },
            answer.status,
        )

    def _shared_values(self, base: str, ids: tuple[str, ...], request: Request) -> dict[str, Any]:
        """Return the template values common to all pages."""
        with self._notes_lock:
            notes = self._notes.pop(request.query_params.get(_NOTE, ""), ())

        def to(*parts: object, **query: object) -> str:
            return asking.page_address(base, *parts, **query)

        here = request.url.path.removeprefix(base)
        place = find_place(here)
        return {
            "to": to,
            "rooms": ids
            and [
                {
                    "name": name,
                    "path": next(iter(pages)),
                    "pages": pages.items(),
                    "is_here": place in pages,
                }
                for name, pages in asking.NAVIGATION.items()
            ],
            "place": place,
            "ids": ids,
            "here": here,
            "notes": notes,
            "current": "",
            "zone": None,
            "reachable_at": self._reachable_at,
        }

    def _with_note(self, moved: asking.Redirect) -> str:
        """Return the redirect address, with the id of a note to show there."""
        if not moved.told:
            return moved.to
        key = secrets.token_urlsafe(9)
        with self._notes_lock:
            self._notes[key] = moved.told
            while len(self._notes) > _MOST_NOTES:
                self._notes.popitem(last=False)
        path, hash_, anchor = moved.to.partition("#")
        return f"{path}{'&' if '?' in path else '?'}{_NOTE}={key}{hash_}{anchor}"

    async def _set_up(self, request: Request) -> Response:
        body = await request.body() if request.method == "POST" else b""
        return await asyncio.to_thread(self._answer_setup, request, body)

    def _answer_setup(self, request: Request, body: bytes) -> Response:
        """Show the form for a new familiar, or make the one that it describes."""
        shared = self._shared_values("", tuple(list_familiars(self.pool.home)), request)
        if request.method != "POST":
            return _page_response("setup", {**shared, **setup_values({})}, 200)
        fields: dict[str, str] = {}
        try:
            fields, files = read_upload(request.headers.get("content-type", ""), body)
            if fields.get("do") == "test" or fields.get("use"):
                fields |= read_model_fields(fields)
                tested = try_choice(fields, fields.get(KEY, ""))
                return _page_response(
                    "setup", {**shared, **setup_values(fields, tested=tested)}, 200
                )
            origin, raw = files[-1] if files else ("", b"")
            familiar = make_familiar(self.pool.home, fields, raw, origin)
        except FamiliarError as error:
            again = setup_values(fields, str(error), error.hint or "")
            return _page_response("setup", {**shared, **again}, asking.http_status(error))
        place, next_step = (
            ("import", "Choose a file.") if fields.get("move_in") else ("", "Say hello.")
        )
        redirect = asking.Redirect(
            f"/f/{quote(familiar)}/{place}", (f"{familiar} is here. {next_step}",)
        )
        return RedirectResponse(self._with_note(redirect), status_code=303)

    def _answer_error(
        self, request: Request, error: FamiliarError, base: str = "", status: int | None = None
    ) -> Response:
        if status is None:
            status = asking.http_status(error)
        is_browser = "text/html" in request.headers.get("accept", "")
        if self.is_for_programs(request.url.path) and not is_browser:
            told = {"code": error.code, "message": str(error), "hint": error.hint}
            return JSONResponse({"error": told}, status)
        try:
            ids = tuple(list_familiars(self.pool.home))
        except FamiliarError:
            ids = ()
        shared = self._shared_values(base, ids, request)
        if request.url.path == "/" and isinstance(error, (UsageError, NotFoundError)):
            if not ids:
                return _page_response("setup", {**shared, **setup_values({})}, 200)
            return _page_response("familiars", shared, 200)
        return _page_response(
            "failed", {**shared, "message": str(error), "hint": error.hint}, status
        )

    async def _refuse_request(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:  # noqa: PLR2004
            told: FamiliarError = NotFoundError(f"There is no page at {request.url.path!r}")
            return self._answer_error(request, told)
        told = UsageError(f"{request.url.path!r} does not support {request.method}")
        return self._answer_error(request, told, status=error.status_code)

    async def _broken(self, request: Request, error: Exception) -> Response:
        told = FamiliarError(
            f"The page failed: {type(error).__name__}", hint="`familiar doctor` looks for causes."
        )
        return self._answer_error(request, told)

    async def _events(self, request: Request) -> Response:
        """Stream an event for each new turn or change, while the browser is connected."""
        name = request.path_params.get("familiar", self._familiar_id)
        try:
            paths = find_familiar(self.pool.home, name)
        except FamiliarError as error:
            return self._answer_error(request, error)
        feed = self._feeds.of(paths, _no_news)
        stamp = await asyncio.to_thread(stamp_of_files, paths)
        is_late = request.query_params.get("since", stamp) != stamp
        return EventStream(stream_changes(feed, is_late=is_late), self.slots.take())


async def _no_news() -> None:
    """Read no news, since the page reloads its parts."""


def _base_of(request: Request) -> str:
    return f"/f/{request.path_params['familiar']}" if "familiar" in request.path_params else ""


def _page_response(template: str, values: dict[str, Any], status: int) -> Response:
    return Response(
        draw_page(template, values).encode("utf-8", "replace"),
        status,
        {"cache-control": "no-store"},
        "text/html; charset=utf-8",
    )


def _due_reminders(request: asking.PageRequest) -> list[str]:
    """Return the owner's reminders that have become due, each on one page."""
    from familiar_cli.actions.memory.desk import fire_reminders, reminder_words

    if request.viewer != OWNER:
        return []
    with suppress(FamiliarError, OSError):  # the page of reminders reports the error
        return [reminder_words(item) for item in fire_reminders(request.familiar, "page")]
    return []


def _data_response(data: asking.Data) -> Response:
    headers = {"cache-control": "no-store"}
    if data.name:
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in data.name)
        headers["content-disposition"] = f'attachment; filename="{safe}"'
    return Response(data.body, data.status, headers, data.media_type)


async def _icon_response(_: Request) -> Response:
    return Response(static_file("icon.svg"), media_type=_STATIC["icon.svg"])


async def _static_response(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        raise HTTPException(404)
    body = stylesheet() if name == "page.css" else static_file(name)
    tag = f'"{sha256_of(body)[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, _STATIC[name])


def _read_body(
    request: Request, body: bytes
) -> tuple[dict[str, list[str]], list[tuple[str, bytes]]]:
    """Parse a form into its fields and its files (name and content)."""
    if _is_form(request):
        return asking.read_form(body), []
    kind = request.headers.get("content-type", "")
    if not body or not kind.lower().startswith("multipart/form-data"):
        return {}, []
    fields, files = read_upload(kind, body)
    return {name: [value] for name, value in fields.items()}, files


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded"


def add_headers(send: Send, added: Iterable[tuple[bytes, bytes]]) -> Send:
    """Return a `send` that adds headers to the response."""

    async def put(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return put
