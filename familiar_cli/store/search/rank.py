"""Score what was found, by words, meaning, time and names."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, tzinfo
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.base.times.spans import Span, Yearly, times_asked
from familiar_cli.store import fts
from familiar_cli.store.search import who_when
from familiar_cli.store.search.weights import ASKS, WEIGHTS, Weights, weights_for

if TYPE_CHECKING:
    import sqlite3

    import numpy as np
    from numpy.typing import NDArray

    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.store.history.recall import RecallHit
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.search.embedder import Spec

    Numbers = NDArray[np.int64]
    Session = tuple[str, date, int]

RECENCY_RATE_PER_DAY: Final = 0.007
_NOTHING: Final[Mapping[int, float]] = MappingProxyType({})


class Candidate(NamedTuple):  # thousands are made for one question, and a tuple is made fastest
    """A passage or line: ids and places, no text. `parts` and `rows` are numbers, from … to.

    Args:
        level: `schema.PASSAGE` or `schema.LINE`.
        document_id: Its file.
        speaker: Who speaks in it.
        part_first: A passage's first line, or the first passage that holds a line.
        part_last: What follows the last one of them.
        rows_from: The first of its token vectors; None: it has none.
        rows_count: How many it has.
    """

    id: int
    level: int
    document_id: int
    speaker: str
    part_first: int
    part_last: int
    rows_from: int | None
    rows_count: int | None


class Scored(Struct, frozen=True):
    """One line with its scores; `lexical`, `dense` and `cosine` are None where not known.

    Args:
        lexical: In [0, 1]; 1 is the best match by words that this question has.
        dense: 0 for unrelated, about 1 for a question and its answer; the same for any question.
        cosine: The larger of the cosines of the line and its passage.
        passage: The id of the passage that matches best.
        relevance: Words and meaning together, who speaks, and when.
        people: The share of those whom the question names who speak in the file.
        time: How near in time it is to what the question asks for; 0 where it asks for no time.
        maxsim_line: How near the line is by the vectors of tokens, scaled among all lines that the
            question found: the best has 1, most have 0; None where not known.
        maxsim_passage: The same of its passage.
    """

    line: Candidate
    lexical: float
    dense: float | None
    cosine: float | None
    speaker: bool
    passage: int
    relevance: float
    people: float = 0.0
    time: float = 0.0
    maxsim_line: float | None = None
    maxsim_passage: float | None = None


def recency_score(age_days: float) -> float:
    """Score an age: 1 when new, 1/2 after about 143 days, never 0.

    Raises:
        ValueError: The age is below 0.

    Source: docs/reference/ranking.md, "Recency".
    """
    if age_days < 0:
        raise ValueError(f"age_days is {age_days!r}, but must not be negative")
    return 1 / (1 + RECENCY_RATE_PER_DAY * age_days)


def cosine_nearness(cosine: float, spec: Spec) -> float:
    """Convert a cosine to nearness in meaning: 0 unrelated, about 1 for an answer."""
    return max(0.0, (cosine - spec.far) / (spec.near - spec.far))


class Scorer:
    """Scores the lines that a question found.

    What decides their order is computed for all of them; the rest only for those that are shown.

    Args:
        lines: The candidates.
        lexical: What the full-text tables say; empty to go by meaning alone.
        cosines: Cosines by id of lines and passages; none to go by words alone.
        spec: The model that the cosines are of.
        weights: How much each signal counts.
        maxsim: How near lines are by the vectors of their tokens, by id; the cosines then say only
            how near a line is whatever the question.
        speakers: Those of who speaks in the lines whom the question names.
        people: By document the share of those whom the question names who speak there.
        times: By line how near in time it is to what the question asks for.
        asking: The lines that only ask, where that counts.
    """

    def __init__(
        self,
        lines: Sequence[Candidate],
        lexical: Lexical,
        cosines: Mapping[int, float] = _NOTHING,
        *,
        spec: Spec | None = None,
        weights: Weights = WEIGHTS,
        maxsim: Mapping[int, tuple[float, float]] = MappingProxyType({}),
        speakers: who_when.NamedPeople = who_when.NOBODY,
        people: Mapping[int, float] = _NOTHING,
        times: Mapping[int, float] = _NOTHING,
        asking: Collection[int] = frozenset(),
    ) -> None:
        self.lines = lines
        self._asking = asking
        self._lexical, self._cosines, self._spec = lexical, cosines, spec
        self._weights, self._maxsim, self._people, self._times = weights, maxsim, people, times
        self._named = {s: speakers.is_named(s) for s in {line[3] for line in lines}}
        self._words = _by_words(lines, lexical, weights)

    def relevances(self, least_dense: float = 0.0) -> list[float | None]:
        """Return the relevance of each line; None without a matching word or a near meaning."""
        weights = self._weights
        share = weights.maxsim if self._lexical.passages else 1.0
        of_words = 1 - share
        speakers = {speaker: weights.speaker * is_one for speaker, is_one in self._named.items()}
        people = {document: weights.people * part for document, part in self._people.items()}
        matches: list[float | None] = []
        nearness, times, asking = self._maxsim.get, self._times, self._asking
        for line, words in zip(self.lines, self._words, strict=True):
            if words <= 0 and (self._dense(line) or 0.0) < least_dense:
                matches.append(None)
                continue
            id_, _, document, speaker, _, _, _, _ = line
            near = nearness(id_)
            if near is None:
                relevance = self._without_tokens(line, words)
            else:
                relevance = of_words * words + share * ((near[0] + near[1]) / 2)
            besides = speakers[speaker]
            if people:
                besides += people.get(document, 0.0)
            if times:
                besides += weights.time * times.get(id_, 0.0)
            if id_ in asking:
                besides -= weights.asking
            matches.append(relevance + besides)
        return matches

    def explain(self, number: int, relevance: float) -> Scored:
        """Return the line with this number, and the parts of its relevance."""
        line = self.lines[number]
        passages = range(line.part_first, line.part_last)
        by_words, cosines = self._lexical.passages, self._cosines
        passage = max(passages, key=lambda p: (by_words.get(p, 0.0), cosines.get(p, 0.0)))
        known = [cosines[id_] for id_ in (line.id, *passages) if id_ in cosines]
        return Scored(
            line,
            self._words[number],
            self._dense(line),
            max(known, default=None) if self._spec else None,
            self._named[line.speaker],
            passage,
            relevance,
            self._people.get(line.document_id, 0.0),
            self._times.get(line.id, 0.0),
            *self._maxsim.get(line.id, (None, None)),
        )

    def _without_tokens(self, line: Candidate, words: float) -> float:
        dense = self._dense(line)
        if dense is None:  # nothing is known against a line that waits, so it is not put last
            return words
        share = self._weights.dense if self._lexical.passages else 1.0
        return (1 - share) * words + share * dense

    def _dense(self, line: Candidate) -> float | None:
        """Return the mean nearness of a line and its passage; None without vectors."""
        if self._spec is None:
            return None
        cosines = self._cosines
        known = [cosines[p] for p in range(line.part_first, line.part_last) if p in cosines]
        near = [cosines[line.id]] if line.id in cosines else []
        near += [max(known)] if known else []
        return sum(cosine_nearness(one, self._spec) for one in near) / len(near) if near else None


def file_score(
    *, age_days: float, linked: bool, same_instance: bool, weights: Weights = WEIGHTS
) -> float:
    """Return the part of a score that all lines of a file share."""
    return (
        weights.recency * recency_score(age_days)
        + weights.links * linked
        + weights.instance * same_instance
    )


def _by_words(lines: Sequence[Candidate], lexical: Lexical, weights: Weights) -> list[float]:
    """Return the lexical score of each line, in [0, 1]; the best one has 1."""
    of_file = _weighted(lexical.documents, weights.file).get
    of_passage = _weighted(lexical.passages, weights.passage).get
    of_line = _weighted(lexical.lines, weights.line).get
    raw = []
    for id_, _, document, _, passage, end, _, _ in lines:
        words = of_passage(passage, 0.0)
        while (passage := passage + 1) < end:  # this and the next take a third of `range`, `max`
            other = of_passage(passage, 0.0)
            words = other if other > words else words  # noqa: FURB136
        raw.append(of_file(document, 0.0) + words + of_line(id_, 0.0))
    top = max(raw, default=0.0) or 1.0
    return [value / top for value in raw]


def _weighted(scores: Mapping[int, float], weight: float) -> dict[int, float]:
    """Scale `scores` so that the best one equals `weight`."""
    top = max(scores.values(), default=1.0)
    return {id_: weight * score / top for id_, score in scores.items()}


def lines_that_ask(pieces: Pieces, lines: Sequence[Candidate], weights: Weights) -> frozenset[int]:
    """Return the ids of lines that end with a question, if `weights` take that into account."""
    if not weights.asking:
        return frozenset()
    ids, known = [line[0] for line in lines], pieces.asking
    if new := [id_ for id_ in ids if id_ not in known]:
        marks = ", ".join(f"'{mark}'" for mark in ASKS)
        end = "substr(rtrim(text, ' ' || char(9, 10, 13)), -1)"
        select = f"SELECT id, {end} IN ({marks}) FROM chunks WHERE id IN"  # noqa: S608
        known.update(rows_among(pieces.connection, select, new))
    return frozenset(filter(known.get, ids))


def times_of_lines(
    connection: sqlite3.Connection, query: str, today: date, lines: Sequence[Candidate]
) -> dict[int, float]:
    """Return each line's nearness to the times in `query`; empty without any.

    The time of a line is the day of its file, or a time that it mentions, which counts more.
    """
    wanted = times_asked(query, today)
    if not wanted:
        return {}
    spoken_of: dict[int, list[Span]] = {}
    select = "SELECT line_id, first, last FROM times WHERE line_id IN"
    for id_, first, last in rows_among(connection, select, [line.id for line in lines]):
        span = Span(date.fromordinal(first), date.fromordinal(last))
        spoken_of.setdefault(id_, []).append(span)
    select = "SELECT id, rel_path, day FROM documents WHERE id IN"
    files = {
        id_: who_when.day_span(date.fromisoformat(day)) if day else who_when.period_of(rel_path)
        for id_, rel_path, day in rows_among(
            connection, select, {line.document_id for line in lines}
        )
    }
    return {
        line.id: who_when.time_of(wanted, files[line.document_id], spoken_of.get(line.id, ()))
        for line in lines
    }


class SeenParts(Struct, frozen=True):
    """The parts of files that a viewer sees, where that is not all of them.

    Args:
        hidden: Ids of the others.
        pieces: Where their pieces are: a byte for each id, 1 for those that are hidden.
        tables: What is seen of each full-text table.
    """

    hidden: frozenset[int]
    pieces: bytearray
    tables: Mapping[str, fts.Visible]

    def scores(
        self, connection: sqlite3.Connection, table: str, match: str, target: str
    ) -> dict[int, float]:
        """Return the best BM25 scores of visible rows."""
        return fts.visible_scores(
            connection,
            table,
            match,
            most_rows=MOST_RANKED,
            depth=DEPTH,
            visible=self.tables[table],
            only=target and f" AND +{{row}} {target}",
            are_few=target.startswith("IN"),
        )


SEEN_FILE: Final = "is_seen_file({row})"  # functions of SQL that `seen_parts` defines
SEEN_PIECE: Final = "is_seen_piece({row})"


def seen_parts(connection: sqlite3.Connection, viewer: Viewer) -> SeenParts | None:
    """Return what a viewer sees; None for everything."""
    if viewer.sees_everything or viewer.rules.shares:
        return None
    select = "SELECT DISTINCT audience FROM documents"
    audiences = [audience for (audience,) in connection.execute(select)]
    closed = [one for one in audiences if not viewer.sees(json.loads(one))]
    if viewer.is_owner and not closed:
        return None
    select = "SELECT id FROM documents WHERE audience IN"
    hidden = frozenset(id_ for (id_,) in rows_among(connection, select, closed))
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM chunks").fetchone()
    pieces = bytearray(last + 1)
    ranges = (
        "SELECT min(id), max(id) FROM chunks WHERE document_id IN"
        " (SELECT value FROM json_each(?)) GROUP BY document_id"
    )
    for first, end in connection.execute(ranges, (json.dumps(sorted(hidden)),)):
        pieces[first : end + 1] = b"\1" * (end + 1 - first)
    sums = (
        "SELECT count(*), sum(words), sum(passages), sum(passage_words), sum(lines),"
        " sum(line_words) FROM documents WHERE problem = '' AND audience NOT IN"
        " (SELECT value FROM json_each(?))"
    )
    row = connection.execute(sums, (json.dumps(closed),)).fetchone()
    files, words, passages, in_passages, lines, in_lines = (int(size or 0) for size in row)
    seen_file, seen_piece = (SEEN_FILE, SEEN_PIECE) if hidden else ("TRUE", "TRUE")
    tables = {
        "documents_fts": fts.Visible(files, words, seen_file),
        "passages_fts": fts.Visible(passages, in_passages, seen_piece),
        "lines_fts": fts.Visible(lines, in_lines, seen_piece),
    }
    connection.create_function("is_seen_file", 1, lambda id_: id_ not in hidden)
    connection.create_function(
        "is_seen_piece", 1, lambda id_: id_ >= len(pieces) or not pieces[id_]
    )
    return SeenParts(hidden, pieces, tables)


class Pieces:
    """Reads pieces of an index, as it is within one transaction.

    Args:
        connection: The index.
        read: The pieces that were read from the same state of the index; more are added.
        counts: The same of numbers of words.
        asking: The same of whether lines only ask.
        parts: The parts of files that may be found; None for all.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        read: dict[int, Candidate],
        counts: fts.Counts,
        asking: dict[int, bool],
        parts: SeenParts | None = None,
    ) -> None:
        self.connection = connection
        self.counts = counts
        self.asking = asking
        self.parts = parts
        self._read = read

    @property
    def seen_files(self) -> str:
        """The SQL condition on the column `document_id` that holds for visible parts of files."""
        is_part = self.parts and self.parts.hidden
        return SEEN_FILE.format(row="document_id") if is_part else "TRUE"

    @property
    def lines_seen(self) -> fts.Visible | None:
        """The visible lines; None for all."""
        return self.parts.tables["lines_fts"] if self.parts else None

    def among(self, ids: Collection[int]) -> list[Candidate]:
        """Return the pieces with these ids, in their order, skipping unknown ones."""
        read = self._read
        pieces = list(map(read.get, ids))
        if not all(pieces):
            missing = [id_ for id_ in ids if id_ not in read]
            select = (
                "SELECT id, level, document_id, speaker, part_first, part_last, rows_from,"
                " rows_count FROM chunks INDEXED BY chunks_brief WHERE id IN"
            )
            items = rows_among(self.connection, select, sorted(missing))
            read.update((row[0], tuple.__new__(Candidate, row)) for row in items)
            pieces = list(map(read.get, ids))
        return list(filter(None, pieces))


