"""Words for full-text search: what goes into an SQLite FTS5 table, and how one is asked.

A table that is searched with `match_any` must be made with `TOKENIZER` and filled with `indexable`
text. Scripts without spaces are written as overlapping pairs of characters, since most of their
words are two characters long and SQLite's own `trigram` finds nothing shorter than three.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

TOKENIZER: Final = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""Stems English, ignores accents, and keeps the vowel signs that belong to Indic words."""

MAX_WORDS: Final = 64
"""Most different words of one query; the first ones count."""

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


def indexable(text: str) -> str:
    """Return `text` in the form in which full-text tables hold it."""
    folded = unicodedata.normalize("NFKC", text)
    return folded if folded.isascii() else _RUN.sub(_pairs, folded)


def words(text: str) -> list[str]:
    """Return the words of `text` in order, in lower case; of unspaced scripts each whole run."""
    return [word.casefold() for word in _split(text)]


def content_words(text: str) -> list[str]:
    """Return the different words that say what `text` is about; all its words if none does.

    A stop word with a capital inside a sentence is kept, since it may be a name: Will, May.
    """
    kept = [
        word.casefold()
        for sentence in _SENTENCE_END.split(text)
        for place, word in enumerate(_split(sentence))
        if word.casefold() not in STOP_WORDS or (place and len(word) > 1 and word.istitle())
    ]
    return list(dict.fromkeys(kept or words(text)))


def match_any(text: str) -> str | None:
    """Return the FTS5 query for rows that hold any content word of `text`, or None without one.

    Nothing of `text` is taken for query syntax.
    """
    terms: dict[str, None] = {}
    for word in content_words(text):
        for term in _terms(word):
            terms[term] = None
    return " OR ".join(list(terms)[:MAX_WORDS]) or None


def choosing(
    connection: sqlite3.Connection, table: str, match: str, most_rows: int
) -> tuple[str, int]:
    """Return which rows of a full-text table are worth ranking for `match`: query and least rowid.

    The rarest words choose them, as long as they stand in at most `most_rows` rows together; the
    others count for those rows only. Where every word is common, the newest rows are chosen.

    Args:
        connection: Where the table is.
        table: Its name.
        match: As `match_any` returned it.
        most_rows: How many rows may be ranked.
    """
    count = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?)"  # noqa: S608
    rows = {
        term: int(connection.execute(count, (term, most_rows + 1)).fetchone()[0])
        for term in match.split(" OR ")
    }
    if sum(rows.values()) <= most_rows:
        return match, 0
    chosen, total = [], 0
    for term in sorted(filter(rows.__getitem__, rows), key=rows.__getitem__):
        total += rows[term]
        if total <= most_rows:
            chosen.append(term)
    if chosen:
        return " OR ".join(chosen), 0
    newest = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"  # noqa: S608
    oldest = connection.execute(newest, (match, most_rows)).fetchone()
    return match, oldest[0] if oldest else 0


def is_unspaced(text: str) -> bool:
    """Tell whether `text` holds a script that is written without spaces."""
    return not text.isascii() and bool(_RUN.search(text))


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` that hold a word, in order."""
    found = (part.strip() for part in _SENTENCE_END.split(text))
    return [part for part in found if _split(part)]


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
