"""Where in a text the words of a search stand."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from familiar_cli import fts
from familiar_cli.folding import fold_word

if TYPE_CHECKING:
    from collections.abc import Iterator

# Marks that Python's `\w` leaves out belong to the letter before them.
_WORD: Final = re.compile(r"[^\W_](?:[^\W_]|[^\s\w\u0000-\u02ff\u2000-\u303f\uff00-\uffef])*")
_TABLE: Final = f'CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = "{fts.TOKENIZER}")'


def marks(query: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where in `text` words of `query` stand, in whatever form, as start and end."""
    wanted = fts.match_any(query)
    if wanted is None:
        return
    spans = [match.span() for match in _WORD.finditer(text)]
    with closing(sqlite3.connect(":memory:")) as connection:  # it knows what a form of a word is
        connection.execute(_TABLE)
        bodies = ((n, fts.indexable(text[a:b])) for n, (a, b) in enumerate(spans))
        connection.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", bodies)
        sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid"
        found = connection.execute(sql, (wanted,)).fetchall()
    for (number,) in found:
        yield from _narrowed(query, text, *spans[number])


def _narrowed(query: str, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a run that are words of `query`; all of it where scripts have spaces."""
    run = text[start:end]
    if not fts.is_unspaced(run):
        yield start, end
        return
    pieces = {word for word in fts.content_words(query) if word}
    pieces |= {word[at : at + 2] for word in pieces for at in range(len(word) - 1)}
    pattern = "|".join(sorted(map(re.escape, pieces), key=len, reverse=True))
    places = [at for at, letter in enumerate(run) for _ in fold_word(letter)]
    for match in re.finditer(pattern, "".join(map(fold_word, run))):
        yield start + places[match.start()], start + places[match.end() - 1] + 1
