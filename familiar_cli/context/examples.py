"""Example dialogues of a card: from one text to blocks of messages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import ExampleLine, Role

if TYPE_CHECKING:
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
) -> list[tuple[tuple[int, int], tuple[ExampleLine, ...]]]:
    """Return the same blocks, each with its first and last line in `text`, counted from 1."""
    starts = [0, *(mark.end() for mark in _START.finditer(text))]
    ends = [*(mark.start() for mark in _START.finditer(text)), len(text)]
    found = []
    for start, end in zip(starts, ends, strict=True):
        block = _lines(text[start:end], macros)
        if block:
            found.append((_span(text, start, end), block))
    return found


def _span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the lines of `text[start:end]` without the white space around it."""
    inner = text[start:end]
    first = start + len(inner) - len(inner.lstrip())
    last = start + len(inner.rstrip())
    return (text.count("\n", 0, first) + 1, text.count("\n", 0, last) + 1)


def _lines(block: str, macros: Macros) -> tuple[ExampleLine, ...]:
    prefix = re.compile(
        rf"^[ \t]*(?:(?P<user>{_USER}|{re.escape(macros.user)})"
        rf"|(?P<char>{_CHAR}|{re.escape(macros.char)}))[ \t]*:[ \t]*",
        re.IGNORECASE | re.MULTILINE,
    )
    found = list(prefix.finditer(block))
    ends = [match.start() for match in found[1:]] + [len(block)]
    lines = [ExampleLine("system", block[: found[0].start()] if found else block)]
    for match, end in zip(found, ends, strict=False):
        role: Role = "user" if match["user"] is not None else "assistant"
        lines.append(ExampleLine(role, block[match.end() : end]))
    expanded = (replace(line, text=macros.expand(line.text).strip()) for line in lines)
    return tuple(line for line in expanded if line.text)
