"""Lines of a transcript: who speaks, when, and what the messenger wrote itself."""

from __future__ import annotations

import codecs
import io
import re
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.text import bare_lines, fold
from familiar_cli.imports.foreign_files import LENIENT, MIB
from familiar_cli.imports.written_times import (
    CLOCK,
    STAMP,
    day_alone,
    holds_time,
    in_ascii_digits,
    is_stamp,
)

if TYPE_CHECKING:
    from familiar_cli.imports.source import ForeignFile


_MARK: Final = "\u200e"
_ANDROID: Final = "time - Name: text"
LINE_STYLE: Final = "time Name text"
"""The header style of LINE, which quotes messages of several lines."""

PHONE_STYLES: Final = frozenset(("[time] Name: text", _ANDROID, LINE_STYLE))
"""The header styles of messengers such as WhatsApp, Signal and LINE, whose chats are private."""

_TABS: Final = "date, Name and text with tabs"
IRC_STYLES: Final = frozenset(("[time] <Name> text", "time <Name> text", "<Name> text", _TABS))
"""The header styles of IRC clients, in whose logs each line is one message or tells an event."""

_PLACEHOLDER: Final = re.compile(r"<(?!attached\b)[^<>:]{3,80}>")
_ATTACHED: Final = re.compile(r"<[^<>]{1,40}:[^<>]{1,200}>")
_EDIT_MARK: Final = re.compile(r"\s(\u200e?)<([^<>:]{5,60})>$")


@cache
def _table() -> dict[str, list[str]]:
    text = (resources.files(__package__) / "notices.toml").read_text("utf-8")
    return {
        name: [part for line in bare_lines(lines.strip()) for part in line.split("|")]
        for name, lines in tomllib.loads(text).items()
    }


@cache
def _texts() -> frozenset[str]:
    return frozenset(_table()["texts"])


@cache
def _edits() -> frozenset[str]:
    return frozenset(_table()["edits"])


@cache
def _starts() -> tuple[str, ...]:
    return tuple(_table()["starts"])


@cache
def _deeds() -> re.Pattern[str]:
    return re.compile(rf"\S.{{0,60}}? (?:{'|'.join(_table()['deeds'])})(?:\W|$)", re.IGNORECASE)


def is_notice(text: str, style: str) -> bool:
    """Tell whether a message's text is the messenger's own: by its mark, else by its wording.

    Angle brackets around all of it are WhatsApp's on Android; elsewhere they may be anybody's.
    """
    if text.lstrip(" ").startswith(_MARK):
        return not _ATTACHED.match(text.lstrip(f" {_MARK}"))
    plain = text.replace(_MARK, "").strip()
    if style in IRC_STYLES:
        return False
    if style == _ANDROID and _PLACEHOLDER.fullmatch(plain):
        return True
    if style == LINE_STYLE and plain.startswith("☎"):  # a call, in every language
        return True
    low = plain.casefold()
    return low.rstrip(".。") in _texts() or low.startswith(_starts())


def is_about_somebody(name: str) -> bool:
    """Tell whether a text before a colon is a sentence about a member of a group, not a name."""
    return bool(_deeds().match(name))


def without_edit_mark(text: str) -> str:
    """Return a text without the remark that it was edited, which the messenger added."""
    match = _EDIT_MARK.search(text)
    if not match or not (match[1] or match[2].casefold().rstrip(".。") in _edits()):
        return text
    return text[: match.start()]


MAX_LINE_CHARS: Final = 16 * MIB
"""Longest line that is read."""


def text_lines(source: ForeignFile) -> Iterator[tuple[int, str | None]]:
    """Yield number and text of each line, without its end; None if it is too long."""
    with source.open() as stream:
        reader = io.TextIOWrapper(stream, "utf-8", errors=LENIENT, newline=None)
        try:
            number = 0
            while line := reader.readline(MAX_LINE_CHARS):
                number += 1
                if line.endswith("\n") or len(line) < MAX_LINE_CHARS:
                    yield number, line.removesuffix("\n")
                    continue
                while line and not line.endswith("\n"):
                    line = reader.readline(MAX_LINE_CHARS)
                yield number, None
        finally:
            reader.detach()


