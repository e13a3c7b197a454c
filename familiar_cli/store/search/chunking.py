"""Split a Markdown file into the units of the index: lines, and passages made of lines.

A *line* is one block of Markdown: a paragraph, a list item, one turn of a conversation. A *passage*
is readable on its own: a whole short file, a section, a few turns. Both have exact positions. See
docs/reference/index.md for the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.markdown import heading_text, split_front_matter, without_marks
from familiar_cli.base.times.when import day_words
from familiar_cli.llm.tokens import heuristic, reach
from familiar_cli.store.memory.pages.lines import readable_text
from familiar_cli.store.search.who_when import day_in, instance_in

if TYPE_CHECKING:
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


class TextBlock(Struct, frozen=True):
    """A paragraph, list item, heading, table or code; `start` to `end` in characters.

    Args:
        start: Its first character.
        end: The start of the next one, so that blocks cover the whole text.
        level: 1 to 6 for a heading that opens a section, else 0.
        heading: The heading's text, else an empty string.
        speaker: The speaker, if it begins with a name and a colon.
    """

    start: int
    end: int
    level: int = 0
    heading: str = ""
    speaker: str = ""


class ParsedMarkdown(Struct, frozen=True):
    """A Markdown text as blocks, and the settings in its front matter."""

    blocks: tuple[TextBlock, ...]
    front: dict[str, str]


def parse_blocks(text: str) -> ParsedMarkdown:
    """Split `text` into blocks. Every character belongs to exactly one."""
    front, body = split_front_matter(text)
    skip = len(text) - len(body)
    settings = {k.lower(): v.strip("\"'") for k, v in _SETTING.findall(front or "")}
    starts = [0, *(skip + m.end() for m in _LINE_END.finditer(text[skip:]))]
    starts[0] = skip
    opened = dict(_block_starts(text, skip, starts))
    if skip or not opened:
        opened.setdefault(0, (0, ""))
    places = sorted(opened)
    ends = [*places[1:], len(text)]
    places[0] = 0
    values = [opened[place] for place in sorted(opened)]
    blocks = (
        TextBlock(start, end, level, heading, _speaker_of(text, start, end, level))
        for start, end, (level, heading) in zip(places, ends, values, strict=True)
    )
    return ParsedMarkdown(tuple(blocks), settings)


def _block_starts(text: str, skip: int, starts: list[int]) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield the start of each block, with level and text if it is a heading."""
    tokens = _markdown_tokens(text[skip:])
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
        yield starts[first], (level, heading_text(token.content) if heads else "")
        if token.type == "inline" and not level:
            for line in range(first + 1, min(last, len(starts))):
                if _SPEAKER.match(text, starts[line]):
                    yield starts[line], (0, "")


def _markdown_tokens(text: str) -> list[Token]:
    try:
        return _make_parser().parse(text)
    except RecursionError:
        return []


@cache
def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  # only where a file has changed

    return MarkdownIt("commonmark").enable("table")


def _speaker_of(text: str, start: int, end: int, level: int) -> str:
    found = None if level else _SPEAKER.match(text, start, end)
    return found["name"] if found else ""


WHOLE_FILE_WORDS: Final = 300
SECTION_LEVEL: Final = 2
SECTION_TOKENS: Final = 1200
WINDOW_TOKENS: Final = 800
OVERLAP_TOKENS: Final = 200
TURNS: Final = 4  # of one passage of a conversation; chosen in docs/reference/ranking.md
TURN_STEP: Final = 2
LINE_TOKENS: Final = 180  # leaves room for title and heading in an encoder that reads 256
LINE_CHARS: Final = 10 * LINE_TOKENS
_COUNTER: Final = heuristic()
_SENTENCE_END: Final = re.compile(r"[.!?。！？…][\"'”’)\]]*\s+|[。！？]|\n")
_SPACE: Final = re.compile(r"\s+")


class TextSpan(Struct, frozen=True):
    """A part of a file: `text[start:end]`.

    Args:
        heading: The headings above it, outermost first, as `Title > Section`.
        tokens: Approximate number of tokens.
        speaker: The speaker, if it is a turn.
        parts: For a passage, the half-open range of its lines; for a line, of the passages that
            hold it.
    """

    start: int
    end: int
    heading: str
    tokens: int
    speaker: str
    parts: tuple[int, int]


class Cut(Struct, frozen=True):
    """A file split into lines and passages. Each cover all of its text, in order.

    `speakers` are those of a conversation; other files have none.
    """

    title: str
    day: date | None
    instance: str
    speakers: tuple[str, ...]
    passages: tuple[TextSpan, ...]
    lines: tuple[TextSpan, ...]


class _Line(Struct, frozen=True):
    start: int
    end: int
    heading: str
    tokens: int
    speaker: str
    section: int


def cut_text(text: str, rel_path: str) -> Cut:
    """Split `text` into lines and passages."""
    page = parse_blocks(text)
    first = next((b.heading for b in page.blocks if b.level == 1 and b.heading), "")
    title = page.front.get("title") or without_marks(first) or _title_from_path(rel_path)
    lines = list(_cut_lines(text, page.blocks, title))
    windows = list(_passage_ranges(lines, text))
    day = day_in(page.front.get("date", "")) or day_in(rel_path.rpartition("/")[2])
    source = page.front.get("sourceInstance") or page.front.get("instance")
    return Cut(
        title,
        day,
        source or instance_in(rel_path),
        _speaker_names(lines),
        tuple(_passage_span(lines, window) for window in windows),
        tuple(map(_with_passages, lines, _windows_of_lines(len(lines), windows))),
    )


