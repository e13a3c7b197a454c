"""Ask the full-text tables which files, passages and lines hold the words of a question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli import fts

if TYPE_CHECKING:
    import sqlite3

DEPTH: Final = 200
"""How many files, passages and lines are looked at each, best first."""

_FILES: Final = "(SELECT id FROM wanted)"
_PIECES: Final = "(SELECT c.id FROM chunks c JOIN wanted w ON w.id = c.document_id)"


@dataclass(frozen=True, slots=True)
class Lexical:
    """BM25 scores by id, higher is better; what is missing holds no word or is far from the top."""

    documents: dict[int, float] = field(default_factory=dict)
    passages: dict[int, float] = field(default_factory=dict)
    lines: dict[int, float] = field(default_factory=dict)


def ask(connection: sqlite3.Connection, query: str, *, restricted: bool = False) -> Lexical:
    """Return the scores for the words of `query`.

    Args:
        connection: The index.
        query: What is asked, as typed.
        restricted: Only the documents in the temporary table `wanted` count.
    """
    match = fts.match_any(query)
    if match is None:
        return Lexical()
    files, pieces = (_FILES, _PIECES) if restricted else ("", "")
    return Lexical(
        _scores(connection, "documents_fts", match, files),
        _scores(connection, "passages_fts", match, pieces),
        _scores(connection, "lines_fts", match, pieces),
    )


def _scores(
    connection: sqlite3.Connection, table: str, match: str, wanted: str
) -> dict[int, float]:
    # The plus keeps SQLite from asking the full-text table anew for each wanted row.
    only = f" AND +rowid IN {wanted}" if wanted else ""
    statement = (
        f"SELECT rowid, -rank FROM {table} WHERE {table} MATCH ?{only} ORDER BY rank LIMIT {DEPTH}"  # noqa: S608
    )
    return dict(connection.execute(statement, (match,)))
