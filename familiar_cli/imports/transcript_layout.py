"""Infer the layout of a transcript from all of its lines: speakers and times."""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from familiar_cli.base.errors import RefusedError
from familiar_cli.base.text import counted, fold, shorten_list
from familiar_cli.base.times.clock import now
from familiar_cli.imports.cast import is_role
from familiar_cli.imports.foreign_files import LENIENT, MIB
from familiar_cli.imports.notices import is_about_somebody, is_notice, without_edit_mark
from familiar_cli.imports.written_times import (
    CLOCK,
    STAMP,
    DateReading,
    day_alone,
    day_of,
    holds_time,
    in_ascii_digits,
    is_stamp,
    read_day,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from familiar_cli.imports.contract import DateOrder, Reading
    from familiar_cli.imports.source import ForeignFile


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

_MARK: Final = "\u200e"
_INVISIBLE: Final = dict.fromkeys(
    map(ord, "\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
)
_SPACES: Final = str.maketrans("\u202f\u00a0", "  ")
_NAME_CHARS: Final = 60
_NAME_WORDS: Final = 5  # longest name without a time beside it
_NEVER_IN_NAMES: Final = frozenset("=<>{}|\\\t\0")
_QUOTES: Final = ('"', "“”„", "«»")  # a name may be in them, and half of one is not
_NOT_IN_BARE_NAMES: Final = frozenset(';!?,[]/`*_#…。、！？"“”„«»')
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
_TIME_LIKE: Final = re.compile(r"\d[:.h]\d\d|\d[-/.][ ]?\d|\d{4}|[年년]")
_STAMP_WITHIN: Final = 150
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


def _compile_pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("STAMP", STAMP).replace("CLOCK", CLOCK), re.IGNORECASE)


_SAYS: Final = r"(?P<name>[^:：\n]{1,80}?)[ ]?[:：](?P<text>.*)"
_QUOTED: Final = r"<[ ]?(?P<name>[^<>\n]{1,60})>[ ]?(?P<text>.*)"


class _HeaderStyle(Struct, frozen=True):
    """One way in which a message can begin.

    Args:
        style: Its name, for people.
        pattern: The pattern of the line.
        first: Possible first characters; empty: any except the brackets of other styles.
        needs: Characters of which the line must contain one: a quick check before the pattern.
    """

    style: str
    pattern: re.Pattern[str]
    first: str = ""
    needs: str = ""

    def fits(self, start: str) -> bool:
        """Tell whether a line passes the quick checks before the pattern."""
        opening = start[:1] if start[:1] in "[(" else ""
        return opening == self.first and any(map(start.__contains__, self.needs))


_COLONS: Final = ":："
_TIMED: Final = (
    _HeaderStyle(
        "[time] <Name> text", _compile_pattern(rf"\[(?P<stamp>STAMP)\]\s{{0,3}}{_QUOTED}"), "[", "<"
    ),
    _HeaderStyle(
        "[time] Name: text",
        _compile_pattern(rf"\[(?P<stamp>STAMP)\]\s{{0,3}}{_SAYS}"),
        "[",
        _COLONS,
    ),
    _HeaderStyle(
        "(time) Name: text",
        _compile_pattern(rf"\((?P<stamp>STAMP)\)\s{{0,3}}{_SAYS}"),
        "(",
        _COLONS,
    ),
    _HeaderStyle(
        "time - Name: text",
        _compile_pattern(rf"(?P<stamp>STAMP)\s{{1,3}}[-–—]\s{{1,3}}{_SAYS}"),
        "",
        "-–—",
    ),
    _HeaderStyle(
        "time Name text",
        _compile_pattern(r"(?P<stamp>CLOCK)\t(?P<name>[^\t]{1,60})\t(?P<text>.*)"),
        "",
        "\t",
    ),
    _HeaderStyle(
        "time <Name> text", _compile_pattern(rf"(?P<stamp>STAMP),?\s{{1,3}}{_QUOTED}"), "", "<"
    ),
    _HeaderStyle(
        "time Name: text",
        _compile_pattern(rf"(?P<stamp>STAMP)[,:]?[\s|]{{1,3}}{_SAYS}"),
        "",
        _COLONS,
    ),
    _HeaderStyle(
        "Name (time): text",
        _compile_pattern(
            r"(?P<name>[^:：\n]{1,80}?)[ ]{0,2}[(\[（](?P<stamp>STAMP)[)\]）][ ]?[:：](?P<text>.*)"
        ),
        "",
        "([（",
    ),
)
_BLOCKS: Final = (
    _HeaderStyle(
        "[time] Name",
        _compile_pattern(r"\[(?P<stamp>STAMP)\][ ](?P<name>[^:：\n]{1,60}?)(?: \(pinned\))?"),
        "[",
        "]",
    ),
    _HeaderStyle(
        "Name — time",
        _compile_pattern(
            r"(?P<name>[^:：\n]{1,60}?)[ ]{1,2}[—–-][ ]{1,2}"
            r"(?P<stamp>(?:(?:Today|Yesterday)[ ](?:at[ ])?)?STAMP)"
        ),
        "",
        "-–—",
    ),
    _HeaderStyle(
        "Name (time)",
        _compile_pattern(r"(?P<name>[^:：\n]{1,60}?)[ ]{1,2}[(\[](?P<stamp>STAMP)[)\]]"),
        "",
        "([",
    ),
)
_TOLD: Final = (
    _HeaderStyle(
        "[time] Name: text", _compile_pattern(r"\[(?P<stamp>STAMP)\]\s{0,3}(?P<text>.+)"), "[", "]"
    ),
    _HeaderStyle(
        "time - Name: text",
        _compile_pattern(r"(?P<stamp>STAMP)\s{1,3}[-–—]\s{1,3}(?P<text>.+)"),
        "",
        "-–—",
    ),
)
"""Lines with a time and nobody who speaks, by the style of the messages beside them."""

_QUOTED_BARE: Final = ("<Name> text", _compile_pattern(_QUOTED))
_COLON_BARE: Final = (
    "Name: text",
    _compile_pattern(r"(?:#{1,6}[ ])?(?P<name>[^:：\n]{1,60}?)[ ]?(?P<colon>[:：])(?P<text>.*)"),
)
_BOLD: Final = re.compile(
    r"(?:[-*+][ ]{1,3}|#{1,6}[ ])?(?P<mark>\*\*|__)(?P<in>.{1,150}?)(?P=mark)"
)


def harmonise_line(line: str) -> str:
    """Remove the invisible characters that chat programs insert, but for the mark of notices."""
    if line.isascii() and "\0" not in line:
        return line
    return line.translate(_INVISIBLE).translate(_SPACES).replace("\0", "")


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
    found: list[MessageHeader] = []
    if _TIME_LIKE.search(in_ascii_digits(start), 0, _STAMP_WITHIN):
        found = _timed_heads(start, rest, styles)
    if not found:
        style, pattern = _QUOTED_BARE if start.startswith("<") else _COLON_BARE
        if styles is None or style in styles:
            head = _match_head(style, pattern, start, rest)
            found = [head] if head and _is_bare_name(head, start) else []
    return found


def _timed_heads(start: str, rest: str, styles: Collection[str] | None) -> list[MessageHeader]:
    def ways(of: tuple[_HeaderStyle, ...]) -> Iterator[_HeaderStyle]:
        return (way for way in of if (styles is None or way.style in styles) and way.fits(start))

    said = (_match_head(way.style, way.pattern, start, rest) for way in ways(_TIMED))
    found = [head for head in said if head]
    if not found and not rest:
        blocks = (_match_head(w.style, w.pattern, start, "", is_block=True) for w in ways(_BLOCKS))
        found = [head for head in blocks if head]
        for way in ways(_TOLD):
            told = way.pattern.fullmatch(in_ascii_digits(start))
            if told and is_stamp(told["stamp"]):
                text = without_marks(start[told.start("text") :]).strip()
                found.append(MessageHeader(way.style, "", told["stamp"], text))
    return found


def _match_head(
    style: str, pattern: re.Pattern[str], start: str, rest: str, *, is_block: bool = False
) -> MessageHeader | None:
    match = pattern.fullmatch(in_ascii_digits(start))
    if not match:
        return None
    parts = {key: start[slice(*match.span(key))] for key in match.groupdict()}
    stamp = (match.groupdict().get("stamp") or "").strip()
    name = without_marks(parts["name"]).strip().strip("*_").removeprefix("~").strip()
    if not is_name(name, is_timed=bool(stamp)) or not is_stamp(stamp):
        return None
    text = parts.get("text", "")
    if name[-1:].isdigit() and _MINUTES.match(text):  # a time in another form
        return None
    if parts["name"].lstrip().startswith(("**", "__")) and text.startswith(("**", "__")):
        text = text[2:]
    told = is_notice(text + rest)
    text = text + rest if told else without_edit_mark(text + rest)
    text = without_marks(text).removeprefix(" ")
    return MessageHeader(style, name, stamp, text, is_block, told and bool(stamp))


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


def _is_phrase(name: str) -> bool:
    """Tell whether a text begins like a sentence: a capital, and then a common word."""
    first, *others = name.split()
    return first[0].isupper() and any(word.isalpha() and word.islower() for word in others)


def is_label(name: str) -> bool:
    """Tell whether a name is rather a label, such as `Note`."""
    return fold(name) in _LABELS


_MOST_NAMES: Final = 20_000  # most distinct names per style
_RARE: Final = 0.05  # share of the prevailing style's headers; a rarer style is chance
_OFTEN: Final = 0.02  # a speaker's minimum share of the most talkative one's messages
_SHORT: Final = 12  # headers that suffice even if nobody speaks twice
_LINES_A_HEAD: Final = 5  # most speakers in a conversation of unknown people
_SHOWN_NAMES: Final = 4
_HEADER_LINES: Final = 12
_ORDER_NAMES: Final = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}


