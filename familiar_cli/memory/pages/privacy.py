"""Sections that hold what was said in private, and where they may be shown.

Such a section says so in its heading: `## In private: DM:anna <!-- private dm%2D42 -->`. It ends
at the next heading of its own level or above. It may be shown in the channel it names only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_PRIVATE: Final = re.compile(r"<!-- private ([^\s<>]+) -->")
_LABEL_CHARS: Final = 80


def private_heading(label: str, channel_id: str) -> str:
    """Return the H2 of the section that holds what was said in a private channel."""
    shown = one_line(label, _LABEL_CHARS).replace("<", "").replace(">", "")
    marked = quote(channel_id, safe="", errors="surrogatepass").replace("-", "%2D")
    return f"## In private: {shown} <!-- private {marked} -->"


def private_channel(heading: str) -> str | None:
    """Return the channel that a heading keeps its section to, or None."""
    found = _PRIVATE.search(heading)
    return unquote(found[1], errors="surrogatepass") if found else None


def visible_in(text: str, channel_id: str | None) -> str:
    """Return `text` without the sections that belong to other private channels.

    Args:
        text: Markdown.
        channel_id: Where it is to be shown; None: everywhere.
    """
    if "<!-- private " not in text:
        return text
    return "".join(line for line, owner in _owned(text) if owner in {None, channel_id})


def private_spans(text: str, channel_id: str | None) -> list[tuple[int, int]]:
    """Return where `visible_in` leaves something out, a line at a time, as characters from … to."""
    if "<!-- private " not in text:
        return []
    spans, at = [], 0
    for line, owner in _owned(text):
        if owner not in {None, channel_id}:
            spans.append((at, at + len(line)))
        at += len(line)
    return spans


def _owned(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each line with the private channel it belongs to, or None."""
    level, owner, fence = 7, None, ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not line[mark.end() :].strip()
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        elif heading := _HEADING.match(line):
            own = private_channel(line)
            depth = len(heading[1])
            if own is not None or depth <= level:
                level, owner = (depth, own) if own is not None else (7, None)
        yield line, owner
