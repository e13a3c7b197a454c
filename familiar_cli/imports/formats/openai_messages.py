"""Requests to a chat model: an object with messages that have roles."""

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
)
from familiar_cli.imports.foreign_files import objects_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = Program("openai")


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    messages = objects_at(value, "messages")
    yield SourceChat(
        partial(map, _line, messages),
        name=text_at(value, "title", "name"),
        id=text_at(value, "id"),
        began=value.get("created") or value.get("created_at"),
    )


def _line(message: dict[str, Any]) -> SourceMessage:
    return SourceMessage(
        plain_text(message.get("content")),
        role_of(message.get("role")),
        time=message.get("created_at") or message.get("timestamp"),
        raw=message,
    )


def _is_request(value: dict[str, Any]) -> bool:
    messages = objects_at(value, "messages")
    return bool(messages) and all("role" in one and "content" in one for one in messages)


FORMAT: Final = Format(
    name="openai",
    program="messages of a chat model",
    forms=("chat",),
    sniff=lambda source: certain_if(_is_request(source.first)),
    read=lambda source, reading: read_conversations(source, reading, _PROGRAM, _parse),
)
