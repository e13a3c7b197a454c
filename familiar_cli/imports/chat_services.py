"""Chats as services export them: ChatGPT, Claude, and Discord by DiscordChatExporter."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, TypedDict, cast

from familiar_cli.errors import BadInputError
from familiar_cli.identity import Author
from familiar_cli.imports.chat_times import read_time, stated_time
from familiar_cli.imports.foreign_chat import (
    CHATGPT,
    CLAUDE,
    DISCORD,
    Casting,
    ForeignChat,
    ForeignMessage,
    Skip,
    cast_speakers,
    read_object,
)
from familiar_cli.imports.foreign_files import MIB, dump_json
from familiar_cli.text import slugify, str_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from familiar_cli.history.rows import Role
    from familiar_cli.imports.foreign_chat import ChatFile, Reading


def shown_branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """Return the nodes from the root to `leaf`; a parent that is nowhere, or a loop, is the root.

    Args:
        parents: The parent of each node.
        leaf: The last node that is shown.
    """
    branch: list[str] = []
    seen: set[str] = set()
    node: str | None = leaf
    while node is not None and node in parents and node not in seen:
        seen.add(node)
        branch.append(node)
        node = parents[node]
    return branch[::-1]


MAX_ELEMENT_BYTES: Final = 64 * MIB
"""Largest element, that is, one conversation with all its branches."""

_BLOCK_BYTES: Final = MIB
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)
_DEPTH: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Where an element stands in its file, in bytes."""

    start: int
    end: int

    def read(self, stream: BinaryIO) -> bytes:
        """Return the element."""
        stream.seek(self.start)
        return stream.read(self.end - self.start)


def spans(source: ChatFile, *, inside: int | None = None) -> Iterator[ByteSpan]:
    """Yield where each object of the array in `source` stands.

    Args:
        source: The file.
        inside: Where the array begins, in bytes, that is a member of the one object in the file;
            None: the file is the array.

    Raises:
        BadInputError: The array does not end, or an element is too large.
    """
    with source.open() as stream:
        if inside is not None:
            stream.seek(inside)
        yield from _Scan(stream, source.name, outside=inside is not None).elements()


class _Scan:
    """Finds brackets outside of strings, block by block."""

    def __init__(self, stream: BinaryIO, name: str, *, outside: int) -> None:
        self._stream = stream
        self._name = name
        self._depth = outside
        self._wanted = outside + 2
        self._start = stream.tell()

    def elements(self) -> Iterator[ByteSpan]:
        offset = self._stream.tell()
        rest = b""
        while block := self._stream.read(_BLOCK_BYTES):
            rest += block
            if len(rest) > MAX_ELEMENT_BYTES or offset - self._start > MAX_ELEMENT_BYTES:
                self._refuse()
            done = 0
            for token in _TOKEN.finditer(rest):
                mark = token.group()
                if mark == b'"':  # a string that goes on in the next block
                    done = token.start()
                    break
                done = token.end()
                if mark in _DEPTH:
                    yield from self._step(_DEPTH[mark], offset + token.start())
            else:
                done = len(rest)
            offset += done
            rest = rest[done:]
        if self._depth:
            raise BadInputError(f"{self._name!r} is incomplete: its JSON ends too early")

    def _step(self, change: int, place: int) -> Iterator[ByteSpan]:
        self._depth += change
        if change > 0 and self._depth == self._wanted:
            self._start = place
        elif change < 0 and self._depth == self._wanted - 1:
            yield ByteSpan(self._start, place + 1)
            self._start = place + 1

    def _refuse(self) -> None:
        raise BadInputError(
            f"A conversation in {self._name!r} is larger than {MAX_ELEMENT_BYTES // MIB} MiB"
        )


_ID_CHARS = 8  # of an id, to tell apart conversations of one title


@dataclass(frozen=True, slots=True)
class ConversationParts:
    """One conversation, taken apart.

    Args:
        id: What it is known by.
        title: What it is called.
        began: When.
        shown: The messages of the branch that is shown.
        rest: All else that it says, other branches included.
        aside: How many messages of other branches are in `rest`.
    """

    id: str
    title: str
    began: datetime | None
    shown: tuple[ForeignMessage, ...]
    rest: dict[str, Any]
    aside: int


class Service(Protocol):
    """A service whose exports are read."""

    @property
    def format(self) -> str:
        """The name of the format."""

    def take_apart(self, value: dict[str, Any], reading: Reading) -> ConversationParts:
        """Return the parts of a conversation."""


