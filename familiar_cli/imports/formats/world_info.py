"""Lorebooks of SillyTavern and of cards: World Info, character_book and lorebook_v3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.base.text import counted
from familiar_cli.imports import lorebook_reading
from familiar_cli.imports.contract import CERTAIN, ForeignMemory, Format, Sighting, possible_if
from familiar_cli.imports.foreign_files import text_at
from familiar_cli.imports.lorebook import Lorebook
from familiar_cli.imports.memory_lists import build_memories, read_day

if TYPE_CHECKING:
    from familiar_cli.imports.contract import ForeignMemories, Reading
    from familiar_cli.imports.source import ForeignFile

_DAY: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_V3: Final = "lorebook_v3"
_OF_WORLD: Final = frozenset({"uid", "key", "keysecondary", "content"})


def _sniff(source: ForeignFile) -> Sighting:
    value = source.value
    if isinstance(value, dict) and (value.get("spec") == _V3 or _is_world(value)):
        return CERTAIN
    return possible_if(lorebook_reading.is_book(value) or lorebook_reading.is_entry_list(value))


def _is_world(value: dict[str, Any]) -> bool:
    """Tell whether all entries have what SillyTavern gives each of its own."""
    entries = value.get("entries")
    return (
        isinstance(entries, dict)
        and bool(entries)
        and all(isinstance(one, dict) and one.keys() >= _OF_WORLD for one in entries.values())
    )


def _read(source: ForeignFile, _: Reading) -> Iterator[Lorebook | ForeignMemories]:
    value, memories = source.value, list(_memories(source.value, source.stem))
    if not memories:
        yield _read_value(value, source.name)
        return
    yield build_memories("Memory Books", source.stem, memories)
    lore = {key: one for key, one in value["entries"].items() if not _is_memory(one)}
    if lore:
        book = _read_value(value | {"entries": lore}, source.name)
        note = f"{counted(len(value['entries']) - len(lore), 'entry', 'entries')} of Memory Books: "
        warnings = (
            f"{note}these are memories, not lore; `familiar import` imports them",
            *book.warnings,
        )
        yield replace(book, warnings=warnings)


def _is_memory(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("stmemorybooks") is True


def _memories(value: Any, stem: str) -> Iterator[ForeignMemory]:  # noqa: ANN401  # JSON holds anything
    """Yield the scenes and arcs that the extension Memory Books keeps as entries of a book.

    One that only its arc switched off counts, too.
    """
    entries = value.get("entries") if isinstance(value, dict) else None
    for number, one in enumerate(entries.values() if isinstance(entries, dict) else (), 1):
        is_off = _is_memory(one) and one.get("disable") and one.get("disabledBySummaryId") is None
        if not _is_memory(one) or is_off:
            continue
        title = text_at(one, "comment")
        stated = _DAY.search(title)
        text = ": ".join(filter(None, (title, text_at(one, "content"))))
        about = text_at(value, "name") or stem
        yield ForeignMemory(text, number, read_day(stated[0]) if stated else None, about)


def _read_value(value: Any, origin: str) -> Lorebook:  # noqa: ANN401  # JSON holds anything
    if isinstance(value, list):
        book = lorebook_reading.read_entries({"entries": value}, origin, "a bare list of entries")
        return replace(book, warnings=("the file is a bare list of entries", *book.warnings))
    if value.get("spec") != _V3:
        return lorebook_reading.read_entries(value, origin, "")
    outer = {name: setting for name, setting in value.items() if name not in ("spec", "data")}
    return replace(read_embedded(value.get("data"), origin, _V3), outer=outer)


def read_embedded(data: object, origin: str, source: str) -> Lorebook:
    """Read the book of a card or of a `lorebook_v3`.

    Raises:
        BadInputError: It is not a lorebook.
    """
    if data is None:
        notes = ("the book is null: it has no entries",)
        return Lorebook("", "book", source=source, warnings=notes)
    if isinstance(data, dict) and data.get("spec") == _V3:
        return _read_value(data, origin)
    if not isinstance(data, dict):
        raise lorebook_reading.not_a_lorebook(data, origin)
    return lorebook_reading.read_entries(data, origin, source)


FORMAT: Final = Format("world_info", "a lorebook", ("lorebook", "memories"), _sniff, _read)