class PieceParts(Struct, frozen=True):
    """Lines or passages by id, ascending, each with the ids of its parts; int64[n] each.

    Args:
        firsts: The first line of each passage, or the first passage that holds each line.
        ends: What follows the last one of them.
    """

    ids: Numbers
    firsts: Numbers
    ends: Numbers

    def all_parts(self) -> Numbers:
        """Return the parts of each one after the other, int64[p]."""
        return number_runs(self.firsts, self.ends - self.firsts)


def parts_of_pieces(pieces: Sequence[Candidate]) -> PieceParts:
    """Return the parts of `pieces`, which ascend by id."""
    return PieceParts(*columns_of(pieces, "id", "part_first", "part_last"))


def distinct_ids(ids: Numbers) -> Numbers:
    """Return the different ones of some ids, int64[n], ascending; they lie close together."""
    import numpy as np  # noqa: PLC0415

    if not len(ids):
        return ids
    first = ids.min()
    are_there = np.zeros(ids.max() - first + 1, np.bool_)
    are_there[ids - first] = True
    result: Numbers = are_there.nonzero()[0] + first
    return result


def columns_of(pieces: Sequence[Candidate], *fields: str) -> Numbers:
    """Return fields of the pieces as columns, int64[f, n]."""
    import numpy as np  # noqa: PLC0415

    places = map(Candidate._fields.index, fields)
    return np.array([[piece[place] for piece in pieces] for place in places], np.int64)


