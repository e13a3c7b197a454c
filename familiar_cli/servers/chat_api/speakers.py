"""Who sends a request, whose reply is wanted, and which requests are the program's own jobs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct
from msgspec.structs import replace as replace_struct

from familiar_cli.base.config.channel_kinds import check_kind
from familiar_cli.base.config.home import who_speaks
from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import fold, slugify
from familiar_cli.base.who.identity import (
    CHARACTERS,
    Author,
    Me,
    check_id,
    clean_name,
    is_placeholder,
    parse_author,
)
from familiar_cli.imports.cast import SILLY_TAVERN
from familiar_cli.servers.api_errors import ApiError, from_error
from familiar_cli.servers.chat_api import clients

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from familiar_cli.familiar import Familiar
    from familiar_cli.servers.chat_api.aligning import RequestLine
    from familiar_cli.servers.chat_api.api_format import ReplyRequest


USER: Final = "X-Familiar-User"
USER_NAME: Final = "X-Familiar-User-Name"
CHARACTER: Final = "X-Familiar-Character"
KIND: Final = "X-Familiar-Kind"
_OPEN_WEBUI_USER: Final = "X-OpenWebUI-User-Id"
_OPEN_WEBUI_NAME: Final = "X-OpenWebUI-User-Name"
_CHATS: Final = {  # header -> prefix of its channel ids
    clients.OPEN_WEBUI_CHAT: "open-webui",
    "X-LibreChat-Conversation-Id": "librechat",
}
_SWITCH: Final = {
    **dict.fromkeys(("no", "false", "0", "off"), False),
    **dict.fromkeys(("yes", "true", "1", "on"), True),
}


def resolve_speaker(
    familiar: Familiar, headers: Headers, person: str | None, *, in_address: bool = False
) -> Author:
    """Resolve the author of a request; by default the owner.

    Args:
        headers: The request's headers.
        person: The speaker named in the body, if any.
        in_address: `person` is from the address instead, where it may be `PLATFORM:ID`.

    Raises:
        ApiError: A field that names the speaker is invalid.
    """
    name = name_of_speaker(headers)
    channel_id, named = resolve_channel(headers), _read_header(headers, USER)
    if named is not None:
        with _naming_field(USER):
            return who_speaks(named, name, familiar.me(channel_id), field=USER)
    for field, platform, value in (
        (_OPEN_WEBUI_USER, "open_webui:", _read_header(headers, _OPEN_WEBUI_USER)),
        ("user", "" if in_address and ":" in (person or "") else "serve:", person),
    ):
        if value is not None:
            with _naming_field(field):
                return parse_author(platform + value, display_name=name, field=field)
    return who_speaks(None, name, familiar.me(channel_id))


def name_of_speaker(headers: Headers) -> str | None:
    """Return the speaker's display name, or None if the request has none."""
    return clean_name(_read_header(headers, USER_NAME) or _read_header(headers, _OPEN_WEBUI_NAME))


def name_of_character(headers: Headers) -> str:
    """Return the name of the character whose reply is wanted; empty if not stated."""
    return clean_name(_read_header(headers, CHARACTER)) or ""


def resolve_channel(headers: Headers) -> str:
    """Return the channel that a request names; empty if none.

    A program that leaves its own chat header unfilled (a temporary chat) names none.

    Raises:
        ApiError: A header that names the channel is invalid.
    """
    if header := _read_header(headers, clients.CHANNEL):
        with _naming_field(clients.CHANNEL):
            return check_id(header, clients.CHANNEL)
    for field, program in _CHATS.items():
        chat = _read_header(headers, field)
        if chat and not is_placeholder(chat) and not clients.unkept_reason(headers, {}):
            with _naming_field(field):
                return check_id(f"{program}-{chat}", field)
    return ""


def resolve_message_id(headers: Headers) -> str:
    """Return the message's id on its platform; empty if there is none.

    Raises:
        ApiError: The header is invalid.
    """
    header = _read_header(headers, clients.MESSAGE)
    if not header:
        return ""
    with _naming_field(clients.MESSAGE):
        return check_id(header, clients.MESSAGE)


