"""Search the memory: by words, by meaning, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.base.files import FileStamp
from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.text import counted
from familiar_cli.base.times.clock import now, stopwatch_s, to_zone
from familiar_cli.store import fts
from familiar_cli.store.memory.layout import told_path
from familiar_cli.store.search import build, hits, rank
from familiar_cli.store.search.hits import ShownHits
from familiar_cli.store.search.rank import PieceParts, Pieces, parts_of_pieces, times_of_lines
from familiar_cli.store.search.schema import IndexUnusableError, read_meta
from familiar_cli.store.search.types import EmbedderError, Method, SearchOptions, SearchResult
from familiar_cli.store.search.weights import weights_for
from familiar_cli.store.search.who_when import named_in, named_shares, people_among, people_named

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.store.search.build import EmbeddingIndex, Progress
    from familiar_cli.store.search.embedder import Embedder, EmbedderChoice, Encoded
    from familiar_cli.store.search.vectors import Cosines, Ids

SENTENCES: Final = 5
LEAST_DIRECT_S: Final = 0.3
"""So long files are read directly at least, if there was no time to index them."""

_SPLIT_S: Final = 0.15  # so long they are split into lines, those that match best first

DENSE_DEPTH: Final = 200
"""How many lines that are near in meaning are looked at, besides those found by words."""


def search_memory(
    index: EmbeddingIndex,
    query: str,
    options: SearchOptions,
    opened: EmbedderChoice | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Search memory for `query`.

    Files changed since the last search are looked at first; only their words, so this never waits
    for a model to read them. Without a model, or while vectors are missing, words alone decide;
    without a usable index every file is read. The result says so.

    Args:
        index: The index to ask.
        query: A message or question, as typed.
        options: What to look for, and where.
        opened: The model that finds by meaning, or why there is none.
        progress: Called for files that have to be read first.

    Raises:
        UsageError: `query` holds no word.
        NotFoundError: `options.within` is not in the memory, and the owner searches.
        EmbedderError: `options.method` needs a model and there is none, or it does not work.
    """
    start = stopwatch_s()
    query = fts.bounded_query(query)
    if not fts.words(query):
        raise UsageError(
            f"No word to search for in {query!r}",
            hint='Search for what you remember, e.g. `familiar search "the cat\'s name"`.',
        )
    if options.viewer.is_owner:  # others are not told what there is
        _check_within(index, options.within)
    shown = None if options.judge else ShownHits(query, options.viewer)
    options = replace(options, judge=shown.counts) if shown else options
    result = _find_lines(index, query, options, opened, progress)
    elapsed_ms = round((stopwatch_s() - start) * 1000, 3)
    given = tuple(map(shown.of, result.hits)) if shown else result.hits
    return replace(result, hits=given, elapsed_ms=elapsed_ms)


def _find_lines(
    index: EmbeddingIndex,
    query: str,
    options: SearchOptions,
    opened: EmbedderChoice | None,
    progress: Progress | None,
) -> SearchResult:
    if not index.store.root.is_dir():
        return SearchResult("grep" if options.method == "grep" else "lexical", query)
    if options.method == "grep":
        return SearchResult("grep", query, hits.find_in_files(index.store, query, options))
    try:
        return index.read(
            lambda c: _answer_query(index, c, query, options, opened, progress=progress)
        )
    except IndexUnusableError as error:
        told = (f"{error}. All files were read instead.",)
        in_files = hits.find_in_files(index.store, query, options)
        return SearchResult("grep", query, in_files, notes=told, hint=error.hint or "")


def _answer_query(
    index: EmbeddingIndex,
    connection: sqlite3.Connection,
    query: str,
    options: SearchOptions,
    opened: EmbedderChoice | None,
    *,
    progress: Progress | None,
) -> SearchResult:
    fresh = build.RefreshResult(left=options.left)
    if options.refresh:
        fresh = index.refresh_by(connection, progress, options.refresh_s, options.viewer)
    if opened and opened.embedder and options.method != "lexical":
        index.embed_newest(connection, opened.embedder)
    # Paths and numbers of all files tell of private ones.
    notes = notes_on(fresh) if options.viewer.is_owner else []
    # Not in the transaction: a table that comes and goes makes SQLite read all statements again.
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS listed (id INTEGER PRIMARY KEY)")
    connection.execute("BEGIN")  # one state of the index, whatever others write meanwhile
    pieces = index.pieces(connection, options.viewer)
    # A message is searched for, and for names.
    named = cache(partial(named_in, connection, seen=pieces.seen_files))
    answer = _IndexQuery(index, connection, query, options, opened, notes, named, pieces).answer()
    answer = replace(answer, named=_named_paths(connection, options, named))
    if not fresh.unread or options.method == "dense":
        return replace(answer, unread=fresh.unread if options.viewer.is_owner else 0)
    return _with_unindexed(index, connection, answer, options, fresh.left)


