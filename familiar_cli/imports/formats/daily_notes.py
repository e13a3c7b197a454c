"""Daily notes, as Obsidian keeps them: a directory of files that are named by their days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from familiar_cli.base.markdown import body_start
from familiar_cli.imports.contract import NO, ForeignMemory, Format, Sighting, certain_if
from familiar_cli.imports.memory_lists import (
    build_memories,
    note_paths,
    notes_in,
    other_files,
    read_day,
    read_lines,
)

if TYPE_CHECKING:
    from familiar_cli.imports.source import ForeignFile


def _day_of(name: str) -> date | None:
    stem = PurePosixPath(name).stem
    return read_day(stem) if stem[:4].isdigit() else None


def _sniff(source: ForeignFile) -> Sighting:
    if source.shape != "directory":
        return NO
    names = note_paths(source)
    return certain_if(names and all(map(_day_of, names)))


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    for name, text in notes_in(source):
        if day := _day_of(name):
            start = body_start(text)
            above = text.count("\n", 0, start)
            for one in read_lines(text[start:], about=f"Journal {day:%Y-%m}"):
                yield replace(one, line=one.line + above, day=one.day or day, file=name)


FORMAT: Final = Format(
    name="daily-notes",
    program="daily notes",
    forms=("memories",),
    sniff=_sniff,
    read=lambda source, _: [
        build_memories("daily notes", source.stem, _read(source), *other_files(source))
    ],
)