def read_conversations(
    source: ChatFile, reading: Reading, service: Service, *, is_array: bool
) -> Iterator[ForeignChat | Skip]:
    """Yield the conversations in `source`, in its order; what is none is a `Skip`."""
    with source.open() as stream:
        start = stream.tell()
        found = spans(source) if is_array else iter([ByteSpan(start, source.size_bytes)])
        for number, span in enumerate(found, start=1):
            read = read_object(number, span.read(stream))
            yield read if isinstance(read, Skip) else _chat(source, span, read[2], reading, service)


def _chat(
    source: ChatFile, span: ByteSpan, value: dict[str, Any], reading: Reading, service: Service
) -> ForeignChat:
    parts = service.take_apart(value, reading)

    def again() -> ConversationParts:
        with source.open() as stream:
            return service.take_apart(json.loads(span.read(stream)), reading)

    return ForeignChat(
        format=service.format,
        name=parts.title or parts.id,
        channels=(_channel(parts),),
        began=parts.began,
        head=lambda: dump_json(again().rest, indent=None),
        messages=lambda: iter(again().shown),
        key=f"{service.format}:{parts.id}" if parts.id else "",
        aside=parts.aside,
        is_apart=True,
    )


def _channel(parts: ConversationParts) -> str:
    short = slugify(parts.id)[:_ID_CHARS].strip("-")
    return "-".join(filter(None, chain([slugify(parts.title, max_chars=40)], [short]))) or "chat"


def raw_json(value: object) -> str:
    """Return a part of a conversation as it is kept."""
    return dump_json(value, indent=None)


_CHATGPT_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_CHATGPT_SPOKEN: Final = frozenset({"text", "multimodal_text"})


class ChatGPTMessage(TypedDict, total=False):
    """A message, as far as it is read. Any of it may be missing, or be something else."""

    author: object
    create_time: object
    content: object
    metadata: object
    recipient: object
    weight: object


class ChatGPTNode(TypedDict, total=False):
    """A node of the tree that a conversation is."""

    parent: object
    children: object
    message: object


@dataclass(frozen=True, slots=True)
class ChatGPT:
    """Takes conversations of ChatGPT apart."""

    format: str = CHATGPT

    def take_apart(self, value: dict[str, Any], reading: Reading) -> ConversationParts:
        """Return the parts of a conversation."""
        nodes = _nodes(value)
        parents = {name: str_or_empty(node.get("parent")) or None for name, node in nodes.items()}
        branch = shown_branch(parents, _leaf(value, nodes))
        kept = {name: m for name in branch if (m := _spoken(nodes[name]))}
        shown = tuple(
            _chatgpt_message(number, found, reading)
            for number, found in enumerate(kept.values(), start=1)
        )
        rest = value | {"mapping": {n: _without(nodes[n], kept.get(n)) for n in nodes}}
        aside = sum(1 for name in nodes.keys() - set(branch) if _spoken(nodes[name]))
        return ConversationParts(
            id=str_or_empty(value.get("conversation_id")) or str_or_empty(value.get("id")),
            title=str_or_empty(value.get("title")),
            began=read_time(value.get("create_time"), reading.zone),
            shown=shown,
            rest=rest,
            aside=aside,
        )


def _nodes(value: dict[str, Any]) -> dict[str, ChatGPTNode]:
    mapping = value.get("mapping")
    found = mapping if isinstance(mapping, dict) else {}
    return {
        name: cast("ChatGPTNode", node) for name, node in found.items() if isinstance(node, dict)
    }


def _leaf(value: dict[str, Any], nodes: Mapping[str, ChatGPTNode]) -> str:
    """Return the node that the conversation ends in; without one, the last that has no child."""
    current = str_or_empty(value.get("current_node"))
    if current in nodes:
        return current
    return next((name for name in reversed(list(nodes)) if not nodes[name].get("children")), "")


def _spoken(node: ChatGPTNode) -> ChatGPTMessage | None:
    """Return a node's message, if there is one that says anything."""
    message = node.get("message")
    if not isinstance(message, dict):
        return None
    said = cast("ChatGPTMessage", message)
    return said if _role(said) in _CHATGPT_ROLES or _chatgpt_words(said) else None