def _with_unindexed(
    index: EmbeddingIndex,
    connection: sqlite3.Connection,
    result: SearchResult,
    options: SearchOptions,
    suspects: Mapping[str, FileStamp],
) -> SearchResult:
    """Add the hits of files that are not indexed yet, found by reading as many as time allows."""
    files = [(path, stamp.mtime_ns) for path, stamp in suspects.items()]
    done = options.exclude | {hit.rel_path for hit in result.hits}  # an older version is indexed
    files = [one for one in files if one[0] not in done]
    files.sort(key=lambda one: -one[1])  # what was just written is wanted most
    until_s = stopwatch_s() + max(options.refresh_s or 0.0, LEAST_DIRECT_S)
    read = 0

    def while_there_is_time() -> Iterator[tuple[str, int]]:
        nonlocal read
        for one in files:
            if read and stopwatch_s() >= until_s:
                return
            read += 1
            yield one

    others = hits.find_in_files(
        index.store, result.query, options, while_there_is_time(), until_s=until_s + _SPLIT_S
    )
    best = sorted((*result.hits, *others), key=lambda hit: -hit.score)[: options.k]
    if not options.viewer.is_owner:  # how many files there are is told to nobody else
        return replace(result, hits=tuple(best))
    paths = {path for (path,) in connection.execute("SELECT rel_path FROM documents")}
    total = len(paths | suspects.keys())
    note = (
        f"{total - len(suspects):,} of {counted(total, 'file')} are indexed; "
        f"{counted(read, 'other was', 'others were')} read and searched by words alone"
    )
    return replace(
        result,
        hits=tuple(best),
        unread=len(files) - read,
        direct=read,
        notes=(*result.notes, note),
        hint="familiar index build",
    )


def notes_on(fresh: build.RefreshResult) -> list[str]:
    """Return notices about the update of the index before a search."""
    notes = [f"The index was rebuilt: {fresh.rebuilt}"] if fresh.rebuilt else []
    return notes + [f"Left out: {closed.rel_path!r} {closed.reason}" for closed in fresh.closed]


def _named_paths(
    connection: sqlite3.Connection, options: SearchOptions, named: Callable[[str], dict[int, int]]
) -> tuple[str, ...]:
    """Return the paths of the named files, in the order of their names."""
    places: dict[int, tuple[int, int]] = {}
    for number, text in enumerate(options.naming):
        for document, place in named(text).items():
            places.setdefault(document, (number, place))
    select = "SELECT id, rel_path FROM documents WHERE id IN"
    rows = rows_among(connection, select, places)
    paths = [
        (places[id_], told_path(rel_path, options.viewer), rel_path)
        for id_, rel_path in rows
        if rel_path not in options.exclude
    ]
    return tuple(dict.fromkeys(rel_path for _, _, rel_path in sorted(paths)))


class _Meaning(Struct, frozen=True):
    """A question as seen by a model.

    Args:
        embedder: The model.
        asked: The question's vectors.
        cosines: Cosines of all lines.
    """

    embedder: Embedder
    asked: Encoded
    cosines: Cosines


