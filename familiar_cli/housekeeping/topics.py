"""Sections of `notes.md` that have grown enough to be a topic of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import DAY
from familiar_cli.housekeeping.types import Check, Finding, Quote
from familiar_cli.memory.pages.links import places
from familiar_cli.memory.pages.privacy import private_channel
from familiar_cli.review.pending import PlannedFile
from familiar_cli.text import fold, slugify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

NOTES: Final = "notes.md"
LEAST_LINES: Final = 5
LEAST_CHARS: Final = 600
"""A section with so many lines, or so much text, is ready."""
_SHOWN: Final = 3
_MOST_PLANS: Final = 20  # each holds the whole file twice
_TO_DO: Final = re.compile(r"\s*[-*+] \[[ xX]\]")
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class _Section:
    """One H2 of the notes with what is below it; lines from `first` to before `end`, from 0."""

    title: str
    first: int
    end: int


def check_topics(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each section of the notes that could be a topic."""
    del options
    note = next((n for n in corpus.notes if n.rel_path == NOTES), None)
    if note is None:
        return
    lines = re.findall(r"[^\n]*\n|[^\n]+", note.text)
    taken = {fold(path) for path in corpus.paths}
    plans = 0
    for section in _sections(lines):
        body = "".join(lines[section.first + 1 : section.end])
        said = [line for line in body.splitlines() if line.strip()]
        if len(said) < LEAST_LINES and len(body.strip()) < LEAST_CHARS:
            continue
        if DAY.search(section.title) or any(_TO_DO.match(line) for line in said):
            continue  # a diary and a list of things to do are no topic
        slug = slugify(section.title)
        path = f"topics/{slug}.md"
        is_free = bool(slug) and fold(path) not in taken
        taken.add(fold(path))
        plans += is_free
        yield Finding(
            CHECK.name,
            (NOTES,),
            f"the section {section.title!r} is ready to be a topic: {len(said)} lines",
            _first_of(section, lines),
            repair=_repair(note, lines, section, path, body)
            if is_free and plans <= _MOST_PLANS
            else (),
            hint=_hint(path, is_free=is_free, is_late=plans > _MOST_PLANS),
        )


def _hint(path: str, *, is_free: bool, is_late: bool) -> str:
    if not is_free:
        return f"{path} is there already; move by hand what it lacks."
    if is_late:
        return f"`--propose` plans {_MOST_PLANS} at a time; propose again once those are settled."
    return f"`--propose` makes a plan that moves it to {path}."


def _sections(lines: list[str]) -> Iterator[_Section]:
    """Yield the H2 sections, but those that hold what was said in private."""
    starts: list[tuple[int, str]] = []
    fence = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fence = not fence
        elif not fence and re.match(r"#{1,2}[ \t]", line):
            starts.append((at, line))
    ends = [*(at for at, _ in starts), len(lines)][1:]
    for (at, line), end in zip(starts, ends, strict=True):
        body = "".join(lines[at:end])
        if line.startswith("## ") and private_channel(body) is None:
            yield _Section(line.strip("# \t\r\n"), at, end)


def _repair(
    note: Note, lines: list[str], section: _Section, path: str, body: str
) -> tuple[PlannedFile, ...]:
    newline = "\r\n" if "\r\n" in note.text else "\n"
    left = f"{lines[section.first].rstrip()}{newline}{newline}- [{section.title}]({path}){newline}"
    rest = "".join(lines[section.end :])
    after = "".join(lines[: section.first]) + left + (newline + rest if rest else "")
    topic = f"# {section.title}{newline}{newline}{_moved(body.strip(), path)}{newline}"
    return (PlannedFile(path, None, topic), PlannedFile(NOTES, note.text, after))


def _first_of(section: _Section, lines: list[str]) -> tuple[Quote, ...]:
    said = (at for at in range(section.first, section.end) if lines[at].strip())
    return tuple(Quote(NOTES, at + 1, lines[at]) for at in islice(said, _SHOWN))


def _moved(body: str, path: str) -> str:
    """Return text of the notes as it stands in another directory: its links lead where they led."""
    parts, at = [], 0
    for place in places(body, NOTES):
        written = body[place.start : place.end]
        if not written.startswith("/"):
            way = "../" * path.count("/")
            parts += [body[at : place.start], way + written.removeprefix("./")]
            at = place.end
    return "".join((*parts, body[at:]))


CHECK: Final = Check("topics", "Notes ready to be topics", check_topics)
