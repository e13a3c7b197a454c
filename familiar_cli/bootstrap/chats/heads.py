"""How a message begins in a transcript: who speaks, and when, in the ways people write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.chats.stamps import CLOCK, STAMP
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MOST_CHARS: Final = 400
"""How much of a line is looked at."""

_INVISIBLE: Final = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\ufeff"))
_SPACES: Final = str.maketrans("\u202f\u00a0", "  ")
_NAME_CHARS: Final = 60
_NAME_WORDS: Final = 5  # of a name without a time beside it
_NEVER_IN_NAMES: Final = frozenset('"“”„«»=<>{}|\\\t\0')
_NOT_IN_BARE_NAMES: Final = frozenset(";!?,[]/`*_#…。、！？")
_LABELS: Final = frozenset(
    (
        *("note", "notes", "nb", "ps", "p.s", "todo", "edit", "update", "tip", "warning", "e.g"),
        *("i.e", "example", "http", "https", "ftp", "file", "ooc", "summary", "source", "sources"),
        *("translation", "hint", "question", "answer", "step", "title", "date", "time", "from"),
        *("to", "subject", "tags", "aliases", "cc"),
    )
)
"""What stands before a colon and is hardly ever a speaker."""

_QUICK: Final = re.compile(r"[:：>)\]—–-]|\d\d")
_TIME_LIKE: Final = re.compile(r"\d[:.]\d\d|\d[-/.]\d|\d{4}|年")
_STAMP_WITHIN: Final = 150


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a message.

    Args:
        style: In which way it is written.
        name: Who speaks; empty: nobody, the program that wrote the file tells something.
        stamp: The time, as it is written; empty: none.
        text: What follows on the same line.
        is_block: Nothing can follow on the same line.
    """

    style: str
    name: str
    stamp: str
    text: str
    is_block: bool = False


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("STAMP", STAMP).replace("CLOCK", CLOCK), re.IGNORECASE)


_SAYS: Final = r"(?P<name>[^:：\n]{1,80}?)[ ]?[:：](?P<text>.*)"
_QUOTED: Final = r"<[ ]?(?P<name>[^<>\n]{1,60})>[ ]?(?P<text>.*)"


@dataclass(frozen=True, slots=True)
class _Way:
    """One way in which a message can begin.

    Args:
        style: Its name, as people are told it.
        pattern: What the line looks like.
        first: What the line begins with; empty: anything but the brackets of other ways.
        needs: Characters one of which has to be in the line: quicker than the pattern.
    """

    style: str
    pattern: re.Pattern[str]
    first: str = ""
    needs: str = ""

    def fits(self, start: str) -> bool:
        """Tell whether it is worth the while to look for the pattern."""
        opening = start[:1] if start[:1] in "[(" else ""
        return opening == self.first and any(map(start.__contains__, self.needs))


_COLONS: Final = ":："
_TIMED: Final = (
    _Way("[time] <Name> text", _pattern(rf"\[(?P<stamp>STAMP)\]\s{{0,3}}{_QUOTED}"), "[", "<"),
    _Way("[time] Name: text", _pattern(rf"\[(?P<stamp>STAMP)\]\s{{0,3}}{_SAYS}"), "[", _COLONS),
    _Way("(time) Name: text", _pattern(rf"\((?P<stamp>STAMP)\)\s{{0,3}}{_SAYS}"), "(", _COLONS),
    _Way(
        "time - Name: text", _pattern(rf"(?P<stamp>STAMP)\s{{1,3}}[-–—]\s{{1,3}}{_SAYS}"), "", "-–—"
    ),
    _Way(
        "time Name text",
        _pattern(r"(?P<stamp>CLOCK)\t(?P<name>[^\t]{1,60})\t(?P<text>.*)"),
        "",
        "\t",
    ),
    _Way("time <Name> text", _pattern(rf"(?P<stamp>STAMP),?\s{{1,3}}{_QUOTED}"), "", "<"),
    _Way("time Name: text", _pattern(rf"(?P<stamp>STAMP),?[\s|]{{1,3}}{_SAYS}"), "", _COLONS),
    _Way(
        "Name (time): text",
        _pattern(
            r"(?P<name>[^:：\n]{1,80}?)[ ]{0,2}[(\[（](?P<stamp>STAMP)[)\]）][ ]?[:：](?P<text>.*)"
        ),
        "",
        "([（",
    ),
)
_BLOCKS: Final = (
    _Way(
        "[time] Name",
        _pattern(r"\[(?P<stamp>STAMP)\][ ](?P<name>[^:：\n]{1,60}?)(?: \(pinned\))?"),
        "[",
        "]",
    ),
    _Way(
        "Name — time",
        _pattern(
            r"(?P<name>[^:：\n]{1,60}?)[ ]{1,2}[—–-][ ]{1,2}"
            r"(?P<stamp>(?:(?:Today|Yesterday)[ ](?:at[ ])?)?STAMP)"
        ),
        "",
        "-–—",
    ),
    _Way(
        "Name (time)",
        _pattern(r"(?P<name>[^:：\n]{1,60}?)[ ]{1,2}[(\[](?P<stamp>STAMP)[)\]]"),
        "",
        "([",
    ),
)
_TOLD: Final = (
    _Way("[time] Name: text", _pattern(r"\[(?P<stamp>STAMP)\]\s{0,3}(?P<text>.+)"), "[", "]"),
    _Way(
        "time - Name: text",
        _pattern(r"(?P<stamp>STAMP)\s{1,3}[-–—]\s{1,3}(?P<text>.+)"),
        "",
        "-–—",
    ),
)
"""Lines with a time and nobody who speaks, by the style of the messages beside them."""

