"""Memories in directories of notes: of basic-memory, and of daily notes as Obsidian keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import PurePosixPath
from typing import Final

from msgspec.structs import replace

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports import memory_lists
from familiar_cli.imports.contract import ForeignMemory
from familiar_cli.imports.source import ForeignFile
from familiar_cli.store.memory.pages.front_matter import value_of

_OBSERVATION: Final = re.compile(r"\[([^\[\]\n]{2,60})\]\s+(\S.*)")
_RELATION: Final = re.compile(r'(?:"([^"]+)"|([^\[\]"\n]*?))\s*\[\[([^\[\]]+)\]\](.*)')
_STRUCTURE: Final = re.compile(
    r"^\s*[-*] \[[^\[\]\n]{2,60}\] \S|^#+ (?:Observations|Relations)\s*$", re.MULTILINE
)
_SAMPLE: Final = 20  # most notes to examine


def _is_basic_memory(source: ForeignFile) -> bool:
    """Tell whether a note, or most notes of a directory, are basic-memory's.

    Published vaults and blogs have permalinks, too, but no observations.
    """
    notes = [text for _, text in memory_lists.notes_in(source, _SAMPLE)]
    linked = [text for text in notes if value_of(text, "permalink") is not None]
    return len(linked) * 2 > len(notes) and any(map(_STRUCTURE.search, linked))


def _read_basic_memory(source: ForeignFile) -> Iterator[ForeignMemory]:
    for name, text in memory_lists.notes_in(source):
        title = str_or_empty(value_of(text, "title")) or name.rpartition("/")[2].removesuffix(".md")
        stated = (memory_lists.read_day(value_of(text, key)) for key in ("date", "created"))
        day = next(filter(None, stated), None)
        for one in memory_lists.read_note(name, text, title, day):
            yield replace(one, text=_words(one.text, title))


def _words(text: str, title: str) -> str:
    """Return an observation with its category, or a relation with both its ends."""
    if match := _OBSERVATION.fullmatch(text):
        return f"{match[1]}: {match[2]}"
    relation = _RELATION.fullmatch(text)
    if relation is None:
        return text
    kind = (relation[1] or relation[2] or "relates to").replace("_", " ")
    return f"{title} {kind} {relation[3]}{relation[4]}"


def _day_of(name: str) -> date | None:
    stem = PurePosixPath(name).stem
    return memory_lists.read_day(stem) if stem[:4].isdigit() else None


def _is_journal(source: ForeignFile) -> bool:
    names = memory_lists.note_paths(source) if source.shape == "directory" else []
    return bool(names) and all(map(_day_of, names))


def _read_journal(source: ForeignFile) -> Iterator[ForeignMemory]:
    for name, text in memory_lists.notes_in(source):
        if day := _day_of(name):
            yield from memory_lists.read_note(name, text, f"Journal {day:%Y-%m}", day)


BASIC_MEMORY: Final = memory_lists.memories_format(
    "basic-memory",
    "notes of basic-memory",
    _is_basic_memory,
    _read_basic_memory,
    notes=memory_lists.other_files,
)
DAILY_NOTES: Final = memory_lists.memories_format(
    "daily-notes",
    "daily notes",
    _is_journal,
    _read_journal,
    of="daily notes",
    notes=memory_lists.other_files,
)
