"""Characters and chats of Backyard AI, once Faraday: archives, and cards in pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from familiar_cli.base.text import one_line, str_or_empty
from familiar_cli.imports.cards import MAIN_INSTRUCTION, Card, build_card
from familiar_cli.imports.containers import read_member
from familiar_cli.imports.contract import ForeignItem, Format, Reading
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import (
    MAX_CARD_BYTES,
    as_object,
    object_at,
    object_list,
    objects_at,
    read_json,
    text_at,
    text_list,
)
from familiar_cli.imports.source import ForeignFile

_PROGRAM: Final = Program("backyard")
_MACROS: Final = re.compile(r"#?\{(user|character|char)\}", re.IGNORECASE)
_OLD_FIELDS: Final = {
    "aiName": "name",
    "aiPersona": "description",
    "scenario": "scenario",
    "firstMessage": "first_mes",
    "customDialogue": "mes_example",
}


def _is_backyard(source: ForeignFile) -> bool:
    value = as_object(source.value)
    lists = all(isinstance(value.get(name), list) for name in ("characters", "scenarios"))
    return lists or _is_old(value)


def _is_old(value: Mapping[str, Any]) -> bool:
    return "aiPersona" in object_at(value, "character")


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignItem]:
    value = as_object(source.value)
    if _is_old(value):
        yield _old_card(as_object(value["character"]), source)
        return
    members = partial(_members, source, value)
    scenarios = members("scenarios")
    first, *others = members("characters") or [{}]
    notes = [f"{name}, a further character, is not imported" for name in map(_name_of, others)]
    for character in filter(None, [first]):
        yield _card(character, scenarios, source, notes)
        for scenario in scenarios:
            if objects_at(scenario, "messages"):
                yield build_chat(source, reading, _PROGRAM, _conversation(scenario, character))


def _members(source: ForeignFile, manifest: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Read the files of a kind that the manifest names."""
    items = []
    for path in text_list(manifest.get(kind)):
        raw = read_member(source.raw, path, origin=source.name, limit_bytes=MAX_CARD_BYTES)
        items.append(as_object(read_json(raw, origin=f"{source.name}:{path}")[0]))
    return items


def _name_of(character: dict[str, Any]) -> str:
    return one_line(str_or_empty(character.get("displayName") or character.get("name"))) or "?"


def _card(
    character: dict[str, Any],
    scenarios: list[dict[str, Any]],
    source: ForeignFile,
    notes: list[str],
) -> Card:
    first = scenarios[0] if scenarios else {}
    greetings = [text for scenario in scenarios for text in _texts(scenario.get("firstMessages"))]
    fields = {
        "name": character.get("name"),
        "description": _with_macros(character.get("persona")),
        "scenario": _with_macros(first.get("narrative")),
        "first_mes": greetings[0] if greetings else "",
        "alternate_greetings": greetings[1:],
        "mes_example": "\n".join(_texts(first.get("exampleMessages"))),
        "system_prompt": _instructions(first.get("formattingInstructions")),
        "character_book": _book(character.get("loreItems")),
        "extensions": {"backyard": {"displayName": character.get("displayName")}},
    }
    return build_card(source, "backyard", {k: v for k, v in fields.items() if v}, notes)


def _old_card(character: dict[str, Any], source: ForeignFile) -> Card:
    fields: dict[str, Any] = {
        ours: _with_macros(character[key])
        for key, ours in _OLD_FIELDS.items()
        if character.get(key)
    }
    fields["system_prompt"] = _instructions(character.get("basePrompt"))
    kept = {
        k: v for k, v in character.items() if k not in (*_OLD_FIELDS, "loreItems", "basePrompt")
    }
    if book := _book(character.get("loreItems")):
        fields["character_book"] = book
    return build_card(source, "backyard", {**fields, "extensions": {"backyard": kept}}, [])


def _book(items: object) -> dict[str, Any] | None:
    entries = [
        {
            "id": number,
            "keys": [key.strip() for key in str(item.get("key", "")).split(",") if key.strip()],
            "content": _with_macros(item.get("value")),
            "enabled": not (item.get("enabled") is False or item.get("disabled") is True),
            "insertion_order": 100,
            "extensions": {},
        }
        for number, item in enumerate(object_list(items))
    ]
    return {"entries": entries, "extensions": {}} if entries else None


def _instructions(text: object) -> str:
    """Return instructions that add to the main one, as Backyard's do."""
    own = _with_macros(text)
    return f"{MAIN_INSTRUCTION}{own}" if own else ""


def _texts(messages: object) -> list[str]:
    return [text for one in object_list(messages) if (text := _with_macros(one.get("text")))]


def _with_macros(text: object) -> str:
    """Return a text with Backyard's placeholders spelled as in cards."""
    names = {"user": "{{user}}", "char": "{{char}}", "character": "{{char}}"}
    return _MACROS.sub(lambda match: names[match[1].lower()], str_or_empty(text))


def _conversation(scenario: dict[str, Any], character: dict[str, Any]) -> SourceChat:
    name, title = text_at(character, "name"), text_at(scenario, "title")
    messages = objects_at(scenario, "messages")
    return SourceChat(lambda: map(partial(_line, name), messages), name=title or name)


def _line(name: str, message: dict[str, Any]) -> SourceMessage:
    if message.get("type") != "ai":
        text, time = text_at(message, "text"), message.get("createdAt")
        return SourceMessage(text, "user", time=time, raw=message)
    outputs = objects_at(message, "outputs")
    shown = max(outputs, key=lambda one: text_at(one, "activeTimestamp"), default={})
    texts = [text_at(one, "text") for one in outputs]
    return SourceMessage(
        text_at(shown, "text"),
        "assistant",
        speaker=name,
        time=outputs[0].get("createdAt") if outputs else None,
        raw=message,
        others=tuple(texts) if len(texts) > 1 else (),
    )


FORMAT: Final = Format(
    "backyard", "a character of Backyard AI", ("card", "chat"), _is_backyard, _read
)
