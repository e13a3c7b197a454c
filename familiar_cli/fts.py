"""Words for full-text search: what goes into an SQLite FTS5 table, and how one is asked.

A table that is searched with `match_any` must be made with `TOKENIZER` and filled with `indexable`
text. Scripts without spaces are written as overlapping pairs of characters, since most of their
words are two characters long and SQLite's own `trigram` finds nothing shorter than three.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from familiar_cli.text import fold_word, sentence_ends, without_joiners

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

TOKENIZER: Final = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""Stems English, ignores accents, and keeps the vowel signs that belong to Indic words."""

MAX_WORDS: Final = 64
"""Most different words of one query; the first ones count."""

MAX_QUERY_CHARS: Final = 8_000
"""Maximum length of a query; questions stand at the beginning or the end of a text."""

_STEM_CHARS: Final = 5
_BESIDE: Final = 0.6  # what a sentence counts for those beside it, among 314 long answers
_COMMON: Final = 0.25  # of all rows
_MOST: Final = 0.4  # of all rows; for what half of them hold, BM25 gives nothing
_SAMPLE: Final = 1_000  # rows, the newest, tell how common a word is
_FEW: Final = 200

_STOP: Final = """
    a about after all also am an and any are as at be because been before being but by can could
    did do does doing don for from get go got had has have having he her here hers him his how i
    if in into is it its just like me more most my no not now of off on once only or other our
    out over own s same she should so some such t than that the their them then there these they
    this those through to too under until up very was we were what when where which while who
    whom whose why will with would you your yours d ll m re ve
"""
STOP_WORDS: Final = frozenset(_STOP.split())
"""English words that say nothing of what a text is about."""

# Han, kana, hangul, Thai, Lao, Tibetan, Myanmar, Khmer: written without spaces, or with endings
# that cling to the word.
_UNSPACED: Final = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U000323af"
)
_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_SENTENCE_END: Final = re.compile(r"[.!?。！？…]+[\"'”’)\]]*(?:\s+|$)|[。！？]|\n+")


def bounded_query(text: str) -> str:
    """Shorten a long query to its beginning and its end."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    half = MAX_QUERY_CHARS // 2
    head, tail = text[:half], text[-half:]
    head, tail = head.rpartition(" ")[0] or head, tail.partition(" ")[2] or tail
    return f"{head}\n{tail}"


def indexable(text: str) -> str:
    """Return `text` in the form in which full-text tables hold it."""
    folded = fold_word(text)
    return folded if folded.isascii() else _RUN.sub(_pairs, folded)


def words(text: str) -> list[str]:
    """Return the words of `text` in order, in lower case; of unspaced scripts each whole run."""
    return _split(fold_word(text))


def content_words(text: str) -> list[str]:
    """Return the different words that say what `text` is about; all its words if none does.

    A stop word with a capital inside a sentence is kept, since it may be a name: Will, May.
    """
    return list(_content_words(text))


@lru_cache(maxsize=16)  # a question is asked of every hit
def _content_words(text: str) -> tuple[str, ...]:
    kept = [
        word
        for sentence in _SENTENCE_END.split(without_joiners(text))
        for place, written in enumerate(_split(sentence))
        for word in _split(fold_word(written))
        if word not in STOP_WORDS or (place and len(written) > 1 and written.istitle())
    ]
    return tuple(dict.fromkeys(kept or words(text)))


def match_any(text: str) -> str | None:
    """Return the FTS5 query for rows that hold any content word of `text`, or None without one.

    Nothing of `text` is taken for query syntax.
    """
    terms: dict[str, None] = {}
    for word in content_words(text):
        for term in _terms(word):
            terms[term] = None
    return " OR ".join(list(terms)[:MAX_WORDS]) or None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows of a full-text table are worth ranking, and by which words.

    Args:
        match: The query whose words count.
        rows: The query for the rows that are ranked; empty: none but the newest.
        newest: From this rowid on, all that `match` finds is ranked as well; 0: nothing more is.
        is_ranked: False: most rows hold every word, so the newest fit as well as any.
    """

    match: str
    rows: str
    newest: int = 0
    is_ranked: bool = True


