"""Sections that hold what was said in private, and where they may be shown.

Such a section says so in its heading: `## In private: DM:anna <!-- private dm%2D42 -->`. It ends
at the next heading of its own level or above. It may be shown in the channel it names only.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from familiar_cli.languages import ENGLISH, tables
from familiar_cli.markdown import scan
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.languages import Phrases
    from familiar_cli.markdown import Line

_MARK: Final = r"<!-- private ([^\s<>]+) -->"
_PRIVATE: Final = re.compile(_MARK)
_MEANT_MARK: Final = re.compile(r"<!--[ \t]*priv")
# Some programs end lines with a carriage return alone.
_OPENING: Final = re.compile(rf"(?:^\ufeff?|\r) {{0,3}}(#{{1,6}})[ \t][^\r]*?{_MARK}")
_USUAL_LEVEL: Final = 2
_NOBODY: Final = "\0"  # no channel is called so
_LABEL_CHARS: Final = 80


@cache
def _beginnings() -> tuple[str, ...]:
    """Return what such a heading begins with, in each language."""
    return tuple(f"{table.in_private}{table.colon.rstrip()}" for table in tables())


@cache
def _meant() -> re.Pattern[str]:
    """Return what finds a line that means to begin a private section.

    Whatever is left of its heading and its mark will do.
    """
    begin = f"(?:{'|'.join(map(re.escape, _beginnings()))})"
    return re.compile(
        r"(?:^\ufeff?|\r) {0,3}(?:#{1,6}[ \t][^\r]*?<!--[ \t]*priv"
        rf"|#{{1,6}}[ \t]+{begin}|#*[ \t]*{begin}[^\r]*<!--)"
    )


def private_heading(label: str, channel_id: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H2 of the section that holds what was said in a private channel."""
    shown = one_line(label, _LABEL_CHARS).replace("<", "").replace(">", "")
    marked = quote(channel_id, safe="", errors="surrogatepass").replace("-", "%2D")
    return f"## {phrases.in_private}{phrases.colon}{shown} <!-- private {marked} -->"


def private_channel(heading: str) -> str | None:
    """Return the channel that a heading keeps its section to, or None."""
    found = _PRIVATE.search(heading)
    return _channel(found[1]) if found else None


def visible_in(text: str, channel_id: str | None) -> str:
    """Return `text` without the sections that belong to other private channels.

    Args:
        text: Markdown.
        channel_id: Where it is to be shown; None: everywhere.
    """
    if not may_hide(text):
        return text
    return "".join(line.text for line, owners in owned(text) if owners <= {channel_id})


def may_hide(text: str) -> bool:
    """Return whether a text could hold a private section; quick, and in doubt it could."""
    marked = "<!--" in text and _MEANT_MARK.search(text)
    return bool(marked) or any(begin in text for begin in _beginnings())


def private_spans(text: str, channel_id: str | None) -> list[tuple[int, int]]:
    """Return where `visible_in` leaves something out, a line at a time, as characters from … to."""
    if not may_hide(text):
        return []
    return [(line.start, line.end) for line, owners in owned(text) if not owners <= {channel_id}]


def is_damaged(line: str) -> bool:
    """Return whether a line means to begin a private section, and does not say of which channel."""
    return _meant().search(line) is not None and not _OPENING.search(line)


def owned(text: str) -> Iterator[tuple[Line, frozenset[str]]]:
    """Yield each line with the private channels it belongs to; what has several is shown nowhere.

    Where the structure is in doubt, a line stays private: a heading whose mark is damaged keeps its
    section from everybody, only a heading without indent ends a section, and one that is opened
    inside a code block goes on to the end.
    """
    opened: list[tuple[int, frozenset[str]]] = []
    for line in scan(text):
        if line.text.startswith("#") and line.level:
            opened = [(level, owners) for level, owners in opened if level < line.level]
        if "<!-- private " in line.text and (marks := _OPENING.findall(line.text)):
            level = 0 if line.in_code else min(len(hashes) for hashes, _ in marks)
            opened.append((level, frozenset(_channel(mark) for _, mark in marks)))
        elif is_damaged(line.text):
            level = 0 if line.in_code else line.level or _USUAL_LEVEL
            opened.append((level, frozenset({_NOBODY})))
        yield line, frozenset().union(*(owners for _, owners in opened))


def _channel(mark: str) -> str:
    return unquote(mark, errors="surrogatepass")
