"""Daily notes, as Obsidian keeps them: a directory of files that are named by their days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import PurePosixPath
from typing import Final

from msgspec.structs import replace

from familiar_cli.base.markdown import body_start
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
            start = body_start(text)
            above = text.count("\n", 0, start)
            for one in memory_lists.read_lines(text[start:], about=f"Journal {day:%Y-%m}"):
                yield replace(one, line=one.line + above, day=one.day or day, file=name)


FORMAT: Final = memory_lists.memories_format(
    "daily-notes",
    "daily notes",
    _is_journal,
    _read,
    of="daily notes",
    notes=memory_lists.other_files,
)
