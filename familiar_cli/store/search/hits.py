"""Turn scored pieces into hits: times, links, and excerpts without machine-readable parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from functools import cache, lru_cache
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, FamiliarError
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.markdown import scan, split_lines, without_marks
from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.text import fold_word, one_line, sha256_of
from familiar_cli.base.times.clock import now, since_1970, stopwatch_s, to_zone
from familiar_cli.store import fts
from familiar_cli.store.memory.layout import is_page, told_path
from familiar_cli.store.memory.pages.lines import blank_spans, machine_spans, shown_between
from familiar_cli.store.memory.pages.visible_lines import (
    private_spans,
    visible_place,
    without_spans,
)
from familiar_cli.store.search import rank
from familiar_cli.store.search.types import Hit, SearchOptions, Signals, Spans
from familiar_cli.store.search.weights import WEIGHTS
from familiar_cli.store.search.who_when import last_day

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.search.chunking import Cut, TextSpan
    from familiar_cli.store.search.rank import Scored, Scorer

    _Ranked = tuple[float, str, int, int, float]  # in sort order; the ids of lines differ


def holds_any(text: str, query: str) -> bool:
    """Tell whether `text` contains a word that starts with one of those searched for."""
    folded = fold_word(text)
    return any(fts.holds_word(folded, word) for word in fts.wanted_words(query))


class ShownHits(Struct):
    """Judges the hits of one search by their visible text, and renders them."""

    query: str
    viewer: Viewer
    _pages: dict[str, tuple[str, Spans, list[tuple[int, int]]]] = field(default_factory=dict)

    def counts(self, hit: Hit, text: str, private: Spans) -> bool:
        """Tell whether any of a hit's best line is visible."""
        if hit.rel_path not in self._pages:
            spans = sorted([*machine_spans(text), *private])
            self._pages[hit.rel_path] = text, private, spans
        hidden = self._hidden(hit)
        if not hidden:
            return True
        shown = shown_between(text, hit.best_start, hit.best_end, hidden)
        return any(map(str.isalnum, shown))

    def of(self, hit: Hit) -> Hit:
        """Build a hit as it is shown, if it counts."""
        (text, private, _), hidden = self._pages[hit.rel_path], self._hidden(hit)
        start, end = max(hit.best_start, hit.char_start), min(hit.best_end, hit.char_end)
        best, whole = text[start:end], hit.text
        if hidden:
            best = shown_between(text, start, end, hidden)
            whole = shown_between(text, hit.char_start, hit.char_end, hidden)
        shown = replace(hit, text=whole, best=best)
        return shown if self.viewer.is_owner else self._placed(shown, text, private)

    def _placed(self, hit: Hit, text: str, hidden: Spans) -> Hit:
        """Return a hit with places as a stranger may see them."""
        seen = without_spans(text, hidden)
        places = (hit.char_start, hit.char_end, hit.best_start, hit.best_end)
        start, end, best, best_end = (visible_place(hidden, place) for place in places)
        best = first_word(seen, CharRange(best, best_end))
        return replace(
            hit,
            text=hit.text.rstrip("\n"),  # a gap may follow
            char_start=start,
            char_end=end,
            line=line_number(seen, best),
            best_start=best,
            best_end=best_end,
            best=shown_between(seen, best, best_end, machine_spans(seen)),
        )

    def _hidden(self, hit: Hit) -> list[tuple[int, int]]:
        """Return the character ranges of the hit that are hidden."""
        spans = self._pages[hit.rel_path][2]
        return [(a, b) for a, b in spans if a < hit.char_end and b > hit.char_start]


WHOLE_FILE_CHARS: Final = 2000


class CharRange(NamedTuple):
    """`start` to `end` in a file, in characters."""

    start: int
    end: int


def choose_snippet(
    text: str, best: CharRange, passage: CharRange, snippet_tokens: int
) -> CharRange:
    """Choose the part of `text` to show: the file, `passage`, or as much of it as allowed.

    With `snippet_tokens`, the part holds as much of `best` as fits, and then grows by whole lines,
    first towards the end and then towards the start of `passage`.
    """
    whole = CharRange(0, len(text))
    outer = whole if len(text) <= WHOLE_FILE_CHARS else passage
    if not snippet_tokens:
        return _trim_range(text, outer)
    if _count_tokens(text[outer.start : outer.end]) <= snippet_tokens:
        return _trim_range(text, outer)
    return _trim_range(text, _grow_range(text, _trim_range(text, best), outer, snippet_tokens))