def resolve_kind(headers: Headers) -> str:
    """Return the conversation's kind as the request states it; empty if it does not.

    Raises:
        ApiError: No such kind.
    """
    name = (_read_header(headers, KIND) or "").strip().lower()
    with _naming_field(KIND):
        return check_kind(name) if name else ""


def check_type(headers: Headers) -> None:
    """Check the kind of generation that a request states, if it does.

    Raises:
        ApiError: No such kind.
    """
    name = (_read_header(headers, clients.TYPE) or "").strip().lower()
    if name and name not in clients.TYPES:
        known = ", ".join(sorted(clients.TYPES))
        raise ApiError(400, f"{clients.TYPE} must be one of {known}", param=clients.TYPE)


def unkept_by(headers: Headers, body: Mapping[str, Any]) -> str:
    """Return why a request is not stored; empty if it is, as by default.

    Raises:
        ApiError: The header is neither yes nor no.
    """
    text = (_read_header(headers, clients.KEEP) or "").lower()
    if not text:
        return clients.unkept_reason(headers, body)
    if text not in _SWITCH:
        raise ApiError(400, f"{clients.KEEP} must be 'yes' or 'no'", param=clients.KEEP)
    return "" if _SWITCH[text] else f"{clients.KEEP} is no"


def _read_header(headers: Headers, name: str) -> str | None:
    """Read a header, decoding percent-encoding; None if it was not sent.

    Programs send UTF-8, percent-encoded or not, and old ones Latin-1.
    """
    values = headers.getlist(name)
    if len(values) > 1:
        raise ApiError(400, f"{name} was sent {len(values)} times; send it once", param=name)
    if not values:
        return None
    raw = unquote_to_bytes(values[0].encode("latin-1"))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if "%" in values[0]:
            raise ApiError(400, f"{name} is not UTF-8", param=name) from error
        return values[0]


@contextmanager
def _naming_field(field: str) -> Iterator[None]:
    """Add the name of the request's field to errors about an invalid id."""
    try:
        yield
    except UsageError as error:
        refused = from_error(error)
        refused.param = field
        raise refused from error


_NAME: Final = r"([^\n\[\]]{1,100}?)"
_PROMPTS: Final = (  # as SillyTavern writes them; the last one names whose reply is wanted
    re.compile(rf"\bWrite {_NAME}['’]s next reply\b(?: in a fictional chat between {_NAME}[.\n])?"),
    re.compile(rf"\bWrite the next reply only as {_NAME}[.\]]"),
)
_MEMBERS: Final = re.compile(r"\bGroup members: ([^\n\]]{1,2000})\]")
_MOST_CHARS: Final = 100_000  # of an instruction
_PREFIX: Final = re.compile(r"([^\n:]{1,100}): ?(?=\S)")


class ChatParticipants(Struct, frozen=True):
    """The participants of a chat.

    Args:
        own: Names of the familiar, case-folded.
        character: The character whose reply is wanted; empty if not stated.
        person: Name of the person who speaks; empty if not stated.
        names: All names in the prompt or in front of lines.
    """

    own: frozenset[str]
    character: str = ""
    person: str = ""
    names: frozenset[str] = frozenset()

    def is_own(self, name: str) -> bool:
        """Tell whether a name is one of the familiar's."""
        return fold(name) in self.own or slugify(name) in self.own

    @property
    def foreign_character(self) -> str:
        """The character whose reply is wanted, if it is not the familiar; else empty."""
        return "" if not self.character or self.is_own(self.character) else self.character

    @property
    def include_familiar(self) -> bool:
        """Whether the familiar is among the named participants."""
        return any(map(self.is_own, self.names))

    def attribute(self, line: RequestLine, person: Author) -> RequestLine:
        """Assign a line to its author, removing a name in front of its text.

        Args:
            person: The speaker of the request.
        """
        name, text = line.name, line.text
        if not name and (found := _PREFIX.match(text)):
            expected = {self.person} if line.role == "user" else self.names
            if found[1] in expected - {""}:
                name, text = found[1], text[found.end() :]
        line = replace(line, text=text)
        if line.role == "user":
            is_other = name and fold(name) != fold(self.person or name)
            return replace(line, author=_author_named(SILLY_TAVERN, name) if is_other else person)
        if not name or line.role == "system" or self.is_own(name):
            return line
        return replace(line, role="user", author=_author_named(CHARACTERS, name))


