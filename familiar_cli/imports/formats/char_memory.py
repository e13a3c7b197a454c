"""The memories of SillyTavern's extension CharMemory: Markdown with a block for each chat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

from msgspec.structs import replace

from familiar_cli.imports.contract import ForeignMemory
from familiar_cli.imports.memory_lists import memories_format, read_day, read_lines, source_text
from familiar_cli.imports.source import ForeignFile

_BLOCK: Final = re.compile(r"<memory\b([^>]*)>(.*?)</memory>", re.DOTALL | re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r'(chat|date)="([^"]*)"')
_PREFIX: Final = re.compile(
    r"^\[[^\]\n]*\|[^\]\n]*\]\s*-\s+", re.MULTILINE
)  # repeats date and chat
_TOPIC: Final = re.compile(r"\[.+ [—–-] .+\]")  # says what the lines below it are about
_UNKNOWN: Final = ("", "unknown", "imported")


def _blocks(source: ForeignFile) -> list[re.Match[str]]:
    if source.shape != "text" or b"<memory" not in source.raw.lower():
        return []
    matches = list(_BLOCK.finditer(source_text(source)))
    return matches if any("date=" in one[1] for one in matches) else []


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    text = source_text(source)
    for block in _blocks(source):
        said = dict(_ATTRIBUTE.findall(block[1]))
        chat, day = unescape(said.get("chat", "")), read_day(unescape(said.get("date", "")))
        first = text.count("\n", 0, block.start(2))
        about = "" if chat in _UNKNOWN else f"Chat {chat}"
        for one in read_lines(_PREFIX.sub("- ", block[2]), about=about):
            if not _TOPIC.fullmatch(one.text):
                yield replace(one, line=one.line + first, day=one.day or day)


FORMAT: Final = memories_format(
    "char-memory", "memories of CharMemory", _blocks, _read, of="CharMemory"
)
