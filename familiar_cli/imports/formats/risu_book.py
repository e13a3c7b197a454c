"""Lorebooks of RisuAI, whose entries can stand in folders."""

from __future__ import annotations

from typing import Final

from familiar_cli.imports.book_mapping import OFF, BookMapping
from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.foreign_files import as_object

MAPPING: Final = BookMapping(
    source="RisuAI",
    tool="risuai",
    known={
        "comment": "comment",
        "content": "content",
        "key": "keys",
        "secondkey": "secondary_keys",
        "insertorder": "insertion_order",
        "alwaysActive": "constant",
        "selective": "selective",
        "useRegex": "use_regex",
        "id": "id",
    },
    order=lambda _: 100,
    off={**OFF, "activationPercent": (0, "0")},
    entries="data",
    comma_lists=("key", "secondkey"),
    parents=("", "folder", "folder"),
    is_parent=lambda item: item.get("mode") == "folder",
)

FORMAT: Final = Format(
    name="risu_book",
    program="a lorebook of RisuAI",
    forms=("lorebook",),
    sniff=lambda source: certain_if(
        as_object(source.value).get("type") == "risu" and isinstance(source.value.get("data"), list)
    ),
    read=lambda source, _: [MAPPING.read(source.value, source.name)],
)