def _chatgpt_message(number: int, found: ChatGPTMessage, reading: Reading) -> ForeignMessage:
    role = _role(found)
    stated = found.get("create_time")
    user = reading.cast.person("", Author(CHATGPT, "user"))
    return ForeignMessage(
        line=number,
        role=_CHATGPT_ROLES.get(role, "system"),
        author=user if role == "user" else None,
        speaker=role,
        text=_chatgpt_words(found),
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=raw_json(found),
        hidden=_is_hidden(found, role),
    )


def _is_hidden(found: ChatGPTMessage, role: str) -> bool:
    """Tell whether people were not shown it: tools, thoughts, and what was said to tools."""
    about = found.get("metadata")
    marked = isinstance(about, dict) and about.get("is_visually_hidden_from_conversation")
    content = found.get("content")
    spoken = isinstance(content, dict) and content.get("content_type") in _CHATGPT_SPOKEN
    to_all = found.get("recipient") in (None, "all")
    return bool(
        role not in _CHATGPT_ROLES or marked or found.get("weight") == 0 or not (spoken and to_all)
    )


def _chatgpt_words(found: ChatGPTMessage) -> str:
    content = found.get("content")
    if not isinstance(content, dict):
        return ""
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(text for part in parts if (text := _part(part)))
    thoughts = content.get("thoughts")
    if isinstance(thoughts, list):
        return "\n".join(str_or_empty(t.get("content")) for t in thoughts if isinstance(t, dict))
    return str_or_empty(content.get("text")) or str_or_empty(content.get("content"))


def _part(part: object) -> str:
    return str_or_empty(part.get("text")) if isinstance(part, dict) else str_or_empty(part)


def _role(message: ChatGPTMessage) -> str:
    author = message.get("author")
    return str_or_empty(author.get("role")) if isinstance(author, dict) else ""


def _without(node: ChatGPTNode, message: ChatGPTMessage | None) -> Mapping[str, object]:
    """Return a node without the message that became a turn."""
    return node if message is None else {k: v for k, v in node.items() if k != "message"}


_CLAUDE_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant"}


class ClaudeMessage(TypedDict, total=False):
    """A message, as far as it is read. Any of it may be missing, or be something else."""

    uuid: object
    parent_message_uuid: object
    sender: object
    created_at: object
    content: object
    text: object


@dataclass(frozen=True, slots=True)
class Claude:
    """Takes conversations of Claude apart."""

    format: str = CLAUDE

    def take_apart(self, value: dict[str, Any], reading: Reading) -> ConversationParts:
        """Return the parts of a conversation."""
        found = value.get("chat_messages")
        every = found if isinstance(found, list) else []
        messages = [cast("ClaudeMessage", m) for m in every if isinstance(m, dict)]
        shown = _shown(messages, str_or_empty(value.get("current_leaf_message_uuid")))
        kept = {id(message) for message in shown}
        others = [message for message in messages if id(message) not in kept]
        user = _user(value, reading)
        return ConversationParts(
            id=str_or_empty(value.get("uuid")),
            title=str_or_empty(value.get("name")),
            began=read_time(value.get("created_at"), reading.zone),
            shown=tuple(_claude_message(n, m, reading, user) for n, m in enumerate(shown, start=1)),
            rest=value | {"chat_messages": others},
            aside=len(others),
        )


def _shown(messages: list[ClaudeMessage], leaf: str) -> list[ClaudeMessage]:
    """Return the branch that ends in `leaf`; all messages where branches are not told."""
    by_id = {str_or_empty(message.get("uuid")): message for message in messages}
    if leaf not in by_id or len(by_id) != len(messages):
        return messages
    parents = {
        name: str_or_empty(m.get("parent_message_uuid")) or None for name, m in by_id.items()
    }
    if not any(parents.values()):
        return messages
    return [by_id[name] for name in shown_branch(parents, leaf)]


def _claude_message(
    number: int, found: ClaudeMessage, reading: Reading, user: Author
) -> ForeignMessage:
    sender = str_or_empty(found.get("sender"))
    role = _CLAUDE_ROLES.get(sender, "system")
    stated = found.get("created_at")
    return ForeignMessage(
        line=number,
        role=role,
        author=user if role == "user" else None,
        speaker=sender,
        text=_claude_words(found),
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=raw_json(found),
        hidden=role == "system",
    )


def _user(value: Mapping[str, Any], reading: Reading) -> Author:
    account = value.get("account")
    known = str_or_empty(account.get("uuid")) if isinstance(account, dict) else ""
    return reading.cast.person("", Author(CLAUDE, known or "user"))


