"""Transcripts: texts in which each message begins with its speaker's name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, RefusedError
from familiar_cli.base.text import counted, fold, shorten_list
from familiar_cli.base.times.clock import now
from familiar_cli.imports import contract, written_times
from familiar_cli.imports.cast import PLATFORM, is_role
from familiar_cli.imports.chat_times import in_utc
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.source import YAML_SUFFIXES, ForeignFile, Skip
from familiar_cli.imports.transcript_lines import (
    IRC_STYLES,
    LINE_STYLE,
    MAX_LINE_CHARS,
    PHONE_STYLES,
    MessageHeader,
    harmonise_line,
    heads_of,
    is_label,
    is_phrase,
    is_utf8,
    text_lines,
)
from familiar_cli.imports.written_times import (
    DateReading,
    day_alone,
    day_of,
    lacks_year,
    logged_day,
    read_day,
    with_year,
)

_PROGRAM: Final = Program("transcript", PLATFORM)
_RULE: Final = re.compile(r"\s*([-_*=~#])(?:\s*\1){2,}\s*")
_LONG_RULE: Final = re.compile(r"={20,}\s*")
_EXPORTED: Final = re.compile(r"Exported [\d.,]+ message\(s\)\s*")
# What LINE and KakaoTalk write first, in any language, and when it was saved; mIRC's channel.
_TITLE: Final = re.compile(r"\[LINE\] .+|.*(?:KakaoTalk|카카오톡).*")
_SAVED: Final = re.compile(r"[^:：]+[:：] ?.*\d{4}.*")
_PLACE: Final = re.compile(r"Session Ident: .+")
_SIGTOP: Final = ("Conversation: ", "", "From: ", "Type: ")  # how such a file begins
_FRONT_MATTER_LINES: Final = 60
_SHOWN_LINES: Final = 5
_SNIFFED_LINES: Final = 200
_HINT: Final = (
    "A chat is a text in which each message begins with `Name:`, or an export of a program."
)
_MIDNIGHT_PASSED: Final = timedelta(hours=12)
_NOON: Final = time(12)
_HALF_A_YEAR: Final = timedelta(days=183)
_ANY_LEAP_YEAR: Final = 2000
_YEARS_OFFERED: Final = 6
_MOST_NAMES: Final = 20_000  # most distinct names per style
_RARE: Final = 0.05  # share of the prevailing style's headers; a rarer style is chance
_OFTEN: Final = 0.02  # a speaker's minimum share of the most talkative one's messages
_SHORT: Final = 12  # headers that suffice even if nobody speaks twice
_LINES_A_HEAD: Final = 5  # most speakers in a conversation of unknown people
_SHOWN_NAMES: Final = 4
_HEADER_LINES: Final = 12
_ORDER_NAMES: Final = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}
_NOBODY: Final = "it comes before the first message, so it has no speaker"
_DAY: Final = "it is the date of the messages below it"
_PARTS_THEM: Final = "it only separates messages"
_OF_EXPORT: Final = "it is about the export, not part of the conversation"
_TOO_LONG: Final = f"it is longer than {MAX_LINE_CHARS:,} characters"
_TOO_MUCH: Final = f"the message that it is part of is longer than {MAX_LINE_CHARS:,} characters"
# What Discord says of a member in that member's name.
_EVENTS: Final = re.compile(
    r"(?:Joined the (?:server|group)|Left the group|Pinned a message|Started a (?:call|thread)"
    r"|Changed the (?:channel|group) (?:icon|name)|Added .{1,60} to the group"
    r"|Removed .{1,60} from the group)\b.{0,200}"
)


# An action on IRC, and an event that some clients mark in the same way.
_ACTION: Final = re.compile(r"(?:\*{3}(?! )|\*|-\*-|[•—])[ ]*(?P<name>[^\s:]+):?[ ]+(?P<text>.+)")
_EVENT: Final = re.compile(
    r"[(\[]\S*@|(?:has )?(?:joined|left|quit)(?: [#&(\[]|$)|(?:has|was) kicked |is now known as "
    r"|has changed the topic|changes topic|(?:sets|gives|removes) (?:mode|ban|channel|voice)\b",
    re.IGNORECASE,
)


def _sniff(source: ForeignFile) -> contract.Sighting:
    # A key and its value look like a speaker and their words.
    if source.shape != "text" or source.suffix in YAML_SUFFIXES:
        return contract.NO
    if _is_of_sigtop(source):
        return contract.certain_if(condition=True)  # which is then refused
    lines = (harmonise_line(line or "") for _, line in islice(text_lines(source), _SNIFFED_LINES))
    return contract.possible_if(any(head.name for line in lines for head in heads_of(line)))


def _read(source: ForeignFile, reading: contract.Reading) -> Iterator[contract.ForeignChat]:
    if _is_of_sigtop(source):
        raise BadInputError(
            f"{source.name!r} is Signal's as `sigtop` writes it, with several lines above each "
            "message, which is not read; nothing was imported",
            hint="Write it again in the short form: `sigtop export-messages -f text-short DIR`.",
        )
    shape = _Survey(source, reading).shape()
    if shape is None:
        raise BadInputError(f"{source.name!r} is text, not a chat", hint=_HINT)

    def read() -> Iterator[SourceMessage | Skip]:
        return _Pass(source, reading, shape).run()

    notes = (*shape.notes, *_unread_times(read()))
    if not is_utf8(source):
        notes = (*notes, "bytes that are not UTF-8 were read as Windows-1252")
    is_private = None if shape.is_export or shape.styles - PHONE_STYLES else True
    chat = SourceChat(read, kind=shape.described, notes=notes, is_private=is_private)
    yield build_chat(source, reading, _PROGRAM, chat)


def _is_of_sigtop(source: ForeignFile) -> bool:
    start = [line or "" for _, line in islice(text_lines(source), len(_SIGTOP))]
    return len(start) == len(_SIGTOP) and all(map(str.startswith, start, _SIGTOP))


def _unread_times(messages: Iterator[SourceMessage | Skip]) -> Iterator[str]:
    """Describe the times that are written in a way that cannot be read."""
    lines = [m.line for m in messages if isinstance(m, SourceMessage) and m.time and m.at is None]
    if lines:
        listed = shorten_list(map(str, lines), _SHOWN_LINES)
        yield f"{counted(len(lines), 'time')} cannot be read (line {listed}): estimated"


class _Style(Struct):
    """Statistics of one header style."""

    names: Counter[str] = field(default_factory=Counter)
    first_line: dict[str, int] = field(default_factory=dict)
    stamps: set[int] = field(default_factory=set)
    heads: int = 0
    is_block: bool = False
    is_timed: bool = False


class TranscriptShape(Struct, frozen=True):
    """Layout of a transcript.

    Args:
        styles: The styles of its message headers.
        speakers: The speakers, with their number of messages.
        year: The year of the first date, for dates without one; None: not known.
        stamps: How many numbers are in the times beside speakers; another time is part of a text.
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
    year: int | None
    stamps: frozenset[int]
    is_timed: bool
    with_notes: bool
    has_days: bool
    is_export: bool
    order: contract.DateOrder
    notes: tuple[str, ...]
    numbered_dates: bool

    def head(self, line: str) -> MessageHeader | None:
        """Parse a line as a message header; None if it continues the message above."""
        header: MessageHeader | None = None
        for head in heads_of(line, self.styles):
            if not head.name:
                header = self._notice_or_action(head) or header
            elif head.style not in self.styles:
                continue
            elif head.name in self.speakers or (head.is_notice and self.with_notes):
                return head
            elif self.is_timed and self.with_notes:
                return MessageHeader(head.style, "", head.stamp, f"{head.name}: {head.text}")
        return header

    def _notice_or_action(self, head: MessageHeader) -> MessageHeader | None:
        """Return a line without a speaker as a notice, or as the action of the one who acts."""
        if not (self.with_notes or head.is_block) or _numbers_in(head.stamp) not in self.stamps:
            return None
        acts = None if head.style in PHONE_STYLES else _ACTION.fullmatch(head.text)
        if not acts or acts["name"] not in self.speakers or _EVENT.match(acts["text"]):
            return head
        return replace(head, name=acts["name"], text=f"*{acts['text']}*")

    @property
    def described(self) -> str:
        """Description of what it was recognised as."""
        styles = " and ".join(f"`{style.replace('**', '', 1)}`" for style in sorted(self.styles))
        what = "a text export of Discord" if self.is_export else f"a transcript with {styles}"
        return f"{what}, {_ORDER_NAMES[self.order]}" if self.numbered_dates else what


