"""Find duplicates: equal files and lines, people with two files, chats stored twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

from familiar_cli.base.markdown import scan, without_marker
from familiar_cli.base.text import counted, digest_of, sha256_of
from familiar_cli.store.fts import is_unspaced, words
from familiar_cli.store.memory.aliases import names_of, slug_in
from familiar_cli.store.memory.layout import SELF_DIR
from familiar_cli.store.memory.mentions import key_of
from familiar_cli.store.memory.pages.lines import (
    citation_comment,
    citations_in,
    citing,
    without_references,
)
from familiar_cli.writing.housekeeping.lines import (
    DERIVED,
    Corpus,
    Finding,
    MemoryText,
    Options,
    Quote,
    bullet_indent,
    goes_on,
    quote_lines,
    without_comments,
    words_in,
)
from familiar_cli.writing.pending import HISTORY, PlannedFile, marks_text

_RUN: Final = 4
_BANDS: Final = 16
_ROWS: Final = 4
_LEAST_RUNS: Final = 8
_MOST_COMPARED: Final = 4
_MOST_WORDS: Final = 50_000
_SEED: Final = 20_260_401  # arbitrary, but fixed: equal texts must have equal sketches in every run


def words_of(folded: str) -> list[str]:
    """Split case-folded text into words; unspaced scripts into characters."""
    bare = without_comments(folded) if "<!--" in folded else folded
    if bare.isascii():
        return words_in(bare)[:_MOST_WORDS]
    split = (list(word) if is_unspaced(word) else [word] for word in words(bare))
    return [part for parts in split for part in parts][:_MOST_WORDS]


class Sketches:
    """MinHash index for finding similar texts.

    Args:
        least: Minimum similarity, as the share of common runs; 0 to 1.
    """

    def __init__(self, least: float) -> None:
        import numpy as np

        self._np = np
        self._least = least
        chooser = np.random.default_rng(_SEED)
        top = np.iinfo(np.uint64).max
        self._factors = chooser.integers(1, top, _RUN, dtype=np.uint64) | np.uint64(1)
        self._places = np.sort(chooser.integers(0, top, _BANDS * _ROWS, dtype=np.uint64))
        self._words: dict[str, int] = {}
        self._runs: dict[str, Any] = {}
        self._buckets: dict[tuple[int, bytes], list[str]] = defaultdict(list)
        self._leads: dict[str, str] = {}
        self._shares: dict[str, float] = {}

    def add(self, name: str, listed: list[str]) -> None:
        """Add a text as a list of words. Very short ones match nothing."""
        runs = self._runs_of(listed)
        if len(runs) < _LEAST_RUNS:
            return
        keys = list(enumerate(self._bands(runs)))
        others = dict.fromkeys(other for key in keys for other in self._buckets[key])
        best = max(((self._share(runs, other), other) for other in others), default=(0.0, ""))
        if best[0] >= self._least:
            self._leads[name] = self._leads.get(best[1], best[1])
            self._shares[name] = best[0]
        self._runs[name] = runs
        for key in keys:
            if len(self._buckets[key]) < _MOST_COMPARED:
                self._buckets[key].append(name)

    def groups(self) -> Iterator[tuple[list[str], float]]:
        """Yield groups of similar texts, each with the lowest similarity that joined it."""
        members: dict[str, list[str]] = defaultdict(list)
        for name, lead in self._leads.items():
            members[lead].append(name)
        for lead, alike in members.items():
            yield [lead, *alike], min(self._shares[name] for name in alike)

    def _runs_of(self, listed: list[str]) -> Any:  # noqa: ANN401  # uint64[n], sorted, each once
        np = self._np
        if len(listed) < _RUN:
            return np.empty(0, dtype=np.uint64)
        known = self._words
        for word in set(listed).difference(known):
            known[word] = int.from_bytes(digest_of(word, 8), "little")
        numbers = np.fromiter(map(known.__getitem__, listed), np.uint64, len(listed))
        count = len(listed) - _RUN + 1
        mixed = sum(numbers[at : at + count] * self._factors[at] for at in range(_RUN))
        return np.unique(mixed ^ (mixed >> np.uint64(29)))

    def _bands(self, runs: Any) -> list[bytes]:  # noqa: ANN401
        """Split the sketch, closed to a ring, into bands for hashing."""
        next_ones = runs[self._np.searchsorted(runs, self._places) % len(runs)]
        return [band.tobytes() for band in next_ones.reshape(_BANDS, _ROWS)]

    def _share(self, one: Any, name: str) -> float:  # noqa: ANN401
        other = self._runs[name]
        both = len(self._np.intersect1d(one, other, assume_unique=True))
        return both / (len(one) + len(other) - both)


_LEAST_WORDS: Final = 8
_LEAST_CHARS: Final = 20
# Full stops, commas and emphasis are insignificant; question marks are not.
_NO_MATTER: Final = str.maketrans(dict.fromkeys(".,;:!*_\"'`", " "))
_MARKDOWN: Final = (".md", ".markdown", ".txt")


def check_duplicates(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield findings for duplicated files and lines."""
    notes = {note.rel_path: note for note in corpus.notes if _is_compared(note)}
    said: dict[str, list[str]] = defaultdict(list)
    sketches = Sketches(options.similarity)
    for path, note in notes.items():
        words = words_of(note.folded)
        if len(words) >= _LEAST_WORDS:
            same = said[sha256_of("\n".join(words))]
            same.append(path)
            if len(same) == 1:
                sketches.add(path, words)
        yield from _said_twice(note)
    for paths in said.values():
        if len(paths) > 1:
            yield _make_finding(notes, paths, "have the same text")
    for paths, share in sketches.groups():
        yield _make_finding(
            notes, paths, f"have nearly the same text ({share:.0%} of word sequences)"
        )


