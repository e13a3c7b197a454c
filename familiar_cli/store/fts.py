"""Full-text search with SQLite FTS5: tokenizing text and building queries.

A table searched with `match_any` must be created with `TOKENIZER` and filled with `indexable` text.
Scripts without spaces are stored as overlapping character pairs, since most of their words have two
characters and SQLite's `trigram` needs three.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache, lru_cache
from itertools import pairwise
from math import log
from threading import Lock
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from familiar_cli.base.text import fold_word, sentence_ends, without_joiners

if TYPE_CHECKING:
    import sqlite3

    Counts = dict[tuple[str, tuple[object, ...]], int]

TOKENIZER: Final = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""Stems English, ignores accents, and keeps the vowel signs that belong to Indic words."""

MAX_WORDS: Final = 64
"""Maximum number of distinct words in a query; the first ones count."""

MAX_QUERY_CHARS: Final = 8_000
"""Maximum length of a query; in long texts, the question is usually at the start or the end."""

_STEM_CHARS: Final = 5
_BESIDE: Final = 0.6  # weight of neighbouring sentences, tuned on 314 long answers
_COMMON: Final = 0.25  # share of all rows
_MOST: Final = 0.4  # share of all rows; for words in half of them, BM25 is about zero
_SAMPLE: Final = 1_000  # newest rows sampled for word frequencies
_FEW: Final = 200
_SATURATION: Final = 1.2  # k1, b and the least IDF of FTS5's bm25
_LENGTH: Final = 0.75
_LEAST_WEIGHT: Final = 1e-6
_MERGED_PAGES: Final = 8

_STOP: Final = """
    a about after all also am an and any are as at be because been before being but by can could
    did do does doing don for from get go got had has have having he her here hers him his how i
    if in into is it its just like me more most my no not now of off on once only or other our
    out over own s same she should so some such t than that the their them then there these they
    this those through to too under until up very was we were what when where which while who
    whom whose why will with would you your yours d ll m re ve
"""
STOP_WORDS: Final = frozenset(_STOP.split())
"""English stop words."""

# Han, kana, hangul, Thai, Lao, Tibetan, Myanmar, Khmer: written without spaces, or with endings
# that cling to the word.
_UNSPACED: Final = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U000323af"
)
_RUN: Final = f"[{_UNSPACED}]+"  # slow to compile
# Combining marks, which Python's `\w` excludes, belong to the preceding letter.
_WORD: Final = r"[^\W_](?:[^\W_]|[^\s\w\u0000-\u02ff\u2000-\u303f\uff00-\uffef])*"
_WORDS_TABLE: Final = (
    f"CREATE VIRTUAL TABLE words USING fts5 (body, content = '', tokenize = \"{TOKENIZER}\")"
)
_SENTENCE_END: Final = r"[.!?。！？…]+[\"'”’)\]]*(?:\s+|$)|[。！？]|\n+"


def bounded_query(text: str) -> str:
    """Shorten a long query to its beginning and its end."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    half = MAX_QUERY_CHARS // 2
    head, tail = text[:half], text[-half:]
    head, tail = head.rpartition(" ")[0] or head, tail.partition(" ")[2] or tail
    return f"{head}\n{tail}"


def indexable(text: str) -> str:
    """Convert `text` to the form stored in full-text tables."""
    folded = fold_word(text)
    return folded if folded.isascii() else re.sub(_RUN, _pairs, folded)


def words(text: str) -> list[str]:
    """Return the words of `text` in order, in lower case; unspaced scripts give whole runs."""
    return _split(fold_word(text))


def content_words(text: str) -> list[str]:
    """Return the distinct words of `text` without stop words; all if nothing else is left.

    A capitalized stop word inside a sentence is kept, since it may be a name: Will, May.
    """
    return list(_content_words(text))


@lru_cache(maxsize=16)  # called once per hit with the same question
def _content_words(text: str) -> tuple[str, ...]:
    kept = [
        word
        for sentence in re.split(_SENTENCE_END, without_joiners(text))
        for place, written in enumerate(_split(sentence))
        for word in _split(fold_word(written))
        if word not in STOP_WORDS or (place and len(written) > 1 and written.istitle())
    ]
    return tuple(dict.fromkeys(kept or words(text)))


def merge_parts(connection: sqlite3.Connection, table: str) -> None:
    """Merge some of a table's parts: each transaction adds one, and each search reads all."""
    merge = f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)"  # noqa: S608
    connection.execute(merge, (_MERGED_PAGES,))