def _claude_words(found: ClaudeMessage) -> str:
    """Return what was said: the text among the parts, else the text of the whole."""
    content = found.get("content")
    parts = [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []
    texts = [str_or_empty(part.get("text")) for part in parts if part.get("type") == "text"]
    return "\n\n".join(filter(None, texts)) or str_or_empty(found.get("text"))


DISCORD_PLATFORM: Final = "discord"

_HEAD_BYTES: Final = 256 * 1024  # in which the messages begin
_MESSAGES: Final = re.compile(rb'"messages"\s*:\s*\[')
_DISCORD_SPOKEN: Final = frozenset(("Default", "Reply", "19", "20", "23", "ChatInputCommand"))
"""The types of messages that people write; all others are Discord's own."""

_COLUMNS: Final = ["AuthorID", "Author", "Date", "Content"]


def is_discord_export(source: ChatFile) -> bool:
    """Tell whether a file of JSON is an export of a channel."""
    return _about(source) is not None


def is_discord_table(start: bytes) -> bool:
    """Tell whether a text begins like an export as a table."""
    first = start.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "")
    return [name.strip() for name in first.split(",")][: len(_COLUMNS)] == _COLUMNS


def read_discord(source: ChatFile, reading: Reading, *, channels: tuple[str, ...]) -> ForeignChat:
    """Return the chat in an export as JSON.

    Raises:
        RefusedError: It is not told who in it is the familiar.
    """
    about = _about(source) or {}
    guild, channel = (_object(about.get(name)) for name in ("guild", "channel"))
    named = _slug(channel.get("name"))
    server = _slug(guild.get("name"))
    own = tuple(filter(None, (named, f"{server}-{named}" if server and named else "")))
    return _discord_chat(
        source,
        reading,
        _Json(source),
        name=str_or_empty(channel.get("name")) or source.stem,
        channels=reading.channels or own or channels,
        key=f"{DISCORD}:{channel['id']}" if str_or_empty(channel.get("id")) else "",
        head=dump_json(about, indent=None),
        kind="a Discord export as JSON",
    )


def read_discord_table(
    source: ChatFile, reading: Reading, *, channels: tuple[str, ...]
) -> ForeignChat:
    """Return the chat in an export as comma-separated values.

    Raises:
        RefusedError: It is not told who in it is the familiar.
    """
    return _discord_chat(
        source,
        reading,
        _Table(source),
        name=source.stem,
        channels=channels,
        kind="a Discord export as CSV",
    )


def _discord_chat(
    source: ChatFile,
    reading: Reading,
    rows: _Json | _Table,
    *,
    name: str,
    channels: tuple[str, ...],
    kind: str,
    key: str = "",
    head: str = "",
) -> ForeignChat:
    speakers: dict[str, None] = {}
    for value in rows.values():
        if not isinstance(value, Skip) and _is_spoken(value[2]):
            speakers.setdefault(_speaker(value[2]))
    parts = cast_speakers(reading.cast, tuple(speakers), origin=source.name)
    reader = _Reader(rows.values, reading, parts)
    first = next((m for m in islice(reader.messages(), 3) if isinstance(m, ForeignMessage)), None)
    return ForeignChat(
        format=DISCORD,
        name=name,
        channels=channels,
        began=first.at if first else None,
        head=lambda: head,
        messages=reader.messages,
        key=key,
        kind=kind,
        roles=parts.roles,
    )