_QUOTED_BARE: Final = ("<Name> text", _pattern(_QUOTED))
_COLON_BARE: Final = (
    "Name: text",
    _pattern(r"(?:#{1,6}[ ])?(?P<name>[^:：\n]{1,60}?)[ ]?(?P<colon>[:：])(?P<text>.*)"),
)
_BOLD: Final = re.compile(
    r"(?:[-*+][ ]{1,3}|#{1,6}[ ])?(?P<mark>\*\*|__)(?P<in>.{1,150}?)(?P=mark)"
)


def harmonised(line: str) -> str:
    """Return a line without what chat programs put between its letters unseen."""
    if line.isascii() and "\0" not in line:
        return line
    return line.translate(_INVISIBLE).translate(_SPACES).replace("\0", "")


def heads_of(line: str, styles: Collection[str] | None = None) -> list[Head]:
    """Return every way in which a line can be read as the beginning of a message.

    Args:
        line: The line.
        styles: Only these ways; None: all.
    """
    start = line[:MOST_CHARS]
    if not _QUICK.search(start):
        return []
    bold = _BOLD.match(start) if "**" in start or "__" in start else None
    if not bold:
        return _heads(line, styles)
    # The colon may stand inside or outside of what is bold.
    plain = bold["in"] + line[bold.end() :]
    only = None if styles is None else {name.removeprefix("**") for name in styles}
    return [
        Head(f"**{head.style}", head.name, head.stamp, head.text, head.is_block)
        for head in _heads(plain, only)
        if head.name in bold["in"]
    ]


def _heads(line: str, styles: Collection[str] | None) -> list[Head]:
    start, rest = line[:MOST_CHARS], line[MOST_CHARS:]
    found: list[Head] = []
    if _TIME_LIKE.search(start, 0, _STAMP_WITHIN):
        found = _timed(start, rest, styles)
    if not found:
        style, pattern = _QUOTED_BARE if start.startswith("<") else _COLON_BARE
        if styles is None or style in styles:
            head = _head(style, pattern, start, rest)
            found = [head] if head and _is_bare_name(head, start) else []
    return found


def _timed(start: str, rest: str, styles: Collection[str] | None) -> list[Head]:
    def ways(of: tuple[_Way, ...]) -> Iterator[_Way]:
        return (way for way in of if (styles is None or way.style in styles) and way.fits(start))

    said = (_head(way.style, way.pattern, start, rest) for way in ways(_TIMED))
    found = [head for head in said if head]
    if not found and not rest:
        blocks = (_head(w.style, w.pattern, start, "", is_block=True) for w in ways(_BLOCKS))
        found = [head for head in blocks if head]
        for way in ways(_TOLD):
            told = way.pattern.fullmatch(start)
            if told:
                found.append(Head(way.style, "", told["stamp"], told["text"].strip()))
    return found


def _head(
    style: str, pattern: re.Pattern[str], start: str, rest: str, *, is_block: bool = False
) -> Head | None:
    match = pattern.fullmatch(start)
    if not match:
        return None
    parts = match.groupdict()
    name = parts["name"].strip().strip("*_").strip()
    if not is_name(name):
        return None
    text = parts.get("text") or ""
    if parts["name"].lstrip().startswith(("**", "__")) and text.startswith(("**", "__")):
        text = text[2:]
    text = (text + rest).removeprefix(" ")
    return Head(style, name, (parts.get("stamp") or "").strip(), text, is_block)


def is_name(text: str) -> bool:
    """Tell whether somebody could be called so."""
    if not 0 < len(text) <= _NAME_CHARS or _NEVER_IN_NAMES & set(text) or text[0] in "-–—|•":
        return False
    return any(c.isalpha() or not (c.isascii() or c.isspace()) for c in text)


def _is_bare_name(head: Head, line: str) -> bool:
    """Tell whether somebody could be called so who has only a colon behind the name."""
    if head.style == "<Name> text":
        return True
    if _NOT_IN_BARE_NAMES & set(head.name) or len(head.name.split()) > _NAME_WORDS:
        return False
    after = line[line.index(head.name) + len(head.name) :].lstrip(" *_")
    spaced = after.startswith("：") or after[1:2] in ("", " ", "*", "_")
    return spaced and line[:1] not in " \t" and head.name[0] not in "-+(~"


def is_label(name: str) -> bool:
    """Tell whether a name is rather a label, such as `Note`."""
    return fold(name) in _LABELS
