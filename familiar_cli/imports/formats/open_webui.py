"""Chats of Open WebUI: messages that point to their parents, of which one branch was shown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.conversation import (
    Program,
    SourceChat,
    SourceMessage,
    plain_text,
    read_conversations,
    role_of,
    shown_branch,
)
from familiar_cli.imports.foreign_files import object_at, objects_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = Program("open_webui")


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    chat = object_at(value, "chat")
    history = object_at(chat, "history")
    by_id = {k: m for k, m in object_at(history, "messages").items() if isinstance(m, dict)}
    parents = {name: text_at(m, "parentId") or None for name, m in by_id.items()}
    branch = shown_branch(parents, text_at(history, "currentId"))
    shown = [by_id[name] for name in branch] or objects_at(chat, "messages")
    yield SourceChat(
        partial(map, _line, shown),
        name=text_at(value, "title") or text_at(chat, "title"),
        id=text_at(value, "id"),
        began=value.get("created_at"),
        about=value if len(shown) < len(by_id) else None,
        aside=max(len(by_id) - len(shown), 0),
    )


def _line(message: dict[str, Any]) -> SourceMessage:
    return SourceMessage(
        plain_text(message.get("content")),
        role_of(message.get("role")),
        time=message.get("timestamp"),
        raw=message,
    )


FORMAT: Final = Format(
    name="open_webui",
    program="Open WebUI",
    forms=("chat",),
    sniff=lambda source: certain_if(
        {"history", "messages"} & object_at(source.first, "chat").keys()
    ),
    read=lambda source, reading: read_conversations(source, reading, _PROGRAM, _parse),
)
