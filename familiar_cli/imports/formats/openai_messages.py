"""Requests to a chat model: an object with messages that have roles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.imports import conversation
from familiar_cli.imports.foreign_files import objects_at, text_at


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    messages = objects_at(value, "messages")
    yield conversation.SourceChat(
        partial(map, _line, messages),
        name=text_at(value, "title", "name"),
        id=text_at(value, "id"),
        began=value.get("created") or value.get("created_at"),
    )


def _line(message: dict[str, Any]) -> conversation.SourceMessage:
    return conversation.SourceMessage(
        conversation.plain_text(message.get("content")),
        conversation.role_of(message.get("role")),
        time=message.get("created_at") or message.get("timestamp"),
        raw=message,
    )


def _is_request(value: dict[str, Any]) -> bool:
    messages = objects_at(value, "messages")
    return bool(messages) and all("role" in one and "content" in one for one in messages)


FORMAT: Final = conversation.conversation_format(
    "openai", "messages of a chat model", _is_request, _parse
)