def _count_tokens(text: str) -> int:
    from familiar_cli.llm.tokens import heuristic  # noqa: PLC0415  # where hits are bounded

    return heuristic().count(text)


def _choose_visible(
    text: str, best: CharRange, passage: CharRange, hidden: Spans, most: int
) -> CharRange:
    """Choose the part of a page to show; what is hidden does not decide how much that is."""
    if not hidden:
        return choose_snippet(text, best, passage, most)
    start, end = (visible_place(hidden, place) for place in best)
    first, last = (visible_place(hidden, place) for place in passage)
    seen = without_spans(text, hidden)
    place = choose_snippet(seen, CharRange(start, end), CharRange(first, last), most)
    return _range_on_page(place, hidden)


def _range_on_page(place: tuple[int, int], hidden: Spans) -> CharRange:
    """Return where a range of what is seen of a page is on it."""
    return CharRange(_place_on_page(place[0], hidden), _place_on_page(place[1], hidden, 1))


def _place_on_page(place: int, hidden: Spans, end: int = 0) -> int:
    """Return where a place in what is seen of a page is on it; with `end`, where a range ends."""
    for first, last in hidden:
        if first > place - end:
            break
        place += last - first
    return place


def line_number(text: str, place: int) -> int:
    """Return the number, from 1, of the line at the character `place`."""
    return text.count("\n", 0, place) + 1


def first_word(text: str, place: CharRange) -> int:
    """Return the position of the first character in `place` that is not a space."""
    inside = text[place.start : place.end]
    return place.start + len(inside) - len(inside.lstrip())


def _grow_range(text: str, best: CharRange, outer: CharRange, most: int) -> CharRange:
    if _count_tokens(text[best.start : best.end]) > most:
        return CharRange(best.start, _end_within(text, best, most))
    result = best
    for end in _line_ends(text, best.end, outer.end):
        if _count_tokens(text[result.start : end]) > most:
            break
        result = CharRange(result.start, end)
    for start in _line_starts(text, outer.start, best.start):
        if _count_tokens(text[start : result.end]) > most:
            break
        result = CharRange(start, result.end)
    return result