def is_utf8(source: ForeignFile) -> bool:
    """Tell whether a whole file is valid UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with source.open() as stream:
        try:
            while block := stream.read(MIB):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


MOST_CHARS: Final = 400
"""How much of a line is looked at."""

_INVISIBLE: Final = dict.fromkeys(
    map(ord, "\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
)
# With which IRC clients colour and format a text; a colour is a number, or two.
_FORMATTING: Final = re.compile(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|[\x02\x0f\x11\x16\x1d-\x1f]")
_SPACES: Final = str.maketrans("\u202f\u00a0", "  ")
_NAME_CHARS: Final = 60
_NAME_WORDS: Final = 5  # longest name without a time beside it
_NEVER_IN_NAMES: Final = frozenset("=<>{}|\\\t\0")
_QUOTES: Final = ('"', "“”„", "«»")  # a name may be in them, and half of one is not
_NOT_IN_BARE_NAMES: Final = frozenset(';!?,[]/`*_#…。、！？"“”„«»')
# What stands before a colon and is hardly ever a speaker.
_LABELS: Final = frozenset(
    (
        *("note", "notes", "nb", "ps", "p.s", "todo", "edit", "update", "tip", "warning", "e.g"),
        *("i.e", "example", "http", "https", "ftp", "file", "ooc", "summary", "source", "sources"),
        *("translation", "hint", "question", "answer", "step", "title", "date", "time", "from"),
        *("to", "subject", "tags", "aliases", "cc"),
    )
)

_QUICK: Final = re.compile(r"[:：>)\]—–-]|\d\d")
_TIME_LIKE: Final = re.compile(r"\d[:.h]\d\d|\d[-/.][ ]?\d|\d{4}|[年년]")
_STAMP_WITHIN: Final = 150
_STARS: Final = re.compile(r"\s*\*+\s")  # with which IRC marks what nobody says
_EVENT: Final = re.compile(r"\w(?: \S+){3,}[.!]$| (?:joined|left) #\S+$")  # on Discord, Slack
_MINUTES: Final = re.compile(r"\d{2}(?!\d)")


class MessageHeader(Struct, frozen=True):
    """The beginning of a message.

    Args:
        style: The style of the header.
        name: The speaker; empty: a notice of the program that wrote the file.
        stamp: The time as written; empty: none.
        text: What follows on the same line.
        is_block: Whether the text begins on the next line.
        is_notice: Whether the program wrote the text itself, under the speaker's name.
    """

    style: str
    name: str
    stamp: str
    text: str
    is_block: bool = False
    is_notice: bool = False


@cache
def _compile_pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("STAMP", STAMP).replace("CLOCK", CLOCK), re.IGNORECASE)


_SAYS: Final = r"(?P<name>[^:：\n]{1,80}?)[ ]?[:：](?P<text>.*)"
_QUOTED: Final = r"<[ ]?(?P<name>[^<>\n]{1,60})>[ \t]?(?P<text>.*)"


class _HeaderStyle(Struct, frozen=True):
    """One way in which a message can begin.

    Args:
        style: Its name, for people.
        pattern: The pattern of the line, compiled when it is first used.
        first: Possible first characters; empty: any except the brackets of other styles.
        needs: Characters of which the line must contain one: a quick check before the pattern.
    """

    style: str
    pattern: str
    first: str = ""
    needs: str = ""

    def fits(self, start: str) -> bool:
        """Tell whether a line passes the quick checks before the pattern."""
        opening = start[:1] if start[:1] in "[(" else ""
        return opening == self.first and any(map(start.__contains__, self.needs))


_DATED: Final = r"(?P<stamp>\d{4}-\d\d-\d\d CLOCK)"  # LINE's tabs stand beside a time alone
_COLONS: Final = ":："
_CHANGED: Final = r"(?:[ ]\|[ ][^\d\[\]|]{1,30}[ ]CLOCK)?"  # when a message on Skype was edited
_TIMED: Final = (
    _HeaderStyle("[time] <Name> text", rf"\[(?P<stamp>STAMP)\]\s{{0,3}}{_QUOTED}", "[", "<"),
    _HeaderStyle(
        "[time] Name: text", rf"\[(?P<stamp>STAMP){_CHANGED}\]\s{{0,3}}{_SAYS}", "[", _COLONS
    ),
    _HeaderStyle("(time) Name: text", rf"\((?P<stamp>STAMP)\)\s{{0,3}}{_SAYS}", "(", _COLONS),
    _HeaderStyle(_ANDROID, rf"(?P<stamp>STAMP)\s{{1,3}}[-–—]\s{{1,3}}{_SAYS}", "", "-–—"),
    _HeaderStyle(LINE_STYLE, r"(?P<stamp>CLOCK)\t(?P<name>[^\t]{1,60})\t(?P<text>.*)", "", "\t"),
    _HeaderStyle("time <Name> text", rf"(?P<stamp>STAMP),?\s{{1,3}}{_QUOTED}", "", "<"),
    _HeaderStyle(_TABS, rf"{_DATED}\t(?P<name>[^\t<>]{{1,60}})\t(?P<text>.*)", "", "\t"),
    _HeaderStyle("time Name: text", rf"(?P<stamp>STAMP)[,:]?[\s|]{{1,3}}{_SAYS}", "", _COLONS),
    _HeaderStyle(
        "Name (time): text",
        r"(?P<name>[^:：\n]{1,80}?)[ ]{0,2}[(\[（](?P<stamp>STAMP)[)\]）][ ]?[:：](?P<text>.*)",
        "",
        "([（",
    ),
)
_BLOCKS: Final = (
    _HeaderStyle(
        "[time] Name", r"\[(?P<stamp>STAMP)\][ ](?P<name>[^:：\n]{1,60}?)(?: \(pinned\))?", "[", "]"
    ),
    _HeaderStyle(
        "Name — time",
        r"(?P<name>[^:：\n]{1,100}?)[ ]{1,2}[—–-][ ]{1,2}"
        r"(?P<stamp>(?:(?:Today|Yesterday)[ ](?:at[ ])?)?STAMP)",
        "",
        "-–—",
    ),
    _HeaderStyle(
        "Name (time)", r"(?P<name>[^:：\n]{1,60}?)[ ]{1,2}[(\[](?P<stamp>STAMP)[)\]]", "", "(["
    ),
)
# Lines with a time and nobody who speaks, by the style of the messages beside them.
_TOLD: Final = tuple(
    _HeaderStyle(style, pattern + "(?P<text>.+)", first, needs)
    for styles, pattern, first, needs in (
        (("[time] Name: text", "[time] <Name> text"), r"\[(?P<stamp>STAMP)\]\s{0,3}", "[", "]"),
        (("(time) Name: text", "Name (time): text"), r"\((?P<stamp>STAMP)\)\s{0,3}", "(", ")"),
        (("time Name: text", "time <Name> text"), r"(?P<stamp>STAMP)[,:]?[\s|]{1,3}", "", ":.h"),
        ((LINE_STYLE,), r"(?P<stamp>CLOCK)\t(?=[^\t]+$)", "", "\t"),
        ((_TABS,), rf"{_DATED}\t", "", "\t"),
        ((_ANDROID,), r"(?P<stamp>STAMP)\s{1,3}[-–—]\s{1,3}", "", "-–—"),
    )
    for style in styles
)

_QUOTED_BARE: Final = ("<Name> text", _QUOTED)
_COLON_BARE: Final = (
    "Name: text",
    r"(?:#{1,6}[ ])?(?P<name>[^:：\n]{1,60}?)[ ]?(?P<colon>[:：])(?P<text>.*)",
)
_BOLD: Final = re.compile(
    r"(?:[-*+][ ]{1,3}|#{1,6}[ ])?(?P<mark>\*\*|__)(?P<in>.{1,150}?)(?P=mark)"
)


def harmonise_line(line: str) -> str:
    """Remove the invisible characters that chat programs insert, but for the mark of notices."""
    if line.isascii() and line.isprintable():
        return line
    return _FORMATTING.sub("", line).translate(_INVISIBLE).translate(_SPACES).replace("\0", "")


def without_marks(text: str) -> str:
    """Return a text without the marks by which notices are known."""
    return text.replace(_MARK, "")


def heads_of(line: str, styles: Collection[str] | None = None) -> list[MessageHeader]:
    """Return every possible reading of a line as the beginning of a message.

    Args:
        styles: Only these styles; None: all.
    """
    line = line.lstrip(_MARK)
    start = line[:MOST_CHARS]
    if not _QUICK.search(start):
        return []
    bold = _BOLD.match(start) if "**" in start or "__" in start else None
    if not bold:
        return _read_heads(line, styles)
    # The colon may be inside or outside the bold text.
    plain = bold["in"] + line[bold.end() :]
    only = None if styles is None else {name.removeprefix("**") for name in styles}
    return [
        MessageHeader(f"**{head.style}", head.name, head.stamp, head.text, head.is_block)
        for head in _read_heads(plain, only)
        if head.name in bold["in"]
    ]


def _read_heads(line: str, styles: Collection[str] | None) -> list[MessageHeader]:
    start, rest = line[:MOST_CHARS], line[MOST_CHARS:]
    headers: list[MessageHeader] = []
    if _TIME_LIKE.search(in_ascii_digits(start), 0, _STAMP_WITHIN):
        headers = _timed_heads(start, rest, styles)
    if not headers:
        style, pattern = _QUOTED_BARE if start.startswith("<") else _COLON_BARE
        if styles is None or style in styles:
            head = _match_head(style, pattern, start, rest)
            headers = [head] if head and _is_bare_name(head, start) else []
    return headers


def _ways(
    of: tuple[_HeaderStyle, ...], start: str, styles: Collection[str] | None
) -> Iterator[_HeaderStyle]:
    return (way for way in of if (styles is None or way.style in styles) and way.fits(start))


def _timed_heads(start: str, rest: str, styles: Collection[str] | None) -> list[MessageHeader]:
    said = (_match_head(w.style, w.pattern, start, rest) for w in _ways(_TIMED, start, styles))
    headers = [head for head in said if head]
    if not headers and not rest:
        blocks = _ways(_BLOCKS, start, styles)
        found = (_match_head(w.style, w.pattern, start, "", is_block=True) for w in blocks)
        headers = [head for head in found if head]
    if not any(not head.is_block for head in headers) and not day_alone(start):
        plain = None if styles is None else {name.removeprefix("**") for name in styles}
        for way in _ways(_TOLD, start, plain):
            match = _compile_pattern(way.pattern).fullmatch(in_ascii_digits(start))
            if match and is_stamp(match["stamp"]):
                text = without_marks(start[match.start("text") :] + rest).replace("\t", " ").strip()
                headers.append(MessageHeader(way.style, "", match["stamp"], text))
    return headers


def _match_head(
    style: str, pattern: str, start: str, rest: str, *, is_block: bool = False
) -> MessageHeader | None:
    match = _compile_pattern(pattern).fullmatch(in_ascii_digits(start))
    if not match:
        return None
    parts = {key: start[slice(*match.span(key))] for key in match.groupdict()}
    stamp = (match.groupdict().get("stamp") or "").strip()
    name, text = parts["name"].strip(), parts.get("text", "")
    if is_block and _EVENT.search(name) and is_stamp(stamp):
        return MessageHeader(style, "", stamp, name, is_block)
    name = _speaker_in(parts["name"], style, is_timed=bool(stamp))
    if not name or not is_stamp(stamp):
        return None
    is_split_time = name[-1:].isdigit() and _MINUTES.match(text)  # a time in another form
    if is_split_time and style not in IRC_STYLES:
        return None
    if parts["name"].lstrip().startswith(("**", "__")) and text.startswith(("**", "__")):
        text = text[2:]
    told = is_notice(text + rest, style)
    text = text + rest if told else without_edit_mark(text + rest)
    text = without_marks(text).removeprefix(" ")
    return MessageHeader(style, name, stamp, text, is_block, told and bool(stamp))


def _speaker_in(written: str, style: str, *, is_timed: bool) -> str:
    """Return the name that is written where a speaker is; empty: it cannot be one."""
    name = without_marks(written).strip()
    if _STARS.match(written):
        return ""
    if style not in IRC_STYLES:
        name = name.strip("*_").removeprefix("~").rstrip(",").strip()
        return name if is_name(name, is_timed=is_timed) else ""
    name = name.lstrip("@%+&~ ") or name  # marks of those who have rights in a channel
    is_possible = name.strip("-=!* ") if is_timed else is_name(name)
    return name if is_possible else ""


def is_name(text: str, *, is_timed: bool = False) -> bool:
    """Tell whether a text could be a person's name.

    Args:
        text: The text.
        is_timed: Whether a time stands beside it; then whatever a contact is called is a name.
    """
    if not 0 < len(text) <= _NAME_CHARS or _NEVER_IN_NAMES & set(text) or text[0] in "-–—|•":
        return False
    if any(sum(map(text.count, quotes)) % 2 for quotes in _QUOTES):
        return False
    if is_timed:
        return not holds_time(text) and not is_about_somebody(text)
    return any(c.isalpha() or not (c.isascii() or c.isspace()) for c in text)


def _is_bare_name(head: MessageHeader, line: str) -> bool:
    """Tell whether a name followed only by a colon could be a person's."""
    if head.style == "<Name> text":
        return True
    if _NOT_IN_BARE_NAMES & set(head.name) or len(head.name.split()) > _NAME_WORDS:
        return False
    after = line[line.index(head.name) + len(head.name) :].lstrip(" *_")
    spaced = after.startswith("：") or after[1:2] in ("", " ", "*", "_")
    return spaced and line[:1] not in " \t" and head.name[0] not in "-+(~"


def is_phrase(name: str) -> bool:
    """Tell whether a text begins like a sentence: a capital, and then a common word."""
    first, *others = name.split()
    return first[0].isupper() and any(word.isalpha() and word.islower() for word in others)


def is_label(name: str) -> bool:
    """Tell whether a name is rather a label, such as `Note`."""
    return fold(name) in _LABELS
