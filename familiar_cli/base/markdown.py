"""Markdown line by line: code blocks, headings, sections, list items, front matter.

Only a newline ends a line, with or without a carriage return; form feeds, U+2028 and the like are
ordinary characters. Where HTML or nested blocks matter, use the parser in `index/markdown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE: Final = re.compile(r"\ufeff? {0,3}(`{3,}|~{3,})([^\n]*)")
_HEADING: Final = re.compile(r"\ufeff? {0,3}(#{1,6})(?:[ \t]|\r?$)")
_UNDERLINE: Final = re.compile(r" {0,3}=+[ \t]*\r?$")
_BULLET: Final = re.compile(r"([ \t]*)([-*+]|[0-9]{1,9}[.)])(?:[ \t]+|(?=\r?\n|\r?\Z))")
_BOX: Final = re.compile(r"\[([ xX-])\](?:[ \t]+|(?=\r?\n|\r?\Z))")
_RULE: Final = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*\r?$")
_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(?:(.*?)\n)??---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_COMMENT_OPENS: Final = "<!--"
_COMMENT_ENDS: Final = "-->"
_INDENT: Final = re.compile(r"(?:\n|\A\ufeff?)[ \t]*\Z")
_INDENT_CHARS: Final = 9
_NESTED_CHARS: Final = 1000  # how far to search for the end of a comment that contains others
_BLOCK: Final = re.compile(r"#{1,6}(?=\s|$)|>|`{3}|~{3}|[-*_=]{3,}\s*$|\|")
_LINK: Final = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_EMPHASIS: Final = re.compile(
    r"(?<!\w)[*_`~]{1,3}(?=\S)|(?<=\S)[*_`~]{1,3}(?!\w)|^[ \t]*[#>]+[ \t]*", re.MULTILINE
)


class TextLine(Struct, frozen=True):
    """A line of a text.

    Args:
        text: The line with its newline.
        start: Character offset of its start.
        number: Line number, from 1.
        in_code: Whether it is part of a fenced code block.
        is_fence: Whether it opens or closes one.
    """

    text: str
    start: int
    number: int
    in_code: bool = False
    is_fence: bool = False

    @property
    def end(self) -> int:
        """Offset of the next line."""
        return self.start + len(self.text)

    @property
    def level(self) -> int:
        """Heading level, 1 to 6, or 0; code has no headings."""
        found = None if self.in_code else _HEADING.match(self.text)
        return len(found[1]) if found else 0

    @property
    def is_item(self) -> bool:
        """Whether it starts a list item."""
        return not self.in_code and bullet(self.text) is not None

    @property
    def title(self) -> str:
        """The text of a heading without closing marks and comments; empty for other lines."""
        found = None if self.in_code else _HEADING.match(self.text)
        words = heading_text(self.text[found.end() :]) if found else ""
        bare = words.rstrip("#")
        return bare.rstrip(" \t") if bare[-1:] in ("", " ", "\t") else words


class Section(Struct, frozen=True):
    """A heading with everything up to the next one.

    Args:
        start: Character offset of its start.
        lines: Its lines, starting with the heading.
        level: Heading level; 0 for text before the first heading.
        title: Text of the heading.
    """

    start: int
    lines: tuple[TextLine, ...]
    level: int = 0
    title: str = ""

    @property
    def end(self) -> int:
        """Offset of the next section."""
        return self.lines[-1].end if self.lines else self.start

    @property
    def below(self) -> tuple[TextLine, ...]:
        """The lines below the heading."""
        return self.lines[1:] if self.level else self.lines

    @property
    def body(self) -> str:
        """The text below the heading."""
        return "".join(line.text for line in self.below)


class ListMarker(Struct, frozen=True):
    """The marker of a list item.

    Args:
        indent: White space before it.
        marker: The bullet or number, e.g. `-` or `12.`.
        text_at: Offset of its text, including a checkbox.
        words_at: Offset of its text after the checkbox.
        box: Character in its checkbox: a space, `x`, `X` or `-`; empty without one.
    """

    indent: str
    marker: str
    text_at: int
    words_at: int
    box: str = ""


def split_lines(text: str) -> list[str]:
    """Split `text` into lines, keeping line ends."""
    return _LINE.findall(text)


def replace_spans(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return `text` with ranges replaced.

    Args:
        text: Any text.
        edits: Start, end and replacement of each range; sorted. Overlapping edits are skipped.
    """
    parts, at = list[str](), 0
    for start, end, new in edits:
        if start >= at:
            parts += [text[at:start], new]
            at = end
    return "".join((*parts, text[at:])) if parts else text


