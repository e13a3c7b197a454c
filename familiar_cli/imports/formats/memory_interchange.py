"""Memories in the interchange forms PAM 1.0 and MIF 2, which are one JSON object each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from familiar_cli.base.text import counted
from familiar_cli.imports.contract import ForeignMemory, Format, certain_if
from familiar_cli.imports.foreign_files import as_object, object_at, objects_at, text_at
from familiar_cli.imports.memory_lists import build_memories, read_day
from familiar_cli.imports.source import ForeignFile

_PAM: Final = "portable-ai-memory"
_GONE: Final = frozenset({"superseded", "deprecated", "retracted"})
_GONE_MEMORIES: Final = "superseded or retracted memories"
_DAYS: Final = ("valid_from", "created_at", "updated_at")


def _name(source: ForeignFile) -> str:
    """Return the form's name; empty if it is neither."""
    value = as_object(source.value)
    if not isinstance(value.get("memories"), list):
        return ""
    if value.get("schema") == _PAM:
        return "PAM"
    return "MIF" if "mif_version" in value else ""


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    value = as_object(source.value)
    for number, row in enumerate(objects_at(value, "memories"), 1):
        if not _is_gone(row):
            yield ForeignMemory(text_at(row, "content"), number, _day(row), _about(row))
    yield from _graph(object_at(value, "knowledge_graph"))


def _is_gone(row: dict[str, Any]) -> bool:
    return text_at(row, "status") in _GONE or bool(object_at(row, "temporal").get("superseded_by"))


def _graph(graph: dict[str, Any]) -> Iterator[ForeignMemory]:
    """Yield what MIF's graph says of entities, and the relations between them that still hold."""
    entities = objects_at(graph, "entities")
    names = {text_at(one, "id"): text_at(one, "name") for one in entities}
    for number, one in enumerate(entities, 1):
        if one.get("summary"):
            text, about = text_at(one, "summary"), text_at(one, "name")
            yield ForeignMemory(text, number, _day(one), about)
    for number, one in enumerate(objects_at(graph, "relationships"), 1):
        ids = [text_at(one, key) for key in ("source_entity_id", "target_entity_id")]
        ends = [names.get(id_, "") for id_ in ids]
        kind = text_at(one, "relation_type").replace("_", " ")
        if all(ends) and kind and not one.get("invalidated_at"):
            yield ForeignMemory(f"{ends[0]} {kind} {ends[1]}", number, _day(one), ends[0])


def _day(row: dict[str, Any]) -> Any:  # noqa: ANN401  # a date or None
    places = (object_at(row, "temporal"), row)
    days = (read_day(place.get(name)) for place in places for name in _DAYS)
    return next(filter(None, days), None)


def _about(row: dict[str, Any]) -> str:
    """Return the only entity that a memory names, unless it is the user."""
    entities = objects_at(row, "entities")
    names = [text_at(one, "name") for one in entities]
    return names[0] if len(names) == 1 and names[0].casefold() not in {"user", "me"} else ""


def _notes(source: ForeignFile) -> list[str]:
    rows = objects_at(as_object(source.value), "memories")
    gone = counted(sum(map(_is_gone, rows)), "superseded or retracted memory", _GONE_MEMORIES)
    return [f"{gone} left out"] if any(map(_is_gone, rows)) else []


FORMAT: Final = Format(
    name="memory-interchange",
    program="memories for interchange (PAM or MIF)",
    forms=("memories",),
    sniff=lambda source: certain_if(_name(source), f"memories for interchange ({_name(source)})"),
    read=lambda source, _: [
        build_memories(_name(source), source.stem, _read(source), *_notes(source))
    ],
)
