"""Conversations of LibreChat, as a list of messages or as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.imports import conversation
from familiar_cli.imports.foreign_files import object_list, objects_at, text_at


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    messages = list(_flat(object_list(value.get("messages") or value.get("messagesTree"))))
    leaf = text_at(messages[-1], "messageId") if messages else ""
    shown = conversation.shown_messages(messages, ("messageId", "parentMessageId"), leaf)
    yield conversation.SourceChat(
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


def _line(message: dict[str, Any]) -> conversation.SourceMessage:
    is_user = message.get("isCreatedByUser") is True
    raw = {key: value for key, value in message.items() if key != "children"}
    return conversation.SourceMessage(
        text_at(message, "text") or conversation.plain_text(message.get("content")),
        "user" if is_user else "assistant",
        time=message.get("createdAt"),
        raw=raw,
    )


FORMAT: Final = conversation.conversation_format(
    "librechat",
    "LibreChat",
    lambda first: "conversationId" in first and {"messages", "messagesTree"} & first.keys(),
    _parse,
)
