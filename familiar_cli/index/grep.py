"""Find memories without an index: read every file and count the words of the question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli import fts
from familiar_cli.errors import FamiliarError
from familiar_cli.index import rank
from familiar_cli.index.chunking import cut
from familiar_cli.index.excerpt import Place, choose, first_word, line_number
from familiar_cli.index.hits import age_days, coverage, local_day
from familiar_cli.index.types import Hit, Signals
from familiar_cli.memory.links import SUFFIXES
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.index.chunking import Cut, Span
    from familiar_cli.index.types import Options
    from familiar_cli.memory.store import MemoryStore

_FILES_A_HIT: Final = 4  # how many files are cut into lines for each line that is wanted


def find(
    store: MemoryStore,
    query: str,
    options: Options,
    is_wanted: Callable[[str, str, Options], bool],
) -> tuple[Hit, ...]:
    """Return the files, or lines, that hold most of the words of `query`, best first."""
    words = wanted_words(query)
    found = sorted(_files(store, words), key=lambda f: (-f[0], -f[1], f[2]))
    hits: list[Hit] = []
    for _, _, rel_path, text, mtime_ns in found:
        if len(hits) >= options.k * (_FILES_A_HIT if options.lines else 1):
            break
        made = cut(text, rel_path)
        day = made.day.isoformat() if made.day else ""
        if is_wanted(rel_path, day or local_day(mtime_ns), options):
            hits += _of_file(made, rel_path, text, mtime_ns, query, options)
    hits.sort(key=lambda hit: -hit.score)
    return tuple(hits[: options.k])


def share_of(text: str, words: list[str]) -> float:
    """Return which share of `words` stands in `text`, even inside other words."""
    folded = fold(text)
    return sum(word in folded for word in words) / len(words) if words else 0.0


def wanted_words(query: str) -> list[str]:
    """Return the words that are looked for; of unspaced scripts pairs of characters."""
    found = []
    for word in fts.content_words(query):
        pairs = [word[n : n + 2] for n in range(len(word) - 1)] if fts.is_unspaced(word) else []
        found += [fold(part) for part in pairs or [word]]
    return list(dict.fromkeys(found))


def _files(store: MemoryStore, words: list[str]) -> Iterator[tuple[float, int, str, str, int]]:
    """Yield share, count, path, text and time of each file that holds one of `words`."""
    for entry in store.walk().files:
        if not entry.rel_path.lower().endswith(SUFFIXES):
            continue
        try:
            text = store.read_file(entry.rel_path)
        except FamiliarError:
            continue
        share = share_of(text, words)
        if share:
            folded = fold(text)
            count = sum(folded.count(word) for word in words)
            yield share, count, entry.rel_path, text, int(entry.modified.timestamp() * 1e9)


def _of_file(
    made: Cut, rel_path: str, text: str, mtime_ns: int, query: str, options: Options
) -> list[Hit]:
    words = wanted_words(query)
    scored = [(share_of(text[s.start : s.end], words), s) for s in made.lines]
    scored = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    if not options.lines:
        score = share_of(text, words)
        best = scored[0][1] if scored else made.lines[0]
        return [_hit(made, rel_path, text, mtime_ns, query, options, best, score)]
    return [_hit(made, rel_path, text, mtime_ns, query, options, s, n) for n, s in scored]


def _hit(
    made: Cut,
    rel_path: str,
    text: str,
    mtime_ns: int,
    query: str,
    options: Options,
    line: Span,
    score: float,
) -> Hit:
    day = made.day.isoformat() if made.day else ""
    best = Place(line.start, line.end)
    passage = made.passages[line.parts[0]]
    shown = best
    if not options.lines:
        shown = choose(text, best, Place(passage.start, passage.end), options.snippet_tokens)
    start = first_word(text, best)
    words = text[shown.start : shown.end]
    fresh = round(rank.recency(age_days(day, mtime_ns)), 4)
    score = round(score, 4)
    signals = Signals(
        score,
        score,
        None,
        None,
        round(coverage(words, query), 4),
        False,
        fresh,
        False,
        False,  # noqa: FBT003
    )
    return Hit(
        rel_path,
        made.title,
        line.heading,
        day,
        shown.start,
        shown.end,
        line_number(text, start),
        start,
        best.end,
        score,
        words,
        signals,
    )
