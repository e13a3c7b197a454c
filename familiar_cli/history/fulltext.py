"""Finding turns by their words.

The full-text table holds no text of its own and can be deleted at any time: it is brought up to
date, page by page, before a search.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli import fts
from familiar_cli.clock import stopwatch_s
from familiar_cli.folding import fold_word
from familiar_cli.history.rows import SELECTED, to_turn, unpack
from familiar_cli.history.selection import TurnFilter, around
from familiar_cli.sqlite import connect, transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from familiar_cli.history.file import HistoryFile
    from familiar_cli.history.selection import Kept
    from familiar_cli.history.types import Turn

    OnProgress = Callable[[int, int], None]

VERSION: Final = 2
"""Raised when what is put into the table changes: it is then made again."""

WATERMARK: Final = f"fulltext-{VERSION}"
"""The watermark up to which turns are in the table."""

MOST_RANKED: Final = 5_000
"""How many turns are ranked, about, in 2 to 5 ms; see `fts.choose`."""

_SET_ASIDE: Final = (
    " AND rowid NOT IN (SELECT turn_id FROM set_aside WHERE superseded_by OR withdrawn)"
)
# Marks that Python's `\w` leaves out belong to the letter before them.
_WORD: Final = re.compile(r"[^\W_](?:[^\W_]|[^\s\w\u0000-\u02ff\u2000-\u303f\uff00-\uffef])*")
_WORDS_TABLE: Final = f'CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = "{fts.TOKENIZER}")'
_PAGE: Final = 5000  # turns that are added in one transaction
_TABLE: Final = (
    "CREATE VIRTUAL TABLE turns_fts USING fts5 "
    f"(body, content = '', tokenize = \"{fts.TOKENIZER}\")"
)


@dataclass(frozen=True, slots=True)
class TurnHit:
    """A turn that was found.

    Args:
        turn: The turn.
        score: How well it fits; more is better, and only within one search.
        around: It and its neighbours in the channel, oldest first.
    """

    turn: Turn
    score: float
    around: tuple[Kept, ...]


def search(
    history: HistoryFile,
    query: str,
    span: TurnFilter,
    *,
    limit: int = 10,
    neighbours: int = 1,
    on_progress: OnProgress = lambda _done, _all: None,
) -> list[TurnHit]:
    """Return the turns that fit `query` best, the best first. Nothing of it is query syntax.

    Args:
        history: The history.
        query: Words, as anybody would say them.
        span: Where to look.
        limit: Most turns to return.
        neighbours: How many turns before and after each to show.
        on_progress: Told how many of how many new turns are in the table, when there are many.
    """
    wanted = fts.match_any(query)
    if wanted is None:
        return []
    with history.use(create=False) as connection:
        catch_up(connection, on_progress)
        rows = _ranked(connection, wanted, span, max(limit, 0)) if is_ready(connection) else []
    turns = [(to_turn(row[:-1]), -row[-1]) for row in rows]
    return [
        TurnHit(
            turn, score, tuple(around(history, turn, neighbours, neighbours, viewer=span.viewer))
        )
        for turn, score in turns
    ]


def catch_up(
    connection: sqlite3.Connection,
    on_progress: OnProgress = lambda _done, _all: None,
    *,
    within_s: float | None = None,
) -> int:
    """Put all turns into the table that are not in it yet. Each page is a transaction.

    Args:
        connection: The history.
        on_progress: Told how many of how many turns are done, when there are many.
        within_s: Begin no further page after this many seconds.

    Returns:
        How many turns are still missing.
    """
    begun_s = stopwatch_s()
    done = _done(connection)
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM turns").fetchone()
    start = done
    while done < last and (within_s is None or stopwatch_s() - begun_s < within_s):
        done = _add_page(connection, last)
        if last - start > _PAGE:
            on_progress(done - start, last - start)
    return int(last - done)


def index_words(history: HistoryFile, on_progress: OnProgress = lambda _done, _all: None) -> None:
    """Make all turns searchable by their words.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.use(create=False) as connection:
        catch_up(connection, on_progress)


def count_unread(history: HistoryFile) -> int:
    """Return how many turns are not searchable yet."""
    with history.use(create=False) as connection:
        return catch_up(connection, within_s=0.0)


