"""Memories in JSON: of mem0, Letta, the MCP memory server and Vector Storage, and as PAM or MIF."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, Final

from familiar_cli.base.text import counted, str_or_empty
from familiar_cli.imports.contract import ForeignItem, ForeignMemory, Format, certain_if
from familiar_cli.imports.foreign_files import (
    as_object,
    object_at,
    object_list,
    objects_at,
    text_at,
)
from familiar_cli.imports.memory_lists import (
    build_memories,
    memories_format,
    read_day,
    read_lines,
    split_dated,
)
from familiar_cli.imports.source import ForeignFile, Skip, array_in, array_objects, json_lines

_USERS: Final = frozenset({"user", "default_user", "me", "owner", "human"})


def _day_in(row: dict[str, Any], *names: str) -> date | None:
    return next(filter(None, (read_day(row.get(name)) for name in names)), None)


_MEM0_MARKS: Final = frozenset({"user_id", "agent_id", "app_id", "run_id", "hash", "created_at"})


def _mem0_items(source: ForeignFile) -> list[dict[str, Any]]:
    """Return the memories that mem0's API or its export gives."""
    value = source.value
    lists = [value, *(as_object(value).get(name) for name in ("results", "memories"))]
    items = (object_list(one) for one in lists)
    return next((rows for rows in items if rows and _is_of_mem0(rows[0])), [])


def _is_of_mem0(row: dict[str, Any]) -> bool:
    return isinstance(row.get("memory"), str) and bool(_MEM0_MARKS & row.keys())


def _read_mem0(source: ForeignFile) -> Iterator[ForeignMemory]:
    for number, row in enumerate(_mem0_items(source), 1):
        day = _day_in(row, "created_at", "updated_at")
        yield ForeignMemory(text_at(row, "memory"), number, day)


MEM0: Final = memories_format("mem0", "the memories of mem0", _mem0_items, _read_mem0)


_LETTA_OWN: Final = frozenset({"persona", "system", "instructions"})


def _letta_blocks(source: ForeignFile) -> list[dict[str, Any]]:
    value = as_object(source.value)
    is_agent = "agents" in value or "agent_type" in value or "core_memory" in value
    listed = [*objects_at(value, "blocks"), *objects_at(value, "core_memory")]
    blocks = [one for one in listed if {"label", "value"} <= one.keys()]
    return blocks if is_agent else []


def _read_letta(source: ForeignFile) -> Iterator[ForeignMemory]:
    """Yield what the memory blocks of an agent (`.af`) say of the person."""
    for block in _letta_blocks(source):
        label = text_at(block, "label")
        if label not in _LETTA_OWN:
            about = "" if label == "human" else label
            yield from read_lines(text_at(block, "value"), about=about)


LETTA: Final = memories_format(
    "letta",
    "an agent of Letta",
    _letta_blocks,
    _read_letta,
    of="Letta",
    notes=lambda _: ("its persona, tools and messages are not imported",),
)


def _is_mcp_graph(source: ForeignFile) -> bool:
    first = source.first
    entity = first.get("type") == "entity" and "observations" in first
    return entity or (first.get("type") == "relation" and "relationType" in first)


def _read_mcp(source: ForeignFile, _: object) -> Iterator[ForeignItem | Skip]:
    """Yield the knowledge graph: JSON lines of entities and relations."""
    rows = list(json_lines(source))
    memories = [
        memory for row in rows if not isinstance(row, Skip) for memory in _of_mcp(row[0], row[2])
    ]
    yield from (row for row in rows if isinstance(row, Skip))
    yield build_memories("MCP memory", source.stem, memories)


def _of_mcp(number: int, row: dict[str, Any]) -> Iterator[ForeignMemory]:
    if row.get("type") == "relation":
        start, end = (text_at(row, name) for name in ("from", "to"))
        kind = text_at(row, "relationType").replace("_", " ")
        if start and end and kind:
            yield ForeignMemory(f"{start} {kind} {end}", number, about=_subject(start))
        return
    observations = row.get("observations")
    for text in observations if isinstance(observations, list) else []:
        yield ForeignMemory(str_or_empty(text), number, about=_subject(text_at(row, "name")))


def _subject(name: str) -> str:
    return "" if name.casefold() in _USERS else name


MCP: Final = Format(
    "mcp-memory", "the memory of the MCP memory server", ("memories",), _is_mcp_graph, _read_mcp
)


_ITEMS: Final = "items"


def _is_vector_index(source: ForeignFile) -> bool:
    is_like = source.shape == "object" and b'"metadata_config"' in source.start
    return is_like and array_in(source, _ITEMS) is not None


