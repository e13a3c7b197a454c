"""Values that travel between the checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.layout import (
    DIGEST_DIR,
    LORE_DIR,
    PERIOD_DIRS,
    REMINDERS,
    SCRATCH,
    SELF_DIR,
    SESSIONS_DIR,
    SIGNIFICANT_DIR,
    TASKS,
)
from familiar_cli.memory.pages.evidence import PLAIN, Numbering
from familiar_cli.memory.pages.links import SUFFIXES, places, unhidden
from familiar_cli.memory.pages.wiki import PageNames, wiki_links

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import date, datetime

    from familiar_cli.history.doubles import DoubledChannel
    from familiar_cli.memory.pages.links import LinkPlace
    from familiar_cli.memory.pages.wiki import WikiLink
    from familiar_cli.memory.store.types import Skipped
    from familiar_cli.review.pending import PlannedFile

ARCHIVES: Final = (SESSIONS_DIR, *PERIOD_DIRS, SIGNIFICANT_DIR)
"""Directories that record what was, day by day; nothing in them goes out of date."""

DERIVED: Final = (*PERIOD_DIRS, DIGEST_DIR)
"""Directories that say again, on purpose, what stands elsewhere."""

_NOT_BELIEFS: Final = (*ARCHIVES, DIGEST_DIR, SELF_DIR, LORE_DIR)
MOST_QUOTES: Final = 20
"""So many lines of evidence a finding bears at most."""
_OWN_LISTS: Final = (REMINDERS, TASKS, SCRATCH)


@dataclass(frozen=True)
class Note:
    """One text file of the memory.

    Args:
        rel_path: Where it is.
        text: All of it.
        size_bytes: How large it is.
        modified: When it was last written.
        folded: Its text, case folded.
        known: Which of the words that the checks look for it holds.
    """

    rel_path: str
    text: str
    size_bytes: int
    modified: datetime
    folded: str
    known: frozenset[str] = frozenset()

    @property
    def directory(self) -> str:
        """The first part of its path; empty for a file at the root."""
        first, slash, _ = self.rel_path.partition("/")
        return first if slash else ""

    @property
    def is_hidden(self) -> bool:
        """Whether it is kept for the program, and no search sees it."""
        return self.rel_path.startswith(".") or "/." in self.rel_path

    @cached_property
    def links(self) -> tuple[LinkPlace, ...]:
        """Its Markdown links to other files of the memory, in order."""
        if "]" not in self.text or not self.rel_path.lower().endswith(SUFFIXES):
            return ()
        return tuple(places(self.text, self.rel_path))

    @cached_property
    def wiki_links(self) -> tuple[WikiLink, ...]:
        """Its wiki links, in order."""
        if "[[" not in self.text or not self.rel_path.lower().endswith(SUFFIXES):
            return ()
        return tuple(wiki_links(unhidden(self.text)))

    @property
    def holds_beliefs(self) -> bool:
        """Whether it says how things are, and not how they were on some day."""
        return self.directory not in _NOT_BELIEFS and self.rel_path not in _OWN_LISTS


@dataclass(frozen=True)
class Corpus:
    """All text files, sorted by path, and every other path that there is.

    Args:
        notes: The files that people and searches see.
        hidden: Text that is kept for the program.
        paths: The path of every file that is not hidden.
        skipped: What could not be read.
    """

    notes: tuple[Note, ...]
    hidden: tuple[Note, ...]
    paths: frozenset[str]
    skipped: tuple[Skipped, ...]

    @cached_property
    def names(self) -> PageNames:
        """What wiki links may name."""
        pages = (note for note in self.notes if note.rel_path.lower().endswith(SUFFIXES))
        return PageNames(self.paths, {note.rel_path: note.text for note in pages})

    def led_to(self, note: Note) -> set[str]:
        """Return the files that the links of a file lead to."""
        named = (self.names.find(link.name, note.rel_path) for link in note.wiki_links)
        targets = {*(link.target for link in note.links), *named} & self.paths
        return {path for path in targets if path}


@dataclass(frozen=True, slots=True)
class Options:
    """What the checks go by.

    Args:
        today: The day in the familiar's timezone.
        stale_days: How old a dated statement may be.
        similarity: From which share of common word runs two files are near duplicates, 0 to 1.
        max_file_bytes: The largest file that may be written.
        day_of_turn: Tells when a turn was said, by its number; None: there is no such turn.
        fallen: Tells which of some turns no longer stand, and for each what became of it.
        numbering: Which turns lines name.
        doubles: Finds the channels that repeat turns of others.
    """

    today: date
    stale_days: int = 365
    similarity: float = 0.8
    max_file_bytes: int = 256 * 1024
    day_of_turn: Callable[[int], date | None] = lambda _: None
    fallen: Callable[[Collection[int]], Mapping[int, str]] = lambda _: {}
    numbering: Numbering = PLAIN
    doubles: Callable[[], Iterable[DoubledChannel]] = tuple


@dataclass(frozen=True, slots=True)
class Quote:
    """A line that a finding rests on, counted from 1. Secrets in it are masked."""

    rel_path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person may want to look at.

    Args:
        check: Which check found it.
        paths: The files it is about.
        message: What it is, in one line.
        evidence: The lines that say so.
        repair: What would mend it, where that takes no judgement.
        hint: What to do about it.
    """

    check: str
    paths: tuple[str, ...]
    message: str
    evidence: tuple[Quote, ...]
    repair: tuple[PlannedFile, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Args:
        name: What it is called on the command line.
        title: What stands above its findings.
        run: Finds it.
        words: Words of which `Note.known` is to tell it; see `wording.Wordings`.
    """

    name: str
    title: str
    run: Callable[[Corpus, Options], Iterator[Finding]]
    words: frozenset[str] = frozenset()