def index_label(title: str, heading: str, day: date | None) -> str:
    """Return the label under which a piece is indexed: title, heading, day."""
    above = heading if heading.startswith(title) else f"{title} {heading}".strip()
    text = day_words(day) if day else ""
    return above if text in above else f"{above}, {text}"


def embedding_text(above: str, text: str) -> str:
    """Return the encoder's input for a piece: its label, then its visible text."""
    return f"{above}\n{without_marks(readable_text(text)).strip()}"


def _title_from_path(rel_path: str) -> str:
    return rel_path.rpartition("/")[2].rpartition(".")[0].replace("-", " ").replace("_", " ")


def _cut_lines(text: str, blocks: Sequence[TextBlock], title: str) -> Iterator[_Line]:
    """Yield the lines; a heading belongs to the line below it."""
    section, path, start = 0, title, None
    for number, block in enumerate(blocks):
        if 1 <= block.level <= SECTION_LEVEL:
            section += 1
            path = _heading_path(title, without_marks(block.heading), block.level)
        if start is None:
            start = block.start
        last = number + 1 == len(blocks)
        if block.level and not last and not 1 <= blocks[number + 1].level <= block.level:
            continue
        for begin, end in _cut_long(text, start, block.end):
            tokens = _COUNTER.count(text[begin:end])
            yield _Line(begin, end, path, tokens, block.speaker, section)
        start = None


def _heading_path(title: str, heading: str, level: int) -> str:
    if not heading or heading == title:
        return title
    return heading if level == 1 else f"{title} > {heading}"


def _cut_long(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split a long line at the end of a sentence, else at a space, else anywhere."""
    while True:
        stop = _best_end(text, start, end)
        yield start, stop
        if stop == end:
            return
        start = stop


def _best_end(text: str, start: int, end: int) -> int:
    """Return the best end of a piece that starts at `start` and has at most `LINE_TOKENS`.

    Each character is counted a few times at most, whatever the text.
    """
    stop = reach(text, start, min(end, start + LINE_CHARS), LINE_TOKENS)
    step = 1
    while stop > start + 1 and _COUNTER.count(text[start:stop]) > LINE_TOKENS:
        stop, step = max(start + 1, stop - step), step * 2
    if stop == end:
        return end
    half = start + (stop - start) // 2
    for pattern in (_SENTENCE_END, _SPACE):
        ends = [match.end() for match in pattern.finditer(text, half, stop)]
        if ends:
            return ends[-1]
    return stop


def _passage_ranges(lines: Sequence[_Line], text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open range of lines in each passage."""
    talk = _is_conversation(lines)
    if not talk and len(text.split()) < WHOLE_FILE_WORDS and _count_tokens(lines) <= SECTION_TOKENS:
        yield 0, len(lines)
        return
    for start, end in _section_ranges(lines):
        if talk:
            yield from _turn_ranges(lines, start, end)
        elif _count_tokens(lines[start:end]) <= SECTION_TOKENS:
            yield start, end
        else:
            yield from _window_ranges(lines, start, end)


def _speaker_names(lines: Sequence[_Line]) -> tuple[str, ...]:
    """Return the speakers of a conversation, each once."""
    speakers = (line.speaker for line in lines if line.speaker)
    return tuple(dict.fromkeys(speakers)) if _is_conversation(lines) else ()


def _is_conversation(lines: Sequence[_Line]) -> bool:
    """Tell whether most lines are turns: they name a speaker, and speakers come back."""
    speakers = [line.speaker for line in lines if line.speaker]
    return len(speakers) * 2 >= max(len(lines), 3) and len(speakers) >= 2 * len(set(speakers))


def _section_ranges(lines: Sequence[_Line]) -> Iterator[tuple[int, int]]:
    start = 0
    for number in range(1, len(lines) + 1):
        if number == len(lines) or lines[number].section != lines[start].section:
            yield start, number
            start = number


def _turn_ranges(lines: Sequence[_Line], start: int, end: int) -> Iterator[tuple[int, int]]:
    while True:
        stop = _window_end(lines, start, min(start + TURNS, end))
        yield start, stop
        if stop == end:
            return
        start += max(1, min(TURN_STEP, stop - start))


def _window_ranges(lines: Sequence[_Line], start: int, end: int) -> Iterator[tuple[int, int]]:
    while True:
        stop = _window_end(lines, start, end)
        yield start, stop
        if stop == end:
            return
        again = stop
        while again - 1 > start and _count_tokens(lines[again:stop]) < OVERLAP_TOKENS:
            again -= 1
        start = again


def _window_end(lines: Sequence[_Line], start: int, end: int) -> int:
    """Return the end of the lines from `start` that fit `WINDOW_TOKENS`; at least one."""
    stop, total = start + 1, lines[start].tokens
    while stop < end and total + lines[stop].tokens <= WINDOW_TOKENS:
        total += lines[stop].tokens
        stop += 1
    return stop


def _count_tokens(lines: Sequence[_Line]) -> int:
    return sum(line.tokens for line in lines)


def _passage_span(lines: Sequence[_Line], window: tuple[int, int]) -> TextSpan:
    first, last = window
    heading = lines[first].heading
    end = lines[last - 1].end
    return TextSpan(lines[first].start, end, heading, _count_tokens(lines[first:last]), "", window)


def _windows_of_lines(count: int, windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return, for each of `count` lines, the numbers of the windows that contain it."""
    held = [(len(windows), 0)] * count
    for number, (first, last) in enumerate(windows):
        for line in range(first, last):
            held[line] = (min(held[line][0], number), number + 1)
    return held


def _with_passages(line: _Line, held: tuple[int, int]) -> TextSpan:
    return TextSpan(line.start, line.end, line.heading, line.tokens, line.speaker, held)