class _IndexQuery(Struct):
    """One query of the index."""

    index: EmbeddingIndex
    connection: sqlite3.Connection
    query: str
    options: SearchOptions
    opened: EmbedderChoice | None
    notes: list[str]
    named: Callable[[str], dict[int, int]]
    pieces: Pieces
    hint: str = ""
    _failed: bool = False

    def answer(self) -> SearchResult:
        restricted, pieces, by_words = self._restrict(), self.pieces, rank.Lexical()
        if self.options.method != "dense":
            by_words = rank.word_scores(pieces, self.query, restricted)
        meaning = self._ask_model()
        candidates = self._candidates(pieces, by_words, meaning, restricted)
        cosines: dict[int, float] = {}
        maxsim: dict[int, tuple[float, float]] = {}
        spec = None
        speakers = people_among({line.speaker for line in candidates}, self.query)
        weights = self.options.weights or weights_for(self.query, lines=self.options.lines)
        if meaning is not None:
            from familiar_cli.store.search import token_vectors  # noqa: PLC0415  # loads numpy

            spec, near = meaning.embedder.spec, meaning.cosines
            lines = parts_of_pieces(candidates)
            ids = rank.distinct_ids(lines.all_parts()).tolist()  # of the passages that hold them
            made_of = parts_of_pieces(pieces.among(ids))
            cosines = _cosines_of(near, lines, made_of)
            maxsim = token_vectors.token_nearness(
                pieces,
                self.index.token_rows(self.connection),
                meaning.asked.without(speakers.words_among(meaning.asked.words)),
                lines,
                made_of,
                count=pieces.lines_seen.rows if pieces.lines_seen else len(near),
                second=weights.twice and not self.options.lines,
            )
        files = {line.document_id for line in candidates}
        named = people_named(self.connection, self.query, pieces.seen_files)
        today = to_zone(now(), self.options.zone).date()
        scorer = rank.Scorer(
            candidates,
            by_words,
            cosines,
            spec=spec,
            weights=weights,
            asking=rank.lines_that_ask(pieces, candidates, weights),
            maxsim=maxsim,
            speakers=speakers,
            people=named_shares(self.connection, named, files),
            times=times_of_lines(self.connection, self.query, today, candidates),
        )
        linked = hits.linked_with(self.connection, self.named(self.query).keys())
        options = replace(self.options, weights=weights)
        hit = hits.make_hits(
            self.connection, self.index.store, self.query, options, scorer, linked=linked
        )
        method: Method = "lexical"
        if meaning is not None:
            method = "dense" if self.options.method == "dense" else "hybrid"
        model = meaning.embedder.model if meaning else ""
        waiting = self._waiting(has_meaning=meaning is not None)
        return SearchResult(
            method,
            self.query,
            hit,
            model=model,
            waiting=waiting,
            notes=tuple(self.notes),
            hint=self.hint,
        )

    def _ask_model(self) -> _Meaning | None:
        """Embed the question; None when searching by words alone."""
        if self.options.method == "lexical":
            return None
        needed = self.options.method in {"hybrid", "dense"}
        embedder = self.opened.embedder if self.opened else None
        if embedder is None:
            self._without_model(needed=needed)
            return None
        if not build.has_vectors_of(self.connection, embedder):
            self._unread(embedder, needed=needed)
            return None
        from familiar_cli.store.search.embedder import read_question  # noqa: PLC0415  # only by meaning

        try:
            encoding = read_question(embedder, asked_apart(self.query))
        except EmbedderError as error:
            if needed:
                raise
            self.notes.append(f"{error} Searched by words only.")
            self.hint = error.hint or ""
            self._failed = True
            return None
        cosines = self.index.vectors(self.connection).cosines(encoding.pooled)
        return _Meaning(embedder, encoding, cosines)

    def _without_model(self, *, needed: bool) -> None:
        reason = self.opened.reason if self.opened else "no model was given"
        self.hint = self.opened.hint if self.opened else ""
        if needed:
            raise EmbedderError(
                f"--method {self.options.method} searches by meaning, but {reason}",
                hint=f"Run `{self.hint}`." if self.hint else None,
            )
        if self.hint:
            self.notes.append(f"Searched by words only: {reason}")

    def _unread(self, embedder: Embedder, *, needed: bool) -> None:
        other = read_meta(self.connection, "model")
        held = (
            f"the index holds vectors of {other}, none of"
            if other and other != embedder.model
            else "nothing has been embedded yet with"
        )
        if needed:
            raise EmbedderError(
                f"--method {self.options.method} searches by meaning, but {held} {embedder.model}",
                hint="Run `familiar index build`.",
            )
        self.notes.append(f"Searched by words only: {held} {embedder.model}")
        self.hint = "familiar index build"

    def _restrict(self) -> rank.Restricted:
        """List documents in the empty table `listed`: the included or the excluded ones.

        If only paths are excluded, the others are not listed, since exclusions are few.
        """
        options = self.options
        if not (options.within or options.has_days or options.exclude):
            return ""
        insert = "INSERT INTO listed VALUES (?)"
        if not (options.within or options.has_days):
            select = "SELECT id FROM documents WHERE rel_path IN"
            self.connection.executemany(
                insert, rows_among(self.connection, select, options.exclude)
            )
            return "NOT IN"
        rows = self.connection.execute("SELECT id, rel_path, day, mtime_ns FROM documents")

        def day_of(rel_path: str, day: str, mtime_ns: int) -> str:
            if not options.has_days:
                return ""  # nobody needs them
            return hits.day_of_file(rel_path, day, mtime_ns, options)

        wanted = [
            (id_,)
            for id_, rel_path, day, mtime_ns in rows
            if hits.is_wanted(rel_path, day_of(rel_path, day, mtime_ns), options)
        ]
        self.connection.executemany(insert, wanted)
        return "IN"

    def _candidates(
        self,
        pieces: Pieces,
        by_words: rank.Lexical,
        meaning: _Meaning | None,
        restricted: rank.Restricted,
    ) -> list[rank.Candidate]:
        """Return every line that may be a hit: found itself, or in a passage that was."""
        lines = set(by_words.lines)
        if meaning is not None:
            listed, is_without = self._listed(pieces, restricted)
            lines.update(meaning.cosines.top(DENSE_DEPTH, listed, but=is_without))
        passages = pieces.among(by_words.passages)
        lines.update(*(range(one.part_first, one.part_last) for one in passages))
        return pieces.among(sorted(lines))

    def _listed(self, pieces: Pieces, restricted: rank.Restricted) -> tuple[Ids | None, bool]:
        """Return pieces, and whether those or all others may be found; None: all may."""
        import numpy as np  # noqa: PLC0415  # only by meaning

        listed = None
        if restricted:
            select = "SELECT c.id FROM listed l CROSS JOIN chunks c ON c.document_id = l.id"
            listed = np.array([i for (i,) in self.connection.execute(select)], np.int64)
        if not pieces.parts:
            return listed, restricted == "NOT IN"
        (hidden,) = np.frombuffer(pieces.parts.pieces, np.uint8).nonzero()
        if listed is None:
            return hidden, True
        if restricted == "IN":
            return np.setdiff1d(listed, hidden), False
        return np.union1d(listed, hidden), True

    def _waiting(self, *, has_meaning: bool) -> int:
        """Count the pieces that wait for a vector of an available model."""
        model = self.opened.embedder if self.opened else None
        if model is None or self.options.method == "lexical" or self._failed:
            return 0  # for lack of a model, which is said
        if not (has_meaning or build.has_vectors_of(self.connection, model)):
            return build.count_lines(self.connection)
        waiting = build.count_waiting(self.connection)
        if waiting and self.options.viewer.is_owner:  # how many pieces there are tells of others
            pieces = counted(waiting, "piece")
            self.notes.append(f"Searched by words only: {pieces} without a vector")
            self.hint = self.hint or "familiar index build"
        return waiting