def match_any(text: str) -> str | None:
    """Return the FTS5 query for rows that hold any content word of `text`, or None without one.

    `text` is never interpreted as query syntax.
    """
    terms: dict[str, None] = {}
    for word in content_words(text):
        for term in _terms(word):
            terms[term] = None
    return " OR ".join(list(terms)[:MAX_WORDS]) or None


def match_spans(query: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence in `text` of a word of `query`, in any form."""
    import sqlite3  # noqa: PLC0415  # who only builds queries needs none

    target = match_any(query)
    if target is None:
        return
    spans = [match.span() for match in re.finditer(_WORD, text)]
    with closing(sqlite3.connect(":memory:")) as connection:  # FTS knows the forms of a word
        connection.execute(_WORDS_TABLE)
        bodies = ((n, indexable(text[a:b])) for n, (a, b) in enumerate(spans))
        connection.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", bodies)
        sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid"
        items = connection.execute(sql, (target,)).fetchall()
    for (number,) in items:
        yield from _narrow_run(query, text, *spans[number])


def _narrow_run(query: str, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a run that are words of `query`; the whole run in scripts with spaces."""
    run = text[start:end]
    if not is_unspaced(run):
        yield start, end
        return
    pieces = {word for word in content_words(query) if word}
    pieces |= {word[at : at + 2] for word in pieces for at in range(len(word) - 1)}
    pattern = "|".join(sorted(map(re.escape, pieces), key=len, reverse=True))
    places = [at for at, letter in enumerate(run) for _ in fold_word(letter)]
    for match in re.finditer(pattern, "".join(map(fold_word, run))):
        yield start + places[match.start()], start + places[match.end() - 1] + 1


class Choice(Struct, frozen=True):
    """Which rows to rank, and by which words.

    Args:
        match: Query for the words that count.
        rows: Query for the rows to rank; empty for only the newest.
        newest: Also rank rows found by `match` from this rowid on; 0 for none.
        is_ranked: False if most rows contain every word, so that the newest are as good as any.
    """

    match: str
    rows: str
    newest: int = 0
    is_ranked: bool = True


def choose(
    connection: sqlite3.Connection,
    table: str,
    match: str,
    most_rows: int,
    only: str = "",
    *,
    counts: Counts | None = None,
    visible: Visible | None = None,
) -> Choice:
    """Limit a query with too many results to about `most_rows` rows worth ranking.

    The rarest words select the rows, up to that number; other words only rank them, and the newest
    rows fill up the rest. Words in a quarter of all rows do not select if a rarer one exists, and
    those in almost half are ignored, as BM25 gives them about zero.

    Args:
        connection: Database with the table.
        table: Its name.
        match: Result of `match_any`.
        most_rows: Number of rows, counted once per word.
        only: SQL condition ` AND ...` on the rows; it should hold for almost all.
        counts: As in `frequencies`.
        visible: As there.
    """
    asked = _Table(connection, table, most_rows, only, counts, visible)
    terms = match.split(" OR ")
    if asked.size(most_rows // len(terms) + 1) * len(terms) <= most_rows:
        return Choice(match, match)
    held = asked.held(terms, int(_MOST * _SAMPLE))
    if sum(count for count, _ in held.values()) <= most_rows:
        return Choice(match, match)
    telling = [term for term, (count, share) in held.items() if count and share <= _MOST]
    if not telling:
        return Choice(match, match, is_ranked=False)
    counted, room = " OR ".join(telling), most_rows
    selection: list[str] = []
    for term in sorted(telling, key=lambda term: held[term][0]):
        count, share = held[term]
        if count > room:
            is_enough = 2 * room < most_rows or (bool(selection) and share > _COMMON)
            newest = 0 if is_enough else asked.newest(room // len(telling), counted)
            return Choice(counted, " OR ".join(selection), newest)
        selection.append(term)
        room -= count
    return Choice(counted, counted)


def frequencies(
    connection: sqlite3.Connection,
    table: str,
    words: Iterable[str],
    most_rows: int,
    *,
    counts: Counts | None = None,
    visible: Visible | None = None,
) -> dict[str, tuple[int, float]]:
    """Return how many rows contain each word, and its share among the newest rows.

    Args:
        connection: Database with the table.
        table: Its name.
        most_rows: About where counts stop.
        counts: Numbers counted already in the same state of the database; more are added.
        visible: Count only these rows; None: all.
    """
    matches = {word: match_any(word) for word in words}
    targets = {match for match in matches.values() if match}
    held = _Table(connection, table, most_rows, "", counts, visible).held(targets)
    return {word: held.get(match or "", (0, 0.0)) for word, match in matches.items()}


class _Table(Struct, frozen=True):
    connection: sqlite3.Connection
    name: str
    most_rows: int
    only: str
    counts: Counts | None
    visible: Visible | None = None

    def size(self, most: int) -> int:
        """Return the number of rows, at most `most`."""
        if self.visible:
            return most if self.visible.oldest else min(self.visible.rows, most)
        # FTS5's own shadow table, which is fast to scan.
        some = f"SELECT 1 FROM {self.name}_docsize LIMIT {most}"  # noqa: S608
        return self._number(f"SELECT count(*) FROM ({some})")  # noqa: S608

    def held(
        self, terms: Iterable[str], most_sampled: int = _SAMPLE
    ) -> dict[str, tuple[int, float]]:
        """Return how many matching rows contain each word, and its share among the newest.

        Counts of frequent words are capped, and shares where `most_sampled` of the newest do.
        """
        seen, values = (
            self.visible.condition(f"{self.name}_docsize.id") if self.visible else ("", ())
        )
        docsize = f"FROM {self.name}_docsize WHERE TRUE{seen}"
        last = f"SELECT id {docsize} ORDER BY id DESC LIMIT 1 OFFSET {_SAMPLE - 1}"
        oldest = self._number(last, *values)
        sample = _SAMPLE if oldest else self.size(_SAMPLE)
        result = {}
        for term in terms:
            count = self._count(term, most_sampled if oldest else self.most_rows, oldest)
            share = count / sample
            if oldest:
                count = self._count(term) if share <= _COMMON else self.most_rows + 1
            if self.only and 0 < count <= _FEW:
                count = self._count(term, where=self.only)
            result[term] = count, share
        return result

    def newest(self, count: int, match: str) -> int:
        """Return the lowest rowid of the newest `count` rows that match."""
        seen, values = self.visible.condition(f"{self.name}.rowid") if self.visible else ("", ())
        last = f"SELECT rowid {self._found}{seen} ORDER BY rowid DESC LIMIT 1 OFFSET ?"
        return self._number(last, match, *values, count)

    def visible_count(self, term: str) -> float:
        """Return how many of the visible rows contain a word; of many rows, an estimate."""
        assert self.visible
        rows, oldest = self._rows_with(term), self.visible.oldest
        if len(rows) <= self.most_rows or oldest:
            return sum(row >= oldest for row in rows)
        return self.held((term,))[term][1] * self.visible.rows

    def times_held(self, term: str, rows: set[int], choice: Choice) -> Iterable[tuple[int, int]]:
        """Return those of the visible rows to rank that contain a word, and how often."""
        held, stems = self._rows_with(term), _stems(term)
        among = rows.intersection(held)
        if len(held) <= self.most_rows and stems:
            words = f"temp.{self.name}_words"
            self.connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {words}"
                f" USING fts5vocab(main, {self.name}, instance)"
            )
            sql = f"SELECT doc FROM {words} WHERE term BETWEEN ? AND ?"  # noqa: S608
            items = self.connection.execute(sql, stems)
            return Counter(row for (row,) in items if row in among).items()
        if len(held) > self.most_rows and any(row < held[-1] for row in rows):
            sql = f"SELECT rowid {self._found} AND rowid < ?"
            both = f"({choice.rows or choice.match}) AND {term}"
            older = self.connection.execute(sql, (both, held[-1]))
            among.update(rows.intersection(row for (row,) in older))
        return ((row, 1) for row in among)

    def _rows_with(self, term: str) -> list[int]:
        assert self.visible
        return self.visible.rows_with(self.connection, self.name, term, self.most_rows)

    def _count(self, term: str, most: int = 0, oldest: int = 0, where: str = "") -> int:
        most = min(most or self.most_rows, self.most_rows)
        if self.visible:
            rows = self.visible.rows_with(self.connection, self.name, term, most)
            return sum(row >= oldest for row in rows)
        some = f"SELECT 1 {self._found} AND rowid >= {oldest}{where} LIMIT {most + 1}"
        return self._number(f"SELECT count(*) FROM ({some})", term)  # noqa: S608

    @property
    def _found(self) -> str:
        return f"FROM {self.name} WHERE {self.name} MATCH ?"

    def _number(self, sql: str, *values: object) -> int:
        counts = self.visible.counts if self.visible else self.counts
        if counts is None or (self.only and self.only in sql):
            counts = {}
        key = sql, values
        if key not in counts:
            row = self.connection.execute(sql, values).fetchone() or (0,)
            counts[key] = int(row[0])
        return counts[key]


class Visible(Struct, frozen=True):
    """The visible rows of a full-text table, or of many the newest ones.

    Args:
        rows: Their number.
        words: The number of words in them.
        seen: SQL condition on the column `{row}` that holds for visible rows.
        values: Its parameters.
        oldest: The first row; 0: `rows` are all that are visible.
        counts: As in `frequencies`.
    """

    rows: int
    words: int
    seen: str
    values: Sequence[object] = ()
    oldest: int = 0
    counts: Counts = field(default_factory=dict)
    _known: dict[str, tuple[int, list[int]]] = field(default_factory=dict)

    def condition(self, row: str) -> tuple[str, Sequence[object]]:
        """Return the SQL condition ` AND ...` on a column, and its parameters."""
        return f" AND {self.seen.format(row=row)}", self.values

    def rows_with(
        self, connection: sqlite3.Connection, table: str, term: str, most: int
    ) -> list[int]:
        """Return the rows that contain a term, newest first; one more than `most` at most."""
        limit, rows = self._known.get(term, (0, []))
        if limit <= most:
            seen, values = self.condition(f"{table}.rowid")
            found = f"SELECT rowid FROM {table} WHERE {table} MATCH ?{seen}"  # noqa: S608
            some = f"{found} ORDER BY rowid DESC LIMIT {most + 1}"
            rows = [row for (row,) in connection.execute(some, (term, *values))]
            self._known[term] = most + 1, rows
        return rows[: most + 1]


def visible_scores(
    connection: sqlite3.Connection,
    table: str,
    match: str,
    *,
    most_rows: int,
    depth: int,
    visible: Visible,
    only: str = "",
    values: Sequence[object] = (),
    are_few: bool = False,
) -> dict[int, float]:
    """Return the BM25 scores of the best visible rows, best first; hidden ones count for nothing.

    They are those that FTS5 gives to a table without the hidden rows, as long as each word is in at
    most `most_rows` of them. A word in more rows counts as if each held it once, and rows are
    chosen as by `choose`.

    Args:
        connection: Database with the table.
        table: Its name.
        match: Result of `match_any`.
        most_rows: As in `choose`.
        depth: Maximum number of rows to return.
        visible: The visible rows.
        only: SQL condition like that of `visible`, beginning with AND, on what is scored.
        values: The parameters of `only`.
        are_few: Whether it holds for few rows, all of which are scored.
    """
    choice = Choice(match, match)
    if not are_few:
        choice = choose(connection, table, match, most_rows, visible=visible)
    seen, given = visible.condition(f"{table}.rowid")
    found = f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid >= ?"  # noqa: S608
    found += f"{only.format(row=f'{table}.rowid')}{seen}"
    given = choice.match, choice.newest, *values, *given
    if not choice.is_ranked:
        newest = connection.execute(f"{found} ORDER BY rowid DESC LIMIT {depth}", given)
        return {row: 1.0 for (row,) in newest}
    rows: set[int] = set()
    if choice.rows and not are_few:
        for term in choice.rows.split(" OR "):
            rows.update(visible.rows_with(connection, table, term, most_rows))
        if only:
            some = (
                f"SELECT id.value FROM json_each(?) AS id WHERE TRUE{only.format(row='id.value')}"  # noqa: S608
            )
            wanted = connection.execute(some, (json.dumps(list(rows)), *values))
            rows = {row for (row,) in wanted}
    if choice.newest or not choice.rows or are_few:
        rows.update(row for (row,) in connection.execute(found, given))
    lengths, average = _row_words(connection, table, rows), visible.words / max(visible.rows, 1)
    fixed, by_word = _SATURATION * (1 - _LENGTH), _SATURATION * _LENGTH / (average or 1.0)
    scores = dict.fromkeys(rows, 0.0)
    asked = _Table(connection, table, most_rows, "", None, visible)
    for term in choice.match.split(" OR "):
        count = asked.visible_count(term)
        odds = (visible.rows - count + 0.5) / (count + 0.5)
        weight = max(log(odds), _LEAST_WEIGHT) if odds > 0 else _LEAST_WEIGHT
        weight *= _SATURATION + 1
        for row, times in asked.times_held(term, rows, choice):
            scores[row] += weight * times / (times + fixed + by_word * lengths[row])
    best = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return dict(best[:depth])


def sample_visible(
    connection: sqlite3.Connection, table: str, seen: str, values: Sequence[object]
) -> Visible:
    """Count the visible rows, up to ten thousand, and estimate their words by the newest ones."""
    newest = f"FROM {table}_docsize WHERE {seen.format(row=f'{table}_docsize.id')}"
    newest += " ORDER BY id DESC LIMIT"
    sizes = connection.execute(f"SELECT sz {newest} {_SAMPLE}", values).fetchall()
    rows, oldest = len(sizes), 0
    if rows == _SAMPLE:  # fewer are all: the hidden ones are not gone through again
        some = f"SELECT count(*), min(id) FROM (SELECT id {newest} {10 * _SAMPLE})"  # noqa: S608
        rows, oldest = connection.execute(some, values).fetchone()
    words = rows * sum(words_in_row(size) for (size,) in sizes) // max(len(sizes), 1)
    return Visible(rows, words, seen, values, oldest if rows == 10 * _SAMPLE else 0)


def words_in_row(size: bytes) -> int:
    """Return the number of words in a row; `size` is from the table `…_docsize` of FTS5."""
    if size.isascii():  # few words in each column
        return sum(size)
    total = value = 0
    for byte in size:  # one varint for each column
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004
            total, value = total + value, 0
    return total


def _row_words(connection: sqlite3.Connection, table: str, rows: Iterable[int]) -> dict[int, int]:
    select = f"SELECT id, sz FROM {table}_docsize WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
    sizes = connection.execute(select, (json.dumps(list(rows)),))
    return {row: words_in_row(size) for row, size in sizes}


@lru_cache(maxsize=1024)
def _stems(term: str) -> tuple[str, str] | None:
    """Return the first and last form of a term in a full-text table; None for several words."""
    if term.endswith("*"):
        return (start := term.strip('"*')), f"{start}\U0010ffff"
    with _forms_lock:
        forms = _word_forms()
        forms.execute("INSERT INTO words (words) VALUES ('delete-all')")
        forms.execute("INSERT INTO words (body) VALUES (?)", (term.strip('"'),))
        items = forms.execute("SELECT term FROM held WHERE cnt = 1").fetchall()
    return (items[0][0], items[0][0]) if len(items) == 1 else None


_forms_lock = Lock()


@cache
def _word_forms() -> sqlite3.Connection:
    """Open the table of one term in which FTS shows its forms; `_forms_lock` guards it."""
    import sqlite3  # noqa: PLC0415  # as above

    forms = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    forms.execute(_WORDS_TABLE)
    forms.execute("CREATE VIRTUAL TABLE held USING fts5vocab(words, row)")
    return forms


def match_all(text: str) -> str | None:
    """Return the FTS5 query for rows that hold all words of `text`, or None without one."""
    terms = [term for word in words(text)[:MAX_WORDS] for term in _terms(word)]
    return f"({' AND '.join(terms)})" if terms else None


def is_unspaced(text: str) -> bool:
    """Tell whether `text` contains a script without spaces."""
    return not text.isascii() and bool(re.search(_RUN, text))


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` that contain a word, in order."""
    items = (part.strip() for part in re.split(_SENTENCE_END, text))
    return [part for part in items if _split(part)]


def holds_word(folded: str, word: str) -> bool:
    """Tell whether a word in a folded text starts with `word`."""
    return word[:_STEM_CHARS] in folded


def wanted_words(query: str) -> list[str]:
    """Return the words to search for; pairs of characters in scripts without spaces."""
    items = []
    for word in content_words(query):
        pairs = [word[n : n + 2] for n in range(len(word) - 1)] if is_unspaced(word) else []
        items += pairs or [word]
    return list(dict.fromkeys(items))


def matching_words(texts: Iterable[str], query: str) -> list[float]:
    """Weigh the words of `query` that each text holds; words in fewer texts weigh more."""
    targets = wanted_words(query)[:MAX_WORDS]
    folded = list(map(fold_word, texts))
    held = [[word for word in targets if holds_word(one, word)] for one in folded]
    texts_with = Counter(word for one in held for word in one)
    return [sum(texts_with[word] ** -0.5 for word in one) for one in held]


def best_part(
    text: str, query: str, limit_tokens: int, count: Callable[[str], int]
) -> tuple[int, int]:
    """Return the range of sentences in `text` that match `query` best, as character offsets.

    The best sentence is extended by its neighbours. Words in fewer sentences weigh more. A best
    sentence longer than `limit_tokens` is returned whole.

    Args:
        text: A long text.
        query: The search query.
        limit_tokens: Maximum tokens of the result.
        count: Counts tokens.
    """
    ends = [*sentence_ends(text), len(text)]
    spans = [(a, b) for a, b in pairwise([0, *ends]) if text[a:b].strip()]
    own = [0.0, *matching_words([text[a:b] for a, b in spans], query), 0.0]
    fit = [own[n] + _BESIDE * (own[n - 1] + own[n + 1]) for n in range(1, len(own) - 1)]
    best = max(range(len(fit)), key=lambda n: (fit[n], -n), default=None)
    if best is None:
        return 0, len(text)
    first, last = _grow_run(best, len(spans), lambda n: count(text[slice(*spans[n])]), limit_tokens)
    return spans[first][0], spans[last][1]


def _grow_run(best: int, size: int, cost: Callable[[int], int], limit: int) -> tuple[int, int]:
    """Extend a sentence on both sides within the limit; return the first and last."""
    first = last = best
    left = limit - cost(best)
    while True:
        may_follow = last + 1 < size and cost(last + 1) <= left
        may_precede = first > 0 and cost(first - 1) <= left
        if may_follow and (last - best <= best - first or not may_precede):
            last += 1
            left -= cost(last)
        elif may_precede:
            first -= 1
            left -= cost(first)
        else:
            return first, last


def _terms(word: str) -> list[str]:
    """Return the FTS5 terms for `word`, which `_pairs` may have split."""
    if not is_unspaced(word):
        return [f'"{word}"']
    if len(word) == 1:
        return [f'"{word}"*']
    spaced = re.sub(_RUN, _pairs, word).split()
    return [f'"{term}"' for term in spaced if len(term) > 1] or [f'"{word}"']


def _split(text: str) -> list[str]:
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if folded.isascii():
        return re.findall(r"[A-Za-z0-9]+", folded)
    return "".join(map(_in_word, folded)).split()


@lru_cache(maxsize=4096)
def _in_word(char: str) -> str:
    """Return `char` if words are made of it, else a space."""
    return char if char.isalnum() or unicodedata.category(char)[0] == "M" else " "


def _pairs(match: re.Match[str]) -> str:
    """Return a run of characters as overlapping pairs, plus its last character."""
    run = match.group()
    return " " + " ".join(run[at : at + 2] for at in range(len(run))) + " "
