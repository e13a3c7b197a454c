"""Lines, days and names in the memories of other programs, as every format reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from familiar_cli.base.markdown import body_start
from familiar_cli.base.text import counted, one_line, shorten_list, split_sentences, str_or_empty
from familiar_cli.base.times.when import relative_dates, with_dates
from familiar_cli.imports.chat_times import read_time
from familiar_cli.imports.contract import ForeignMemories, ForeignMemory, Format
from familiar_cli.imports.foreign_files import LENIENT
from familiar_cli.imports.source import ForeignFile

MOST_CHARS: Final = 2_000
"""Longest line; what is longer becomes several."""

DAY_UNKNOWN: Final = "(day unknown)"
"""Follows a line that has no date, but a relative one in its text."""

_ABOUT_CHARS: Final = 80
_ANY_CHARS: Final = 10**9
_BULLET: Final = re.compile(r"\s{0,8}(?:[-*•–]|\d{1,4}[.)])\s+")
_HEADING: Final = re.compile(r"\s{0,3}#{1,6}\s+|\s{0,3}\*\*[^*]{1,120}\*\*:?\s*$")
_DATED: Final = re.compile(r"\[([^\[\]:\n]{1,40})\]\s*[-–—:]\s*(?=\S)")
_BARE_DATE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:\s+[-–—]|:)\s+(?=\S)")
_PERIOD: Final = re.compile(r"\d{4}(?:-\d{2})?|[^\W\d_]{3,12} \d{4}")
_TITLE: Final = re.compile(r"[^.!?]{1,60}:|[^\Wa-z]+(?:[ &/]+[^\Wa-z]+){0,5}")
_ENDS: Final = (".", "!", "?", "…", "。", "！", "？", ";")
_SHORT_LINE: Final = 60  # is not wrapped
_LONG_LINE: Final = 100  # is not wrapped either
_NO_DATE: Final = frozenset({"unknown", "undated", "no date", "n/a", "none", "date unknown", "?"})
_WRITTEN: Final = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%Y/%m/%d", "%Y.%m.%d")


def read_day(value: object) -> date | None:
    """Read the day of an ISO 8601 time, a date in English, or seconds since 1970; None if none."""
    if isinstance(value, int | float):
        moment = read_time(value, UTC)
        return moment.date() if moment else None
    text = str_or_empty(value).strip()
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        pass
    for form in _WRITTEN:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
    return None


def split_dated(text: str) -> tuple[date | None, str] | None:
    """Split a line that begins with a date, in brackets or as ISO 8601; None if it does not.

    Brackets that say that there is no date count, too; a clock does not, since chats have one. A
    month or year stays with the text.
    """
    found = _DATED.match(text) or _BARE_DATE.match(text)
    if not found:
        return None
    day, said, rest = read_day(found[1]), found[1].strip(), text[found.end() :].strip()
    if day is None and _PERIOD.fullmatch(said):
        return None, f"{rest} ({said})"
    return None if day is None and said.casefold() not in _NO_DATE else (day, rest)


def read_lines(text: str, *, about: str = "") -> Iterable[ForeignMemory]:
    """Yield the memories in a text: dated lines, bullets, or one for each line or paragraph.

    A heading is not a memory; a wrapped or indented line continues the one above.
    """
    kept: list[tuple[int, date | None, str]] = []
    above = ""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        marker = _BULLET.match(line)
        if not bare or bare.startswith("```") or (not marker and _is_heading(lines, number)):
            above = ""
            continue
        said = line[marker.end() :].strip() if marker else bare
        dated = split_dated(said)
        if above and not (marker or dated or _DATED.match(said)) and _is_wrapped(above, line):
            at, day, before = kept[-1]
            kept[-1] = (at, day, f"{before} {bare}")
        else:
            kept.append((number, *(dated or (None, said))))
        above = line
    for number, day, said in kept:
        if any(map(str.isalnum, said)):
            yield ForeignMemory(said, number, day, about)


def _is_heading(lines: list[str], number: int) -> bool:
    """Tell whether a line is a heading: in Markdown, or a short title above a list."""
    line = lines[number - 1]
    if _HEADING.match(line):
        return True
    below = next((one for one in lines[number:] if one.strip()), "")
    is_list = _BULLET.match(below) or _DATED.match(below.strip())
    return bool(is_list) and _TITLE.fullmatch(line.strip()) is not None


def _is_wrapped(above: str, line: str) -> bool:
    """Tell whether a line continues the one above, rather than being another memory."""
    if line[:1].isspace() or line[:1].islower():
        return True
    is_whole = above.rstrip().endswith(_ENDS)
    return not is_whole and _SHORT_LINE <= len(above.rstrip()) <= _LONG_LINE


def resolve_days(text: str, day: date | None) -> str:
    """Replace the relative dates of a line by what they meant on its day, or mark the line."""
    if day:
        return with_dates(text, lambda _: day)
    is_relative = any(relative_dates(text, date(2000, 1, 1)))
    return f"{text} {DAY_UNKNOWN}" if is_relative and DAY_UNKNOWN not in text else text


def source_text(source: ForeignFile) -> str:
    """Return the text of a file, whatever its encoding and line ends."""
    text = source.raw.decode("utf-8", LENIENT).removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def note_paths(source: ForeignFile, most: int | None = None) -> list[str]:
    """Return the paths of the notes of a directory, sorted, without hidden ones and links."""
    if source.shape != "directory" or not source.path:
        return []
    root = source.path
    notes = islice((path for path in root.rglob("*.md") if _is_shown(path, root)), most)
    return sorted(path.relative_to(root).as_posix() for path in notes)


def _is_shown(path: Path, root: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
    return not is_hidden and not path.is_symlink() and path.is_file()


def other_files(source: ForeignFile) -> list[str]:
    """Return a remark on the files of a directory that are not notes; empty if there are none."""
    root = source.path if source.shape == "directory" else None
    others = (path for path in root.rglob("*") if path.suffix != ".md") if root else ()
    names = sorted(path.name for path in others if root and _is_shown(path, root))
    counts = counted(len(names), "file that is not a note", "files that are not notes")
    return [f"{counts} left out: {shorten_list(names, 3)}"] if names else []


def notes_in(source: ForeignFile, most: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the path and text of each note of a directory, or a note itself without a path."""
    if source.path and source.shape == "directory":
        for name in note_paths(source, most):
            yield name, source_text(type(source)(source.path / name, name))
    elif source.shape == "text" and source.suffix in (".md", ".markdown"):
        yield "", source_text(source)


