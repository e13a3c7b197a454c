"""Memories as text: what ChatGPT, Claude and Gemini print when asked for all that they remember."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.base.errors import FamiliarError
from familiar_cli.imports.contract import NO, Format, Sighting
from familiar_cli.imports.memory_lists import build_memories, read_lines, source_text, split_dated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.imports.contract import ForeignMemory
    from familiar_cli.imports.source import ForeignFile

_SUFFIXES: Final = ("", ".txt", ".text", ".md")
_MOST_LINES: Final = 200  # examined to recognise it
_BULLET: Final = re.compile(r"\s{0,8}(?:[-*•–]|\d{1,4}[.)])\s+(.*)")
_DATED_SHARE: Final = 0.5


def _sniff(source: ForeignFile) -> Sighting:
    if source.shape != "text" and not source.start.startswith(b"["):
        return NO
    try:
        lines = [line for line in source_text(source).split("\n") if line.strip()][:_MOST_LINES]
    except FamiliarError:
        return NO
    said = [line for line in lines if not line.lstrip().startswith(("#", "```"))]
    bullets = [_BULLET.match(line) for line in said]
    texts = [found[1] if found else line.strip() for found, line in zip(bullets, said, strict=True)]
    dated = sum(split_dated(text) is not None for text in texts)
    if dated and dated >= _DATED_SHARE * len(said):
        return Sighting("certain")
    is_list = bool(said) and all(bullets) and source.suffix in _SUFFIXES[:-1]
    return Sighting("possible") if is_list else NO


def write_text(memories: Iterable[ForeignMemory]) -> str:
    """Return memories as dated lines, as the import pages of ChatGPT and Claude take them."""
    lines = (f"[{one.day or 'unknown'}] - {_with_subject(one)}\n" for one in memories)
    return "".join(lines)


def _with_subject(one: ForeignMemory) -> str:
    """Return a memory's text, which names whom or what it is about."""
    is_named = one.about.casefold() in one.text.casefold()
    return one.text if is_named else f"{one.about}: {one.text}"


FORMAT: Final = Format(
    name="memory-text",
    program="memories as text",
    forms=("memories",),
    sniff=_sniff,
    read=lambda source, _: [
        build_memories("another assistant", source.stem, read_lines(source_text(source)))
    ],
    write=write_text,
)
