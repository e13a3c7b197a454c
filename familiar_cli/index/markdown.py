"""Cut Markdown into blocks whose offsets are exact to the character."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from familiar_cli.markdown import split_front_matter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LINE_END: Final = re.compile(r"\r\n?|\n")
_SETTING: Final = re.compile(r"^([A-Za-z_]+)[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
# Signs that Python's `\w` leaves out and that stand within words: accents and points that are
# written apart, the vowel signs of Indic scripts, Thai, Lao, Tibetan, Burmese, Khmer; joiners.
_MARKS: Final = (
    r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0980-\u0dff"
    r"\u0e31-\u0e4e\u0eb1-\u0ecd\u0f18-\u0f87\u102b-\u103e\u17b4-\u17d3\u200c\u200d"
)
# `Ada:`, `**Ada:**`, `**Ada** (14:02):`, `- Ada:`, `[14:02] Ada:`. The colon ends the name.
_SPEAKER: Final = re.compile(
    r"[ \t]*(?:[-*+>][ \t]+)*(?:\[[^\]\n]{1,40}\][ \t]*|\d{1,2}:\d{2}[ \t]+)?"
    rf"(?P<mark>\*\*|__|)(?P<name>[^\W\d_][\w{_MARKS}'’.\-]{{0,39}}"
    rf"(?:[ \t][\w{_MARKS}'’.\-]{{1,40}}){{0,3}})"
    r"(?:(?P=mark))?(?:[ \t]*\([^)\n]{1,40}\))?[ \t]*[:：](?:(?P=mark))?(?=\s|$)"
)
_LEAVES: Final = frozenset({"inline", "fence", "code_block", "html_block", "hr"})
_LINK: Final = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_EMPHASIS: Final = re.compile(
    r"(?<!\w)[*_`~]{1,3}(?=\S)|(?<=\S)[*_`~]{1,3}(?!\w)|^[ \t]*[#>]+[ \t]*", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph, list item, heading, table or code; `start` to `end` in characters.

    Args:
        start: Where it begins.
        end: Where the next one begins, so that blocks cover the whole text.
        level: 1 to 6 for a heading that opens a section, else 0.
        heading: The heading's words, else an empty string.
        speaker: Whose words it holds, if it begins with a name and a colon.
    """

    start: int
    end: int
    level: int = 0
    heading: str = ""
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class ParsedMarkdown:
    """A Markdown text as blocks, and the settings in its front matter."""

    blocks: tuple[TextBlock, ...]
    front: dict[str, str]


def parse(text: str) -> ParsedMarkdown:
    """Return the blocks of `text`. Every character lies in exactly one."""
    front, body = split_front_matter(text)
    skip = len(text) - len(body)
    settings = {k.lower(): v.strip("\"'") for k, v in _SETTING.findall(front or "")}
    starts = [0, *(skip + m.end() for m in _LINE_END.finditer(text[skip:]))]
    starts[0] = skip
    opened = dict(_opened(text, skip, starts))
    if skip or not opened:
        opened.setdefault(0, (0, ""))
    places = sorted(opened)
    ends = [*places[1:], len(text)]
    places[0] = 0
    values = [opened[place] for place in sorted(opened)]
    blocks = (
        TextBlock(start, end, level, heading, _speaker(text, start, end, level))
        for start, end, (level, heading) in zip(places, ends, values, strict=True)
    )
    return ParsedMarkdown(tuple(blocks), settings)


def plain(text: str) -> str:
    """Return `text` without the marks that Markdown puts around words, and links as their words."""
    return _EMPHASIS.sub("", _LINK.sub(r"\1", text))


def _opened(text: str, skip: int, starts: list[int]) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield where each block begins, with its level and words if it is a heading."""
    tokens = _tokens(text[skip:])
    inside_table = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        inside_table += (token.type == "table_open") - (token.type == "table_close")
        if token.map is None or not (token.type in _LEAVES or token.type == "table_open"):
            continue
        if inside_table and token.type != "table_open":
            continue
        first, last = token.map
        if first >= len(starts):
            continue
        heads = before is not None and before.type == "heading_open" and before.level == 0
        level = int(before.tag[1]) if heads and before is not None else 0
        yield starts[first], (level, token.content.strip() if heads else "")
        if token.type == "inline" and not level:
            for line in range(first + 1, min(last, len(starts))):
                if _SPEAKER.match(text, starts[line]):
                    yield starts[line], (0, "")


def _tokens(text: str) -> list[Token]:
    try:
        return _parser().parse(text)
    except RecursionError:
        return []


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  # only where a file has changed

    return MarkdownIt("commonmark").enable("table")


def _speaker(text: str, start: int, end: int, level: int) -> str:
    found = None if level else _SPEAKER.match(text, start, end)
    return found["name"] if found else ""