def read_participants(
    body: Mapping[str, Any],
    lines: Sequence[RequestLine],
    own: Collection[str],
    *,
    character: str = "",
    person: str = "",
) -> ChatParticipants:
    """Find the participants of the chat that a request comes from.

    Args:
        body: The request.
        lines: Its conversation.
        own: Names of the familiar.
        character: The character named in a header; empty if none.
        person: The person's name from a header; empty if none.
    """
    folded = frozenset(map(fold, own)) | frozenset(filter(None, map(slugify, own)))
    names = {line.name for line in lines if line.name and line.role == "assistant"}
    between: list[str] = []
    for text in _own_instructions(body):
        for match in (*_PROMPTS[1].finditer(text), *_PROMPTS[0].finditer(text)):
            character = character or match[1]
            if match.re is _PROMPTS[0] and match[2]:
                between = re.split(r",? and |, ", match[2])
        for match in _MEMBERS.finditer(text):
            names.update(part.strip() for part in match[1].split(","))
    if len(between) > 1:
        person = person or between[-1]
        names.update(between[:-1])
    names.update(filter(None, (character,)))
    names.discard(person)
    return ChatParticipants(folded, character, person, frozenset(names))


def _own_instructions(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the program's own texts, which no person said."""
    for message in body["messages"]:
        if message.get("role") == "system" and isinstance(message.get("content"), str):
            yield message["content"][:_MOST_CHARS]


def _author_named(platform: str, name: str) -> Author:
    return Author(platform, name, display_name=name)


def author_named(name: str) -> Author | None:
    """Return the author that a program names without an account; None for an empty name."""
    return _author_named(SILLY_TAVERN, name) if clean_name(name) else None


def names_speaker(headers: Headers, person: str | None) -> bool:
    """Tell whether a request names its speaker's account."""
    return person is not None or USER in headers or _OPEN_WEBUI_USER in headers


def named_thread(lines: tuple[RequestLine, ...], me: Me) -> tuple[RequestLine, ...]:
    """Return the lines of a conversation in which users of several names speak; else none.

    The names of the owner's personas, which SillyTavern may send in turn, are all the owner.
    """
    names = {fold(line.name): line.name for line in lines if line.role == "user" and line.name}
    own = (me.is_me(author_named(name)) or fold(name) == fold(me.name) for name in names.values())
    return lines if len(names) > 1 and not all(own) else ()


def in_thread(them: ChatParticipants, thread: Sequence[RequestLine]) -> ChatParticipants:
    """Return the participants of a chat whose newest line has its speaker's name."""
    return replace_struct(them, person=thread[-1].name or them.person)


class RequestIdentity(Struct, frozen=True):
    """The identity of a request: its author, conversation and message.

    Args:
        asked: The request.
        channel_id: The conversation named by the program; empty if none.
        job: The job of the program that it is: it is answered without memory, and nothing is
            stored; empty if it is none.
        message_id: The message's id on its platform; empty if none.
        unkept: Why neither the message nor the reply is stored; empty if they are.
        kind: The conversation's kind; empty if not stated.
    """

    asked: ReplyRequest
    author: Author
    channel_id: str = ""
    job: str = ""
    message_id: str = ""
    unkept: str = ""
    kind: str = ""

    @property
    def is_chore(self) -> bool:
        """Whether it is a job of the program."""
        return bool(self.job)

    @property
    def is_kept(self) -> bool:
        """Whether the message and the reply are stored."""
        return not self.unkept

    @property
    def passes_events(self) -> bool:
        """Whether the events of the model server are passed on unchanged."""
        return (self.asked.memory_only or self.is_chore) and self.asked.response is None


def key_of(identity: RequestIdentity) -> str:
    """Return a key shared by requests of one conversation, before it is looked up.

    Two simultaneous requests share their channel, or their first lines.
    """
    if identity.channel_id:
        return identity.channel_id
    first = "\n".join(f"{line.role}\n{line.text}" for line in identity.asked.lines[:2])
    return sha256(first.encode("utf-8", "surrogatepass")).hexdigest()


class ConversationLocks:
    """Serialises requests of the same conversation."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of one key."""
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[name]
            if users == 1:
                del self._locks[name]
            else:
                self._locks[name] = (lock, users - 1)
