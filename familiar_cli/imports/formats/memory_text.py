"""Memories as text: what ChatGPT, Claude and Gemini print when asked for all that they remember."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from familiar_cli.base.errors import FamiliarError
from familiar_cli.imports.contract import NO, ForeignMemory, Sighting
from familiar_cli.imports.memory_lists import memories_format, read_lines, source_text, split_dated
from familiar_cli.imports.source import ForeignFile
from familiar_cli.imports.transcript_lines import harmonise_line, heads_of

_SUFFIXES: Final = ("", ".txt", ".text", ".md")
_MOST_LINES: Final = 200  # examined to recognise it
_BULLET: Final = re.compile(r"\s{0,8}(?:[-*•–]|\d{1,4}[.)])\s+(.*)")
_DATED_SHARE: Final = 0.5
_FENCED: Final = 3  # parts of a text with one fence: before, within, behind
_FENCE: Final = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
_NAME: Final = re.compile(r"[^\W\d_][^:\n]{0,30}: ")  # who says what follows
_NAME_SHARE: Final = 0.3
_OF_MEMORIES: Final = "memor"


def _sniff(source: ForeignFile) -> Sighting:
    if source.shape != "text" and not source.start.startswith(b"["):
        return NO
    try:
        text = _body(source_text(source))
    except FamiliarError:
        return NO
    lines = [line.strip() for line in text.split("\n") if line.strip()][:_MOST_LINES]
    said = [line for line in lines if not line.startswith("#")]
    stamped = [_is_stamped(line) for line in said]
    bullets = [
        None if is_stamped else _BULLET.match(line)
        for line, is_stamped in zip(said, stamped, strict=True)
    ]
    texts = [found[1] if found else line for found, line in zip(bullets, said, strict=True)]
    dated = [line for line in texts if split_dated(line)]
    in_brackets = sum(line.startswith("[") for line in dated)
    if in_brackets and len(dated) >= _DATED_SHARE * len(said):
        return Sighting("certain")
    if source.suffix not in _SUFFIXES[:-1]:
        return NO
    named = (
        is_stamped or _NAME.match(line) for line, is_stamped in zip(said, stamped, strict=True)
    )
    names = sum(map(bool, named)) / max(1, len(said))
    is_named = _OF_MEMORIES in source.stem.casefold() and names < _NAME_SHARE
    items = sum(map(bool, bullets)) + len(dated)
    is_list = items > 0 and all(
        found or split_dated(line) or line.endswith((":", "**")) or line.isupper()
        for found, line in zip(bullets, said, strict=True)
    )
    return Sighting("possible") if is_list or (is_named and said) else NO


def _is_stamped(line: str) -> bool:
    """Tell whether a line is a message with a time, whose number does not mark a list item."""
    heads = heads_of(harmonise_line(line)) if line[:1].isdigit() else ()
    return any(head.name and head.stamp for head in heads) and not split_dated(line)


def _body(text: str) -> str:
    """Return the fenced parts of a text, if it has any; an assistant wrote the rest around them."""
    parts = _FENCE.split(text)
    if len(parts) < _FENCED:
        return text
    parts[::2] = ["\n" * part.count("\n") for part in parts[::2]]  # lines keep their numbers
    return "".join(parts)


def write_text(memories: Iterable[ForeignMemory]) -> str:
    """Return memories as dated lines, as the import pages of ChatGPT and Claude take them."""
    lines = (f"[{one.day or 'unknown'}] - {_with_subject(one)}\n" for one in memories)
    return "".join(lines)


def _with_subject(one: ForeignMemory) -> str:
    """Return a memory's text, which names whom or what it is about."""
    is_named = one.about.casefold() in one.text.casefold()
    return one.text if is_named else f"{one.about}: {one.text}"


FORMAT: Final = memories_format(
    "memory-text",
    "memories as text",
    _sniff,
    lambda source: read_lines(_body(source_text(source))),
    of="another assistant",
    write=write_text,
)
