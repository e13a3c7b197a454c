"""Transcripts: texts in which each message begins with its speaker's name."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.text import counted, shorten_list
from familiar_cli.imports import transcript_layout, written_times
from familiar_cli.imports.cast import PLATFORM
from familiar_cli.imports.chat_times import in_utc
from familiar_cli.imports.contract import (
    NO,
    ForeignChat,
    Format,
    Reading,
    Sighting,
    possible_if,
)
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.source import YAML_SUFFIXES, ForeignFile, Skip
from familiar_cli.imports.transcript_layout import (
    MAX_LINE_CHARS,
    MessageHeader,
    TranscriptShape,
    harmonise_line,
    is_utf8,
    text_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


_PROGRAM: Final = Program("transcript", PLATFORM)
_RULE: Final = re.compile(r"\s*([-_*=~#])(?:\s*\1){2,}\s*")
_LONG_RULE: Final = re.compile(r"={20,}\s*")
_EXPORTED: Final = re.compile(r"Exported [\d.,]+ message\(s\)\s*")
_FRONT_MATTER_LINES: Final = 60
_SHOWN_LINES: Final = 5
_SNIFFED_LINES: Final = 200
_HINT: Final = (
    "A chat is a text in which each message begins with `Name:`, or an export of a program."
)
_MIDNIGHT_PASSED: Final = timedelta(hours=12)
_NOON: Final = time(12)
_NOBODY: Final = "it comes before the first message, so it has no speaker"
_DAY: Final = "it is the date of the messages below it"
_PARTS_THEM: Final = "it only separates messages"
_OF_EXPORT: Final = "it is about the export, not part of the conversation"
_TOO_LONG: Final = f"it is longer than {MAX_LINE_CHARS:,} characters"
_TOO_MUCH: Final = f"the message that it is part of is longer than {MAX_LINE_CHARS:,} characters"
_EVENTS: Final = re.compile(
    r"(?:Joined the (?:server|group)|Left the group|Pinned a message|Started a (?:call|thread)"
    r"|Changed the (?:channel|group) (?:icon|name)|Added .{1,60} to the group"
    r"|Removed .{1,60} from the group)\b.{0,200}"
)
"""What Discord says of a member in that member's name."""


def _sniff(source: ForeignFile) -> Sighting:
    # A key and its value look like a speaker and their words.
    if source.shape != "text" or source.suffix in YAML_SUFFIXES:
        return NO
    lines = (harmonise_line(line or "") for _, line in islice(text_lines(source), _SNIFFED_LINES))
    return possible_if(any(map(transcript_layout.heads_of, lines)))


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat]:
    found = transcript_layout.survey_transcript(source, reading)
    if found is None:
        raise BadInputError(f"{source.name!r} is text, not a chat", hint=_HINT)

    def read() -> Iterator[SourceMessage | Skip]:
        return _Pass(source, reading.zone, found).run()

    notes = (*found.notes, *_unread_times(read()))
    if not is_utf8(source):
        notes = (*notes, "bytes that are not UTF-8 were read as Windows-1252")
    chat = SourceChat(read, kind=found.described, notes=notes)
    yield build_chat(source, reading, _PROGRAM, chat)


def _unread_times(messages: Iterator[SourceMessage | Skip]) -> Iterator[str]:
    """Describe the times that are written in a way that cannot be read."""
    lines = [m.line for m in messages if isinstance(m, SourceMessage) and m.time and m.at is None]
    if lines:
        listed = shorten_list(map(str, lines), _SHOWN_LINES)
        yield f"{counted(len(lines), 'time')} cannot be read (line {listed}): estimated"


class _Pass:
    """One pass through a file."""

    def __init__(self, source: ForeignFile, zone: tzinfo | None, shape: TranscriptShape) -> None:
        self._source = source
        self._zone = zone
        self._shape = shape
        self._head: MessageHeader | None = None
        self._start = 0
        self._lines: list[tuple[int, str]] = []
        self._chars = 0
        self._front_matter = 0  # lines of it still to come
        self._header = False  # inside an export's own header
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
                yield from self._finished()
                self._begin(head, number)
            elif not line.strip():
                if self._head:
                    self._lines.append((number, ""))
            else:
                yield from self._take(number, line)
        yield from self._finished()

    def _take(self, number: int, line: str) -> Iterator[SourceMessage | Skip]:
        """Process a line that begins no message."""
        day = written_times.day_alone(line) if self._shape.has_days else ""
        if day and self._date(day):
            yield from self._finished()
            self._day, self._clock, self._in_day = self._date(day), None, 0
            yield Skip(number, _DAY, damaged=False)
        elif self._shape.is_export and (_LONG_RULE.fullmatch(line) or _EXPORTED.fullmatch(line)):
            yield from self._finished()
            self._header = not self._header
            yield Skip(number, _OF_EXPORT, damaged=False)
        elif self._head is None:
            yield self._of_nobody(number, line)
        elif self._chars > MAX_LINE_CHARS:
            yield Skip(number, _TOO_MUCH)
        else:
            self._chars += len(line)
            self._lines.append((number, line))

    def _of_nobody(self, number: int, line: str) -> Skip:
        if self._header and self._shape.is_export:
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

    def _finished(self) -> Iterator[SourceMessage | Skip]:
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
        return written_times.read_day(text, self._shape.order) if text else None


def _next_day(day: date) -> date:
    try:
        return day + timedelta(days=1)
    except OverflowError:
        return day


FORMAT: Final = Format(
    name="transcript", program="transcript", forms=("chat",), sniff=_sniff, read=_read
)
