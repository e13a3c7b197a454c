"""ChatGPT exports: `conversations.json`, each conversation a tree of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from familiar_cli.bootstrap.chats.branches import shown_branch
from familiar_cli.bootstrap.chats.exports import Parts, raw_json
from familiar_cli.bootstrap.chats.times import read_time, stated_time
from familiar_cli.bootstrap.chats.types import CHATGPT, Message
from familiar_cli.identity import Author
from familiar_cli.text import str_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.bootstrap.chats.types import Reading
    from familiar_cli.history.types import Role

_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_SPOKEN: Final = frozenset({"text", "multimodal_text"})


class ChatGPTMessage(TypedDict, total=False):
    """A message, as far as it is read. Any of it may be missing, or be something else."""

    author: object
    create_time: object
    content: object
    metadata: object
    recipient: object
    weight: object


class ChatGPTNode(TypedDict, total=False):
    """A node of the tree that a conversation is."""

    parent: object
    children: object
    message: object


@dataclass(frozen=True, slots=True)
class ChatGPT:
    """Takes conversations of ChatGPT apart."""

    format: str = CHATGPT

    def take_apart(self, value: dict[str, Any], reading: Reading) -> Parts:
        """Return the parts of a conversation."""
        nodes = _nodes(value)
        parents = {name: str_or_empty(node.get("parent")) or None for name, node in nodes.items()}
        branch = shown_branch(parents, _leaf(value, nodes))
        kept = {name: m for name in branch if (m := _spoken(nodes[name]))}
        shown = tuple(
            _message(number, found, reading) for number, found in enumerate(kept.values(), start=1)
        )
        rest = value | {"mapping": {n: _without(nodes[n], kept.get(n)) for n in nodes}}
        aside = sum(1 for name in nodes.keys() - set(branch) if _spoken(nodes[name]))
        return Parts(
            id=str_or_empty(value.get("conversation_id")) or str_or_empty(value.get("id")),
            title=str_or_empty(value.get("title")),
            began=read_time(value.get("create_time"), reading.zone),
            shown=shown,
            rest=rest,
            aside=aside,
        )


def _nodes(value: dict[str, Any]) -> dict[str, ChatGPTNode]:
    mapping = value.get("mapping")
    found = mapping if isinstance(mapping, dict) else {}
    return {
        name: cast("ChatGPTNode", node) for name, node in found.items() if isinstance(node, dict)
    }


def _leaf(value: dict[str, Any], nodes: Mapping[str, ChatGPTNode]) -> str:
    """Return the node that the conversation ends in; without one, the last that has no child."""
    current = str_or_empty(value.get("current_node"))
    if current in nodes:
        return current
    return next((name for name in reversed(list(nodes)) if not nodes[name].get("children")), "")


def _spoken(node: ChatGPTNode) -> ChatGPTMessage | None:
    """Return a node's message, if there is one that says anything."""
    message = node.get("message")
    if not isinstance(message, dict):
        return None
    said = cast("ChatGPTMessage", message)
    return said if _role(said) in _ROLES or _words(said) else None


def _message(number: int, found: ChatGPTMessage, reading: Reading) -> Message:
    role = _role(found)
    stated = found.get("create_time")
    user = reading.cast.person("", Author(CHATGPT, "user"))
    return Message(
        line=number,
        role=_ROLES.get(role, "system"),
        author=user if role == "user" else None,
        speaker=role,
        text=_words(found),
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=raw_json(found),
        hidden=_is_hidden(found, role),
    )


def _is_hidden(found: ChatGPTMessage, role: str) -> bool:
    """Tell whether people were not shown it: tools, thoughts, and what was said to tools."""
    about = found.get("metadata")
    marked = isinstance(about, dict) and about.get("is_visually_hidden_from_conversation")
    content = found.get("content")
    spoken = isinstance(content, dict) and content.get("content_type") in _SPOKEN
    to_all = found.get("recipient") in (None, "all")
    return bool(role not in _ROLES or marked or found.get("weight") == 0 or not (spoken and to_all))


def _words(found: ChatGPTMessage) -> str:
    content = found.get("content")
    if not isinstance(content, dict):
        return ""
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(text for part in parts if (text := _part(part)))
    thoughts = content.get("thoughts")
    if isinstance(thoughts, list):
        return "\n".join(str_or_empty(t.get("content")) for t in thoughts if isinstance(t, dict))
    return str_or_empty(content.get("text")) or str_or_empty(content.get("content"))


def _part(part: object) -> str:
    return str_or_empty(part.get("text")) if isinstance(part, dict) else str_or_empty(part)


def _role(message: ChatGPTMessage) -> str:
    author = message.get("author")
    return str_or_empty(author.get("role")) if isinstance(author, dict) else ""


def _without(node: ChatGPTNode, message: ChatGPTMessage | None) -> Mapping[str, object]:
    """Return a node without the message that became a turn."""
    return node if message is None else {k: v for k, v in node.items() if k != "message"}
