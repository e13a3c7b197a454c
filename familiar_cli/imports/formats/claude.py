"""Claude's export: conversations with the branch that was shown last."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.conversation import (
    Program,
    SourceChat,
    SourceMessage,
    read_conversations,
    shown_branch,
)
from familiar_cli.imports.foreign_files import object_at, objects_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.store.history.rows import Role

_PROGRAM: Final = Program("claude")
_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant"}


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    messages = objects_at(value, "chat_messages")
    shown = _branch(messages, text_at(value, "current_leaf_message_uuid"))
    kept = {id(message) for message in shown}
    others = [message for message in messages if id(message) not in kept]
    account = text_at(object_at(value, "account"), "uuid")
    yield SourceChat(
        lambda: map(partial(_line, account), shown),
        name=text_at(value, "name"),
        id=text_at(value, "uuid"),
        began=value.get("created_at"),
        about=value | {"chat_messages": others},
        aside=len(others),
    )


def _branch(messages: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """Return the branch that ends in `leaf`; all messages if the export has no branches."""
    by_id = {text_at(message, "uuid"): message for message in messages}
    parents = {name: text_at(m, "parent_message_uuid") or None for name, m in by_id.items()}
    if leaf not in by_id or len(by_id) != len(messages) or not any(parents.values()):
        return messages
    return [by_id[name] for name in shown_branch(parents, leaf)]


def _line(account: str, found: dict[str, Any]) -> SourceMessage:
    sender = text_at(found, "sender")
    role = _ROLES.get(sender, "system")
    # The text parts of the message, else its overall text.
    parts = [part for part in objects_at(found, "content") if part.get("type") == "text"]
    texts = [text_at(part, "text") for part in parts]
    return SourceMessage(
        "\n\n".join(filter(None, texts)) or text_at(found, "text"),
        role,
        speaker="" if role != "system" else sender,
        account=account,
        time=found.get("created_at"),
        raw=found,
    )


FORMAT: Final = Format(
    name="claude",
    program="Claude export",
    forms=("chat",),
    sniff=lambda source: certain_if("chat_messages" in source.first),
    read=lambda source, reading: read_conversations(source, reading, _PROGRAM, _parse),
)
