"""Parse memory into statements once for all checks, and the findings they report."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.markdown import TextLine, bullet, replace_spans, scan
from familiar_cli.base.text import bare_lines
from familiar_cli.base.who.visibility import OWNERS, PrivacyRules, Viewer
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages import links as page_links
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.store.files import MemoryEntry, Omission

if TYPE_CHECKING:
    from familiar_cli.store.history.imports import DoubledChannel
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.writing.pending import PlannedFile


_WORD: Final = re.compile(r"[^\W_]+")
_TO_SPACES: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_FIRST_UNSPACED: Final = "\u0e00"  # from Thai on, words are not separated


class Wordings(Struct, frozen=True):
    """Phrases to search for in many texts.

    Args:
        pattern: Matches any of them, as whole words in scripts with spaces.
        heads: The longest word of each, case-folded.
    """

    pattern: re.Pattern[str]
    heads: frozenset[str]

    @classmethod
    def of(cls, *wordings: str) -> Wordings:
        """Build the wordings from lists."""
        listed = "\n".join(wordings)
        return cls(re.compile(any_of(listed), re.IGNORECASE), heads_of(listed))

    def is_in(self, text: str) -> bool:
        """Tell whether `text` contains any of the wordings."""
        return bool(known_in(text.casefold(), self.heads)) and bool(self.pattern.search(text))


def any_of(wordings: str) -> str:
    """Build a pattern for any of the wordings, as whole words in scripts with spaces.

    Longer ones come first, so that `works as` is not matched as `works`.
    """
    ordered = sorted(_split_wordings(wordings), key=lambda wording: (-len(wording), wording))
    return "|".join(_bounded_wording(wording) for wording in ordered)


def heads_of(wordings: str) -> frozenset[str]:
    """Return the longest word of each wording, case-folded."""
    return frozenset(max(_WORD.findall(w.casefold()), key=len) for w in _split_wordings(wordings))


def known_in(folded: str, heads: frozenset[str]) -> frozenset[str]:
    """Return those of `heads` in a text: as words or, in unspaced scripts, anywhere.

    Args:
        folded: The case-folded text.
        heads: Case-folded words.
    """
    items = heads.intersection(words_in(folded))
    if folded.isascii():
        return items
    return items.union(h for h in heads if h[0] >= _FIRST_UNSPACED and h in folded)


def words_in(folded: str) -> list[str]:
    """Return the words of a text in order; in unspaced scripts, whole runs."""
    return folded.translate(_TO_SPACES).split() if folded.isascii() else _WORD.findall(folded)


def _split_wordings(wordings: str) -> set[str]:
    return {w.strip() for line in bare_lines(wordings) for w in line.split("|") if w.strip()}


def _bounded_wording(wording: str) -> str:
    pattern = re.escape(wording).replace(r"\ ", r"[ \t]+").replace("'", "['’]")
    has_words = wording[0] < _FIRST_UNSPACED
    return rf"(?<![^\W_]){pattern}(?![^\W_])" if has_words else pattern


ARCHIVES: Final = (layout.SESSIONS_DIR, *layout.PERIOD_DIRS, layout.SIGNIFICANT_DIR)
"""Directories that record what was, day by day; nothing in them goes out of date."""

DERIVED: Final = (*layout.PERIOD_DIRS, layout.DIGEST_DIR)
"""Directories that say again, on purpose, what stands elsewhere."""

_NOT_BELIEFS: Final = (*ARCHIVES, layout.DIGEST_DIR, layout.SELF_DIR, layout.LORE_DIR)
MOST_QUOTES: Final = 20
"""So many lines of evidence a finding bears at most."""
_OWN_LISTS: Final = (layout.REMINDERS, layout.TASKS, layout.SCRATCH)


class MemoryText(Struct, frozen=True, dict=True):
    """A text file of the memory.

    Args:
        modified: When it was last written.
        folded: Its case-folded text.
    """

    rel_path: str
    text: str
    size_bytes: int
    modified: datetime
    folded: str

    @property
    def directory(self) -> str:
        """The first component of its path; empty for a file at the root."""
        first, slash, _ = self.rel_path.partition("/")
        return first if slash else ""

    @property
    def is_hidden(self) -> bool:
        """Whether it is the program's own and excluded from search."""
        return layout.is_hidden(self.rel_path)

    @cached_property
    def links(self) -> tuple[page_links.LinkPlace, ...]:
        """Its Markdown links to other files of the memory, in order."""
        if "]" not in self.text or not self.rel_path.lower().endswith(layout.SUFFIXES):
            return ()
        return tuple(page_links.link_places(self.text, self.rel_path))

    @cached_property
    def wiki_links(self) -> tuple[page_links.WikiLink, ...]:
        """Its wiki links, in order."""
        if "[[" not in self.text or not self.rel_path.lower().endswith(layout.SUFFIXES):
            return ()
        return tuple(page_links.wiki_links(page_links.unhidden_text(self.text)))

    @property
    def holds_beliefs(self) -> bool:
        """Whether it states current facts rather than records of some day."""
        return self.directory not in _NOT_BELIEFS and self.rel_path not in _OWN_LISTS