def read_note(name: str, text: str, about: str, day: date | None) -> Iterator[ForeignMemory]:
    """Yield the memories of a note, without its front matter.

    Args:
        name: Its path.
        about: Its subject.
        day: The day of lines without one.
    """
    start = body_start(text)
    above = text.count("\n", 0, start)
    for one in read_lines(text[start:], about=about):
        yield replace(one, line=one.line + above, day=one.day or day, file=name)


def memories_format(
    name: str,
    program: str,
    sniff: Callable[[ForeignFile], object],
    read: Callable[[ForeignFile], Iterable[ForeignMemory]],
    *,
    of: str = "",
    notes: Callable[[ForeignFile], Iterable[str]] = lambda _: (),
    write: Callable[..., Any] | None = None,
) -> Format:
    """Return a format whose files hold nothing but memories.

    Args:
        name: Its name.
        program: What the files are, for people.
        sniff: Tells whether a file is one.
        read: Yields its memories.
        of: The program that kept them; by default the name.
        notes: Says what is left out of a file.
        write: Writes them, if they can be written.
    """
    return Format(
        name,
        program,
        ("memories",),
        sniff,
        lambda source, _: [build_memories(of or name, source.stem, read(source), *notes(source))],
        write,
    )


def build_memories(
    program: str, name: str, memories: Iterable[ForeignMemory], *notes: str
) -> ForeignMemories:
    """Return memories that say something, each text once; a long one becomes several lines."""
    memories = list(memories)
    seen: dict[tuple[str, str], ForeignMemory] = {}
    for one in memories:
        about = one_line(one.about, _ABOUT_CHARS)
        for text in _pieces(one.text):
            seen.setdefault((text, about), replace(one, text=text, about=about))
    empty = sum(not one.text.strip() for one in memories)
    if empty:
        notes = (*notes, f"{counted(empty, 'entry', 'entries')} without text left out")
    return ForeignMemories(program, name, tuple(seen.values()), notes)


def _pieces(text: str) -> Iterator[str]:
    """Split a text into lines that are not too long, of whole sentences where possible."""
    whole = one_line(text, _ANY_CHARS)
    if len(whole) <= MOST_CHARS:
        yield from filter(None, [whole])
        return
    held = ""
    for sentence in split_sentences(whole):
        if held and len(held) + len(sentence) >= MOST_CHARS:
            yield held
            held = ""
        while len(sentence) > MOST_CHARS:
            cut = sentence.rfind(" ", 0, MOST_CHARS)
            at = cut if cut > 0 else MOST_CHARS
            yield sentence[:at]
            sentence = sentence[at:].strip()  # noqa: PLW2901  # the rest of it
        held = f"{held} {sentence}".strip()
    if held:
        yield held
