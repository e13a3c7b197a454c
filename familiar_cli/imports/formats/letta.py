"""Agents of Letta (`.af`): what their memory blocks say of the person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from familiar_cli.imports.contract import ForeignMemory
from familiar_cli.imports.foreign_files import as_object, objects_at, text_at
from familiar_cli.imports.memory_lists import memories_format, read_lines
from familiar_cli.imports.source import ForeignFile

_PERSON: Final = "human"
_OWN: Final = frozenset({"persona", "system", "instructions"})


def _blocks(source: ForeignFile) -> list[dict[str, Any]]:
    value = as_object(source.value)
    is_agent = "agents" in value or "agent_type" in value or "core_memory" in value
    listed = [*objects_at(value, "blocks"), *objects_at(value, "core_memory")]
    blocks = [one for one in listed if {"label", "value"} <= one.keys()]
    return blocks if is_agent else []


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    for block in _blocks(source):
        label = text_at(block, "label")
        if label not in _OWN:
            about = "" if label == _PERSON else label
            yield from read_lines(text_at(block, "value"), about=about)


FORMAT: Final = memories_format(
    "letta",
    "an agent of Letta",
    _blocks,
    _read,
    of="Letta",
    notes=lambda _: ("its persona, tools and messages are not imported",),
)