def choose(
    connection: sqlite3.Connection, table: str, match: str, most_rows: int, only: str = ""
) -> Choice:
    """Return how to rank about `most_rows` of the rows that `match` finds, where it finds more.

    The rarest words choose them, as long as they stand in no more rows together; the others count
    for those rows, and for the newest where the rare words leave room. What a quarter of all rows
    hold chooses none where anything rarer is found, and what almost half of them hold does not even
    count, as BM25 gives next to nothing for it.

    Args:
        connection: Where the table is.
        table: Its name.
        match: As `match_any` returned it.
        most_rows: Each row counts once for each word.
        only: What holds for rows that are wanted, as ` AND ...` in SQL; for almost all it does.
    """
    asked, terms = _Table(connection, table, most_rows, only), match.split(" OR ")
    if asked.size() * len(terms) <= most_rows:
        return Choice(match, match)
    held = asked.held(terms)
    if sum(count for count, _ in held.values()) <= most_rows:
        return Choice(match, match)
    telling = [term for term, (count, share) in held.items() if count and share <= _MOST]
    if not telling:
        return Choice(match, match, is_ranked=False)
    counted, room = " OR ".join(telling), most_rows
    chosen: list[str] = []
    for term in sorted(telling, key=lambda term: held[term][0]):
        count, share = held[term]
        if count > room:
            is_enough = 2 * room < most_rows or (bool(chosen) and share > _COMMON)
            newest = 0 if is_enough else asked.newest(room // len(telling), counted)
            return Choice(counted, " OR ".join(chosen), newest)
        chosen.append(term)
        room -= count
    return Choice(counted, counted)


def frequencies(
    connection: sqlite3.Connection, table: str, words: Iterable[str], most_rows: int
) -> dict[str, tuple[int, float]]:
    """Return how many rows hold each word, and which share of the newest ones does.

    Of a word that more than `most_rows` hold, the number says only that they are more.
    """
    matches = {word: match_any(word) for word in words}
    asked = _Table(connection, table, most_rows, "")
    held = asked.held({match for match in matches.values() if match})
    return {word: held.get(match or "", (0, 0.0)) for word, match in matches.items()}


@dataclass(frozen=True, slots=True)
class _Table:
    connection: sqlite3.Connection
    name: str
    most_rows: int
    only: str

    def size(self, most: int = 0) -> int:
        """Return how many rows there are, or `most`."""
        # The shadow table is FTS5's own, and quick to run through.
        some = f"SELECT 1 FROM {self.name}_docsize LIMIT {most or self.most_rows + 1}"  # noqa: S608
        return self._number(f"SELECT count(*) FROM ({some})")  # noqa: S608

    def held(self, terms: Iterable[str]) -> dict[str, tuple[int, float]]:
        """Return how many wanted rows hold each word, and which share of the newest ones does.

        Of words that many rows hold it is only said that they are too many.
        """
        docsize = f"FROM {self.name}_docsize"
        oldest = self._number(f"SELECT id {docsize} ORDER BY id DESC LIMIT 1 OFFSET {_SAMPLE - 1}")
        since, sample = f" AND rowid >= {oldest}", self.size(_SAMPLE)
        found = {}
        for term in terms:
            count = self._count(term, since)
            share = count / sample
            if oldest:
                count = self._count(term) if share <= _COMMON else self.most_rows + 1
            if self.only and 0 < count <= _FEW:
                count = self._count(term, self.only)
            found[term] = count, share
        return found

    def newest(self, count: int, match: str) -> int:
        """Return the least rowid of the newest `count` rows that `match` finds."""
        last = f"SELECT rowid {self._found} ORDER BY rowid DESC LIMIT 1 OFFSET ?"
        return self._number(last, match, count)

    def _count(self, term: str, where: str = "") -> int:
        some = f"SELECT 1 {self._found}{where} LIMIT {self.most_rows + 1}"
        return self._number(f"SELECT count(*) FROM ({some})", term)  # noqa: S608

    @property
    def _found(self) -> str:
        return f"FROM {self.name} WHERE {self.name} MATCH ?"

    def _number(self, sql: str, *values: object) -> int:
        return int((self.connection.execute(sql, values).fetchone() or (0,))[0])


def match_all(text: str) -> str | None:
    """Return the FTS5 query for rows that hold all words of `text`, or None without one."""
    terms = [term for word in words(text)[:MAX_WORDS] for term in _terms(word)]
    return f"({' AND '.join(terms)})" if terms else None


def is_unspaced(text: str) -> bool:
    """Tell whether `text` holds a script that is written without spaces."""
    return not text.isascii() and bool(_RUN.search(text))


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` that hold a word, in order."""
    found = (part.strip() for part in _SENTENCE_END.split(text))
    return [part for part in found if _split(part)]


def holds_word(folded: str, word: str) -> bool:
    """Return whether a folded text holds the beginning of a word."""
    return word[:_STEM_CHARS] in folded


def wanted_words(query: str) -> list[str]:
    """Return the words that are looked for; of unspaced scripts pairs of characters."""
    found = []
    for word in content_words(query):
        pairs = [word[n : n + 2] for n in range(len(word) - 1)] if is_unspaced(word) else []
        found += pairs or [word]
    return list(dict.fromkeys(found))


def best_part(
    text: str, query: str, limit_tokens: int, count: Callable[[str], int]
) -> tuple[int, int]:
    """Return the whole sentences of `text` that fit `query` best, from … to in characters.

    The sentence that fits best is taken with those around it. A word tells the more, the fewer
    sentences hold it. What is returned is longer than `limit_tokens` where that sentence is.

    Args:
        text: A long text.
        query: What is asked.
        limit_tokens: Most tokens of what is returned.
        count: Counts tokens.
    """
    ends = [*sentence_ends(text), len(text)]
    spans = [(a, b) for a, b in pairwise([0, *ends]) if text[a:b].strip()]
    wanted = wanted_words(query)[:MAX_WORDS]
    folded = [fold_word(text[a:b]) for a, b in spans]
    held = [[word for word in wanted if holds_word(one, word)] for one in folded]
    sentences_with = Counter(word for one in held for word in one)
    own = [0.0, *(sum(sentences_with[word] ** -0.5 for word in one) for one in held), 0.0]
    fit = [own[n] + _BESIDE * (own[n - 1] + own[n + 1]) for n in range(1, len(own) - 1)]
    best = max(range(len(fit)), key=lambda n: (fit[n], -n), default=None)
    if best is None:
        return 0, len(text)
    first, last = _grow_run(best, len(spans), lambda n: count(text[slice(*spans[n])]), limit_tokens)
    return spans[first][0], spans[last][1]


def _grow_run(best: int, size: int, cost: Callable[[int], int], limit: int) -> tuple[int, int]:
    """Return the first and last of the sentences that are taken, as many on both sides."""
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
    """Return the FTS5 terms that find `word`, which `_pairs` may have cut into several."""
    if not _RUN.search(word):
        return [f'"{word}"']
    if len(word) == 1:
        return [f'"{word}"*']
    spaced = _RUN.sub(_pairs, word).split()
    return [f'"{term}"' for term in spaced if len(term) > 1] or [f'"{word}"']


def _split(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text)
    if folded.isascii():
        return re.findall(r"[A-Za-z0-9]+", folded)
    shown = (c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in folded)
    return "".join(shown).split()


def _pairs(found: re.Match[str]) -> str:
    """Return a run of characters as overlapping pairs, and its last character alone."""
    run = found.group()
    return " " + " ".join(run[at : at + 2] for at in range(len(run))) + " "
