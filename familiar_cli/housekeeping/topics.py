"""Sections of `notes.md` that have grown enough to be a topic of their own."""

from __future__ import annotations

import posixpath
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import DAY
from familiar_cli.housekeeping.types import Check, Finding, Quote
from familiar_cli.markdown import bullet, newline_of, sections
from familiar_cli.memory.layout import NOTES, TOPICS_DIR
from familiar_cli.memory.pages.links import places
from familiar_cli.memory.pages.privacy import private_spans
from familiar_cli.review.pending import PlannedFile
from familiar_cli.text import slugify
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options
    from familiar_cli.markdown import Line, Section

LEAST_LINES: Final = 5
LEAST_CHARS: Final = 600
"""A section with so many lines, or so much text, is ready."""
_SHOWN: Final = 3
_MOST_PLANS: Final = 20  # each holds the whole file twice


def check_topics(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each section of the notes that could be a topic."""
    del options
    note = next((n for n in corpus.notes if n.rel_path == NOTES), None)
    if note is None:
        return
    newline = newline_of(note.text)
    below = (path for path in sorted(corpus.paths) if path.startswith(f"{TOPICS_DIR}/"))
    taken = {slugify(posixpath.splitext(posixpath.basename(path))[0]): path for path in below}
    plans = 0
    for section in _public(note.text):
        said = [line for line in section.below if line.text.strip()]
        if len(said) < LEAST_LINES and len(section.body.strip()) < LEAST_CHARS:
            continue
        if DAY.search(section.title) or any(map(_is_to_do, said)):
            continue  # a diary and a list of things to do are no topic
        slug = slugify(section.title)
        is_free = bool(slug) and slug not in taken
        path = taken.setdefault(slug, f"{TOPICS_DIR}/{slug}.md")
        plans += is_free
        yield Finding(
            CHECK.name,
            (NOTES,),
            f"the section {section.title!r} is long enough for a topic: {len(said)} lines",
            _first_of(section),
            repair=_repair(note, section, path, newline)
            if is_free and plans <= _MOST_PLANS
            else (),
            hint=_hint(path, is_free=is_free, is_late=plans > _MOST_PLANS),
        )


def _hint(path: str, *, is_free: bool, is_late: bool) -> str:
    if not is_free:
        return f"{path} already exists; move what it lacks by hand."
    if is_late:
        return f"`--propose` plans {_MOST_PLANS} at a time; propose again once those are reviewed."
    return f"`--propose` plans to move it to {path}."


def _public(text: str) -> Iterator[Section]:
    """Yield the H2 sections, but those that hold what was said in private."""
    private = [start for start, _ in private_spans(text, NOBODY)]
    for section in sections(text, 2):
        holds = any(section.start <= start < section.end for start in private)
        if section.level == 2 and not holds:  # noqa: PLR2004
            yield section


def _is_to_do(line: Line) -> bool:
    item = None if line.in_code else bullet(line.text)
    return item is not None and bool(item.box)


def _repair(note: Note, section: Section, path: str, newline: str) -> tuple[PlannedFile, ...]:
    heading = section.lines[0].text.rstrip()
    left = f"{heading}{newline}{newline}- [{section.title}]({path}){newline}"
    rest = note.text[section.end :]
    after = note.text[: section.start] + left + (newline + rest if rest else "")
    moved = _moved(section.body.strip(), path)
    topic = f"# {section.title}{newline}{newline}{moved}{newline}"
    return (PlannedFile(path, None, topic), PlannedFile(NOTES, note.text, after))


def _first_of(section: Section) -> tuple[Quote, ...]:
    said = (line for line in section.lines if line.text.strip())
    return tuple(Quote(NOTES, line.number, line.text) for line in islice(said, _SHOWN))


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


CHECK: Final = Check("topics", "Sections to move to topics", check_topics)
