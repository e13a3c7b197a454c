"""The knowledge graph of the official MCP memory server: JSON lines of entities and relations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.contract import ForeignItem, ForeignMemory, Format
from familiar_cli.imports.foreign_files import text_at
from familiar_cli.imports.memory_lists import build_memories
from familiar_cli.imports.source import ForeignFile, Skip, json_lines

_USERS: Final = frozenset({"user", "default_user", "me", "owner", "human"})


def _is_graph(source: ForeignFile) -> bool:
    first = source.first
    entity = first.get("type") == "entity" and "observations" in first
    return entity or (first.get("type") == "relation" and "relationType" in first)


def _read(source: ForeignFile, _: object) -> Iterator[ForeignItem | Skip]:
    rows = list(json_lines(source))
    memories = [
        memory for row in rows if not isinstance(row, Skip) for memory in _memories(row[0], row[2])
    ]
    yield from (row for row in rows if isinstance(row, Skip))
    yield build_memories("MCP memory", source.stem, memories)


def _memories(number: int, row: dict[str, Any]) -> Iterator[ForeignMemory]:
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


FORMAT: Final = Format(
    "mcp-memory", "the memory of the MCP memory server", ("memories",), _is_graph, _read
)
