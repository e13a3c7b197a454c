"""ChatGPT's export: conversations as trees, of which one branch was shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports import conversation
from familiar_cli.imports.foreign_files import object_at, object_list, objects_at, text_at

if TYPE_CHECKING:
    from familiar_cli.store.history.rows import Role

_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_PICTURE: Final = "image_asset_pointer"
_SPOKEN: Final = frozenset({"text", "multimodal_text"})


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    mapping = object_at(value, "mapping")
    nodes = {name: node for name, node in mapping.items() if isinstance(node, dict)}
    branch = conversation.shown_branch(nodes, "parent", _leaf(value, nodes))
    kept = {name: m for name in branch if (m := _spoken(nodes[name]))}
    # Keep the node, without the message that became a turn.
    rest = {
        name: {k: v for k, v in node.items() if k != "message"} if name in kept else node
        for name, node in nodes.items()
    }
    yield conversation.SourceChat(
        lambda: map(_line, kept.values()),
        name=text_at(value, "title"),
        id=text_at(value, "conversation_id", "id"),
        began=value.get("create_time"),
        about=value | {"mapping": rest},
        aside=sum(1 for name in nodes.keys() - set(branch) if _spoken(nodes[name])),
        notes=conversation.files_note(sum(len(_files(message)) for message in kept.values())),
    )


def _leaf(value: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> str:
    """Return the conversation's current node; if none is stated, the last without children."""
    current = text_at(value, "current_node")
    if current in nodes:
        return current
    return next((name for name in reversed(list(nodes)) if not nodes[name].get("children")), "")


def _spoken(node: dict[str, Any]) -> dict[str, Any] | None:
    """Return a node's message, if it has text."""
    message = node.get("message")
    if not isinstance(message, dict):
        return None
    return message if _role(message) in _ROLES or _words(message) else None


def _line(result: dict[str, Any]) -> conversation.SourceMessage:
    role = _role(result)
    return conversation.SourceMessage(
        _words(result),
        _ROLES.get(role, "system"),
        speaker="" if role in _ROLES else role,
        time=result.get("create_time"),
        raw=result,
        hidden=_is_hidden(result, role),
    )


def _is_hidden(result: dict[str, Any], role: str) -> bool:
    """Tell whether a message was hidden from people: tools, thoughts, and messages to tools."""
    marked = object_at(result, "metadata").get("is_visually_hidden_from_conversation")
    spoken = text_at(object_at(result, "content"), "content_type") in _SPOKEN
    to_all = result.get("recipient") in (None, "all")
    return bool(
        role not in _ROLES or marked or result.get("weight") == 0 or not (spoken and to_all)
    )


def _words(result: dict[str, Any]) -> str:
    content = object_at(result, "content")
    parts = content.get("parts")
    if isinstance(parts, list):
        lines = [conversation.plain_text(parts), *conversation.named_files(_files(result))]
        return "\n".join(filter(None, lines))
    if isinstance(content.get("thoughts"), list):
        thoughts = object_list(content["thoughts"])
        return "\n".join(text_at(thought, "content") for thought in thoughts)
    return text_at(content, "text", "content")


def _files(result: dict[str, Any]) -> list[str]:
    """Return the names of the files of a message; a picture that is not listed has none."""
    listed = objects_at(object_at(result, "metadata"), "attachments")
    pictures = objects_at(object_at(result, "content"), "parts")
    is_any = any(part.get("content_type") == _PICTURE for part in pictures)
    return [text_at(one, "name") for one in listed] or [""] * is_any


def _role(message: dict[str, Any]) -> str:
    return text_at(object_at(message, "author"), "role")


FORMAT: Final = conversation.conversation_format(
    "chatgpt", "ChatGPT export", lambda first: "mapping" in first, _parse
)