def newline_of(text: str) -> str:
    """Return the newline style of `text`."""
    return "\r\n" if "\r\n" in text else "\n"


def scan(text: str) -> Iterator[TextLine]:
    """Yield the lines of `text`. An unclosed code block extends to the end."""
    start, fence = 0, ""
    for number, line in enumerate(_LINE.findall(text), 1):
        was_code = bool(fence)
        if "```" in line or "~~~" in line:
            fence = _fence_after(line, fence)
        is_code = bool(fence)
        yield TextLine(line, start, number, was_code or is_code, was_code != is_code)
        start += len(line)


def _fence_after(line: str, fence: str) -> str:
    """Return the fence of the code block that continues below `line`, or an empty string."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if fence:
        return "" if mark[1].startswith(fence) and not mark[2].strip(" \t\r") else fence
    return "" if mark[1][0] == "`" and "`" in mark[2] else mark[1]


def code_in(text: str) -> Iterator[str]:
    """Yield the contents of each fenced code block in `text`."""
    held, is_inside = list[str](), False
    for line in scan(text):
        if is_inside and line.is_fence:
            yield "".join(held)
            held = []
        elif is_inside:
            held.append(line.text)
        is_inside ^= line.is_fence
    if held:
        yield "".join(held)


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each HTML comment in `text`.

    Includes comments in fenced code; none extends beyond its code block, or beyond its paragraph if
    it starts within a line. A comment containing others ends with the last of them. An unclosed one
    extends to the end of `text` if it starts a line, else to the end of its line.
    """
    line = paragraph = closed = 0  # `closed` is how far comments within lines of it can reach
    start = text.find(_COMMENT_OPENS)
    while start >= 0:
        code = _next_code(text, line, start)
        if code:
            yield from _comments_in_code(text, *code)
            at = line = code[1]
        else:
            begins_line = _INDENT.search(text, max(start - _INDENT_CHARS, 0), start) is not None
            if paragraph <= start and not begins_line:
                paragraph = _paragraph_end(text, start)
                closed = text.rfind(_COMMENT_ENDS, start, paragraph) + len(_COMMENT_ENDS)
            limit = len(text) if begins_line else closed
            at = _comment_end(text, start, limit) or (
                len(text) if begins_line else _line_end(text, start)
            )
            line = text.find("\n", at) + 1 or len(text)
            yield start, at
        start = text.find(_COMMENT_OPENS, at) if start < at else start


def _next_code(text: str, at: int, until: int) -> tuple[int, int] | None:
    """Return the range of the first code block that opens between two offsets."""
    fence, opened = "", 0
    while at < len(text) and (fence or at <= until):
        end = text.find("\n", at) + 1 or len(text)
        was, fence = fence, _fence_after(text[at:end], fence)
        if was and not fence:
            return opened, end
        opened = opened if was else at
        at = end
    return (opened, len(text)) if fence else None


def _comments_in_code(text: str, at: int, limit: int) -> Iterator[tuple[int, int]]:
    while (start := text.find(_COMMENT_OPENS, at, limit)) >= 0:
        close = text.find(_COMMENT_ENDS, start + 2, limit)
        at = close + len(_COMMENT_ENDS) if close >= 0 else _line_end(text, start)
        yield start, at


