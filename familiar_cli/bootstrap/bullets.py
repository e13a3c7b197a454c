"""Bullets such as `- text [chat:id] [via:instance]`: what one file has and another lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.markdown import bullet, scan
from familiar_cli.memory.pages.similarity import normal

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    is_heading = False
    for line in scan(text):
        begins = line.level or (not line.in_code and _is_item(line.text))
        if current and (begins or is_heading or not line.text.strip()):
            yield current
            current = []
        if line.text.strip():
            is_heading = line.level > 0
            current.append(line.text)
    if current:
        yield current


def _is_item(line: str) -> bool:
    found = bullet(line)
    return found is not None and not found.indent and bool(line[found.text_at :].strip())
