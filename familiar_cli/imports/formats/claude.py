"""Claude's export: conversations with the branch that was shown last, and its memories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports import conversation
from familiar_cli.imports.contract import Format, Sighting, certain_if
from familiar_cli.imports.foreign_files import object_at, objects_at, text_at
from familiar_cli.imports.memory_lists import build_memories, read_lines

if TYPE_CHECKING:
    from familiar_cli.imports.contract import ForeignItem, ForeignMemory, Reading
    from familiar_cli.imports.source import ForeignFile, Skip
    from familiar_cli.store.history.rows import Role

_PROGRAM: Final = conversation.Program("claude")
_OWN: Final = "conversations_memory"
_PROJECTS: Final = "project_memories"
_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant"}


def _sniff(source: ForeignFile) -> Sighting:
    if "chat_messages" in source.first:
        return certain_if(source.first, "", "chat")
    return certain_if(_accounts(source), "the memories of Claude", "memories")


def _read(source: ForeignFile, reading: Reading) -> Iterable[ForeignItem | Skip]:
    if "chat_messages" in source.first:
        return conversation.read_conversations(source, reading, _PROGRAM, _parse)
    return [build_memories("Claude", source.stem, _memories(source))]


def _accounts(source: ForeignFile) -> list[dict[str, Any]]:
    value = source.value
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, dict) and {_OWN, _PROJECTS} & one.keys()]


def _memories(source: ForeignFile) -> Iterator[ForeignMemory]:
    for account in _accounts(source):
        yield from read_lines(text_at(account, _OWN))
        for name, text in object_at(account, _PROJECTS).items():
            yield from read_lines(str_or_empty(text), about=f"Claude project {name}")


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    messages = objects_at(value, "chat_messages")
    shown = conversation.shown_messages(
        messages, ("uuid", "parent_message_uuid"), text_at(value, "current_leaf_message_uuid")
    )
    kept = {id(message) for message in shown}
    others = [message for message in messages if id(message) not in kept]
    account = text_at(object_at(value, "account"), "uuid")
    yield conversation.SourceChat(
        lambda: map(partial(_line, account), shown),
        name=text_at(value, "name"),
        id=text_at(value, "uuid"),
        began=value.get("created_at"),
        about=value | {"chat_messages": others},
        aside=len(others),
    )


def _line(account: str, message: dict[str, Any]) -> conversation.SourceMessage:
    sender = text_at(message, "sender")
    role = _ROLES.get(sender, "system")
    # The text parts of the message, else its overall text.
    parts = [part for part in objects_at(message, "content") if part.get("type") == "text"]
    texts = [text_at(part, "text") for part in parts]
    return conversation.SourceMessage(
        "\n\n".join(filter(None, texts)) or text_at(message, "text"),
        role,
        speaker="" if role != "system" else sender,
        account=account,
        time=message.get("created_at"),
        raw=message,
    )


FORMAT: Final = Format("claude", "Claude export", ("chat", "memories"), _sniff, _read)
