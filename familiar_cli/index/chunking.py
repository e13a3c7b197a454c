"""Cut one Markdown file into what is indexed: lines, and passages made of lines.

A *line* is one block of Markdown: a paragraph, a list item, one turn of a conversation. A *passage*
is what reads on its own: a whole short file, a section, a few turns. Both know their exact place.
See docs/reference/index.md for the rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.index.dates import day_in, instance_in
from familiar_cli.index.markdown import parse, plain
from familiar_cli.memory.pages.machine_text import readable
from familiar_cli.tokens import heuristic, reach
from familiar_cli.when import day_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from familiar_cli.index.markdown import TextBlock

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


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of a file: `text[start:end]`.

    Args:
        heading: The headings above it, outermost first, as `Title > Section`.
        tokens: About how many tokens it has.
        speaker: Whose words it holds, when it is a turn.
        parts: For a passage: the numbers of its lines, from and up to but not including. For a
            line: those of the passages that hold it.
    """

    start: int
    end: int
    heading: str
    tokens: int
    speaker: str
    parts: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """One file, cut. Lines and passages each cover all of its text, in order.

    `speakers` are those of a conversation; any other file has none.
    """

    title: str
    day: date | None
    instance: str
    speakers: tuple[str, ...]
    passages: tuple[TextSpan, ...]
    lines: tuple[TextSpan, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    heading: str
    tokens: int
    speaker: str
    section: int


def cut(text: str, rel_path: str) -> Cut:
    """Return `text` as lines and passages."""
    page = parse(text)
    first = next((b.heading for b in page.blocks if b.level == 1 and b.heading), "")
    title = page.front.get("title") or plain(first) or _name(rel_path)
    lines = list(_lines(text, page.blocks, title))
    windows = list(_passages(lines, text))
    day = day_in(page.front.get("date", "")) or day_in(rel_path.rpartition("/")[2])
    instance = page.front.get("instance") or instance_in(rel_path)
    return Cut(
        title,
        day,
        instance,
        _speakers(lines),
        tuple(_passage(lines, window) for window in windows),
        tuple(map(_placed, lines, _holders(len(lines), windows))),
    )


def label(title: str, heading: str, day: date | None) -> str:
    """Return the words that stand before a piece where it is indexed: title, heading, day."""
    above = heading if heading.startswith(title) else f"{title} {heading}".strip()
    said = day_words(day) if day else ""
    return above if said in above else f"{above}, {said}"


def embedding_text(above: str, text: str) -> str:
    """Return what the encoder reads for a piece: its label, then what a reader sees of it."""
    return f"{above}\n{plain(readable(text)).strip()}"


def _name(rel_path: str) -> str:
    return rel_path.rpartition("/")[2].rpartition(".")[0].replace("-", " ").replace("_", " ")


def _lines(text: str, blocks: Sequence[TextBlock], title: str) -> Iterator[_Line]:
    """Yield the lines; a heading goes to the line below it."""
    section, path, start = 0, title, None
    for number, block in enumerate(blocks):
        if 1 <= block.level <= SECTION_LEVEL:
            section += 1
            path = _path(title, plain(block.heading), block.level)
        if start is None:
            start = block.start
        last = number + 1 == len(blocks)
        if block.level and not last and not 1 <= blocks[number + 1].level <= block.level:
            continue
        for begin, end in _pieces(text, start, block.end):
            tokens = _COUNTER.count(text[begin:end])
            yield _Line(begin, end, path, tokens, block.speaker, section)
        start = None


def _path(title: str, heading: str, level: int) -> str:
    if not heading or heading == title:
        return title
    return heading if level == 1 else f"{title} > {heading}"


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a long line where a sentence ends, else at a space, else anywhere."""
    while True:
        stop = _fitting(text, start, end)
        yield start, stop
        if stop == end:
            return
        start = stop


def _fitting(text: str, start: int, end: int) -> int:
    """Return the best place to end a piece that begins at `start` and has `LINE_TOKENS` at most.

    A character is counted a few times at most, whatever stands in the text.
    """
    stop = reach(text, start, min(end, start + LINE_CHARS), LINE_TOKENS)
    step = 1
    while stop > start + 1 and _COUNTER.count(text[start:stop]) > LINE_TOKENS:
        stop, step = max(start + 1, stop - step), step * 2
    if stop == end:
        return end
    half = start + (stop - start) // 2
    for pattern in (_SENTENCE_END, _SPACE):
        ends = [found.end() for found in pattern.finditer(text, half, stop)]
        if ends:
            return ends[-1]
    return stop


def _passages(lines: Sequence[_Line], text: str) -> Iterator[tuple[int, int]]:
    """Yield which lines each passage holds, as numbers from and up to but not including."""
    talk = _is_conversation(lines)
    if not talk and len(text.split()) < WHOLE_FILE_WORDS and _tokens(lines) <= SECTION_TOKENS:
        yield 0, len(lines)
        return
    for start, end in _sections(lines):
        if talk:
            yield from _turns(lines, start, end)
        elif _tokens(lines[start:end]) <= SECTION_TOKENS:
            yield start, end
        else:
            yield from _windows(lines, start, end)


def _speakers(lines: Sequence[_Line]) -> tuple[str, ...]:
    """Return who speaks in a conversation, each once."""
    named = (line.speaker for line in lines if line.speaker)
    return tuple(dict.fromkeys(named)) if _is_conversation(lines) else ()


def _is_conversation(lines: Sequence[_Line]) -> bool:
    """Tell whether most lines are turns: they name a speaker, and speakers come back."""
    speakers = [line.speaker for line in lines if line.speaker]
    return len(speakers) * 2 >= max(len(lines), 3) and len(speakers) >= 2 * len(set(speakers))


def _sections(lines: Sequence[_Line]) -> Iterator[tuple[int, int]]:
    start = 0
    for number in range(1, len(lines) + 1):
        if number == len(lines) or lines[number].section != lines[start].section:
            yield start, number
            start = number


def _turns(lines: Sequence[_Line], start: int, end: int) -> Iterator[tuple[int, int]]:
    while True:
        stop = _reach(lines, start, min(start + TURNS, end))
        yield start, stop
        if stop == end:
            return
        start += max(1, min(TURN_STEP, stop - start))


def _windows(lines: Sequence[_Line], start: int, end: int) -> Iterator[tuple[int, int]]:
    while True:
        stop = _reach(lines, start, end)
        yield start, stop
        if stop == end:
            return
        again = stop
        while again - 1 > start and _tokens(lines[again:stop]) < OVERLAP_TOKENS:
            again -= 1
        start = again


def _reach(lines: Sequence[_Line], start: int, end: int) -> int:
    """Return how far lines from `start` reach within `WINDOW_TOKENS`; at least one line."""
    stop, total = start + 1, lines[start].tokens
    while stop < end and total + lines[stop].tokens <= WINDOW_TOKENS:
        total += lines[stop].tokens
        stop += 1
    return stop


def _tokens(lines: Sequence[_Line]) -> int:
    return sum(line.tokens for line in lines)


def _passage(lines: Sequence[_Line], window: tuple[int, int]) -> TextSpan:
    first, last = window
    heading = lines[first].heading
    end = lines[last - 1].end
    return TextSpan(lines[first].start, end, heading, _tokens(lines[first:last]), "", window)


def _holders(count: int, windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return for each of `count` lines the numbers of the windows that hold it."""
    held = [(len(windows), 0)] * count
    for number, (first, last) in enumerate(windows):
        for line in range(first, last):
            held[line] = (min(held[line][0], number), number + 1)
    return held


def _placed(line: _Line, held: tuple[int, int]) -> TextSpan:
    return TextSpan(line.start, line.end, line.heading, line.tokens, line.speaker, held)
