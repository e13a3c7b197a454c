"""Claude exports: `conversations.json`, each conversation with its `chat_messages`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from familiar_cli.bootstrap.chats.branches import shown_branch
from familiar_cli.bootstrap.chats.exports import Parts, raw_json
from familiar_cli.bootstrap.chats.times import read_time, stated_time
from familiar_cli.bootstrap.chats.types import CLAUDE, Message
from familiar_cli.identity import Author
from familiar_cli.text import str_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.bootstrap.chats.types import Reading
    from familiar_cli.history.types import Role

_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant"}


class ClaudeMessage(TypedDict, total=False):
    """A message, as far as it is read. Any of it may be missing, or be something else."""

    uuid: object
    parent_message_uuid: object
    sender: object
    created_at: object
    content: object
    text: object


@dataclass(frozen=True, slots=True)
class Claude:
    """Takes conversations of Claude apart."""

    format: str = CLAUDE

    def take_apart(self, value: dict[str, Any], reading: Reading) -> Parts:
        """Return the parts of a conversation."""
        found = value.get("chat_messages")
        every = found if isinstance(found, list) else []
        messages = [cast("ClaudeMessage", m) for m in every if isinstance(m, dict)]
        shown = _shown(messages, str_or_empty(value.get("current_leaf_message_uuid")))
        kept = {id(message) for message in shown}
        others = [message for message in messages if id(message) not in kept]
        user = _user(value, reading)
        return Parts(
            id=str_or_empty(value.get("uuid")),
            title=str_or_empty(value.get("name")),
            began=read_time(value.get("created_at"), reading.zone),
            shown=tuple(_message(n, m, reading, user) for n, m in enumerate(shown, start=1)),
            rest=value | {"chat_messages": others},
            aside=len(others),
        )


def _shown(messages: list[ClaudeMessage], leaf: str) -> list[ClaudeMessage]:
    """Return the branch that ends in `leaf`; all messages where branches are not told."""
    by_id = {str_or_empty(message.get("uuid")): message for message in messages}
    if leaf not in by_id or len(by_id) != len(messages):
        return messages
    parents = {
        name: str_or_empty(m.get("parent_message_uuid")) or None for name, m in by_id.items()
    }
    if not any(parents.values()):
        return messages
    return [by_id[name] for name in shown_branch(parents, leaf)]


def _message(number: int, found: ClaudeMessage, reading: Reading, user: Author) -> Message:
    sender = str_or_empty(found.get("sender"))
    role = _ROLES.get(sender, "system")
    stated = found.get("created_at")
    return Message(
        line=number,
        role=role,
        author=user if role == "user" else None,
        speaker=sender,
        text=_words(found),
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=raw_json(found),
        hidden=role == "system",
    )


def _user(value: Mapping[str, Any], reading: Reading) -> Author:
    account = value.get("account")
    known = str_or_empty(account.get("uuid")) if isinstance(account, dict) else ""
    return reading.cast.person("", Author(CLAUDE, known or "user"))


def _words(found: ClaudeMessage) -> str:
    """Return what was said: the text among the parts, else the text of the whole."""
    content = found.get("content")
    parts = [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []
    texts = [str_or_empty(part.get("text")) for part in parts if part.get("type") == "text"]
    return "\n\n".join(filter(None, texts)) or str_or_empty(found.get("text"))
