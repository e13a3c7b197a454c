"""Characters as sites hand them out: Chub's API, and JanitorAI, which spell fields alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.cards import Card, build_card
from familiar_cli.imports.contract import Format, Reading, Sighting, certain_if
from familiar_cli.imports.foreign_files import as_object, object_at

if TYPE_CHECKING:
    from familiar_cli.imports.source import ForeignFile

_FIELDS: Final = {
    "name": "name",
    "personality": "description",  # what the model reads
    "tavern_personality": "personality",
    "scenario": "scenario",
    "first_message": "first_mes",
    "example_dialogs": "mes_example",
    "system_prompt": "system_prompt",
    "post_history_instructions": "post_history_instructions",
    "alternate_greetings": "alternate_greetings",
    "embedded_lorebook": "character_book",
    "description": "creator_notes",  # what the site shows
    "tags": "tags",
}
_SIGNS: Final = ("first_message", "first_messages", "example_dialogs")


def _definition(source: ForeignFile) -> tuple[dict[str, Any], str]:
    """Return what defines the character, and the site."""
    outer = as_object(source.value)
    node = object_at(outer, "node") or outer
    inner = object_at(node, "definition")
    if any(key in inner for key in _SIGNS):
        return inner, "chub"
    for value in (outer, object_at(outer, "character"), object_at(outer, "data")):
        if "personality" in value and any(key in value for key in _SIGNS):
            return value, "janitor"
    return {}, ""


def _sniff(source: ForeignFile) -> Sighting:
    _, site = _definition(source)
    return certain_if(site, f"a character of {'Chub' if site == 'chub' else 'JanitorAI'}")


def _read(source: ForeignFile, _: Reading) -> Iterator[Card]:
    value, site = _definition(source)
    fields = {ours: value[key] for key, ours in _FIELDS.items() if value.get(key) is not None}
    greetings = value.get("first_messages")
    if isinstance(greetings, list) and greetings and not fields.get("first_mes"):
        fields["first_mes"], *fields["alternate_greetings"] = greetings
    kept = {key: value[key] for key in value if key not in (*_FIELDS, "first_messages")}
    fields["extensions"] = {**as_object(kept.pop("extensions", None)), site: kept}
    yield build_card(source, site, fields, [])


FORMAT: Final = Format("site_card", "a character of a site", ("card",), _sniff, _read)
