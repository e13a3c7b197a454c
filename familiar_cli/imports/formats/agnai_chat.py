"""Chats of Agnai: messages that point to their parents, of which one branch was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.conversation import (
    Program,
    SourceChat,
    SourceMessage,
    read_conversations,
    shown_branch,
)
from familiar_cli.imports.foreign_files import objects_at, text_at, text_list

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = Program("agnai")


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    messages = objects_at(value, "messages")
    by_id = {text_at(message, "_id"): message for message in messages}
    parents = {name: text_at(m, "parent") or None for name, m in by_id.items()}
    leaf = text_at(value, "treeLeafId")
    is_tree = leaf in by_id and any(parents.values())
    shown = [by_id[name] for name in shown_branch(parents, leaf)] if is_tree else messages
    about = {key: data for key, data in value.items() if key != "messages"}
    yield SourceChat(
        lambda: map(_line, shown),
        name=text_at(value, "name"),
        id=text_at(value, "_id"),
        about=about,
        aside=len(messages) - len(shown),
    )


def _line(message: dict[str, Any]) -> SourceMessage:
    is_user = bool(message.get("userId")) and not message.get("characterId")
    text, retries = text_at(message, "msg"), text_list(message.get("retries"))
    return SourceMessage(
        text,
        "system"
        if message.get("ooc") or message.get("event")
        else "user"
        if is_user
        else "assistant",
        speaker=text_at(message, "handle"),
        time=message.get("createdAt"),
        raw=message,
        others=(text, *retries) if retries else (),
    )


FORMAT: Final = Format(
    name="agnai",
    program="Agnai",
    forms=("chat",),
    sniff=lambda source: certain_if(
        any("msg" in m and "handle" in m for m in objects_at(source.first, "messages"))
    ),
    read=lambda source, reading: read_conversations(source, reading, _PROGRAM, _parse),
)
