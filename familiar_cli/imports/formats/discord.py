"""Channels of Discord as DiscordChatExporter writes them: JSON, and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.base.text import slugify, str_or_empty
from familiar_cli.imports.contract import ForeignChat, Format, Reading
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import (
    as_object,
    object_at,
    object_list,
    objects_at,
    text_at,
)
from familiar_cli.imports.source import (
    ForeignFile,
    Row,
    Skip,
    array_in,
    array_objects,
    column_names,
    object_head,
    table_rows,
)

_PROGRAM: Final = Program("discord")
# The types of messages that people write; all others are Discord's own.
_SPOKEN: Final = frozenset(("Default", "Reply", "19", "20", "23", "ChatInputCommand"))

# The types of channels that are open to their members only; others of a server are `Guild...`.
_PRIVATE: Final = frozenset(("DirectTextChat", "DirectGroupTextChat", "GuildPrivateThread"))

_COLUMNS: Final = ["AuthorID", "Author", "Date", "Content"]


def _is_export(source: ForeignFile) -> bool:
    if source.shape == "object":
        return _head(source) is not None
    return column_names(source)[: len(_COLUMNS)] == _COLUMNS


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat]:
    about = _head(source) if source.shape == "object" else None
    if about is None:
        lines = partial(_lines, partial(_table_rows, source))
        yield build_chat(
            source, reading, _PROGRAM, SourceChat(lines, kind="a Discord export as CSV")
        )
        return
    guild, channel = (object_at(about, name) for name in ("guild", "channel"))
    server, named = (slugify(text_at(o, "name"), max_chars=40) for o in (guild, channel))
    chat = SourceChat(
        partial(_lines, partial(_rows, source)),
        name=text_at(channel, "name") or source.stem,
        id=text_at(channel, "id"),
        about=about,
        channels=tuple(filter(None, (named, f"{server}-{named}" if server and named else ""))),
        kind="a Discord export as JSON",
        is_apart=False,
        is_private=_is_private(text_at(channel, "type")),
    )
    yield build_chat(source, reading, _PROGRAM, chat)


def _is_private(kind: str) -> bool | None:
    """Tell from a channel's type whether it is private; None if that is unknown."""
    return kind in _PRIVATE if kind in _PRIVATE or kind.startswith("Guild") else None


def _rows(source: ForeignFile) -> Iterator[Row | Skip]:
    """Yield the numbered messages of a JSON export."""
    for row in array_objects(source, inside=array_in(source, "messages") or 0):
        if isinstance(row, Skip) or "author" in row[2] or "content" in row[2]:
            yield row


def _table_rows(source: ForeignFile) -> Iterator[Row | Skip]:
    """Yield the rows of a CSV export by line, converted to the keys of the JSON."""
    for line in table_rows(source):
        if isinstance(line, Skip):
            yield line
            continue
        number, row = line
        if not row.get("Author") and not row.get("Content"):
            yield Skip(number, "it has neither an author nor a text")
            continue
        files = [name for name in row.get("Attachments", "").split(",") if name]
        yield (
            number,
            json.dumps(row, ensure_ascii=False),
            {
                "type": "Default",
                "timestamp": row.get("Date"),
                "content": row.get("Content") or "",
                "author": {"id": row.get("AuthorID") or "", "name": row.get("Author") or ""},
                "attachments": [
                    {"fileName": name.rpartition("/")[2].partition("?")[0]} for name in files
                ],
            },
        )


def _lines(rows: partial[Iterator[Row | Skip]]) -> Iterator[SourceMessage | Skip]:
    for row in rows():
        yield row if isinstance(row, Skip) else _line(*row)


def _line(number: int, raw: str, value: dict[str, Any]) -> SourceMessage:
    name, text = _speaker_name(value), _words(value)
    writer = object_at(value, "author")
    is_spoken = str(value.get("type", "Default")) in _SPOKEN
    return SourceMessage(
        text if is_spoken or not name else f"{name}: {text}",
        None if is_spoken else "system",
        speaker=name,
        account=text_at(writer, "id") or name,
        username=text_at(writer, "name"),
        time=value.get("timestamp"),
        raw=raw,
        id=text_at(value, "id"),
        line=number,
    )


def _head(source: ForeignFile) -> dict[str, Any] | None:
    """Read an export's header, before its messages; None if it is a different file."""
    about = object_head(source, "messages")
    # The date and range of the export are not properties of the chat.
    for name in ("exportedAt", "dateRange"):
        about.pop(name, None)
    return about if isinstance(about.get("channel"), dict) else None


def _speaker_name(value: dict[str, Any]) -> str:
    writer = object_at(value, "author")
    match = text_at(writer, "nickname").strip() or text_at(writer, "name").strip()
    return match or text_at(writer, "id") or "unknown"


def _words(value: dict[str, Any]) -> str:
    """Return the text of a message, with a line for each thing that it shows besides."""
    lines = [text_at(value, "content")]
    forwarded = object_at(value, "forwardedMessage")
    if forwarded:
        lines.append(f"[forwarded] {_words(forwarded)}")
    lines += _poll(object_at(value, "poll"))
    for kind, *names in (("attachment", "fileName", "url"), ("sticker", "name", "id")):
        for item in object_list(value.get(f"{kind}s")):
            called = next(filter(None, (text_at(item, n) for n in names)), "unnamed")
            lines.append(f"[{kind}: {called}]")
    for item in objects_at(value, "embeds"):
        parts = [text_at(item, name) for name in ("title", "description", "url")]
        text = " – ".join(part for part in parts if part and part not in lines[0])
        lines += [f"[embed: {text}]"] if text else []
    return "\n".join(filter(None, lines))


def _poll(poll: dict[str, Any]) -> list[str]:
    """Return the question of a poll and its answers, with their votes if they were counted."""
    if not poll:
        return []
    question = poll.get("question")
    asked = str_or_empty(question) or text_at(as_object(question), "text")
    answers = []
    for answer in objects_at(poll, "answers"):
        text = text_at(answer, "text")
        text = text or text_at(object_at(answer, "pollMedia"), "text")
        votes = answer.get("voteCount", answer.get("votes"))
        answers.append(f"- {text}" + (f" ({votes})" if isinstance(votes, int) else ""))
    return [f"[poll] {asked}", *answers]


FORMAT: Final = Format("discord", "Discord export", ("chat",), _is_export, _read)