def _cosines_of(near: Cosines, lines: PieceParts, passages: PieceParts) -> dict[int, float]:
    """Return the cosines of lines and passages; a passage has its nearest line's."""
    from familiar_cli.store.search import vectors  # noqa: PLC0415  # loads numpy

    of_passages = near.largest(passages.firsts, passages.ends).tolist()
    result = zip(passages.ids.tolist(), of_passages, strict=True)
    cosines = near.of(lines.ids)
    cosines.update((id_, cosine) for id_, cosine in result if cosine > vectors.NONE)
    return cosines


def asked_apart(query: str) -> list[str]:
    """Return up to five sentences of a message, the most informative ones, in order."""
    query = fts.bounded_query(query)
    items = fts.sentences(query)
    if len(items) <= 1:
        return [query]
    telling = sorted(items, key=lambda s: -len(fts.content_words(s)))[:SENTENCES]
    return [sentence for sentence in items if sentence in telling][:SENTENCES]


def _check_within(index: EmbeddingIndex, within: str) -> None:
    if not within:
        return
    from familiar_cli.store.memory.store.files import parse_path  # noqa: PLC0415

    place = index.store.root / parse_path(within)
    if not place.exists():
        raise NotFoundError(
            f"No such path in memory: {within!r}", hint="Run `familiar memory list`."
        )
