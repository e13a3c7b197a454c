"""Example dialogues of a card: from one text to blocks of messages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import ExampleLine, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.context.macros import Macros

_START: Final = re.compile(r"^[ \t]*<START>[ \t]*", re.IGNORECASE | re.MULTILINE)
_USER: Final = r"\{\{\s*user\s*\}\}|<user>"
_CHAR: Final = r"\{\{\s*char\s*\}\}|<bot>|<char>"


def example_blocks(text: str, macros: Macros) -> list[tuple[ExampleLine, ...]]:
    """Return the blocks between `<START>` marks, each as messages, macros expanded.

    A line that begins with a name and a colon begins a message; the name goes, the role says it.
    What stands before the first name is narration.
    """
    return [block for _, block in numbered_blocks(text, macros)]


def numbered_blocks(
    text: str, macros: Macros
) -> Iterator[tuple[tuple[int, int], tuple[ExampleLine, ...]]]:
    """Yield the same blocks, each with its first and last line in `text`, counted from 1."""
    speaker = re.compile(
        rf"^[ \t]*(?:(?P<user>{_USER}|{re.escape(macros.user)})"
        rf"|(?P<char>{_CHAR}|{re.escape(macros.char)}))[ \t]*:[ \t]*",
        re.IGNORECASE | re.MULTILINE,
    )
    line = at = 0  # so many lines end before the character `at`
    for raw, start in _parts(text):
        block = _lines(raw, speaker, macros)
        if not block:
            continue
        begin, end = start + len(raw) - len(raw.lstrip()), start + len(raw.rstrip())
        first = line + text.count("\n", at, begin)
        line, at = first + text.count("\n", begin, end), end
        yield (first + 1, line + 1), block


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """Yield what stands between the `<START>` marks, and where it begins."""
    start = 0
    for mark in _START.finditer(text):
        yield text[start : mark.start()], start
        start = mark.end()
    yield text[start:], start


def _lines(block: str, speaker: re.Pattern[str], macros: Macros) -> tuple[ExampleLine, ...]:
    found = list(speaker.finditer(block))
    ends = [match.start() for match in found[1:]] + [len(block)]
    lines = [ExampleLine("system", block[: found[0].start()] if found else block)]
    for match, end in zip(found, ends, strict=False):
        role: Role = "user" if match["user"] is not None else "assistant"
        lines.append(ExampleLine(role, block[match.end() : end]))
    expanded = (replace(line, text=macros.expand(line.text).strip()) for line in lines)
    return tuple(line for line in expanded if line.text)