def number_runs(firsts: Numbers, sizes: Numbers) -> Numbers:
    """Return the numbers `firsts[n]`, `firsts[n] + 1`, … for each group of size `sizes[n]`."""
    import numpy as np  # noqa: PLC0415

    ends = sizes.cumsum()
    begins: Numbers = (firsts + sizes - ends).repeat(sizes)
    return begins + np.arange(len(begins))


Restricted = Literal["", "IN", "NOT IN"]
DEPTH: Final = 200
"""How many files, passages and lines are looked at each, best first."""

MOST_RANKED: Final = 3_000
"""How many rows of a table are ranked, about, in 1 to 3 ms; see `fts.choose`."""

_FILES: Final = "(SELECT id FROM listed)"
# A cross join keeps SQLite from running through all chunks for the few files that are listed.
_PIECES: Final = "(SELECT c.id FROM listed l CROSS JOIN chunks c ON c.document_id = l.id)"


class Lexical(Struct, frozen=True):
    """BM25 scores by id, higher is better; what is missing holds no word or is far from the top."""

    documents: Mapping[int, float] = _NOTHING
    passages: Mapping[int, float] = _NOTHING
    lines: Mapping[int, float] = _NOTHING


def word_scores(pieces: Pieces, query: str, restricted: Restricted = "") -> Lexical:
    """Score the lines for the words of `query`.

    Args:
        pieces: Reader of the index.
        query: The query as typed.
        restricted: Include only the documents in the temporary table `listed`, or exclude them.
    """
    match = fts.match_any(query)
    if match is None:
        return Lexical()
    files, parts = (f"{restricted} {ids}" if restricted else "" for ids in (_FILES, _PIECES))
    return Lexical(
        _bm25_scores(pieces, "documents_fts", match, files),
        _bm25_scores(pieces, "passages_fts", match, parts),
        _bm25_scores(pieces, "lines_fts", match, parts),
    )