def _is_compared(note: MemoryText) -> bool:
    is_text = note.rel_path.lower().endswith(_MARKDOWN)
    return is_text and note.directory not in (*DERIVED, SELF_DIR)


def _make_finding(notes: dict[str, MemoryText], paths: list[str], what: str) -> Finding:
    shared = set(_line_keys(notes[paths[0]])).intersection(
        *(_line_keys(notes[path]) for path in paths[1:])
    )
    longest = max(shared, key=lambda key: (len(key), key), default="")
    return Finding(
        tuple(paths),
        f"{len(paths)} files {what}",
        tuple(_line_of(notes[path], longest) for path in paths),
        hint="Keep the one that others link to; `familiar memory rm PATH` deletes the other.",
    )


def _line_keys(note: MemoryText) -> list[str]:
    return [_line_key(line) for line in note.text.split("\n")]


def _line_of(note: MemoryText, key: str) -> Quote:
    """Return the line with the common text `key`, else the first line of the file."""
    keys = _line_keys(note)
    at = keys.index(key) if key in keys else 0
    return Quote(note.rel_path, at + 1, note.text.split("\n", at + 1)[at])


def _line_key(line: str) -> str:
    """Normalise a line: without list marker, citations and insignificant marks."""
    return " ".join(
        without_references(without_marker(line)).casefold().translate(_NO_MATTER).split()
    )


def _said_twice(note: MemoryText) -> Iterator[Finding]:
    """Yield findings for duplicate bullets in a list that can be merged without loss."""
    if not _may_repeat(note.folded):
        return
    lines = note.text.split("\n")
    again: dict[int, int] = {}
    for bullets in _bullet_lists(note.text, lines):
        first: dict[str, int] = {}
        for at in bullets:
            key = _line_key(lines[at])
            if first.setdefault(key, at) != at and len(key) >= _LEAST_CHARS:
                again[at] = first[key]
    if again:
        yield Finding(
            (note.rel_path,),
            "has the same entry twice in one list",
            tuple(
                Quote(note.rel_path, at + 1, lines[at]) for at in sorted({*again, *again.values()})
            ),
            repair=(PlannedFile(note.rel_path, note.text, _without_repeats(lines, again)),),
            hint="`--propose` plans to keep the first.",
        )