def _read_vectors(source: ForeignFile, _: object) -> Iterator[ForeignItem | Skip]:
    """Yield the texts of a collection of SillyTavern's Vector Storage: of its `index.json`."""
    items: list[tuple[int, ForeignMemory]] = []
    for row in array_objects(source, inside=array_in(source, _ITEMS)):
        if isinstance(row, Skip):
            yield row
            continue
        about = object_at(row[2], "metadata")
        place = about.get("index")
        day, text = split_dated(text_at(about, "text")) or (None, text_at(about, "text"))
        memory = ForeignMemory(text, row[0], day, f"Texts of {_collection(source)}")
        items.append((place if isinstance(place, int) else row[0], memory))
    ordered = (memory for _, memory in sorted(items, key=lambda one: one[0]))
    yield build_memories("Vector Storage", source.stem, ordered)


def _collection(source: ForeignFile) -> str:
    """Return the name of a collection, which is that of the index's directory or above."""
    parents = source.path.resolve().parts[:-1] if source.path else ()
    at = parents.index("vectors") + 2 if "vectors" in parents else len(parents) - 1
    return parents[min(at, len(parents) - 1)] if parents else source.stem


VECTORS: Final = Format(
    "vector-storage",
    "texts of SillyTavern's Vector Storage",
    ("memories",),
    _is_vector_index,
    _read_vectors,
)


_GONE: Final = frozenset({"superseded", "deprecated", "retracted"})
_GONE_MEMORIES: Final = "superseded or retracted memories"


def _interchange_name(source: ForeignFile) -> str:
    """Return the name of the interchange form, which is one JSON object; empty if it is neither."""
    value = as_object(source.value)
    if not isinstance(value.get("memories"), list):
        return ""
    if value.get("schema") == "portable-ai-memory":
        return "PAM"
    return "MIF" if "mif_version" in value else ""


def _read_interchange(source: ForeignFile) -> Iterator[ForeignMemory]:
    value = as_object(source.value)
    for number, row in enumerate(objects_at(value, "memories"), 1):
        if not _is_gone(row):
            yield ForeignMemory(text_at(row, "content"), number, _day_of(row), _about(row))
    yield from _mif_graph(object_at(value, "knowledge_graph"))


def _is_gone(row: dict[str, Any]) -> bool:
    return text_at(row, "status") in _GONE or bool(object_at(row, "temporal").get("superseded_by"))


def _mif_graph(graph: dict[str, Any]) -> Iterator[ForeignMemory]:
    """Yield what MIF's graph says of entities, and the relations between them that still hold."""
    entities = objects_at(graph, "entities")
    names = {text_at(one, "id"): text_at(one, "name") for one in entities}
    for number, one in enumerate(entities, 1):
        if one.get("summary"):
            text, about = text_at(one, "summary"), text_at(one, "name")
            yield ForeignMemory(text, number, _day_of(one), about)
    for number, one in enumerate(objects_at(graph, "relationships"), 1):
        ids = [text_at(one, key) for key in ("source_entity_id", "target_entity_id")]
        ends = [names.get(id_, "") for id_ in ids]
        kind = text_at(one, "relation_type").replace("_", " ")
        if all(ends) and kind and not one.get("invalidated_at"):
            yield ForeignMemory(f"{ends[0]} {kind} {ends[1]}", number, _day_of(one), ends[0])


def _day_of(row: dict[str, Any]) -> date | None:
    names = ("valid_from", "created_at", "updated_at")
    return _day_in(object_at(row, "temporal"), *names) or _day_in(row, *names)


def _about(row: dict[str, Any]) -> str:
    """Return the only entity that a memory names, unless it is the user."""
    entities = objects_at(row, "entities")
    names = [text_at(one, "name") for one in entities]
    return names[0] if len(names) == 1 and names[0].casefold() not in {"user", "me"} else ""


def _left_out(source: ForeignFile) -> list[str]:
    rows = objects_at(as_object(source.value), "memories")
    gone = counted(sum(map(_is_gone, rows)), "superseded or retracted memory", _GONE_MEMORIES)
    return [f"{gone} left out"] if any(map(_is_gone, rows)) else []


INTERCHANGE: Final = Format(
    name="memory-interchange",
    program="memories for interchange (PAM or MIF)",
    forms=("memories",),
    sniff=lambda source: certain_if(
        _interchange_name(source), f"memories for interchange ({_interchange_name(source)})"
    ),
    read=lambda source, _: [
        build_memories(
            _interchange_name(source), source.stem, _read_interchange(source), *_left_out(source)
        )
    ],
)