def _bm25_scores(pieces: Pieces, table: str, match: str, target: str) -> dict[int, float]:
    connection, parts = pieces.connection, pieces.parts
    if parts:
        return parts.scores(connection, table, match, target)
    # The plus keeps SQLite from asking the full-text table anew for each wanted row. `bm25` stands
    # where `rank` might, which would be worked out also for rows that are not wanted.
    only = f" AND +rowid {target}" if target else ""
    choice = fts.Choice(match, match)
    if not target.startswith("IN"):  # few rows are wanted then
        choice = fts.choose(connection, table, match, MOST_RANKED, only, counts=pieces.counts)
    score, order = (f"-bm25({table})", "score") if choice.is_ranked else ("1.0", "rowid")
    rows = " AND rowid >= :newest"
    if choice.rows:
        newest = " OR +rowid >= :newest" if choice.newest else ""
        rows = f" AND (+rowid IN (SELECT rowid FROM {table} WHERE {table} MATCH :rows){newest})"  # noqa: S608
    statement = (
        f"SELECT rowid, {score} AS score FROM {table} WHERE {table} MATCH :match"  # noqa: S608
        f"{only}{rows if choice.rows != match else ''} ORDER BY {order} DESC LIMIT {DEPTH}"
    )
    given = {"match": choice.match, "rows": choice.rows, "newest": choice.newest}
    return dict(connection.execute(statement, given))


