"""Find memories without an index: read every file and count the words of the question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.errors import FamiliarError
from familiar_cli.folding import fold_word
from familiar_cli.index import rank
from familiar_cli.index.chunking import cut
from familiar_cli.index.dates import last_day
from familiar_cli.index.hits import (
    CharRange,
    age_days,
    choose,
    coverage,
    first_word,
    line_number,
    local_day,
)
from familiar_cli.index.types import Hit, Signals
from familiar_cli.memory.pages.links import is_page
from familiar_cli.memory.pages.machine_text import blanked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from familiar_cli.index.chunking import Cut, TextSpan
    from familiar_cli.index.types import SearchOptions
    from familiar_cli.memory.store.store import MemoryStore

from familiar_cli.index.hits import wanted_words

_FILES_A_HIT: Final = 4  # how many files are cut into lines for each line that is wanted


def find(
    store: MemoryStore,
    query: str,
    options: SearchOptions,
    is_wanted: Callable[[str, str, SearchOptions], bool],
) -> tuple[Hit, ...]:
    """Return the files, or lines, that hold most of the words of `query`, best first."""
    words = wanted_words(query)
    found = sorted(_files(store, words), key=lambda f: (-f.share, -f.count, f.rel_path))
    hits: list[Hit] = []
    for file in found:
        if file.share < options.min_score:
            break
        if len(hits) >= options.k * (_FILES_A_HIT if options.lines else 1):
            break
        made = _cut(file.text, file.rel_path)
        day = made.day.isoformat() if made.day else ""
        about = day or last_day(file.rel_path) or local_day(file.mtime_ns, options.zone)
        if is_wanted(file.rel_path, about, options):
            hits += _counted(_Cutter(file, made, day, query, options).hits(words), file, options)
    hits = [hit for hit in hits if hit.score >= options.min_score]
    hits.sort(key=lambda hit: -hit.score)
    return tuple(hits[: options.k])


def _counted(hits: Iterable[Hit], file: _File, options: SearchOptions) -> list[Hit]:
    """Return those of a file's hits that count; without `options.lines` the best one."""
    judge = options.judge
    if judge is None:
        return list(hits)
    counted = (hit for hit in hits if judge(hit, file.text))
    return list(counted) if options.lines else list(islice(counted, 1))


def share_of(folded: str, words: list[str]) -> float:
    """Return which share of `words` stands in a folded text, even inside other words."""
    return sum(word in folded for word in words) / len(words) if words else 0.0


@lru_cache(maxsize=256)
def _cut(text: str, rel_path: str) -> Cut:
    return cut(text, rel_path)


@lru_cache(maxsize=256)
def _folded(text: str) -> str:
    return fold_word(text)


@dataclass(frozen=True, slots=True)
class _File:
    share: float
    count: int
    rel_path: str
    text: str
    mtime_ns: int


def _files(store: MemoryStore, words: list[str]) -> Iterator[_File]:
    """Yield each file that holds one of `words`."""
    for entry in store.walk().files:
        if not is_page(entry.rel_path):
            continue
        try:
            text = store.read_file(entry.rel_path)
        except FamiliarError:
            continue
        folded = _folded(blanked(text))
        share = share_of(folded, words)
        if share:
            count = sum(folded.count(word) for word in words)
            mtime_ns = int(entry.modified.timestamp() * 1e9)
            yield _File(share, count, entry.rel_path, text, mtime_ns)


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Makes the hits of one file."""

    file: _File
    made: Cut
    day: str
    query: str
    options: SearchOptions

    def hits(self, words: list[str]) -> Iterator[Hit]:
        """Yield the hits, best first, each made when it is asked for."""
        text = blanked(self.file.text)
        scored = [(share_of(_folded(text[s.start : s.end]), words), s) for s in self.made.lines]
        scored = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        if self.options.lines:
            yield from (self._hit(line, share) for share, line in scored)
        elif self.options.judge:
            yield from (self._hit(line, self.file.share) for _, line in scored)
        else:
            best = scored[0][1] if scored else self.made.lines[0]
            yield self._hit(best, self.file.share)

    def _hit(self, line: TextSpan, share: float) -> Hit:
        text, score = self.file.text, round(share, 4)
        best = CharRange(line.start, line.end)
        passage = self.made.passages[line.parts[0]]
        shown = best
        if not self.options.lines:
            outer = CharRange(passage.start, passage.end)
            shown = choose(text, best, outer, self.options.snippet_tokens)
        start = first_word(text, best)
        words = text[shown.start : shown.end]
        return Hit(
            self.file.rel_path,
            self.made.title,
            line.heading,
            self.day,
            shown.start,
            shown.end,
            line_number(text, start),
            start,
            best.end,
            score,
            words,
            self._signals(words, score),
        )

    def _signals(self, words: str, score: float) -> Signals:
        about = self.day or last_day(self.file.rel_path)
        return Signals(
            relevance=score,
            lexical=score,
            dense=None,
            cosine=None,
            coverage=round(coverage(words, self.query), 4),
            speaker=False,
            recency=round(rank.recency(age_days(about, self.file.mtime_ns, now())), 4),
            linked=False,
            same_instance=False,
        )