def _may_repeat(folded: str) -> bool:
    """Check cheaply whether two bullets may have the same words."""
    comment = "<!--".translate(_NO_MATTER)
    texts = [
        " ".join(line.partition(comment)[0].lstrip("-+ \t").split())
        for line in folded.translate(_NO_MATTER).split("\n")
    ]
    long = [text for text in texts if len(text) >= _LEAST_CHARS]
    return len(set(long)) < len(long)


def _bullet_lists(text: str, lines: list[str]) -> Iterator[list[int]]:
    """Yield runs of one-line bullets with the same indentation.

    Any other line ends all lists; a less indented bullet ends the lists nested in it.
    """
    opened: dict[int, list[int]] = {}
    for at, line in enumerate(scan(text)):
        indent = None if line.in_code else bullet_indent(line.text)
        if indent is not None:
            for deeper in [known for known in opened if known > indent]:
                yield opened.pop(deeper)
            bullets = opened.setdefault(indent, [])
            if not goes_on(lines, at, indent):
                bullets.append(at)
        elif line.text.strip() and not (opened and line.text.startswith((" ", "\t"))):
            yield from opened.values()
            opened = {}
    yield from opened.values()


def _without_repeats(lines: list[str], again: dict[int, int]) -> str:
    """Remove repeated bullets, merging their citations."""
    kept = list(lines)
    alike: dict[int, set[str]] = defaultdict(set)
    for at, first in again.items():
        alike[first].add(lines[at])
    for first, others in alike.items():
        citations = citations_in(lines[first])
        both = [*citations, *(turns for line in others for turns in citations_in(line))]
        if citation_comment(both) != citation_comment(citations):
            kept[first] = citing(lines[first], both)
    return "\n".join(line for at, line in enumerate(kept) if at not in again)


_LEAST_NAME_CHARS: Final = 2
# More people than this with a common name are not the same person.
_MOST_SHARING: Final = 4


def check_twins(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each pair of people with a common name and no link."""
    del options
    people = [note for note in corpus.notes if slug_in(note.rel_path)]
    by_path = {note.rel_path: note for note in people}
    called: dict[str, list[str]] = defaultdict(list)
    for note in people:
        for key in dict.fromkeys(map(key_of, names_of(note.text))):
            if len(key) >= _LEAST_NAME_CHARS:
                called[key].append(note.rel_path)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, paths in called.items():
        if 1 < len(paths) <= _MOST_SHARING:
            for pair in combinations(sorted(paths), 2):
                shared[pair].append(key)
    for (one, other), keys in sorted(shared.items()):
        notes = by_path[one], by_path[other]
        if other not in corpus.led_to(notes[0]) and one not in corpus.led_to(notes[1]):
            names = ", ".join(repr(key) for key in keys)
            yield Finding(
                (one, other),
                f"look like one person: both are called {names}",
                tuple(quote for key in keys for note in notes for quote in _naming_line(note, key)),
                hint=_HINT,
            )


def _naming_line(note: MemoryText, key: str) -> tuple[Quote, ...]:
    """Return the line of a file with the name; the first line if none has it alone."""
    lines = [key_of(line.strip(" \t\r#*-+`")) for line in note.text.split("\n")]
    return quote_lines(note, [next((at for at, line in enumerate(lines, 1) if line == key), 1)])


_HINT: Final = (
    "If they are the same, run `familiar people merge`; if not, a link (`not [the other](…)`) "
    "silences this finding."
)


def check_doubles(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each channel that repeats turns of another one."""
    del corpus
    for channel in options.doubles():
        turns = counted(len(channel.originals), "turn")
        repair = PlannedFile(HISTORY, marks_text(channel.originals), "")
        yield Finding(
            (HISTORY,),
            f"channel {channel.channel_id!r} repeats {turns} of channel {channel.original_id!r}, "
            "which stay",
            (),
            repair=(repair,),
            hint="`--propose` makes a plan that withdraws the repeated turns; nothing is deleted.",
        )
