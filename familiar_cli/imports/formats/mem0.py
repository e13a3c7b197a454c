"""The memories of mem0, as its API and its export give them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from familiar_cli.imports.contract import ForeignMemory
from familiar_cli.imports.foreign_files import as_object, object_list, text_at
from familiar_cli.imports.memory_lists import memories_format, read_day
from familiar_cli.imports.source import ForeignFile

_LISTS: Final = ("results", "memories")
_MARKS: Final = frozenset({"user_id", "agent_id", "app_id", "run_id", "hash", "created_at"})


def _list_items(source: ForeignFile) -> list[dict[str, Any]]:
    value = source.value
    lists = [value, *(as_object(value).get(name) for name in _LISTS)]
    items = (object_list(one) for one in lists)
    return next((rows for rows in items if rows and _is_memory(rows[0])), [])


def _is_memory(row: dict[str, Any]) -> bool:
    return isinstance(row.get("memory"), str) and bool(_MARKS & row.keys())


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    for number, row in enumerate(_list_items(source), 1):
        day = read_day(row.get("created_at")) or read_day(row.get("updated_at"))
        yield ForeignMemory(text_at(row, "memory"), number, day)


FORMAT: Final = memories_format("mem0", "the memories of mem0", _list_items, _read)