_PART_HOURS: Final = 6  # of a day, as in the names of session files


def scores_of_turns(
    turns: Sequence[RecallHit],
    query: str,
    of_turns: Sequence[Session],
    *,
    speaker: Callable[[Turn], str],
    zone: tzinfo | None,
) -> list[float]:
    """Score `turns` in their order, comparably with memories.

    Args:
        turns: What fits `query` by words and meaning.
        query: What was said.
        of_turns: The session of each.
        speaker: Gives whose words a turn holds.
        zone: The familiar's timezone; None: the system's.
    """
    labels = [speaker(one.turn) for one in turns]
    sessions: dict[Session, set[str]] = {}
    for session, label in zip(of_turns, labels, strict=True):
        sessions.setdefault(session, set()).add(label)
    parts = {label: who_when.parts_of(label) for label in set(labels)}
    named = who_when.people_among(parts, query)
    are_named = {label: named.is_named(label) for label in parts}
    shares = {
        session: named.share({part for label in speakers for part in parts[label]})
        for session, speakers in sessions.items()
    }
    wanted = times_asked(query, to_zone(now(), zone).date())
    weights = weights_for(query, lines=True)
    return [
        weights.relevance
        * (
            one.score
            + weights.speaker * are_named[label]
            + weights.people * shares[session]
            + (weights.time * _time_score(one.turn, wanted, zone) if wanted else 0.0)
            - weights.asking * one.turn.content.rstrip().endswith(ASKS)
        )
        for one, label, session in zip(turns, labels, of_turns, strict=True)
    ]


def session_of(turn: Turn, zone: tzinfo | None) -> Session:
    """Return the channel of a turn, its day, and the part of the day."""
    # A program may change the system's timezone while it runs.
    system = None if zone else (time.tzname, time.timezone, time.altzone)
    return turn.channel_id, *_part_of_day(turn.at, zone, system)


@lru_cache(maxsize=2048)  # one question after another finds the same turns
def _part_of_day(at: datetime, zone: tzinfo | None, _system: object) -> tuple[date, int]:
    local = to_zone(at, zone)
    return local.date(), local.hour // _PART_HOURS


def _time_score(turn: Turn, wanted: Sequence[Span | Yearly], zone: tzinfo | None) -> float:
    day = to_zone(turn.at, zone).date()
    return who_when.time_of(wanted, who_when.day_span(day), who_when.times_of(turn.content, day))