class _Survey:
    """Counts header styles in one pass through a file."""

    def __init__(self, source: ForeignFile, reading: contract.Reading) -> None:
        self._source = source
        self._reading = reading
        self._styles: dict[str, _Style] = {}
        self._dates: dict[str, DateReading] = {}
        self._yearless: dict[str, str] = {}  # the first date without a year of each style
        self._filled = 0  # non-blank lines
        self._header: list[str] = []
        self._latest = (max(source.changed, now()) + timedelta(days=2)).date()
        self._year = reading.year
        self._known = {fold(name) for name in (*reading.cast.names, *reading.cast.mine) if name}

    def shape(self) -> TranscriptShape | None:
        for number, raw in text_lines(self._source):
            if raw and raw.strip():
                self._filled += 1
                self._note_line(number, harmonise_line(raw))
        styles = self._prevailing_styles()
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
            year=self._year,
            stamps=frozenset(n for style in styles for n in self._styles[style].stamps),
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
        if self._year is None and (logged := read_day(logged_day(line), "ymd")):
            self._year = logged.year
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
                style.stamps.add(_numbers_in(head.stamp))
                style.names[head.name] += not head.is_notice
                style.first_line.setdefault(head.name, number)

    def _date(self, where: str, day: str) -> None:
        if lacks_year(day):
            self._yearless.setdefault(where, day)
            day = with_year(day, self._year or _ANY_LEAP_YEAR)
        if day:
            self._dates.setdefault(where, DateReading(self._latest)).take(day)

    def _is_export(self) -> bool:
        start = [line for line in self._header if line.strip()]
        return (
            bool(start)
            and set(start[0].strip()) == {"="}
            and any(line.startswith(("Guild:", "Channel:")) for line in start)
        )

    def _prevailing_styles(self) -> list[str]:
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
            often = [n for n, heads in timed.items() if heads >= max(_RARE * most, 1)]
            is_irc = max(timed, key=lambda n: timed[n]) in IRC_STYLES  # where a colon is text
            return [n for n in often if n in IRC_STYLES or not is_irc]
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
            likely |= {n: c for n, c in names.items() if not (is_label(n) or is_phrase(n))}
        return likely, {name: count for name, count in names.items() if name not in likely}

    def _is_enough(self, styles: list[str], speakers: Mapping[str, int]) -> bool:
        """Tell whether it is a conversation rather than text that contains colons."""
        if (self._reading.format == "transcript") or any(self._is_known(name) for name in speakers):
            return True
        if any(self._styles[style].is_timed for style in styles):
            return sum(speakers.values()) > 1
        return len(speakers) > 1 and _LINES_A_HEAD * sum(speakers.values()) >= self._filled

    def _order(self, styles: list[str], *, has_days: bool) -> tuple[contract.DateOrder, bool]:
        """Return the order of the dates, and whether it matters.

        Raises:
            RefusedError: Only a person knows the order, or the year.
        """
        is_timed = any(self._styles[style].is_timed for style in styles)
        dated = [*(["day"] if has_days and is_timed else []), *styles]
        first = next((self._yearless[one] for one in dated if one in self._yearless), "")
        if first and not self._year:
            self._ask_year(first)
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
        orders: tuple[contract.DateOrder, ...] = ("dmy", "mdy")
        choices = ((order, f"{text} is {read_day(text, order)}") for order in orders)
        error.question = "--dates", tuple(choices)
        raise error

    def _ask_year(self, text: str) -> None:
        latest = self._source.changed.year
        error = RefusedError(
            f"Dates in {self._source.name!r} have no year, for example {text!r}; "
            "nothing was imported",
            hint=f"Add `--year {latest}` if the first of them is in {latest}.",
        )
        years = range(latest, latest - _YEARS_OFFERED, -1)
        error.question = "--year", tuple((str(year), f"{text} {year}") for year in years)
        raise error

    def _notes(self, styles: list[str], doubtful: Mapping[str, int]) -> tuple[str, ...]:
        """Describe lines that begin like a message but were read as text."""
        lines: dict[str, int] = {}
        for style in styles:
            lines |= self._styles[style].first_line
        if not doubtful:
            return ()
        names = sorted(doubtful, key=lambda name: (-doubtful[name], lines[name]))
        text = shorten_list((f"{name!r} (line {lines[name]})" for name in names), _SHOWN_NAMES)
        what = counted(sum(doubtful.values()), "line")
        note = (
            f"{what} with a colon read as text, not as a speaker's: {text}; `--format transcript` "
            "reads them as speakers"
        )
        return (note,)