class _Style(Struct):
    """Statistics of one header style."""

    names: Counter[str] = field(default_factory=Counter)
    first_line: dict[str, int] = field(default_factory=dict)
    heads: int = 0
    is_block: bool = False
    is_timed: bool = False


class TranscriptShape(Struct, frozen=True):
    """Layout of a transcript.

    Args:
        styles: The styles of its message headers.
        speakers: The speakers, with their number of messages.
        is_timed: Whether headers have times; otherwise only names in `speakers` begin a message.
        with_notes: Whether lines with a time but no speaker are notices of the program.
        has_days: Whether a date alone on a line applies to the messages below it.
        is_export: Whether it is a text export of DiscordChatExporter.
        order: The order of numeric dates.
        notes: Remarks on how it was read.
        numbered_dates: Whether its dates are read by `order`.
    """

    styles: frozenset[str]
    speakers: Mapping[str, int]
    is_timed: bool
    with_notes: bool
    has_days: bool
    is_export: bool
    order: DateOrder
    notes: tuple[str, ...]
    numbered_dates: bool

    def head(self, line: str) -> MessageHeader | None:
        """Parse a line as a message header; None if it continues the message above."""
        told: MessageHeader | None = None
        for head in heads_of(line, self.styles):
            if head.style not in self.styles:
                continue
            if not head.name:
                told = head if self.with_notes else None
            elif head.name in self.speakers or (head.is_notice and self.with_notes):
                return head
            elif self.is_timed and self.with_notes:
                return MessageHeader(head.style, "", head.stamp, f"{head.name}: {head.text}")
        return told

    @property
    def described(self) -> str:
        """Description of what it was recognised as."""
        styles = " and ".join(f"`{style.replace('**', '', 1)}`" for style in sorted(self.styles))
        what = "a text export of Discord" if self.is_export else f"a transcript with {styles}"
        return f"{what}, {_ORDER_NAMES[self.order]}" if self.numbered_dates else what


