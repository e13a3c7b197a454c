"""Chats of Open WebUI: messages that point to their parents, of which one branch was shown."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.imports import conversation
from familiar_cli.imports.foreign_files import object_at, objects_at, text_at


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    chat = object_at(value, "chat")
    history = object_at(chat, "history")
    by_id = {k: m for k, m in object_at(history, "messages").items() if isinstance(m, dict)}
    branch = conversation.shown_branch(by_id, "parentId", text_at(history, "currentId"))
    shown = [by_id[name] for name in branch] or objects_at(chat, "messages")
    yield conversation.SourceChat(
        partial(map, _line, shown),
        name=text_at(value, "title") or text_at(chat, "title"),
        id=text_at(value, "id"),
        began=value.get("created_at"),
        about=value if len(shown) < len(by_id) else None,
        aside=max(len(by_id) - len(shown), 0),
    )


def _line(message: dict[str, Any]) -> conversation.SourceMessage:
    return conversation.SourceMessage(
        conversation.plain_text(message.get("content")),
        conversation.role_of(message.get("role")),
        time=message.get("timestamp"),
        raw=message,
    )


FORMAT: Final = conversation.conversation_format(
    "open_webui",
    "Open WebUI",
    lambda first: {"history", "messages"} & object_at(first, "chat").keys(),
    _parse,
)
