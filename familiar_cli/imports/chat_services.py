"""Read chats exported by services: ChatGPT, Claude, and Discord by DiscordChatExporter."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from familiar_cli.base.text import slugify, str_or_empty
from familiar_cli.base.who.identity import Author
from familiar_cli.imports.chat_times import read_time, stated_time
from familiar_cli.imports.foreign_chat import (
    CHATGPT,
    CLAUDE,
    DISCORD,
    ByteSpan,
    Casting,
    ChatFile,
    ForeignChat,
    ForeignMessage,
    Reading,
    Row,
    Skip,
    array_objects,
    cast_speakers,
    object_spans,
    read_object,
    read_rows,
    readable_rows,
)
from familiar_cli.imports.foreign_files import MIB, as_object, json_line, object_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from familiar_cli.store.history.rows import Role


class ConversationParts(Struct, frozen=True):
    """A parsed conversation.

    Args:
        id: Its stable id.
        title: Its title.
        began: Its start time.
        shown: The messages of the active branch.
        rest: All other data, including other branches.
        aside: Number of messages of other branches in `rest`.
    """

    id: str
    title: str
    began: datetime | None
    shown: tuple[ForeignMessage, ...]
    rest: dict[str, Any]
    aside: int


class Service(NamedTuple):
    """A supported service: its format and the parser of its conversations."""

    format: str
    take_apart: Callable[[dict[str, Any], Reading], ConversationParts]


_ID_CHARS: Final = 8  # characters of an id that distinguish conversations of one title


def read_conversations(
    source: ChatFile, reading: Reading, service: Service, *, is_array: bool
) -> Iterator[ForeignChat | Skip]:
    """Yield the conversations in `source`, in order, and a `Skip` for anything else."""
    with source.open() as stream:
        start = stream.tell()
        found = object_spans(source) if is_array else iter([ByteSpan(start, source.size_bytes)])
        for number, span in enumerate(found, start=1):
            read = read_object(number, span.read(stream))
            yield (
                read
                if isinstance(read, Skip)
                else _conversation(source, span, read[2], reading, service)
            )


def _conversation(
    source: ChatFile, span: ByteSpan, value: dict[str, Any], reading: Reading, service: Service
) -> ForeignChat:
    parts = service.take_apart(value, reading)

    def again() -> ConversationParts:
        with source.open() as stream:
            return service.take_apart(json.loads(span.read(stream)), reading)

    names = (slugify(parts.title, max_chars=40), slugify(parts.id)[:_ID_CHARS].strip("-"))
    return ForeignChat(
        format=service.format,
        name=parts.title or parts.id,
        channels=("-".join(filter(None, names)) or "chat",),
        began=parts.began,
        head=lambda: json_line(again().rest),
        messages=lambda: iter(again().shown),
        key=f"{service.format}:{parts.id}" if parts.id else "",
        aside=parts.aside,
        is_apart=True,
    )


def shown_branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """Return the nodes from the root to `leaf`; a missing parent or a cycle ends the path.

    Args:
        parents: The parent of each node.
        leaf: The last node of the active branch.
    """
    branch: list[str] = []
    seen: set[str] = set()
    node: str | None = leaf
    while node is not None and node in parents and node not in seen:
        seen.add(node)
        branch.append(node)
        node = parents[node]
    return branch[::-1]


_CHATGPT_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_CHATGPT_SPOKEN: Final = frozenset({"text", "multimodal_text"})


def _take_apart_chatgpt(value: dict[str, Any], reading: Reading) -> ConversationParts:
    mapping = as_object(value.get("mapping"))
    nodes = {name: node for name, node in mapping.items() if isinstance(node, dict)}
    parents = {name: str_or_empty(node.get("parent")) or None for name, node in nodes.items()}
    branch = shown_branch(parents, _chatgpt_leaf(value, nodes))
    kept = {name: m for name in branch if (m := _chatgpt_spoken(nodes[name]))}
    shown = tuple(
        _chatgpt_message(number, found, reading)
        for number, found in enumerate(kept.values(), start=1)
    )
    # Keep the node, without the message that became a turn.
    rest = {
        name: {k: v for k, v in node.items() if k != "message"} if name in kept else node
        for name, node in nodes.items()
    }
    return ConversationParts(
        id=str_or_empty(value.get("conversation_id")) or str_or_empty(value.get("id")),
        title=str_or_empty(value.get("title")),
        began=read_time(value.get("create_time"), reading.zone),
        shown=shown,
        rest=value | {"mapping": rest},
        aside=sum(1 for name in nodes.keys() - set(branch) if _chatgpt_spoken(nodes[name])),
    )


def _chatgpt_leaf(value: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> str:
    """Return the conversation's current node; if none is stated, the last without children."""
    current = str_or_empty(value.get("current_node"))
    if current in nodes:
        return current
    return next((name for name in reversed(list(nodes)) if not nodes[name].get("children")), "")


