"""What in a page is there for the program or for finding one's way, and no model is shown.

That is: front matter, HTML comments, the record of a page that was made of others, the tags of a
daily file, and lists of nothing but links to other pages of memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.markdown import body_start, bullet, comments, sections
from familiar_cli.memory.pages.evidence import is_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from familiar_cli.markdown import TextLine

Span = tuple[int, int]

TAG: Final = re.compile(r"[ \t]{0,9}(?<!\\)\[(chat|via):([^\[\]\s]+)\]")
"""Where something was said, or which instance wrote it down, at the end of a line."""

_RECORD: Final = re.compile(
    r"^(?:made_by: familiar|made_at: [0-9T:.+Z-]+|sources: \{.*\}|blocks:(?: [0-9a-f]{8})*)"
    r"[ \t\r]*$",
    re.MULTILINE,
)
_LINK: Final = re.compile(
    r"\[(?:[^\]\\\n]|\\.){0,300}\]\((?![A-Za-z][A-Za-z0-9+.\-]*:|//)"
    r"[^)\s]{1,1000}\.(?:md|markdown|txt)(?:#[^)\s]{0,300})?\)"
)
_NO_BREAK: Final = re.compile(r"[^\r\n]")
_GAP: Final = re.compile(r"(?:\r?\n){3,}")


def machine_spans(text: str) -> list[Span]:
    """Return where such text stands in a page, in order, as characters from … to."""
    spans = [(0, start)] if (start := body_start(text)) else []
    spans += comments(text)
    if "blocks:" in text or "made_" in text or "sources:" in text:
        spans += (found.span() for found in _RECORD.finditer(text))
    if "[chat:" in text or "[via:" in text:
        spans += (found.span() for found in TAG.finditer(text))
    if "](" in text:
        spans += _link_lists(text)
    return sorted(spans)


def shown_between(text: str, start: int, end: int, hidden: Iterable[Span]) -> str:
    """Return what a reader sees of a part of a page.

    Args:
        text: The page.
        start: Where the part begins.
        end: Where it ends.
        hidden: What is not shown, sorted.
    """
    shown, at = [], start
    for begin, stop in hidden:
        if begin < end and stop > at:
            before = text[at : max(begin, at)]
            # What stood before a comment at the end of a line was there to set it apart.
            shown.append(before.rstrip(" \t") if text[stop : stop + 1] in "\r\n" else before)
            at = stop
    shown.append(text[at:end] if at < end else "")
    bare = "".join(shown).replace("\r\n", "\n")
    return _GAP.sub("\n\n", bare).strip().removeprefix("\ufeff").lstrip()


def blanked(text: str) -> str:
    """Return a page with spaces where such text stands, so that all else keeps its place."""
    parts, at = [], 0
    for start, end in machine_spans(text):
        if end > at:
            parts += [text[at:start], _NO_BREAK.sub(" ", text[max(start, at) : end])]
            at = end
    return "".join((*parts, text[at:])) if parts else text


def readable(text: str) -> str:
    """Return what a reader sees of a page."""
    return shown_between(text, 0, len(text), machine_spans(text))


def with_references(text: str) -> str:
    """Return a page as `readable` does, but with the comments that name turns."""
    spans = [span for span in machine_spans(text) if not is_reference(text[slice(*span)])]
    return shown_between(text, 0, len(text), spans)


def _link_lists(text: str) -> Iterator[Span]:
    """Yield where lists stand that only link to other pages, with a heading that has no more."""
    every = list(sections(text))
    for section, after in zip(every, [*every[1:], None], strict=True):
        spans = list(_lists_in(section.below))
        if not spans:
            continue
        left = (line for line in section.below if not _is_within(line, spans))
        is_last = after is None or after.level <= section.level
        if section.level > 1 and is_last and not any(line.text.strip() for line in left):
            yield section.start, section.end
        else:
            yield from spans


def _lists_in(lines: Sequence[TextLine]) -> Iterator[Span]:
    held: list[TextLine] = []
    for line in (*lines, None):
        if line is not None and (_is_item(line) or _goes_on(held, line)):
            held.append(line)
            continue
        items = [one for one in held if one.text.strip()]
        if items and all(_only_links(one.text) for one in items):
            yield held[0].start, items[-1].end
        held = []


def _is_item(line: TextLine) -> bool:
    return not line.in_code and bullet(line.text) is not None


def _goes_on(held: Sequence[TextLine], line: TextLine) -> bool:
    """Return whether a line belongs to the list above it though it begins no item."""
    if not held or line.in_code:
        return False
    return line.text[0] in " \t\r\n" or bool(held[-1].text.strip())


def _only_links(line: str) -> bool:
    item = bullet(line)
    left, count = _LINK.subn("", line[item.text_at :] if item else line)
    for start, end in reversed(list(comments(left))):
        left = left[:start] + left[end:]
    return bool(count) and not any(char.isalnum() for char in left)


def _is_within(line: TextLine, spans: Sequence[Span]) -> bool:
    return any(start <= line.start < end for start, end in spans)
