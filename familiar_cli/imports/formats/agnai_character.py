"""Characters of Agnai, whose persona is a set of attributes and whose description is a note."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.cards import Card, build_card
from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.foreign_files import as_object, object_at, text_at, text_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.foreign_chat import Reading
    from familiar_cli.imports.source import ForeignFile

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
_TEXT_KINDS: Final = ("text",)


def _read(source: ForeignFile, _: Reading) -> Iterator[Card]:
    value = as_object(source.value)
    fields = {ours: value[key] for key, ours in _FIELDS.items() if value.get(key) is not None}
    fields["description"] = _persona(object_at(value, "persona"), str(fields.get("name", "")))
    kept = {key: value[key] for key in value if key not in (*_FIELDS, "kind", "persona")}
    kept["persona"] = value.get("persona")
    fields["extensions"] = {**as_object(kept.pop("extensions", None)), "agnai": kept}
    yield build_card(source, "agnai", fields, [])


def _persona(persona: dict[str, Any], name: str) -> str:
    """Return a persona as text: itself, or its attributes, one a line."""
    attributes = object_at(persona, "attributes")
    texts = {key: text_list(values) for key, values in attributes.items()}
    if persona.get("kind") in _TEXT_KINDS or list(texts) == ["text"]:
        return "\n".join(text for values in texts.values() for text in values)
    lines = [f"{key}: {', '.join(values)}" for key, values in texts.items() if values]
    about = [f"{name}:", *lines] if lines and name else lines
    return "\n".join(about)


FORMAT: Final = Format(
    name="agnai_character",
    program="a character of Agnai",
    forms=("card",),
    sniff=lambda source: certain_if(
        as_object(source.value).get("kind") == "character"
        and isinstance(as_object(source.value).get("persona"), dict)
        and text_at(source.value, "name")
    ),
    read=_read,
)