def _chatgpt_spoken(node: dict[str, Any]) -> dict[str, Any] | None:
    """Return a node's message, if it has text."""
    message = node.get("message")
    if not isinstance(message, dict):
        return None
    return message if _chatgpt_role(message) in _CHATGPT_ROLES or _chatgpt_words(message) else None


def _chatgpt_message(number: int, found: dict[str, Any], reading: Reading) -> ForeignMessage:
    role = _chatgpt_role(found)
    stated = found.get("create_time")
    return ForeignMessage(
        line=number,
        role=_CHATGPT_ROLES.get(role, "system"),
        author=reading.cast.person("", Author(CHATGPT, "user")) if role == "user" else None,
        speaker=role,
        text=_chatgpt_words(found),
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=json_line(found),
        hidden=_is_hidden(found, role),
    )


def _is_hidden(found: dict[str, Any], role: str) -> bool:
    """Tell whether a message was hidden from people: tools, thoughts, and messages to tools."""
    marked = as_object(found.get("metadata")).get("is_visually_hidden_from_conversation")
    spoken = as_object(found.get("content")).get("content_type") in _CHATGPT_SPOKEN
    to_all = found.get("recipient") in (None, "all")
    return bool(
        role not in _CHATGPT_ROLES or marked or found.get("weight") == 0 or not (spoken and to_all)
    )


def _chatgpt_words(found: dict[str, Any]) -> str:
    content = as_object(found.get("content"))
    parts = content.get("parts")
    if isinstance(parts, list):
        texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
        return "\n".join(text for text in texts if isinstance(text, str) and text)
    if isinstance(content.get("thoughts"), list):
        thoughts = object_list(content["thoughts"])
        return "\n".join(str_or_empty(thought.get("content")) for thought in thoughts)
    return str_or_empty(content.get("text")) or str_or_empty(content.get("content"))


def _chatgpt_role(message: dict[str, Any]) -> str:
    return str_or_empty(as_object(message.get("author")).get("role"))


_CLAUDE_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant"}


def _take_apart_claude(value: dict[str, Any], reading: Reading) -> ConversationParts:
    messages = object_list(value.get("chat_messages"))
    shown = _claude_branch(messages, str_or_empty(value.get("current_leaf_message_uuid")))
    kept = {id(message) for message in shown}
    others = [message for message in messages if id(message) not in kept]
    account = str_or_empty(as_object(value.get("account")).get("uuid"))
    user = reading.cast.person("", Author(CLAUDE, account or "user"))
    return ConversationParts(
        id=str_or_empty(value.get("uuid")),
        title=str_or_empty(value.get("name")),
        began=read_time(value.get("created_at"), reading.zone),
        shown=tuple(_claude_message(n, m, reading, user) for n, m in enumerate(shown, start=1)),
        rest=value | {"chat_messages": others},
        aside=len(others),
    )