def _end_within(text: str, place: CharRange, most: int) -> int:
    """Return where to cut a text to `most` tokens, between words if possible."""
    low, high = place.start, place.end
    while low < high:
        middle = (low + high + 1) // 2
        if _count_tokens(text[place.start : middle]) <= most:
            low = middle
        else:
            high = middle - 1
    space = text.rfind(" ", place.start + (low - place.start) // 2, low)
    return space if space > 0 else low


def _line_ends(text: str, start: int, end: int) -> Sequence[int]:
    return [*(at + 1 for at in range(start, end) if text[at] == "\n"), end]


def _line_starts(text: str, start: int, end: int) -> Sequence[int]:
    return [*(at for at in range(end - 1, start, -1) if text[at - 1] == "\n"), start]


def _trim_range(text: str, place: CharRange) -> CharRange:
    """Remove empty lines at both ends."""
    inside = text[place.start : place.end]
    start = place.start + len(inside) - len(inside.lstrip("\r\n"))
    return CharRange(start, max(start, place.start + len(inside.rstrip())))


_DAY_S: Final = 86_400
_LINES_AT_ONCE: Final = 32
DENSE_FLOOR: Final = 0.25
"""Least nearness of a hit that holds none of the words; below it, things are unrelated."""


class _File(Struct, frozen=True):  # as many are made as files were found
    id: int
    rel_path: str
    title: str
    day: str
    age_days: float
    is_linked: bool
    is_same_instance: bool
    sha256: str


class _Line(Struct, frozen=True):
    """A line, as the index holds it."""

    place: CharRange
    heading: str
    text: str


class _HitText(Struct, frozen=True):
    """What of a file is shown: the place, the best line in it, the words, the line's number.

    `seen` is what of the words the viewer sees.
    """

    place: CharRange
    best: CharRange
    text: str
    line: int
    seen: str


def make_hits(
    connection: sqlite3.Connection,
    store: MemoryStore,
    query: str,
    options: SearchOptions,
    scorer: Scorer,
    *,
    linked: AbstractSet[int],
) -> tuple[Hit, ...]:
    """Return at most `k` accepted hits, best first; one per file, or one per line.

    If a file's best line is rejected, its next one is tried.
    """
    weights = options.weights or WEIGHTS
    share, relevances = weights.relevance, scorer.relevances(DENSE_FLOOR)
    documents = {line[2] for line in scorer.lines}
    files = _load_files(connection, documents, linked, options)
    of_files = {
        id_: rank.file_score(
            age_days=file.age_days,
            linked=file.is_linked,
            same_instance=file.is_same_instance,
            weights=weights,
        )
        for id_, file in files.items()
    }
    # Ties are broken by the paths that the viewer knows; others would tell of private pages.
    paths = {id_: told_path(file.rel_path, options.viewer) for id_, file in files.items()}
    ranked: list[_Ranked] = [
        (-(share * relevance + of_files[line[2]]), paths[line[2]], line[0], number, relevance)
        for number, (line, relevance) in enumerate(zip(scorer.lines, relevances, strict=True))
        if relevance is not None
    ]
    if weights.second and not options.lines:
        ranked = _with_second_lines(ranked, share * weights.second)
    ranked.sort()
    found: list[Hit] = []
    taken: set[str] = set()
    writer = _Writer(connection, store, query, options, [line[2] for line in ranked])
    for negative, path, _, number, relevance in ranked:
        if len(found) == options.k or -negative < options.min_score:
            break
        if path in taken:
            continue
        scored = scorer.explain(number, relevance)
        file = files[scored.line.document_id]
        hit = writer.hit(scored, file, -negative)
        text = writer.text_of(file.rel_path) or ""
        is_there = hit.text == text[hit.char_start : hit.char_end]
        counts: bool | None = is_there
        if is_there and options.judge:
            counts = options.judge(hit, text, writer.hidden(file.rel_path))
        if counts is None:
            break
        if counts:
            found.append(hit)
            if not options.lines:
                taken.add(path)
    return tuple(found)


def _with_second_lines(ranked: list[_Ranked], share: float) -> list[_Ranked]:
    """Add a share of the relevance of each file's second best line to all lines of the file."""
    of_file: dict[str, list[float]] = {}
    for _, path, _, _, relevance in ranked:
        of_file.setdefault(path, []).append(relevance)
    gains = {
        path: share * max(sorted(some)[-2], 0.0) if len(some) > 1 else 0.0
        for path, some in of_file.items()
    }
    return [
        (negative - gains[path], path, id_, number, relevance)
        for negative, path, id_, number, relevance in ranked
    ]


# A link to the plain path of a page is one to its public version as well.
_LINKED: Final = (
    "SELECT t.id FROM links l JOIN documents t ON t.rel_path IN (l.target, replace(substr("
    "l.target, 1, instr(l.target, '/')), '/', '/@all/') || substr(l.target, instr(l.target, '/')"
    " + 1)) WHERE l.document_id IN"
)
_LINKING: Final = (
    "SELECT l.document_id FROM documents t JOIN links l "
    "ON l.target IN (t.rel_path, replace(t.rel_path, '/@all/', '/')) WHERE t.id IN"
)


def linked_with(connection: sqlite3.Connection, named: AbstractSet[int]) -> AbstractSet[int]:
    """Find the documents about people and topics named in `query`, and those linked with them."""
    if not named:
        return named
    rows = (*rows_among(connection, _LINKED, named), *rows_among(connection, _LINKING, named))
    return named | {id_ for (id_,) in rows}


@lru_cache(maxsize=512)  # of one prompt; what stands before a turn was often found as well
def query_coverage(text: str, query: str) -> float:
    """Return the share of the content words of `query` that occur in `text` in the same form."""
    targets, held = fts.content_words(query), _words_held(text)
    position = sum(
        word in held or (fts.is_unspaced(word) and word in fold_word(text)) for word in targets
    )
    return position / len(targets) if targets else 0.0


@lru_cache(maxsize=2048)  # a memory's lines are found again, by one question after another
def _words_held(text: str) -> frozenset[str]:
    return frozenset(fts.words(text))


UNKNOWN_AGE_DAYS: Final = 143.0  # at which recency is a half


def age_days(day: str, mtime_ns: int, today: datetime, viewer: Viewer) -> float:
    """Return a file's age, >= 0: from the day it is about, else from its last change.

    All files of one search have the same `today`; otherwise two of the same moment could swap.
    A stranger is not told when a file was changed, since hidden lines may have been.
    """
    if day:
        return max(0.0, float((today.date() - date.fromisoformat(day)).days))
    if not viewer.is_owner:
        return UNKNOWN_AGE_DAYS
    return max(0.0, (today.timestamp() - mtime_ns / 1e9) / _DAY_S)


def day_of_file(rel_path: str, day: str, mtime_ns: int, options: SearchOptions) -> str:
    """Return the day a file is about, else that of its last change; see `age_days`."""
    if about := day or last_day(rel_path):
        return about
    if not options.viewer.is_owner:
        return ""
    try:
        return to_zone(since_1970(mtime_ns / 1e9), options.zone).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return now().date().isoformat()


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _load_files(
    connection: sqlite3.Connection, ids: set[int], linked: AbstractSet[int], options: SearchOptions
) -> dict[int, _File]:
    columns = "id, rel_path, title, day, instance, mtime_ns, sha256"
    rows = rows_among(connection, f"SELECT {columns} FROM documents WHERE id IN", ids)  # noqa: S608
    today = now()
    result: dict[int, _File] = {}
    for id_, rel_path, title, day, instance, mtime_ns, sha256 in rows:
        age = age_days(day or last_day(rel_path), mtime_ns, today, options.viewer)
        same_instance = bool(options.instance) and instance == options.instance
        result[id_] = _File(id_, rel_path, title, day, age, id_ in linked, same_instance, sha256)
    return result


def _without_gap(line: _Line, text: str) -> _Line:
    """Leave out the headings of a line that stand above lines of others, who see the page less."""
    start, end = line.place
    there = text[start:end]
    if there == line.text:  # as mostly
        return line
    own, size = reversed(split_lines(line.text)), 0
    for one, other in zip(reversed(split_lines(there)), own, strict=False):
        if one != other:
            break
        size += len(one)
    return replace(line, place=CharRange(end - size, end)) if size else line


class _Writer:
    """Extracts the texts of hits from their files."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        store: MemoryStore,
        query: str,
        options: SearchOptions,
        ranked: Iterable[int],
    ) -> None:
        self._connection = connection
        self._read_file = _text_reader(store)
        self._query = query
        self._options = options
        self._texts: dict[str, str | None] = {}
        self.hidden = cache(
            lambda rel_path: private_spans(self.text_of(rel_path) or "", options.viewer, rel_path)
        )
        self._coming, self._lines = iter(ranked), dict[int, _Line]()

    def _line(self, line_id: int) -> _Line:
        """Return a line; those that come next are read with it."""
        select = "SELECT id, char_start, char_end, heading_path, text FROM chunks WHERE id IN"
        while line_id not in self._lines and (coming := [*islice(self._coming, _LINES_AT_ONCE)]):
            for id_, start, end, *words in rows_among(self._connection, select, coming):
                self._lines[id_] = _Line(CharRange(start, end), *words)
        return self._lines[line_id]

    def hit(self, scored: Scored, file: _File, score: float) -> Hit:
        line, text = self._line(scored.line.id), self.text_of(file.rel_path)
        if text is None or not self._is_there(line, file, text):
            # It was changed after it was indexed.
            shown = _HitText(line.place, line.place, line.text, 1, line.text)
            return self._written(scored, file, score, line, shown)
        if self._options.viewer.is_owner:
            line = _without_gap(line, text)
        place = line.place
        if not self._options.lines:
            select = "SELECT char_start, char_end FROM chunks WHERE id = ?"
            row = self._connection.execute(select, (scored.passage,)).fetchone()
            hidden, most = self.hidden(file.rel_path), self._options.snippet_tokens
            place = _choose_visible(text, line.place, CharRange(*row), hidden, most)
        best = CharRange(first_word(text, line.place), line.place.end)
        words = text[place.start : place.end]
        seen = shown_between(text, *place, self.hidden(file.rel_path))
        shown = _HitText(place, best, words, line_number(text, best.start), seen)
        return self._written(scored, file, score, line, shown)

    def _is_there(self, line: _Line, file: _File, text: str) -> bool:
        """Tell whether a line is where it was indexed; there may be others in between."""
        is_same = text[line.place.start : line.place.end] == line.text
        return is_same or sha256_of(text) == file.sha256

    def _written(
        self, scored: Scored, file: _File, score: float, line: _Line, shown: _HitText
    ) -> Hit:
        text = shown.text
        signals = Signals(
            round(scored.relevance, 4),
            round(scored.lexical, 4),
            _round_or_none(scored.dense),
            _round_or_none(scored.cosine),
            round(query_coverage(shown.seen, self._query), 4),
            scored.speaker,
            round(rank.recency_score(file.age_days), 4),
            file.is_linked,
            file.is_same_instance,
            people=round(scored.people, 4),
            time=round(scored.time, 4),
            maxsim_line=_round_or_none(scored.maxsim_line),
            maxsim_passage=_round_or_none(scored.maxsim_passage),
        )
        return Hit(
            file.rel_path,
            file.title,
            line.heading,
            file.day,
            shown.place.start,
            shown.place.end,
            shown.line,
            shown.best.start,
            shown.best.end,
            round(score, 4),
            text,
            signals,
        )

    def text_of(self, rel_path: str) -> str | None:
        """Return a file's text, read once; None if it is unreadable."""
        if rel_path not in self._texts:
            try:
                self._texts[rel_path] = self._read_file(rel_path)
            except FamiliarError:
                self._texts[rel_path] = None
        return self._texts[rel_path]


_OUT = (
    "SELECT DISTINCT l.target, t.rel_path IS NOT NULL FROM links l "
    "JOIN documents d ON d.id = l.document_id LEFT JOIN documents t ON t.rel_path = l.target "
    "WHERE d.rel_path = ? ORDER BY 1"
)
_BACK = (
    "SELECT DISTINCT d.rel_path FROM links l JOIN documents d ON d.id = l.document_id "
    "WHERE l.target = ? ORDER BY 1 LIMIT ?"
)


def links_of(
    connection: sqlite3.Connection, rel_path: str, most: int
) -> tuple[list[str], list[str], list[str]]:
    """Return a file's links, its broken links, and at most `most` files that link to it."""
    rows = connection.execute(_OUT, (rel_path,)).fetchall()
    back = [path for (path,) in connection.execute(_BACK, (rel_path, most))]
    return [t for t, there in rows if there], [t for t, there in rows if not there], back


_FILES_A_HIT: Final = 4  # how many files are cut into lines for each line that is wanted


def is_wanted(rel_path: str, day: str, options: SearchOptions) -> bool:
    """Tell whether `options` admit a file."""
    within, told = options.within.strip("/"), told_path(rel_path, options.viewer)
    if within and told != within and not told.startswith(within + "/"):
        return False
    if rel_path in options.exclude:
        return False
    if options.since and day < options.since.isoformat():
        return False
    return options.until is None or "" < day <= options.until.isoformat()


def find_in_files(
    store: MemoryStore,
    query: str,
    options: SearchOptions,
    files: Iterable[tuple[str, int]] | None = None,
    *,
    until_s: float = inf,
) -> tuple[Hit, ...]:
    """Return the files, or lines, with most of the words of `query`, best first.

    Args:
        options: What to look for, and where.
        files: The files to read, each with the time of its last change in ns; None for all.
        until_s: After this time, the files that match less well are left out.
    """
    words = fts.wanted_words(query)
    if files is None:
        every = store.walk().files
        files = ((one.rel_path, int(one.modified.timestamp() * 1e9)) for one in every)
    holding = _files_holding(store, words, files, options.viewer)
    viewer = options.viewer
    found = sorted(holding, key=lambda f: (-f.share, -f.count, told_path(f.rel_path, viewer)))
    hits: list[Hit] = []
    for number, file in enumerate(found):
        if file.share < options.min_score:
            break
        if len(hits) >= options.k * (_FILES_A_HIT if options.lines else 1):
            break
        if number and stopwatch_s() >= until_s:
            break
        cut = _cut_page(file.seen, file.rel_path)
        day = cut.day.isoformat() if cut.day else ""
        about = day_of_file(file.rel_path, day, file.mtime_ns, options)
        if is_wanted(file.rel_path, about, options):
            hits += _hits_that_count(
                _Cutter(file, cut, day, query, options).hits(words), file, options
            )
    hits = [hit for hit in hits if hit.score >= options.min_score]
    hits.sort(key=lambda hit: -hit.score)
    return tuple(hits[: options.k])


def _hits_that_count(hits: Iterable[Hit], file: _FoundFile, options: SearchOptions) -> list[Hit]:
    """Return the accepted hits of a file; without `options.lines` the best one."""
    judge = options.judge
    if judge is None:
        return list(hits)
    counted = (hit for hit in hits if judge(hit, file.text, file.hidden))
    return list(counted) if options.lines else list(islice(counted, 1))


def share_of(folded: str, words: list[str]) -> float:
    """Return the share of `words` that occur in a folded text, even inside other words."""
    return sum(word in folded for word in words) / len(words) if words else 0.0


@lru_cache(maxsize=256)
def _cut_page(text: str, rel_path: str) -> Cut:
    from familiar_cli.store.search.chunking import cut_text  # noqa: PLC0415  # only where the index is not asked

    return cut_text(text, rel_path)


_fold_text = lru_cache(maxsize=256)(fold_word)


class _FoundFile(Struct, frozen=True):
    share: float
    count: int
    rel_path: str
    text: str
    hidden: Spans
    seen: str
    mtime_ns: int


def _text_reader(store: MemoryStore) -> Callable[[str], str]:
    """Return `store.reader()`, which shows bytes that are not UTF-8 as replacement characters."""
    read = store.reader()

    def read_text(rel_path: str) -> str:
        try:
            return read(rel_path)
        except BadInputError:
            return store.read_bytes(rel_path).decode("utf-8", "replace")

    return read_text


def _files_holding(
    store: MemoryStore, words: list[str], files: Iterable[tuple[str, int]], viewer: Viewer
) -> Iterator[_FoundFile]:
    """Yield each file that contains one of `words` where a viewer sees it."""
    read = _text_reader(store)
    for rel_path, mtime_ns in files:
        if not is_page(rel_path):
            continue
        try:
            text = read(rel_path)
        except FamiliarError:
            continue
        if not share_of(fold_word(text), words):
            continue
        hidden = private_spans(text, viewer, rel_path)
        seen = without_spans(text, hidden)
        folded = _fold_text(blank_spans(seen))
        share = share_of(folded, words)
        if share:
            count = sum(folded.count(word) for word in words)
            yield _FoundFile(share, count, rel_path, text, hidden, seen, mtime_ns)


class _Cutter(Struct, frozen=True):
    """Makes the hits of one file."""

    file: _FoundFile
    made: Cut
    day: str
    query: str
    options: SearchOptions

    def hits(self, words: list[str]) -> Iterator[Hit]:
        """Yield the hits lazily, best first."""
        text = blank_spans(self.file.seen)
        scored = [(share_of(_fold_text(text[s.start : s.end]), words), s) for s in self.made.lines]
        scored = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        if self.options.lines:
            yield from (self._hit(line, share) for share, line in scored)
        elif self.options.judge:
            yield from (self._hit(line, self.file.share) for _, line in scored)
        else:
            best = scored[0][1] if scored else self.made.lines[0]
            yield self._hit(best, self.file.share)

    def _hit(self, line: TextSpan, share: float) -> Hit:
        text, hidden, score = self.file.text, self.file.hidden, round(share, 4)
        best = _range_on_page((line.start, line.end), hidden)
        passage = self.made.passages[line.parts[0]]
        shown = best
        if not self.options.lines:
            outer = _range_on_page((passage.start, passage.end), hidden)
            shown = _choose_visible(text, best, outer, hidden, self.options.snippet_tokens)
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
            self._signals(shown, score),
        )

    def _signals(self, place: CharRange, score: float) -> Signals:
        words = shown_between(self.file.text, *place, self.file.hidden)
        about = self.day or last_day(self.file.rel_path)
        age = age_days(about, self.file.mtime_ns, now(), self.options.viewer)
        return Signals(
            relevance=score,
            lexical=score,
            dense=None,
            cosine=None,
            coverage=round(query_coverage(words, self.query), 4),
            speaker=False,
            recency=round(rank.recency_score(age), 4),
            linked=False,
            same_instance=False,
        )


_LABEL_CHARS: Final = 80


def label_of(hit: Hit, phrases: Phrases = ENGLISH, *, is_whole: bool = False) -> str:
    """Return the section or file of a hit, with its day as people write it."""
    shown = one_line(hit.title if is_whole else hit.heading or hit.title, _LABEL_CHARS)
    day = phrases.day(date.fromisoformat(hit.day)) if hit.day else ""
    shown = shown.replace(hit.day, day) if day else shown
    return shown if day in shown else f"{shown}{phrases.comma}{day}"


def below_heading(text: str, heading: str) -> str:
    """Remove the heading at the start of `text`, if the label contains it."""
    first = next(scan(text), None)
    if (
        first is None
        or not first.level
        or not f"> {heading}".endswith(f"> {without_marks(first.title)}")
    ):
        return text
    return text[first.end :].strip() or text
