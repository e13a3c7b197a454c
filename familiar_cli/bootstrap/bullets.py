"""Bullets such as `- text [chat:id] [via:instance]`: what one file has and another lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.pages.similarity import normal

if TYPE_CHECKING:
    from collections.abc import Iterator

_BULLET: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+[^ \t\r\n]")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_TAG: Final = re.compile(r"\[(chat|via):([^\]\n]*)\]")

Key = tuple[tuple[str, ...], str]


def items(text: str) -> list[str]:
    """Return the bullets, paragraphs and headings of a text, each whole: later lines included."""
    return ["".join(lines) for lines in _items(text)]


def key_of(item: str) -> Key:
    """Return what makes two items one: the chats they are from, and their words.

    Which instance heard it does not matter; that two chats said it does.
    """
    chats = tuple(sorted({value.strip() for kind, value in _TAG.findall(item) if kind == "chat"}))
    return chats, normal(_TAG.sub(" ", item))


def merged(there: str, new: str) -> str:
    """Return `there`, unchanged, and below it the items of `new` that it lacks."""
    known = {key_of(item) for item in items(there)}
    lacking: list[str] = []
    for item in items(new):
        key = key_of(item)
        if key[1] and key not in known and not _is_title(item):
            known.add(key)
            lacking.append(item if item.endswith("\n") else f"{item}\n")
    if not lacking:
        return there
    gap = "" if not there or there.endswith("\n") else "\n"
    return there + gap + "".join(lacking)


def _is_title(item: str) -> bool:
    return item.startswith("# ")


def _items(text: str) -> Iterator[list[str]]:
    current: list[str] = []
    for line in text.splitlines(keepends=True):
        begins = bool(_BULLET.match(line) or _HEADING.match(line))
        after_heading = bool(current) and bool(_HEADING.match(current[0]))
        if current and (begins or after_heading or not line.strip()):
            yield current
            current = []
        if line.strip():
            current.append(line)
    if current:
        yield current
