"""Ask the full-text tables which files, passages and lines hold the words of a question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli import fts

if TYPE_CHECKING:
    import sqlite3

Restricted = Literal["", "IN", "NOT IN"]
DEPTH: Final = 200
"""How many files, passages and lines are looked at each, best first."""

MOST_RANKED: Final = 3_000
"""How many rows of a table are ranked, about, in 1 to 3 ms; see `fts.choose`."""

_FILES: Final = "(SELECT id FROM listed)"
# A cross join keeps SQLite from running through all chunks for the few files that are listed.
_PIECES: Final = "(SELECT c.id FROM listed l CROSS JOIN chunks c ON c.document_id = l.id)"


@dataclass(frozen=True, slots=True)
class Lexical:
    """BM25 scores by id, higher is better; what is missing holds no word or is far from the top."""

    documents: dict[int, float] = field(default_factory=dict)
    passages: dict[int, float] = field(default_factory=dict)
    lines: dict[int, float] = field(default_factory=dict)


def ask(connection: sqlite3.Connection, query: str, restricted: Restricted = "") -> Lexical:
    """Return the scores for the words of `query`.

    Args:
        connection: The index.
        query: What is asked, as typed.
        restricted: Whether only documents in the temporary table `listed` count, or all but those.
    """
    match = fts.match_any(query)
    if match is None:
        return Lexical()
    files, pieces = (f"{restricted} {ids}" if restricted else "" for ids in (_FILES, _PIECES))
    return Lexical(
        _scores(connection, "documents_fts", match, files),
        _scores(connection, "passages_fts", match, pieces),
        _scores(connection, "lines_fts", match, pieces),
    )


def _scores(
    connection: sqlite3.Connection, table: str, match: str, wanted: str
) -> dict[int, float]:
    # The plus keeps SQLite from asking the full-text table anew for each wanted row. `bm25` stands
    # where `rank` might, which would be worked out also for rows that are not wanted.
    only = f" AND +rowid {wanted}" if wanted else ""
    choice = fts.Choice(match, match)
    if not wanted.startswith("IN"):  # few rows are wanted then
        choice = fts.choose(connection, table, match, MOST_RANKED, only)
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