def _comment_end(text: str, start: int, limit: int) -> int:
    """Return the end of a comment before a limit, or 0 if it is unclosed."""
    close = text.find(_COMMENT_ENDS, start + 2, limit)  # `<!-->` is complete
    if close < 0:
        return 0
    end = close + len(_COMMENT_ENDS)
    for _ in range(text.count(_COMMENT_OPENS, start + len(_COMMENT_OPENS), close)):
        more = text.find(_COMMENT_ENDS, end, min(limit, close + _NESTED_CHARS))
        if more < 0 or text.find(_COMMENT_OPENS, end, more) >= 0:
            break
        end = more + len(_COMMENT_ENDS)
    return end


def _paragraph_end(text: str, at: int) -> int:
    """Return the start of the first line below an offset that does not continue a paragraph."""
    while at := text.find("\n", at) + 1:
        line = text[at : text.find("\n", at) + 1 or len(text)]
        if not line.strip() or _BULLET.match(line) or _BLOCK.match(line):
            return at
    return len(text)


def _line_end(text: str, at: int) -> int:
    """Return the end of the line at `at`, excluding the line break."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end - (text[end - 1] == "\r")


def sections(text: str, deepest: int = 6) -> Iterator[Section]:
    """Yield the sections of `text`, starting with the possibly empty text before all headings.

    Args:
        text: Markdown.
        deepest: Headings below this level start no section.
    """
    start, lines, level, title = 0, list[TextLine](), 0, ""
    for line in scan(text):
        if 0 < (own := line.level) <= deepest:
            yield Section(start, tuple(lines), level, title)
            start, lines, level, title = line.start, [], own, line.title
        lines.append(line)
    yield Section(start, tuple(lines), level, title)


def title_of(text: str) -> str:
    """Return the text of the first H1, in either style; empty if there is none."""
    above = ""
    for line in scan(text):
        if line.level == 1 and line.title:
            return line.title
        if above and not line.in_code and _UNDERLINE.match(line.text):
            return above
        above = "" if line.in_code or line.level else heading_text(line.text.lstrip("\ufeff"))
    return ""


def heading_text(words: str) -> str:
    """Return the words of a heading without the comments at its end, such as marks of privacy."""
    text = words.strip(" \t\r\n")
    end = len(text)
    while text.endswith(_COMMENT_ENDS, 0, end):
        start = text.rfind(_COMMENT_OPENS, 0, end)
        if start < 0 or text.find(_COMMENT_ENDS, start, end) + len(_COMMENT_ENDS) < end:
            break
        end = start
        while text[end - 1 : end] in (" ", "\t"):
            end -= 1
    return text[:end]


def bullet(text: str) -> ListMarker | None:
    """Return the marker of the list item `text`, or None for anything else, such as `* * *`."""
    found = _BULLET.match(text)
    if found is None or _RULE.match(text):
        return None
    box = _BOX.match(text, found.end())
    if box is None:
        return ListMarker(found[1], found[2], found.end(), found.end())
    return ListMarker(found[1], found[2], found.end(), box.end(), box[1])


def without_marker(text: str) -> str:
    """Return `text` without its list marker; a checkbox is kept."""
    item = bullet(text)
    return text[item.text_at :] if item else text


def as_paragraph(line: str) -> str:
    r"""Escape a line so that it is plain paragraph text: `\# words`."""
    return f"\\{line}" if _BLOCK.match(line) or _RULE.match(line) else line


def split_front_matter(text: str) -> tuple[str | None, str]:
    """Split `text` into front matter lines, or None, and the text below."""
    found = _FRONT.match(text)
    if not found:
        return None, text.removeprefix("\ufeff")
    return found[1] or "", text[found.end() :]


def body_start(text: str) -> int:
    """Return the offset of the text below the front matter."""
    found = _FRONT.match(text)
    return found.end() if found else 0


def without_marks(text: str) -> str:
    """Remove inline Markdown from `text`, keeping the words of links."""
    return _EMPHASIS.sub("", _LINK.sub(r"\1", text))
