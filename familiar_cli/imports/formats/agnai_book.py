"""Memory books of Agnai."""

from __future__ import annotations

from typing import Final

from familiar_cli.imports.book_mapping import OFF, BookMapping
from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.foreign_files import as_object

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

FORMAT: Final = Format(
    name="agnai_book",
    program="a lorebook of Agnai",
    forms=("lorebook",),
    sniff=lambda source: certain_if(as_object(source.value).get("kind") == "memory"),
    read=lambda source, _: [_MAPPING.read(source.value, source.name)],
)
