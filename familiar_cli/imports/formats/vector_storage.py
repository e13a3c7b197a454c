"""The texts of SillyTavern's Vector Storage: the `index.json` of a collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from familiar_cli.imports.contract import ForeignItem, ForeignMemory, Format
from familiar_cli.imports.foreign_files import object_at, text_at
from familiar_cli.imports.memory_lists import build_memories, split_dated
from familiar_cli.imports.source import ForeignFile, Skip, array_in, array_objects

_ITEMS: Final = "items"


def _is_index(source: ForeignFile) -> bool:
    is_like = source.shape == "object" and b'"metadata_config"' in source.start
    return is_like and array_in(source, _ITEMS) is not None


def _read(source: ForeignFile, _: object) -> Iterator[ForeignItem | Skip]:
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


FORMAT: Final = Format(
    "vector-storage", "texts of SillyTavern's Vector Storage", ("memories",), _is_index, _read
)