def survey_transcript(source: ForeignFile, reading: Reading) -> TranscriptShape | None:
    """Infer the layout of a transcript; None if the file does not look like one.

    Raises:
        RefusedError: The order of its dates is ambiguous.
    """
    return _Survey(source, reading).shape()


class _Survey:
    """Counts header styles in one pass through a file."""

    def __init__(self, source: ForeignFile, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self._styles: dict[str, _Style] = {}
        self._dates: dict[str, DateReading] = {}
        self._filled = 0  # non-blank lines
        self._header: list[str] = []
        self._latest = (max(source.changed, now()) + timedelta(days=2)).date()
        self._known = {fold(name) for name in (*reading.cast.names, *reading.cast.mine) if name}

    def shape(self) -> TranscriptShape | None:
        for number, raw in text_lines(self._source):
            if raw and raw.strip():
                self._filled += 1
                self._note_line(number, harmonise_line(raw))
        styles = self._prevailing()
        if not styles:
            return None
        is_timed = any(self._styles[style].is_timed for style in styles)
        speakers, doubtful = self._speakers(styles, is_timed=is_timed)
        if not speakers or not self._is_enough(styles, speakers):
            return None
        has_days = not (is_timed and any(style in self._dates for style in styles))
        order, numbered = self._order(styles, has_days=has_days)
        return TranscriptShape(
            styles=frozenset(styles),
            speakers=speakers,
            is_timed=is_timed,
            with_notes=is_timed and not any(self._styles[style].is_block for style in styles),
            has_days=has_days,
            is_export=self._is_export(),
            order=order,
            notes=self._notes(styles, doubtful),
            numbered_dates=numbered,
        )

    def _note_line(self, number: int, line: str) -> None:
        if len(self._header) < _HEADER_LINES:
            self._header.append(line)
        heads = heads_of(line)
        if not heads and (day := day_alone(line)):
            self._date("day", day)
        for head in heads:
            style = self._styles.setdefault(head.style, _Style())
            style.is_block, style.is_timed = head.is_block, bool(head.stamp)
            if head.stamp:
                self._date(head.style, day_of(head.stamp))
            if head.name and (head.name in style.names or len(style.names) < _MOST_NAMES):
                style.heads += 1
                style.names[head.name] += not head.is_notice
                style.first_line.setdefault(head.name, number)

    def _date(self, where: str, day: str) -> None:
        if day:
            self._dates.setdefault(where, DateReading(self._latest)).take(day)

    def _is_export(self) -> bool:
        start = [line for line in self._header if line.strip()]
        return (
            bool(start)
            and set(start[0].strip()) == {"="}
            and any(line.startswith(("Guild:", "Channel:")) for line in start)
        )

    def _prevailing(self) -> list[str]:
        """Return the header styles in use; the most frequent one decides."""
        timed = {n: s.heads for n, s in self._styles.items() if s.is_timed and not s.is_block}
        blocks = {n: s.heads for n, s in self._styles.items() if s.is_block}
        bare = {n: self._weight(s) for n, s in self._styles.items() if not s.is_timed}
        most_bare = max(bare.values(), default=0)
        most = max((*timed.values(), *blocks.values()), default=0)
        if most and (3 * sum((*timed.values(), *blocks.values())) >= most_bare):
            best = max(blocks, key=lambda n: blocks[n], default="")
            if best and blocks[best] > max(timed.values(), default=0):
                return [best] if blocks[best] > 1 or (self._reading.format == "transcript") else []
            return [n for n, heads in timed.items() if heads >= max(_RARE * most, 1)]
        return [n for n, heads in bare.items() if heads == most_bare][:1] if most_bare else []

    def _weight(self, style: _Style) -> int:
        """Count a style's headers by people who speak more than once."""
        often = sum(n for name, n in style.names.items() if self._is_known(name) or n > 1)
        return often or (
            style.heads if style.heads <= _SHORT or (self._reading.format == "transcript") else 0
        )

    def _is_known(self, name: str) -> bool:
        return fold(name) in self._known or is_role(name)

    def _speakers(
        self, styles: list[str], *, is_timed: bool
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return the speakers with their counts, and names that are probably part of the text."""
        names: Counter[str] = Counter()
        for style in styles:
            names.update(self._styles[style].names)
        if is_timed:
            return {name: count for name, count in names.items() if count}, {}
        top = max(names.values(), default=0)
        likely = {
            name: count
            for name, count in names.items()
            if self._is_known(name)
            or (
                not is_label(name)
                and (count >= max(2, _OFTEN * top) or (self._reading.format == "transcript"))
            )
        }
        if names.total() <= _SHORT and len(likely) < 2:  # noqa: PLR2004  # nobody speaks twice
            likely |= {n: c for n, c in names.items() if not (is_label(n) or _is_phrase(n))}
        return likely, {name: count for name, count in names.items() if name not in likely}

    def _is_enough(self, styles: list[str], speakers: Mapping[str, int]) -> bool:
        """Tell whether it is a conversation rather than text that contains colons."""
        if (self._reading.format == "transcript") or any(self._is_known(name) for name in speakers):
            return True
        if any(self._styles[style].is_timed for style in styles):
            return sum(speakers.values()) > 1
        return len(speakers) > 1 and _LINES_A_HEAD * sum(speakers.values()) >= self._filled

    def _order(self, styles: list[str], *, has_days: bool) -> tuple[DateOrder, bool]:
        """Return the order of the dates, and whether it matters."""
        where = ["day"] if has_days and "day" in self._dates else []
        where += [style for style in styles if style in self._dates]
        readings = [self._dates[name] for name in where]
        numbered = any(reading.is_needed for reading in readings)
        if self._reading.dates:
            return self._reading.dates, numbered
        orders = [reading.decide() for reading in readings if reading.is_needed]
        known = next((order for order in orders if order), None)
        if known is None and orders:
            self._ask(next(reading.doubtful for reading in readings if reading.is_needed))
        return known or "ymd", numbered

    def _ask(self, text: str) -> None:
        error = RefusedError(
            f"The dates in {self._source.name!r} can be read in two ways, for example {text!r} as "
            f"{read_day(text, 'dmy')} or {read_day(text, 'mdy')}; nothing was imported",
            hint="Add `--dates dmy` if the day comes first, or `--dates mdy` if the month does.",
        )
        orders: tuple[DateOrder, ...] = ("dmy", "mdy")
        choices = ((order, f"{text} is {read_day(text, order)}") for order in orders)
        error.question = "--dates", tuple(choices)
        raise error

    def _notes(self, styles: list[str], doubtful: Mapping[str, int]) -> tuple[str, ...]:
        """Describe lines that begin like a message but were read as text."""
        lines: dict[str, int] = {}
        for style in styles:
            lines |= self._styles[style].first_line
        if not doubtful:
            return ()
        names = sorted(doubtful, key=lambda name: (-doubtful[name], lines[name]))
        shown = shorten_list((f"{name!r} (line {lines[name]})" for name in names), _SHOWN_NAMES)
        what = counted(sum(doubtful.values()), "line")
        note = (
            f"{what} with a colon taken as text, not as a speaker's: {shown}; "
            "`--format transcript` takes them as speakers"
        )
        return (note,)
