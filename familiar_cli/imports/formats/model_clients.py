"""Chats of clients of models, and data sets of them: messages with a role, a text and a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.imports.conversation import (
    SourceChat,
    SourceMessage,
    conversation_format,
    plain_text,
    role_of,
    shown_branch,
    shown_messages,
)
from familiar_cli.imports.foreign_files import object_at, object_list, objects_at, text_at


def _line(
    message: dict[str, Any], role: str = "role", text: str = "content", times: tuple[str, ...] = ()
) -> SourceMessage:
    """Read a message by the names of its fields; the last time is taken where others are empty."""
    said_at = None
    for name in times:
        said_at = said_at or message.get(name)
    words = plain_text(message.get(text))
    return SourceMessage(words, role_of(message.get(role)), time=said_at, raw=message)


def _open_webui(value: dict[str, Any]) -> Iterator[SourceChat]:
    """Read messages that point to their parents, of which one branch was shown."""
    chat = object_at(value, "chat")
    history = object_at(chat, "history")
    by_id = {k: m for k, m in object_at(history, "messages").items() if isinstance(m, dict)}
    branch = shown_branch(by_id, "parentId", text_at(history, "currentId"))
    shown = [by_id[name] for name in branch] or objects_at(chat, "messages")
    yield SourceChat(
        partial(map, partial(_line, times=("timestamp",)), shown),
        name=text_at(value, "title") or text_at(chat, "title"),
        id=text_at(value, "id"),
        began=value.get("created_at"),
        about=value if len(shown) < len(by_id) else None,
        aside=max(len(by_id) - len(shown), 0),
    )


def _librechat(value: dict[str, Any]) -> Iterator[SourceChat]:
    """Read a list of messages, or a tree of them."""
    messages = list(_flat(object_list(value.get("messages") or value.get("messagesTree"))))
    leaf = text_at(messages[-1], "messageId") if messages else ""
    shown = shown_messages(messages, ("messageId", "parentMessageId"), leaf)
    yield SourceChat(
        partial(map, _librechat_line, shown),
        name=text_at(value, "title"),
        id=text_at(value, "conversationId"),
        about=value if len(shown) < len(messages) else None,
        aside=len(messages) - len(shown),
    )


def _flat(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for message in messages:
        yield message
        yield from _flat(objects_at(message, "children"))


def _librechat_line(message: dict[str, Any]) -> SourceMessage:
    return SourceMessage(
        text_at(message, "text") or plain_text(message.get("content")),
        "user" if message.get("isCreatedByUser") is True else "assistant",
        time=message.get("createdAt"),
        raw={key: value for key, value in message.items() if key != "children"},
    )


def _sharegpt_messages(value: dict[str, Any]) -> list[dict[str, Any]]:
    lists = (objects_at(value, name) for name in ("conversations", "conversation", "items"))
    return next((items for items in lists if any("value" in one for one in items)), [])


def _sharegpt(value: dict[str, Any]) -> Iterator[SourceChat]:
    yield SourceChat(
        partial(map, partial(_line, role="from", text="value"), _sharegpt_messages(value)),
        name=text_at(value, "title"),
        id=str(value["id"]) if value.get("id") is not None else "",
    )


def _request(value: dict[str, Any]) -> Iterator[SourceChat]:
    yield SourceChat(
        partial(
            map, partial(_line, times=("created_at", "timestamp")), objects_at(value, "messages")
        ),
        name=text_at(value, "title", "name"),
        id=text_at(value, "id"),
        began=value.get("created") or value.get("created_at"),
    )


def _is_request(value: dict[str, Any]) -> bool:
    messages = objects_at(value, "messages")
    return bool(messages) and all("role" in one and "content" in one for one in messages)


OPEN_WEBUI: Final = conversation_format(
    "open_webui",
    "Open WebUI",
    lambda first: {"history", "messages"} & object_at(first, "chat").keys(),
    _open_webui,
)
LIBRECHAT: Final = conversation_format(
    "librechat",
    "LibreChat",
    lambda first: "conversationId" in first and {"messages", "messagesTree"} & first.keys(),
    _librechat,
)
SHAREGPT: Final = conversation_format(
    "sharegpt",
    "ShareGPT",
    lambda first: any("from" in one for one in _sharegpt_messages(first)),
    _sharegpt,
)
OPENAI: Final = conversation_format("openai", "messages of a chat model", _is_request, _request)
