"""Discord, as DiscordChatExporter writes it: JSON, or a table of comma-separated values."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.chats.services import raw_json, spans
from familiar_cli.bootstrap.chats.sources import read_object
from familiar_cli.bootstrap.chats.times import read_time, stated_time
from familiar_cli.bootstrap.chats.types import (
    DISCORD,
    Casting,
    ForeignChat,
    ForeignMessage,
    Skip,
    parts_of,
)
from familiar_cli.bootstrap.json_text import dump_json
from familiar_cli.bootstrap.outside import MIB
from familiar_cli.identity import Author
from familiar_cli.text import slugify, str_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.bootstrap.chats.sources import ChatFile
    from familiar_cli.bootstrap.chats.types import Reading
    from familiar_cli.history.types import Role

PLATFORM: Final = "discord"

_HEAD_BYTES: Final = 256 * 1024  # in which the messages begin
_MESSAGES: Final = re.compile(rb'"messages"\s*:\s*\[')
_SPOKEN: Final = frozenset(("Default", "Reply", "19", "20", "23", "ChatInputCommand"))
"""The types of messages that people write; all others are Discord's own."""

_COLUMNS: Final = ["AuthorID", "Author", "Date", "Content"]


def is_export(source: ChatFile) -> bool:
    """Tell whether a file of JSON is an export of a channel."""
    return _about(source) is not None


def is_table(start: bytes) -> bool:
    """Tell whether a text begins like an export as a table."""
    first = start.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "")
    return [name.strip() for name in first.split(",")][: len(_COLUMNS)] == _COLUMNS


def read_chat(source: ChatFile, reading: Reading, *, channels: tuple[str, ...]) -> ForeignChat:
    """Return the chat in an export as JSON.

    Raises:
        RefusedError: It is not told who in it is the familiar.
    """
    about = _about(source) or {}
    guild, channel = (_object(about.get(name)) for name in ("guild", "channel"))
    named = _slug(channel.get("name"))
    server = _slug(guild.get("name"))
    own = tuple(filter(None, (named, f"{server}-{named}" if server and named else "")))
    return _chat(
        source,
        reading,
        _Json(source),
        name=str_or_empty(channel.get("name")) or source.stem,
        channels=reading.channels or own or channels,
        key=f"{DISCORD}:{channel['id']}" if str_or_empty(channel.get("id")) else "",
        head=dump_json(about, indent=None),
        kind="a Discord export as JSON",
    )


def read_table(source: ChatFile, reading: Reading, *, channels: tuple[str, ...]) -> ForeignChat:
    """Return the chat in an export as comma-separated values.

    Raises:
        RefusedError: It is not told who in it is the familiar.
    """
    return _chat(
        source,
        reading,
        _Table(source),
        name=source.stem,
        channels=channels,
        kind="a Discord export as CSV",
    )


def _chat(
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
    parts = parts_of(reading.cast, tuple(speakers), origin=source.name)
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
        author = Author(PLATFORM, user_id, str_or_empty(writer.get("name")) or None, name)
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
    return str(value.get("type", "Default")) in _SPOKEN


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
