"""The routes of the OpenAI-compatible API."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.responses import JSONResponse, Response

from familiar_cli.actions.health.job_schedule import SOURCE as JOB
from familiar_cli.base.config.home import cache_dir, find_familiar, list_familiars
from familiar_cli.base.config.serving import RATES, Access, RequestRates, access_of
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import status_of
from familiar_cli.base.text import slugify
from familiar_cli.base.times.clock import iso, now
from familiar_cli.base.who.identity import CHARACTERS, Author, Me, check_id
from familiar_cli.familiar import Familiar
from familiar_cli.servers.api_errors import ApiError, too_many_requests
from familiar_cli.servers.chat_api import api_format, replying, speakers, threads
from familiar_cli.servers.chat_api.api_format import (
    MOST_CHARS,
    ReplyRequest,
    find_model,
    other_character,
    parse_object,
    parse_request,
    unknown_model,
)
from familiar_cli.servers.chat_api.clients import job_name
from familiar_cli.servers.chat_api.responses_api import (
    previous_turn,
    to_chat_body,
    unknown_response,
)
from familiar_cli.servers.chat_api.turns import TurnTable, turn_key
from familiar_cli.servers.connection import BEAT, RETRY, ChangeFeeds, EventStream
from familiar_cli.servers.limits import RequestBudget, StreamSlots
from familiar_cli.store.history.selection import channels_written_by
from familiar_cli.store.search.embedder import EmbedderChoice, open_embedder

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import Request

    from familiar_cli.servers.chat_api.conversations import ServedFamiliar
    from familiar_cli.servers.familiar_pool import FamiliarPool

_MOST_TEXTS: Final = 2_048
_AUTO: Final = "auto"
_opened: dict[str, EmbedderChoice] = {}


def embed_texts(raw: bytes) -> dict[str, Any]:
    """Compute the vectors for an embeddings request.

    Raises:
        ApiError: The request is invalid, or the model is not available.
        EmbedderError: The model fails.
    """
    body = parse_object(raw)
    texts = _read_texts(body.get("input"))
    name = body.get("model")
    opened = _find_embedder(name if isinstance(name, str) and name else _AUTO)
    if opened.embedder is None:
        hint = f". Run `{opened.hint}`" if opened.hint else ""
        raise ApiError(404, f"{opened.reason}{hint}", code="model_not_found", param="model")
    vectors = opened.embedder.passages(texts)
    encoding = body.get("encoding_format") or "float"
    if encoding == "base64":
        items: list[Any] = [
            base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors
        ]
    elif encoding == "float":
        items = [[float(x) for x in row] for row in vectors]
    else:
        raise ApiError(400, "'encoding_format' must be float or base64", param="encoding_format")
    words = sum(len(text.split()) for text in texts)
    return api_format.embeddings_body(opened.embedder.spec.name, items, words)


def _find_embedder(name: str) -> EmbedderChoice:
    if name not in _opened or _opened[name].embedder is None:
        _opened[name] = open_embedder(name, cache_dir())
    return _opened[name]


def _read_texts(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
        raise ApiError(400, "'input' must be a string or a list of strings", param="input")
    if sum(map(len, texts)) > MOST_CHARS:
        raise ApiError(413, f"'input' holds more than {MOST_CHARS:,} characters", param="input")
    if len(texts) > _MOST_TEXTS:
        raise ApiError(400, f"'input' holds more than {_MOST_TEXTS:,} texts", param="input")
    return texts


_JSON: Final = "application/json"
_MOST_EVENTS: Final = 200
_AT_ONCE_BYTES: Final = 8 * 1024  # of a body that is parsed faster than a thread takes it over
_USUAL_MESSAGES: Final = 500  # of a conversation that is sent again with each message
_EVENT_FIELDS: Final = {"after": "number of a turn", "channel": "channel id"}


class JobNews(Struct, frozen=True):
    """Where the familiar wrote unasked.

    Args:
        since: The newest turn before it.
        channels: Where it wrote.
        told: The events of each person in a channel.
    """

    since: int
    channels: frozenset[str]
    told: dict[tuple[str, ...], asyncio.Future[list[dict[str, Any]]]] = field(default_factory=dict)


class Server:
    """The state of a running server.

    Args:
        pool: The familiars.
        ending: Set when the server shuts down.
        turns: The turns under way.
        slots: The streams that are open.
    """

    def __init__(
        self,
        pool: FamiliarPool[ServedFamiliar],
        ending: asyncio.Event,
        turns: TurnTable,
        slots: StreamSlots,
    ) -> None:
        self.pool = pool
        self.turns = turns
        self.slots = slots
        self._feeds: ChangeFeeds[JobNews] = ChangeFeeds(ending)
        self._newest: dict[str, int] = {}

    async def models(self, request: Request) -> Response:
        """List the models."""
        return JSONResponse(api_format.list_models(_made_at(self.pool.home, self._ids(request))))

    async def model(self, request: Request) -> Response:
        """Describe one model."""
        name = request.path_params["model"]
        data = api_format.list_models(_made_at(self.pool.home, self._ids(request)))["data"]
        for model in data:
            if model["id"] == name:
                return JSONResponse(model)
        raise unknown_model(name, self._ids(request))

    async def health(self, request: Request) -> Response:
        """Report that the server is running, and nothing else."""
        del request
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Report whether a familiar can be opened, and nothing about it."""
        del request

        def read_one() -> None:
            for familiar_id in list_familiars(self.pool.home)[:1]:
                with Familiar.load_from_disk(self.pool.home, familiar_id) as familiar:
                    familiar.history.newest_id()
                    familiar.memory.list_dir("")

        try:
            await asyncio.to_thread(read_one)
        except (FamiliarError, OSError):
            return JSONResponse({"status": "unavailable"}, status_code=503)
        return JSONResponse({"status": "ready"})

    async def chat(self, request: Request) -> replying.ReplyResponse:
        """Reply to a conversation."""
        return await self._reply(request, await self._read_request(request))

    async def responses(self, request: Request) -> replying.ReplyResponse:
        """Reply to a conversation, as the Responses API has it."""
        return await self._reply(request, await self._read_request(request, to_chat=to_chat_body))

    async def _reply(self, request: Request, asked: ReplyRequest) -> replying.ReplyResponse:
        headers = request.headers
        lease = AsyncExitStack()
        served, identity = await lease.enter_async_context(self._lease(asked, request))
        if identity.is_chore and not asked.memory_only and not asked.lines:
            await lease.aclose()
            raise ApiError(400, "The request has no message from a user", param="messages")
        key = turn_key(identity, headers)
        turn = self.turns.join(key)
        if turn is None:
            turn = self.turns.begin(served, identity, key, lease)
        else:
            await lease.aclose()
        leave = partial(self.turns.leave, turn)
        created_s = int(now().timestamp())
        return replying.ReplyResponse(
            turn, identity, served, leave, created_s=created_s, calls=turn.calls
        )

    async def context(self, request: Request) -> Response:
        """Recall memory for a conversation; no model is asked, and nothing is saved."""
        asked = await self._read_request(request, is_transcript=True)
        async with self._lease(asked, request) as (served, identity):
            if identity.is_chore:
                return JSONResponse({"memory": "", "recalled": [], "tokens": 0})
            result = await replying.recall_memory(served, identity, RequestBudget.of(request.scope))
        return JSONResponse(result)

    async def keep(self, request: Request) -> Response:
        """Store the newest exchange of a conversation that another model took part in."""
        asked = await self._read_request(request, is_transcript=True)
        async with self._lease(asked, request, len(asked.lines)) as (served, identity):
            lines = identity.asked.lines[:-1]
            if (
                job_name(identity.asked.body, lines, request.headers)
                or not identity.is_kept
                or not replying.has_exchange(identity.asked.lines)
            ):
                return JSONResponse({"kept": False, "turn": None, "reply_turn": None})
            kept = await replying.keep_exchange(served, identity, self.turns.alone)
        return JSONResponse(kept)

    async def keep_chat(self, request: Request) -> Response:
        """Store a whole chat as the program shows it, with its edits and deletions."""
        from familiar_cli.actions.talk.client_chat import parse_client_chat  # noqa: PLC0415

        _check_json(request)
        raw = await request.body()
        work = RequestBudget.of(request.scope).work
        body = await work(lambda: parse_object(raw))
        familiar_id = find_model(body, self._ids(request))
        chat = await work(lambda: parse_client_chat(body))
        async with self.pool.lease(familiar_id) as served:
            me = served.familiar.me()
            self._check_person(request, me.author, me)
            self._count_request(request, me.author)
            return JSONResponse(await replying.keep_chat(served, chat, self.turns.alone))

    async def events(self, request: Request) -> Response:
        """Report messages that the familiar wrote unprompted in a channel."""
        target = request.query_params
        name = find_model({"model": target.get("model")}, self._ids(request))
        channel = speakers.resolve_channel(request.headers) or target.get("channel", "")
        after = target.get("after", "0")
        if not channel or not after.isdecimal():
            field = "after" if channel else "channel"
            raise ApiError(400, f"{field!r} must be a {_EVENT_FIELDS[field]}", param=field)
        check_id(channel, "The channel id")

        async with self.pool.lease(name) as served:
            author = speakers.resolve_speaker(
                served.familiar, request.headers, target.get("user"), in_address=True
            )
            self._check_person(request, author, served.familiar.me())
            kind = self._checked_kind(request, served, channel, author)
            self._count_request(request, author)
        feed = self._feeds.of(find_familiar(self.pool.home, name), partial(self._read_news, name))
        since = feed.number
        items = await self._written_in(name, channel, author, int(after), kind)
        if "text/event-stream" not in request.headers.get("accept", ""):
            return JSONResponse({"events": items})
        grant = access_of(request.scope, self.pool.home).grant
        owners = (("token", grant.digest), ("person", grant.digest, author.slug)) if grant else ()
        release = self.slots.take(*owners)

        async def stream() -> AsyncGenerator[bytes]:
            yield RETRY
            turn, new = int(after), items
            async with aclosing(feed.listen(since)) as changes:
                while True:
                    for event in new:
                        if event["turn"] > turn:
                            turn = event["turn"]
                            data = f"id: {turn}\nevent: message\ndata: {json.dumps(event)}\n\n"
                            yield data.encode()
                    told = await anext(changes, None)
                    if told is None:
                        return
                    if not told:
                        yield BEAT
                    news = [one.news for one in told if channel in one.news.channels]
                    try:
                        new = await self._told_to(news, name, channel, author, kind) if news else []
                    except (ApiError, FamiliarError):  # they may not see the channel any more
                        return

        return EventStream(stream(), release)

    async def _read_news(self, name: str) -> JobNews:
        """Return the channels in which the familiar wrote unasked, read once for all listeners."""
        async with self.pool.lease(name) as served:
            history, since = served.familiar.history, self._newest.get(name, 0)

            def read() -> tuple[int, JobNews]:
                newest = history.newest_id()
                return newest, JobNews(since, channels_written_by(history, JOB, since))

            self._newest[name], news = await asyncio.to_thread(read)
            return news

    async def _told_to(
        self, news: list[JobNews], name: str, channel: str, author: Author, kind: str = ""
    ) -> list[dict[str, Any]]:
        """Return a change's events, read once for all streams of a person in a channel."""
        key = channel, author.slug, kind
        reading = news[0].told.get(key)
        if reading is None:
            since = news[0].since
            reading = asyncio.ensure_future(self._written_in(name, channel, author, since, kind))
            news[0].told[key] = reading
        return await asyncio.shield(reading)  # others wait for it, too

    async def _written_in(
        self, name: str, channel: str, author: Author, known: int, kind: str = ""
    ) -> list[dict[str, Any]]:
        """Return the familiar's unprompted messages that a person sees in a channel after a turn.

        Raises:
            ApiError: They may not see the channel.
        """
        async with self.pool.lease(name) as served:
            familiar = served.familiar

            def read() -> list[dict[str, Any]]:
                served.conversations.check_own(channel, author, kind)
                viewer = familiar.privacy.viewer_in(channel, author, kind)
                turns = familiar.history.recent(channel, _MOST_EVENTS, viewer=viewer)
                return [
                    {"turn": turn.id, "channel": channel, "at": iso(turn.at), "text": turn.content}
                    for turn in turns
                    if turn.id > known and turn.source == JOB
                ]

            return await asyncio.to_thread(read)

    async def foreign_api(self, request: Request) -> Response:
        """Refuse the APIs of other servers, naming the address to use."""
        raise ApiError(
            404,
            f"This server does not offer the API of {request.url.path!r}. Set your program to "
            "OpenAI's: `/v1/chat/completions`, or `/v1/responses`",
            code="unsupported_api",
        )

    async def _read_request(self, request: Request, **how: Any) -> ReplyRequest:  # noqa: ANN401
        _check_json(request)
        raw, ids = await request.body(), self._ids(request)
        if len(raw) <= _AT_ONCE_BYTES:
            return parse_request(raw, ids, **how)
        return await RequestBudget.of(request.scope).work(lambda: parse_request(raw, ids, **how))

    def _ids(self, request: Request) -> Access:
        """List the ids of the familiars that a request may see."""
        return access_of(request.scope, self.pool.home)

    def _check_person(self, request: Request, author: Author, me: Me) -> None:
        """Check that the token covers the speaker of a request.

        Raises:
            ApiError: It does not.
        """
        if not access_of(request.scope, self.pool.home).covers(author, me):
            raise ApiError(
                403,
                f"This token may not speak for {f'{author.platform}:{author.user_id}'!r}",
                code="not_covered",
                param=speakers.USER,
            )

    def _checked_kind(
        self, request: Request, served: ServedFamiliar, channel: str, author: Author
    ) -> str:
        """Check that the speaker may take part in a channel, and return the kind that is stated.

        A channel's kind adds somebody to those who are private in it if the token covers one of
        them, and so could have spoken there anyway.

        Raises:
            ApiError: The speaker may not, or there is no such kind.
        """
        kind, conversations = speakers.resolve_kind(request.headers), served.conversations
        grant, me = access_of(request.scope, self.pool.home).grant, served.familiar.me()
        may_add = not grant or any(grant.covers(one, me) for one in conversations.people(channel))
        conversations.check_own(channel, author, kind if may_add else "")
        return kind

    def _count_request(self, request: Request, author: Author, messages: int = 1) -> None:
        """Count a request against the speaker's limits, and a long one against its token's.

        Args:
            messages: How many it brings; more than a usual chat has count one by one.

        Raises:
            ApiError: The limit is exceeded, or would be by this request alone.
        """
        grant = access_of(request.scope, self.pool.home).grant
        if grant is None:
            return
        rates: RequestRates = request.scope[RATES]
        many = messages if messages > _USUAL_MESSAGES else 1
        limits = grant.person_per_minute, grant.person_per_day
        most = min(filter(None, (*limits, grant.per_minute, grant.per_day)), default=many)
        if many > max(most, _USUAL_MESSAGES):
            at_once = max(most, _USUAL_MESSAGES)
            raise ApiError(413, f"This token may send at most {at_once:,} messages at once")
        per_token, token = (grant.per_minute, grant.per_day), ("token", grant.digest)
        # The guard has counted one. What the token may not do does not count for the person.
        retry_s = rates.wait_s(token, *per_token, many - 1) if many > 1 else 0.0
        retry_s = retry_s or rates.count(("person", grant.digest, author.slug), *limits, many)
        if retry_s:
            raise too_many_requests(retry_s)
        rates.count(token, *per_token, many - 1)

    @asynccontextmanager
    async def _lease(
        self, asked: ReplyRequest, request: Request, messages: int = 1
    ) -> AsyncIterator[tuple[ServedFamiliar, speakers.RequestIdentity]]:
        """Lease the familiar of a chat request, and parse the request.

        Args:
            messages: How many it counts as; see `_count_request`.

        Raises:
            ApiError: The chat is with a character that is not a familiar here.
        """
        async with self.pool.lease(asked.familiar_id) as served:
            if asked.response is not None:
                asked = await RequestBudget.of(request.scope).work(
                    lambda: self._with_previous(request, served, asked)
                )
            them = self._participants(served, asked, request.headers)
            other = them.foreign_character
            if not other or them.include_familiar:
                identity = self._wanted(served, asked, request.headers, them)
                for author in {identity.author, *(line.author for line in identity.asked.lines)}:
                    if author and author.platform != CHARACTERS:
                        self._check_person(request, author, served.familiar.me())
                named = {asked.channel, "" if identity.is_chore else identity.channel_id}
                for channel in filter(None, named):  # before its words go to a model
                    self._checked_kind(request, served, channel, identity.author)
                self._count_request(request, identity.author, messages)
                yield served, identity
                return
        familiar_id = slugify(other)
        if familiar_id not in self._ids(request):
            raise other_character(other, asked.model)
        async with self._lease(replace(asked, familiar_id=familiar_id), request, messages) as lent:
            yield lent

    def _with_previous(
        self, request: Request, served: ServedFamiliar, asked: ReplyRequest
    ) -> ReplyRequest:
        """Put the turns that a request continues before its own messages.

        Raises:
            ApiError: There is no such turn, or the speaker may not know of it.
        """
        number = previous_turn(asked.response or {})
        if number is None:
            return asked
        author = speakers.resolve_speaker(served.familiar, request.headers, asked.person)
        self._check_person(request, author, served.familiar.me())
        kind = speakers.resolve_kind(request.headers)
        past = served.conversations.past_of_turn(number, author, kind)
        if past is None:
            raise unknown_response(f"resp_{number}")
        channel_id, lines = past
        try:  # before the words go anywhere, to another familiar perhaps
            self._checked_kind(request, served, channel_id, author)
        except ApiError as error:
            raise unknown_response(f"resp_{number}") from error
        messages = [{"role": line.role, "content": line.text} for line in lines]
        own = asked.body["messages"]
        at = 1 if own[0]["role"] == "system" else 0
        body = {**asked.body, "messages": [*own[:at], *messages, *own[at:]]}
        return replace(asked, lines=(*lines, *asked.lines), body=body, channel=channel_id)

    def _participants(
        self, served: ServedFamiliar, request: ReplyRequest, headers: Headers
    ) -> speakers.ChatParticipants:
        return speakers.read_participants(
            request.body,
            request.lines,
            served.names,
            character=speakers.name_of_character(headers),
            person=speakers.name_of_speaker(headers) or "",
        )

    def _wanted(
        self,
        served: ServedFamiliar,
        request: ReplyRequest,
        headers: Headers,
        them: speakers.ChatParticipants,
    ) -> speakers.RequestIdentity:
        speakers.check_type(headers)
        person = speakers.resolve_speaker(served.familiar, headers, request.person)
        familiar = served.familiar
        thread = threads.read_thread(
            request.body,
            request.lines,
            them.is_own,
            lambda text: familiar.history.shows_reply(
                text, viewer=familiar.privacy.viewer_in("", person)
            ),
        )
        if not (thread or them.person):
            thread = speakers.named_thread(request.lines, familiar.me())
        if thread:
            request = replace(request, lines=thread)
            them = speakers.in_thread(them, thread)
            if not speakers.names_speaker(headers, request.person):
                person = speakers.author_named(thread[-1].name) or person
        request = replace(
            request, lines=tuple(them.attribute(line, person) for line in request.lines)
        )
        job = job_name(request.body, request.lines, headers)
        job = job or ("" if request.is_said else "the continuation of a reply")
        return speakers.RequestIdentity(
            request,
            person,
            speakers.resolve_channel(headers) or request.channel,
            job=job or (them.foreign_character and "a reply by another character"),
            message_id=speakers.resolve_message_id(headers),
            unkept=speakers.unkept_by(headers, request.response or request.body),
            kind=speakers.resolve_kind(headers) or (threads.KIND if thread else ""),
        )

    async def embeddings(self, request: Request) -> Response:
        """Compute vectors of texts with the local model."""
        _check_json(request)
        raw = await request.body()
        return Response(
            await RequestBudget.of(request.scope).work(
                lambda: api_format.encode_body(embed_texts(raw))
            ),
            media_type=_JSON,
        )

    async def aclose(self) -> None:
        """End the turns under way, storing what they produced."""
        await self.turns.aclose()


def _made_at(home: Path, ids: Access) -> list[tuple[str, int]]:
    """Pair ids with the modification times of their settings, in seconds."""
    found = {name: status_of(home / name / "character.toml") for name in ids}
    return [(name, int(status.st_mtime) if status else 0) for name, status in found.items()]


def _check_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise ApiError(415, f"The request must be {_JSON}")
