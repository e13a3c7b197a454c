"""Sections of `notes.md` that have grown enough to be a topic of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.types import Check, Edit, Finding, Quote
from familiar_cli.memory.privacy import private_channel
from familiar_cli.text import fold, slugify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

NOTES: Final = "notes.md"
LEAST_LINES: Final = 5
LEAST_CHARS: Final = 600
"""A section with so many lines, or so much text, is ready."""
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
    lines = note.text.splitlines(keepends=True)
    taken = {fold(path) for path in corpus.paths}
    for section in _sections(lines):
        body = "".join(lines[section.first + 1 : section.end])
        said = [line for line in body.splitlines() if line.strip()]
        if len(said) < LEAST_LINES and len(body.strip()) < LEAST_CHARS:
            continue
        path = f"topics/{slugify(section.title)}.md"
        is_free = bool(slugify(section.title)) and fold(path) not in taken
        yield Finding(
            CHECK.name,
            (NOTES,),
            f"the section {section.title!r} is ready to be a topic: {len(said)} lines",
            tuple(
                Quote(NOTES, at + 1, lines[at].rstrip("\r\n"))
                for at in range(section.first, min(section.end, section.first + 4))
                if lines[at].strip()
            ),
            repair=_repair(note, lines, section, path, body) if is_free else (),
            hint=f"`--propose` makes a plan that moves it to {path}."
            if is_free
            else f"{path} is there already; move by hand what it lacks.",
        )


def _sections(lines: list[str]) -> Iterator[_Section]:
    """Yield the H2 sections, but those that hold what was said in private."""
    starts: list[tuple[int, str]] = []
    fence = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fence = not fence
        elif not fence and re.match(r"#{1,2}[ \t]", line):
            starts.append((at, line))
    ends = [at for at, _ in starts[1:]] + [len(lines)]
    for (at, line), end in zip(starts, ends, strict=True):
        body = "".join(lines[at:end])
        if line.startswith("## ") and private_channel(body) is None:
            yield _Section(line.strip("# \t\r\n"), at, end)


def _repair(
    note: Note, lines: list[str], section: _Section, path: str, body: str
) -> tuple[Edit, ...]:
    newline = "\r\n" if "\r\n" in note.text else "\n"
    left = f"{lines[section.first].rstrip()}{newline}{newline}- [{section.title}]({path}){newline}"
    rest = "".join(lines[section.end :])
    after = "".join(lines[: section.first]) + left + (newline + rest if rest else "")
    topic = f"# {section.title}{newline}{newline}{body.strip()}{newline}"
    return (Edit(path, None, topic), Edit(NOTES, note.text, after))


CHECK: Final = Check("topics", f"sections of {NOTES} ready to be a topic", check_topics)