class _Pass:
    """One pass through a file."""

    def __init__(
        self, source: ForeignFile, reading: contract.Reading, shape: TranscriptShape
    ) -> None:
        self._source = source
        self._zone, self._year = reading.zone, shape.year
        self._latest: date | None = None  # of those without a year
        self._shape = shape
        self._head: MessageHeader | None = None
        self._start = 0
        self._lines: list[tuple[int, str]] = []
        self._chars = 0
        self._front_matter = 0  # lines of it still to come
        self._header = False  # inside an export's own header
        self._has_title = False  # just read: when it was exported follows
        self._day = self._date(written_times.day_in(source.stem))
        self._clock: time | None = None
        self._in_day = 0

    def run(self) -> Iterator[SourceMessage | Skip]:
        """Yield every message, and every line that belongs to none."""
        for number, raw in text_lines(self._source):
            if raw is None:
                yield Skip(number, _TOO_LONG)
                continue
            line = harmonise_line(raw)
            head = self._shape.head(line)
            if head is not None:
                yield from self._finish_message()
                self._begin(head, number)
            elif not line.strip():
                if self._head:
                    self._lines.append((number, ""))
            else:
                yield from self._take(number, line)
        yield from self._finish_message()

    def _take(self, number: int, line: str) -> Iterator[SourceMessage | Skip]:
        """Process a line that begins no message."""
        day = day_alone(line) if self._shape.has_days and not self._is_quoting else ""
        if (day and self._date(day)) or logged_day(line):
            yield from self._finish_message()
            if logged := read_day(logged_day(line), self._shape.order):
                self._year, self._latest = logged.year, None
            self._day, self._clock, self._in_day = self._date(day), None, 0
            yield Skip(number, _DAY, damaged=False)
        elif self._shape.is_export and (_LONG_RULE.fullmatch(line) or _EXPORTED.fullmatch(line)):
            yield from self._finish_message()
            self._header = not self._header
            yield Skip(number, _OF_EXPORT, damaged=False)
        elif self._head is None:
            yield self._of_nobody(number, line)
        elif self._chars > MAX_LINE_CHARS:
            yield Skip(number, _TOO_MUCH)
        else:
            self._chars += len(line)
            self._lines.append((number, line))

    @property
    def _is_quoting(self) -> bool:
        """Whether the quotes of a message of several lines are open; a day follows a blank line."""
        is_quoted = self._head and self._head.style == LINE_STYLE and self._head.text[:1] == '"'
        return bool(
            is_quoted and self._lines[-1][1] and sum(t.count('"') for _, t in self._lines) % 2
        )

    def _of_nobody(self, number: int, line: str) -> Skip:
        is_saved, self._has_title = self._has_title and _SAVED.fullmatch(line), False
        if number == 1:
            self._has_title = bool(_TITLE.fullmatch(line))
        is_top = self._has_title or is_saved or _PLACE.fullmatch(line)
        if is_top or (self._header and self._shape.is_export):
            return Skip(number, _OF_EXPORT, damaged=False)
        if number == 1 and line.rstrip() == "---":
            self._front_matter = _FRONT_MATTER_LINES
        elif self._front_matter:
            self._front_matter = 0 if line.rstrip() == "---" else self._front_matter - 1
        elif not (line.lstrip().startswith("#") or _RULE.fullmatch(line)):
            return Skip(number, _NOBODY)
        return Skip(number, _NOBODY, damaged=False)

    def _begin(self, head: MessageHeader, number: int) -> None:
        self._head, self._start = head, number
        self._lines = [(number, head.text)]
        self._chars = len(head.text)

    def _finish_message(self) -> Iterator[SourceMessage | Skip]:
        """Yield the completed message, then the lines that merely separate it from the next."""
        head, self._head = self._head, None
        if head is None:
            return
        lines, apart = self._lines, []
        while len(lines) > 1 and (not lines[-1][1] or _RULE.fullmatch(lines[-1][1])):
            number, line = lines.pop()
            if line:
                apart.append(Skip(number, _PARTS_THEM, damaged=False))
        text = "\n".join(line for _, line in lines).strip("\n")
        if head.is_block or not head.text.strip():
            text = text.lstrip("\n")
        if head.style == LINE_STYLE and len(lines) > 1:
            text = _unquoted(text.rstrip())
        yield self._message(head, text.rstrip())
        yield from reversed(apart)

    def _message(self, head: MessageHeader, text: str) -> SourceMessage:
        at, stated, estimated = self._time(head.stamp)
        told = head.is_block and self._shape.is_export and bool(_EVENTS.fullmatch(text))
        text = f"{head.name}: {text}" if told else text
        return SourceMessage(
            text,
            "system" if told or head.is_notice else None,
            speaker=head.name,
            time=stated,
            raw={"name": head.name, "time": head.stamp, "text": text},
            line=self._start,
            at=at,
            estimated=estimated,
        )

    def _time(self, text: str) -> tuple[datetime | None, str, bool]:
        """Return the time, its original text, and whether it is estimated."""
        stamp = written_times.read_stamp(text) if text else None
        if stamp and stamp.day:
            day, stated = self._date(stamp.day), text
        elif text.lower().startswith(("today", "yesterday")):
            return None, text, False  # of the day on which somebody copied it
        else:
            self._pass_midnight(stamp.clock if stamp else None)
            day = self._day
            stated = f"{day} {text}".strip() if day else text
        if day is None:
            return None, stated, False
        if stamp is None or stamp.clock is None:
            self._in_day += 1
            noon = datetime.combine(day, _NOON) + timedelta(seconds=self._in_day)
            return self._utc(noon), stated, True
        moment = datetime.combine(day, stamp.clock)
        if stamp.offset is not None:
            moment = written_times.with_offset(moment, stamp.offset)
        return self._utc(moment), stated, False

    def _pass_midnight(self, clock: time | None) -> None:
        """Advance to the next day if a time is long before the preceding one."""
        if clock is None or self._day is None:
            return
        if self._clock:
            now, before = (datetime.combine(self._day, t) for t in (clock, self._clock))
            if before - now > _MIDNIGHT_PASSED:
                self._day = _next_day(self._day)
        self._clock = clock

    def _utc(self, moment: datetime) -> datetime | None:
        try:
            return in_utc(moment, self._zone)
        except (OverflowError, OSError, ValueError):
            return None

    def _date(self, text: str) -> date | None:
        if not lacks_year(text):
            return read_day(text, self._shape.order) if text else None
        if self._year is None:
            return None
        day = read_day(with_year(text, self._year), self._shape.order)
        if day and self._latest and self._latest - day > _HALF_A_YEAR:  # it is in the next one
            self._year += 1
            day = read_day(with_year(text, self._year), self._shape.order)
        self._latest = day or self._latest
        return day


def _numbers_in(stamp: str) -> int:
    return len(re.findall(r"\d+", stamp))


def _unquoted(text: str) -> str:
    """Return the text of a field that was quoted because it has several lines."""
    quoted = re.fullmatch(r'"((?:[^"]|"")*)"', text)
    return quoted[1].replace('""', '"') if quoted else text


def _next_day(day: date) -> date:
    try:
        return day + timedelta(days=1)
    except OverflowError:
        return day


FORMAT: Final = contract.Format("transcript", "transcript", ("chat",), _sniff, _read)