def _add_page(connection: sqlite3.Connection, last: int) -> int:
    """Add some turns; return the last turn that is in the table now."""
    with transaction(connection):
        done = _prepared(connection)
        sql = "SELECT id, content FROM turns WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        rows = connection.execute(sql, (done, last, _PAGE)).fetchall()
        connection.executemany(
            "INSERT INTO turns_fts (rowid, body) VALUES (?, ?)", map(_body, rows)
        )
        done = max(done, rows[-1][0] if rows else last)
        sql = "INSERT OR REPLACE INTO watermarks (name, turn_id) VALUES (?, ?)"
        connection.execute(sql, (WATERMARK, done))
    return int(done)


def _prepared(connection: sqlite3.Connection) -> int:
    """Make the table, if there is none or an older one; return the last turn that is in it."""
    done = _done(connection)
    if not done:
        connection.execute("DROP TABLE IF EXISTS turns_fts")
        connection.execute("DELETE FROM watermarks WHERE name LIKE 'fulltext-%'")
        connection.execute(_TABLE)
    return done


def is_ready(connection: sqlite3.Connection) -> bool:
    """Return whether there is a table to search."""
    sql = "SELECT 1 FROM sqlite_master WHERE name = 'turns_fts'"
    return connection.execute(sql).fetchone() is not None


def _done(connection: sqlite3.Connection) -> int:
    sql = "SELECT turn_id FROM watermarks WHERE name = ?"
    ready = is_ready(connection)
    found = connection.execute(sql, (WATERMARK,)).fetchone() if ready else None
    return int(found[0]) if found else 0


def _body(row: tuple[int, object]) -> tuple[int, str]:
    text = unpack(row[1]).encode("utf-8", errors="replace").decode("utf-8")
    return row[0], fts.indexable(text)


def _ranked(
    connection: sqlite3.Connection, wanted: str, span: TurnFilter, limit: int
) -> list[tuple[Any, ...]]:
    match, oldest, is_ranked = affordable(connection, wanted)
    where, values = span.where_all(connection)
    rank, order = ("rank", "rank") if is_ranked else ("0.0", "turns_fts.rowid DESC")
    sql = (
        f"SELECT {SELECTED}, {rank} FROM turns_fts JOIN {span.view} AS turns "  # noqa: S608
        "ON turns.id = turns_fts.rowid "
        f"WHERE turns_fts MATCH ? AND turns_fts.rowid >= ?{where} ORDER BY {order} LIMIT ?"
    )
    given = (match, oldest, *values, limit)
    if where or _has_withdrawn_channels(connection):
        return connection.execute(sql, given).fetchall()
    set_aside = "" if span.everything else _SET_ASIDE
    sql = (  # ranked before turns are read: a turn is a hundred times larger than its rank
        f"SELECT {SELECTED}, score FROM (SELECT rowid AS found, {rank} AS score FROM turns_fts "  # noqa: S608
        f"WHERE turns_fts MATCH ? AND rowid >= ?{set_aside} ORDER BY {order} LIMIT ?) "
        f"JOIN {span.view} AS turns ON turns.id = found ORDER BY score, turns.id DESC"
    )
    return connection.execute(sql, given).fetchall()


def _has_withdrawn_channels(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM channels_set_aside LIMIT 1").fetchone() is not None


def affordable(connection: sqlite3.Connection, wanted: str) -> tuple[str, int, bool]:
    """Return the query for the turns that are ranked, the oldest of them, and whether they are.

    The words that choose turns count twice in it: that is quicker than asking each of a million
    turns whether it was chosen.
    """
    choice = fts.choose(connection, "turns_fts", wanted, MOST_RANKED)
    if choice.rows in {"", choice.match}:
        return choice.match, choice.newest, choice.is_ranked
    return f"({choice.rows}) AND ({choice.match})", 0, True


def match_spans(query: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where in `text` words of `query` stand, in whatever form, as start and end."""
    wanted = fts.match_any(query)
    if wanted is None:
        return
    spans = [match.span() for match in _WORD.finditer(text)]
    with closing(connect(":memory:", 0)) as connection:  # it knows what a form of a word is
        connection.execute(_WORDS_TABLE)
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
