"""Files of Agnai: characters, memory books, and chats whose messages point to their parents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from familiar_cli.imports import conversation
from familiar_cli.imports.cards import Card, build_card
from familiar_cli.imports.contract import ForeignItem, Format, Reading, Sighting, certain_if
from familiar_cli.imports.foreign_files import as_object, object_at, objects_at, text_at, text_list
from familiar_cli.imports.lorebook_reading import OFF, BookMapping
from familiar_cli.imports.source import ForeignFile, Skip

_PROGRAM: Final = conversation.Program("agnai")
_FIELDS: Final = {
    "name": "name",
    "greeting": "first_mes",
    "scenario": "scenario",
    "sampleChat": "mes_example",
    "systemPrompt": "system_prompt",
    "postHistoryInstructions": "post_history_instructions",
    "alternateGreetings": "alternate_greetings",
    "characterBook": "character_book",
    "description": "creator_notes",  # a private note, never sent
    "creator": "creator",
    "characterVersion": "character_version",
    "tags": "tags",
}
_MAPPING: Final = BookMapping(
    source="Agnai",
    tool="agnai",
    known={
        "name": "name",
        "entry": "content",
        "keywords": "keys",
        "enabled": "enabled",
        "priority": "priority",
        "weight": "insertion_order",
        "id": "id",
    },
    order=lambda _: 0,
    off=OFF,
    named=("name", "description"),
)


def _sniff(source: ForeignFile) -> Sighting:
    value = as_object(source.value)
    if value.get("kind") == "memory":
        return certain_if(value, "a lorebook of Agnai", "lorebook")
    if value.get("kind") == "character":
        is_card = isinstance(value.get("persona"), dict) and text_at(value, "name")
        return certain_if(is_card, "a character of Agnai", "card")
    messages = objects_at(source.first, "messages")
    return certain_if(any("msg" in m and "handle" in m for m in messages), "", "chat")


def _read(source: ForeignFile, reading: Reading) -> Iterable[ForeignItem | Skip]:
    value = as_object(source.value)
    if value.get("kind") == "memory":
        return [_MAPPING.read(value, source.name)]
    if value.get("kind") == "character":
        return [_card(value, source)]
    return conversation.read_conversations(source, reading, _PROGRAM, _parse)


def _card(value: dict[str, Any], source: ForeignFile) -> Card:
    """Build the card of a character, whose description is a note."""
    fields = {ours: value[key] for key, ours in _FIELDS.items() if value.get(key) is not None}
    fields["description"] = _persona(object_at(value, "persona"), str(fields.get("name", "")))
    kept = {key: value[key] for key in value if key not in (*_FIELDS, "kind", "persona")}
    kept["persona"] = value.get("persona")
    fields["extensions"] = {**as_object(kept.pop("extensions", None)), "agnai": kept}
    return build_card(source, "agnai", fields, [])


def _persona(persona: dict[str, Any], name: str) -> str:
    """Return a persona as text: itself, or its attributes, one a line."""
    attributes = object_at(persona, "attributes")
    texts = {key: text_list(values) for key, values in attributes.items()}
    if persona.get("kind") == "text" or list(texts) == ["text"]:
        return "\n".join(text for values in texts.values() for text in values)
    lines = [f"{key}: {', '.join(values)}" for key, values in texts.items() if values]
    about = [f"{name}:", *lines] if lines and name else lines
    return "\n".join(about)


def _parse(value: dict[str, Any]) -> Iterator[conversation.SourceChat]:
    messages = objects_at(value, "messages")
    shown = conversation.shown_messages(messages, ("_id", "parent"), text_at(value, "treeLeafId"))
    about = {key: data for key, data in value.items() if key != "messages"}
    yield conversation.SourceChat(
        lambda: map(_line, shown),
        name=text_at(value, "name"),
        id=text_at(value, "_id"),
        about=about,
        aside=len(messages) - len(shown),
    )


def _line(message: dict[str, Any]) -> conversation.SourceMessage:
    is_user = bool(message.get("userId")) and not message.get("characterId")
    text, retries = text_at(message, "msg"), text_list(message.get("retries"))
    return conversation.SourceMessage(
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


FORMAT: Final = Format("agnai", "Agnai", ("chat", "lorebook", "card"), _sniff, _read)
