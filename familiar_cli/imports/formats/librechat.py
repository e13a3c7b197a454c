"""Conversations of LibreChat, as a list of messages or as a tree."""

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
    shown_branch,
)
from familiar_cli.imports.foreign_files import object_list, objects_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = Program("librechat")


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    messages = list(_flat(object_list(value.get("messages") or value.get("messagesTree"))))
    by_id = {text_at(message, "messageId"): message for message in messages}
    parents = {name: text_at(m, "parentMessageId") or None for name, m in by_id.items()}
    branch = shown_branch(parents, next(reversed(by_id), ""))
    shown = [by_id[name] for name in branch] if len(by_id) == len(messages) else messages
    yield SourceChat(
        partial(map, _line, shown),
        name=text_at(value, "title"),
        id=text_at(value, "conversationId"),
        about=value if len(shown) < len(messages) else None,
        aside=len(messages) - len(shown),
    )


def _flat(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for message in messages:
        yield message
        yield from _flat(objects_at(message, "children"))


def _line(message: dict[str, Any]) -> SourceMessage:
    is_user = message.get("isCreatedByUser") is True
    raw = {key: value for key, value in message.items() if key != "children"}
    return SourceMessage(
        text_at(message, "text") or plain_text(message.get("content")),
        "user" if is_user else "assistant",
        time=message.get("createdAt"),
        raw=raw,
    )


FORMAT: Final = Format(
    name="librechat",
    program="LibreChat",
    forms=("chat",),
    sniff=lambda source: certain_if(
        "conversationId" in source.first and {"messages", "messagesTree"} & source.first.keys()
    ),
    read=lambda source, reading: read_conversations(source, reading, _PROGRAM, _parse),
)