def _claude_branch(messages: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """Return the branch that ends in `leaf`; all messages if the export has no branches."""
    by_id = {str_or_empty(message.get("uuid")): message for message in messages}
    parents = {
        name: str_or_empty(m.get("parent_message_uuid")) or None for name, m in by_id.items()
    }
    if leaf not in by_id or len(by_id) != len(messages) or not any(parents.values()):
        return messages
    return [by_id[name] for name in shown_branch(parents, leaf)]


def _claude_message(
    number: int, found: dict[str, Any], reading: Reading, user: Author
) -> ForeignMessage:
    sender = str_or_empty(found.get("sender"))
    role = _CLAUDE_ROLES.get(sender, "system")
    stated = found.get("created_at")
    # The text parts of the message, else its overall text.
    parts = [part for part in object_list(found.get("content")) if part.get("type") == "text"]
    texts = [str_or_empty(part.get("text")) for part in parts]
    return ForeignMessage(
        line=number,
        role=role,
        author=user if role == "user" else None,
        speaker=sender,
        text="\n\n".join(filter(None, texts)) or str_or_empty(found.get("text")),
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=json_line(found),
        hidden=role == "system",
    )


SERVICES: Final = {
    "mapping": Service(CHATGPT, _take_apart_chatgpt),
    "chat_messages": Service(CLAUDE, _take_apart_claude),
}
"""By the field that only a conversation of the service has."""

DISCORD_PLATFORM: Final = "discord"

_HEAD_BYTES: Final = 256 * 1024  # within which the messages begin
_MESSAGES: Final = re.compile(rb'"messages"\s*:\s*\[')
_DISCORD_SPOKEN: Final = frozenset(("Default", "Reply", "19", "20", "23", "ChatInputCommand"))
"""The types of messages that people write; all others are Discord's own."""

_COLUMNS: Final = ["AuthorID", "Author", "Date", "Content"]


def is_discord_export(source: ChatFile) -> bool:
    """Tell whether a JSON file is an export of a channel."""
    return _discord_head(source) is not None


def is_discord_table(start: bytes) -> bool:
    """Tell whether a text begins like an export as a table."""
    first = start.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "")
    return [name.strip() for name in first.split(",")][: len(_COLUMNS)] == _COLUMNS


def read_discord(source: ChatFile, reading: Reading, *, channels: tuple[str, ...]) -> ForeignChat:
    """Read the chat in a JSON export.

    Raises:
        RefusedError: Which speaker is the familiar is ambiguous.
    """
    about = _discord_head(source) or {}
    guild, channel = (as_object(about.get(name)) for name in ("guild", "channel"))
    server, named = (slugify(str_or_empty(o.get("name")), max_chars=40) for o in (guild, channel))
    own = tuple(filter(None, (named, f"{server}-{named}" if server and named else "")))
    return _discord_chat(
        source,
        reading,
        partial(_discord_rows, source),
        name=str_or_empty(channel.get("name")) or source.stem,
        channels=reading.channels or own or channels,
        key=f"{DISCORD}:{channel['id']}" if str_or_empty(channel.get("id")) else "",
        head=json_line(about),
        kind="a Discord export as JSON",
    )


def read_discord_table(
    source: ChatFile, reading: Reading, *, channels: tuple[str, ...]
) -> ForeignChat:
    """Read the chat in a CSV export.

    Raises:
        RefusedError: Which speaker is the familiar is ambiguous.
    """
    return _discord_chat(
        source,
        reading,
        partial(_discord_table_rows, source),
        name=source.stem,
        channels=channels,
        kind="a Discord export as CSV",
    )


def _discord_chat(
    source: ChatFile,
    reading: Reading,
    rows: Callable[[], Iterator[Row | Skip]],
    *,
    name: str,
    channels: tuple[str, ...],
    kind: str,
    key: str = "",
    head: str = "",
) -> ForeignChat:
    spoken = (value for *_, value in readable_rows(rows()) if _is_spoken(value))
    people: dict[str, Author] = {}
    for value in spoken:
        people.setdefault(_speaker_name(value), _discord_account(value))
    parts = cast_speakers(reading.cast, people, origin=source.name)

    def messages() -> Iterator[ForeignMessage | Skip]:
        return read_rows(rows(), partial(_discord_message, reading, parts))

    first = next((m for m in islice(messages(), 3) if isinstance(m, ForeignMessage)), None)
    return ForeignChat(
        format=DISCORD,
        name=name,
        channels=channels,
        began=first.at if first else None,
        head=lambda: head,
        messages=messages,
        key=key,
        kind=kind,
        notes=reading.cast.note_strangers(parts.roles, people),
        roles=parts.roles,
    )