class Corpus(Struct, frozen=True, dict=True):
    """All text files, sorted by path, and every other path that there is.

    Args:
        notes: Files visible to people and search.
        hidden: The program's own text files.
        paths: Paths of all visible files.
        skipped: Unreadable files.
    """

    notes: tuple[MemoryText, ...]
    hidden: tuple[MemoryText, ...]
    paths: frozenset[str]
    skipped: tuple[Omission, ...]

    @cached_property
    def names(self) -> page_links.PageNames:
        """The names that wiki links may use."""
        pages = (note for note in self.notes if note.rel_path.lower().endswith(layout.SUFFIXES))
        return page_links.PageNames(self.paths, {note.rel_path: note.text for note in pages})

    def led_to(self, note: MemoryText) -> set[str]:
        """Return the files that a file links to."""
        named = (self.names.find(link.name, note.rel_path) for link in note.wiki_links)
        targets = {*(link.target for link in note.links), *named} & self.paths
        return {path for path in targets if path}


class Options(Struct, frozen=True):
    """Settings of the checks.

    Args:
        today: The current day in the familiar's timezone.
        stale_days: Age in days from which a dated statement is old.
        similarity: Minimum share of common word runs of near duplicates, 0 to 1.
        max_file_bytes: Size limit of a file.
        day_of_turn: Returns the day of a turn by number; None: no such turn.
        fallen: Describes which of some turns were replaced or withdrawn.
        numbering: Resolves the turns that lines cite.
        doubles: Finds the channels that repeat turns of others.
        phrases: Language of repairs.
    """

    today: date
    stale_days: int = 365
    similarity: float = 0.8
    max_file_bytes: int = 256 * 1024
    day_of_turn: Callable[[int], date | None] = lambda _: None
    fallen: Callable[[Collection[int]], Mapping[int, str]] = lambda _: {}
    numbering: memory_lines.Numbering = memory_lines.PLAIN
    doubles: Callable[[], Iterable[DoubledChannel]] = tuple
    phrases: Phrases = ENGLISH


class Quote(Struct, frozen=True):
    """A line that is evidence for a finding, counted from 1. Secrets in it are masked."""

    rel_path: str
    line: int
    text: str


class Finding(Struct, frozen=True):
    """A finding for a person to review.

    Args:
        paths: The files concerned.
        message: One-line description.
        evidence: Lines that support it.
        repair: The repair, if it needs no judgement.
        hint: Suggested action.
        check: The check that reported it; set by `look_through`.
    """

    paths: tuple[str, ...]
    message: str
    evidence: tuple[Quote, ...]
    repair: tuple[PlannedFile, ...] = ()
    hint: str = ""
    check: str = ""


class Check(Struct, frozen=True):
    """One check.

    Args:
        name: Its name on the command line.
        title: Heading of its findings.
        run: Yields its findings.
    """

    name: str
    title: str
    run: Callable[[Corpus, Options], Iterator[Finding]]


DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})(?:-(\d{2}))?(?![\d-])")
# The date of a line: at its beginning, in brackets at its end, or after "as of". Other dates
# in it may belong to its content.
_DATING: Final = re.compile(
    r"^\W{0,3}\d{4}-\d{2}(?:-\d{2})?(?!\d)"
    r"|[(（\[][^()（）\[\]]{0,24}?\d{4}-\d{2}(?:-\d{2})?[^()（）\[\]]{0,12}[)）\]]\W{0,9}$"
    r"|\b(?:as of|stand|updated)\W{0,3}\d{4}-\d{2}(?:-\d{2})?",
    re.IGNORECASE,
)
_MOST_TITLE_CHARS: Final = 200
MOST_CHARS: Final = 2_000
"""A longer line is not a statement."""


class Statement(Struct, frozen=True):
    """A line that states something.

    Args:
        line: Its number, from 1.
        text: Its text without list markers.
        heading: The headings above it, outermost first.
        own_day: Its own date, else that of the last turn it cites; None: neither.
        day: Its own date, else that of the heading above or of the file name.
        is_record: Whether it begins with its date, as in a diary.
        is_confirmed: Whether a person confirmed it.
    """

    line: int
    text: str
    heading: tuple[str, ...]
    own_day: date | None
    day: date | None
    is_record: bool
    is_confirmed: bool


def find_statements(note: MemoryText, options: Options) -> Iterator[Statement]:
    """Yield the statements of a file, except headings and code."""
    headings: list[tuple[int, str]] = []
    for line in scan(note.text):
        if level := line.level:
            title = line.title[:_MOST_TITLE_CHARS]
            headings = [above for above in headings if above[0] < level] + [(level, title)]
        elif line.in_code or len(line.text) > MOST_CHARS:
            continue
        elif line.text.strip():
            yield _make_statement(note, line, tuple(title for _, title in headings), options)


