"""Daily notes, as Obsidian keeps them: a directory of files that are named by their days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import PurePosixPath
from typing import Final

from familiar_cli.imports import memory_lists
from familiar_cli.imports.contract import ForeignMemory
from familiar_cli.imports.source import ForeignFile


def _day_of(name: str) -> date | None:
    stem = PurePosixPath(name).stem
    return memory_lists.read_day(stem) if stem[:4].isdigit() else None


def _is_journal(source: ForeignFile) -> bool:
    names = memory_lists.note_paths(source) if source.shape == "directory" else []
    return bool(names) and all(map(_day_of, names))


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    for name, text in memory_lists.notes_in(source):
        if day := _day_of(name):
            yield from memory_lists.read_note(name, text, f"Journal {day:%Y-%m}", day)


FORMAT: Final = memory_lists.memories_format(
    "daily-notes",
    "daily notes",
    _is_journal,
    _read,
    of="daily notes",
    notes=memory_lists.other_files,
)