def _discord_rows(source: ChatFile) -> Iterator[Row | Skip]:
    """Yield the numbered messages of a JSON export."""
    with source.open() as stream:
        start = stream.tell()
        found = _MESSAGES.search(stream.read(_HEAD_BYTES))
    begin = start + found.end() - 1 if found else start
    for row in array_objects(source, inside=begin):
        if isinstance(row, Skip) or "author" in row[2] or "content" in row[2]:
            yield row


def _discord_table_rows(source: ChatFile) -> Iterator[Row | Skip]:
    """Yield the rows of a CSV export by line, converted to the keys of the JSON."""
    with source.open() as stream:
        text = io.TextIOWrapper(stream, "utf-8", errors="replace", newline="")
        lines = iter(lambda: text.readline(16 * MIB), "")
        rows = csv.DictReader(line.replace("\0", "") for line in lines)
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
                yield _discord_table_row(rows.line_num, row)
        finally:
            text.detach()


def _discord_table_row(line: int, row: dict[str | None, Any]) -> Row | Skip:
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
    return line, json_line({str(name): cell for name, cell in row.items()}), value


def _discord_account(value: dict[str, Any]) -> Author:
    name, writer = _speaker_name(value), as_object(value.get("author"))
    user_id = str_or_empty(writer.get("id")) or name
    return Author(DISCORD_PLATFORM, user_id, str_or_empty(writer.get("name")) or None, name)


def _discord_message(
    reading: Reading, parts: Casting, line: int, raw: str, value: dict[str, Any]
) -> ForeignMessage:
    stated = value.get("timestamp")
    name = _speaker_name(value)
    role, author = parts.who(name) if _is_spoken(value) else ("system", None)
    if author:
        author = _discord_account(value)
        author = parts.me(name, author) if parts.roles[name] == "me" else author
    text = _discord_words(value)
    return ForeignMessage(
        line=line,
        role=role,
        author=author,
        speaker=name,
        text=f"{name}: {text}" if role == "system" and name else text,
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=raw,
        hidden=role == "system",
        message_id=str_or_empty(value.get("id")),
    )


def _discord_head(source: ChatFile) -> dict[str, Any] | None:
    """Read an export's header, before its messages; None if it is another file."""
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
    # The date and range of the export are not properties of the chat.
    for name in ("exportedAt", "dateRange"):
        about.pop(name, None)
    return about if isinstance(about.get("channel"), dict) else None


def _is_spoken(value: dict[str, Any]) -> bool:
    return str(value.get("type", "Default")) in _DISCORD_SPOKEN


def _speaker_name(value: dict[str, Any]) -> str:
    writer = as_object(value.get("author"))
    found = str_or_empty(writer.get("nickname")).strip() or str_or_empty(writer.get("name")).strip()
    return found or str_or_empty(writer.get("id")) or "unknown"


def _discord_words(value: dict[str, Any]) -> str:
    """Return the text of a message, with a line for each attachment, sticker and embed."""
    lines = [str_or_empty(value.get("content"))]
    for kind, *names in (("attachment", "fileName", "url"), ("sticker", "name", "id")):
        for item in object_list(value.get(f"{kind}s")):
            called = next(filter(None, (str_or_empty(item.get(n)) for n in names)), "unnamed")
            lines.append(f"[{kind}: {called}]")
    for item in object_list(value.get("embeds")):
        parts = [str_or_empty(item.get(name)) for name in ("title", "description", "url")]
        said = " – ".join(part for part in parts if part and part not in lines[0])
        lines += [f"[embed: {said}]"] if said else []
    return "\n".join(filter(None, lines))