Row = tuple[int, str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Json:
    """The messages of an export as JSON, by their number."""

    source: ChatFile

    def values(self) -> Iterator[Row | Skip]:
        with self.source.open() as stream:
            found_at = _begin(self.source)
            for number, span in enumerate(spans(self.source, inside=found_at), start=1):
                found = read_object(number, span.read(stream))
                if isinstance(found, Skip) or "author" in found[2] or "content" in found[2]:
                    yield found


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows of an export as a table, by their line, in the words of the JSON."""

    source: ChatFile

    def values(self) -> Iterator[Row | Skip]:
        with self.source.open() as stream:
            text = io.TextIOWrapper(stream, "utf-8", errors="replace", newline="")
            rows = csv.DictReader(line.replace("\0", "") for line in _lines(text))
            csv.field_size_limit(16 * MIB)
            try:
                while True:
                    try:
                        row = next(rows)
                    except StopIteration:
                        return
                    except csv.Error as error:
                        yield Skip(rows.line_num, f"it is not CSV ({error})")
                        continue
                    yield _row(rows.line_num, row)
            finally:
                text.detach()


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(16 * MIB):
        yield line


def _row(line: int, row: dict[str | None, Any]) -> Row | Skip:
    if not row.get("Author") and not row.get("Content"):
        return Skip(line, "it has neither an author nor a text")
    files = [name for name in str_or_empty(row.get("Attachments")).split(",") if name]
    value = {
        "type": "Default",
        "timestamp": row.get("Date"),
        "content": row.get("Content") or "",
        "author": {"id": row.get("AuthorID") or "", "name": row.get("Author") or ""},
        "attachments": [{"fileName": name.rpartition("/")[2].partition("?")[0]} for name in files],
    }
    kept = {str(name): cell for name, cell in row.items()}
    return line, raw_json(kept), value


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages of one export."""

    values: Callable[[], Iterator[Row | Skip]]
    reading: Reading
    parts: Casting

    def messages(self) -> Iterator[ForeignMessage | Skip]:
        for found in self.values():
            yield found if isinstance(found, Skip) else self._message(*found)

    def _message(self, line: int, raw: str, value: dict[str, Any]) -> ForeignMessage:
        stated = value.get("timestamp")
        name = _speaker(value)
        role, author = self._who(name, value)
        text = _text(value)
        if role == "system":
            text = f"{name}: {text}" if name else text
        return ForeignMessage(
            line=line,
            role=role,
            author=author,
            speaker=name,
            text=text,
            stated=stated_time(stated),
            at=read_time(stated, self.reading.zone),
            raw=raw,
            hidden=role == "system",
            message_id=str_or_empty(value.get("id")),
        )

    def _who(self, name: str, value: dict[str, Any]) -> tuple[Role, Author | None]:
        if not _is_spoken(value):
            return "system", None
        role, author = self.parts.who(name)
        if author is None:
            return role, author
        writer = _object(value.get("author"))
        user_id = str_or_empty(writer.get("id")) or name
        author = Author(DISCORD_PLATFORM, user_id, str_or_empty(writer.get("name")) or None, name)
        return role, self.parts.me(name, author) if self.parts.roles[name] == "me" else author


def _begin(source: ChatFile) -> int:
    """Return where the list of messages begins, in bytes."""
    with source.open() as stream:
        start = stream.tell()
        found = _MESSAGES.search(stream.read(_HEAD_BYTES))
    return start + found.end() - 1 if found else start


def _about(source: ChatFile) -> dict[str, Any] | None:
    """Return what an export says before its messages; None: it is none."""
    with source.open() as stream:
        start = stream.read(_HEAD_BYTES)
    found = _MESSAGES.search(start)
    if not found or b'"channel"' not in start[: found.start()]:
        return None
    try:
        about = json.loads(start[: found.end()] + b"]}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(about, dict) or not isinstance(about.pop("messages", None), list):
        return None
    # When and of which days the export was made says nothing of the chat.
    for name in ("exportedAt", "dateRange"):
        about.pop(name, None)
    return about if isinstance(about.get("channel"), dict) else None


def _is_spoken(value: dict[str, Any]) -> bool:
    return str(value.get("type", "Default")) in _DISCORD_SPOKEN


def _speaker(value: dict[str, Any]) -> str:
    writer = _object(value.get("author"))
    found = str_or_empty(writer.get("nickname")).strip() or str_or_empty(writer.get("name")).strip()
    return found or str_or_empty(writer.get("id")) or "unknown"


def _text(value: dict[str, Any]) -> str:
    """Return what a message says, and a line for all that is in it besides."""
    lines = [str_or_empty(value.get("content"))]
    lines += [
        f"[attachment: {_called(item, 'fileName', 'url')}]" for item in _items(value, "attachments")
    ]
    lines += [f"[sticker: {_called(item, 'name', 'id')}]" for item in _items(value, "stickers")]
    for item in _items(value, "embeds"):
        parts = [str_or_empty(item.get(name)) for name in ("title", "description", "url")]
        said = " – ".join(part for part in parts if part and part not in lines[0])
        lines += [f"[embed: {said}]"] if said else []
    return "\n".join(filter(None, lines))


def _called(item: dict[str, Any], *names: str) -> str:
    return next(filter(None, (str_or_empty(item.get(name)) for name in names)), "unnamed")


def _items(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = value.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _slug(value: object) -> str:
    return slugify(str_or_empty(value), max_chars=40)
