"""Chats of Agnai: messages that point to their parents, of which one branch was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.conversation import (
    Program,
    SourceChat,
    SourceMessage,
    read_conversations,
    shown_branch,
)
from familiar_cli.imports.foreign_files import object_list, text_list

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = Program("agnai")


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    messages = object_list(value.get("messages"))
    by_id = {str_or_empty(message.get("_id")): message for message in messages}
    parents = {name: str_or_empty(m.get("parent")) or None for name, m in by_id.items()}
    leaf = str_or_empty(value.get("treeLeafId"))
    is_tree = leaf in by_id and any(parents.values())
    shown = [by_id[name] for name in shown_branch(parents, leaf)] if is_tree else messages
    about = {key: data for key, data in value.items() if key != "messages"}
    yield SourceChat(
        lambda: map(_line, shown),
        name=str_or_empty(value.get("name")),
        id=str_or_empty(value.get("_id")),
        about=about,
        aside=len(messages) - len(shown),
    )


def _line(message: dict[str, Any]) -> SourceMessage:
    is_user = bool(message.get("userId")) and not message.get("characterId")
    text, retries = str_or_empty(message.get("msg")), text_list(message.get("retries"))
    return SourceMessage(
        text,
        "system"
        if message.get("ooc") or message.get("event")
        else "user"
        if is_user
        else "assistant",
        speaker=str_or_empty(message.get("handle")),
        time=message.get("createdAt"),
        raw=message,
        others=(text, *retries) if retries else (),
    )


FORMAT: Final = Format(
    name="agnai",
    program="Agnai",
    forms=("chat",),
    sniff=lambda source: certain_if(
        any("msg" in m and "handle" in m for m in object_list(source.first.get("messages")))
    ),
    read=lambda source, reading: read_conversations(source, reading, _PROGRAM, _parse),
)