def _make_statement(
    note: MemoryText, line: TextLine, headings: tuple[str, ...], options: Options
) -> Statement:
    said = memory_lines.without_references(line.text).strip()
    item = bullet(said)
    text = said[item.words_at :] if item else said
    dates = _DATING.search(text)
    turn = memory_lines.last_turn(line.text, options.numbering)
    own = last_day(dates[0]) if dates else None
    if own is None and turn is not None:
        own = options.day_of_turn(turn)
    above = next((day for day in map(last_day, reversed(headings)) if day), None)
    day = own or above or last_day(note.rel_path)
    is_record = dates is not None and dates.start() == 0
    confirmed = memory_lines.is_confirmed(line.text)
    return Statement(line.number, text, headings, own, day, is_record, confirmed)


def last_day(text: str) -> date | None:
    """Return the last date in `text`; for a month alone, its 28th.

    Rounding up within the month avoids calling anything old too early.
    """
    if "-" not in text:
        return None
    for match in reversed(list(DAY.finditer(text))):
        try:
            return date(int(match[1]), int(match[2]), int(match[3] or 28))
        except ValueError:
            continue
    return None


def comments_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each HTML comment."""
    end = 0
    while (start := text.find("<!--", end)) >= 0:
        end = text.find("-->", start + 4) + 3
        if end < len("-->"):
            return
        yield start, end


def without_comments(text: str, unwanted: Callable[[str], bool] = lambda _: True) -> str:
    """Remove the HTML comments of `text` that are unwanted, by default all."""
    spans = (span for span in comments_in(text) if unwanted(text[slice(*span)]))
    return replace_spans(text, ((*span, "") for span in spans))


def quote_lines(note: MemoryText, numbers: Iterable[int]) -> tuple[Quote, ...]:
    """Quote the lines of a file with these numbers, from 1, up to the limit."""
    lines = note.text.split("\n")
    return tuple(Quote(note.rel_path, at, lines[at - 1]) for at in islice(numbers, MOST_QUOTES))


def line_at(text: str, offset: int) -> int:
    """Return the number of the line at character `offset`."""
    return text.count("\n", 0, offset) + 1


def bullet_indent(line: str) -> int | None:
    """Return the indentation of a bullet; None for other lines and numbered items."""
    item = bullet(line)
    is_one = item is not None and not item.marker[:-1] and line[item.text_at :].strip()
    return len(item.indent.expandtabs(4)) if item and is_one else None


def goes_on(lines: list[str], at: int, indent: int) -> bool:
    """Tell whether a bullet has nested lines, so that it cannot be removed alone."""
    following = next((line for line in lines[at + 1 : at + 3] if line.strip()), "")
    below = bullet_indent(following)
    if below is not None:
        return below > indent
    is_below = bool(lines[at + 1 : at + 2]) and bool(lines[at + 1].strip())
    return following.startswith((" ", "\t")) or (is_below and not following.startswith("#"))


_TEXT: Final = (".md", ".markdown", ".txt", ".json", ".toml", ".yaml", ".yml", ".csv")
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of a larger file the size alone is looked at, and that is said."""
# Pending plans contain old and new text; they are deleted once decided.


def read_corpus(store: MemoryStore, on_file: Callable[[int], None] = lambda _: None) -> Corpus:
    """Read all text files of the memory. Unreadable ones are listed and skipped.

    Args:
        on_file: Called before each file with its number, from 1.
    """
    walk = store.walk(hidden=True)
    notes: list[MemoryText] = []
    skipped = list(walk.skipped)
    entries = [entry for entry in walk.files if _is_wanted(entry)]
    for number, entry in enumerate(entries, 1):
        on_file(number)
        text = ""
        if entry.size_bytes > MAX_BYTES:
            most = f"{MAX_BYTES // 1024**2} MB"
            skipped.append(
                Omission(entry.rel_path, f"is larger than {most}; only its size is checked")
            )
        else:
            try:
                text = store.read_file(entry.rel_path)
            except FamiliarError as error:
                skipped.append(Omission(entry.rel_path, str(error)))
                continue
        notes.append(
            MemoryText(entry.rel_path, text, entry.size_bytes, entry.modified, text.casefold())
        )
    return Corpus(
        notes=tuple(note for note in notes if not note.is_hidden),
        hidden=tuple(note for note in notes if note.is_hidden),
        paths=frozenset(f.rel_path for f in walk.files if not layout.is_hidden(f.rel_path)),
        skipped=tuple(skipped),
    )


_OWNER_ALONE: Final = Viewer(PrivacyRules(), frozenset({OWNERS}))


def quotes_private(store: MemoryStore, finding: Finding) -> bool:
    """Tell whether a finding quotes what others said in private; errs on the side of privacy."""
    for rel_path in {quote.rel_path for quote in finding.evidence}:
        try:
            text = store.read_file(rel_path)
        except FamiliarError:
            return True
        starts = {start for start, _ in visible_lines.private_spans(text, _OWNER_ALONE, rel_path)}
        private = {line.number for line in scan(text) if line.start in starts}
        if any(q.line in private for q in finding.evidence if q.rel_path == rel_path):
            return True
    return False


def _is_wanted(entry: MemoryEntry) -> bool:
    is_text = entry.rel_path.lower().endswith(_TEXT) and not layout.is_in_conflicts(entry.rel_path)
    return is_text and not entry.rel_path.startswith(f"{layout.PENDING_DIR}/")
