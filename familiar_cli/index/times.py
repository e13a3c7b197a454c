"""How near in time lines are to what a question asks for."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

from familiar_cli.index.dates import closeness, period_of
from familiar_cli.spans import Span, spans_in
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from familiar_cli.index.rank import Scored


_OF_FILE: Final = 0.8


def times_of_lines(
    connection: sqlite3.Connection, query: str, today: date, scored: Sequence[Scored]
) -> dict[int, float]:
    """Return how near each line is to the times that `query` names; empty if it names none.

    A line is of the day of its file, or of a time that it speaks of itself, which counts more.
    """
    wanted = spans_in(query, today)
    if not wanted:
        return {}
    select = "SELECT id, rel_path, day FROM documents WHERE id IN"
    files: dict[int, float] = {}
    for id_, rel_path, day in rows_among(connection, select, {s.line.document_id for s in scored}):
        held = _day(day) if day else period_of(rel_path)
        files[id_] = _OF_FILE * closeness(wanted, held) if held else 0.0
    found = {s.line.id: files.get(s.line.document_id, 0.0) for s in scored}
    select = "SELECT line_id, first, last FROM times WHERE line_id IN"
    for id_, first, last in rows_among(connection, select, list(found)):
        span = Span(date.fromordinal(first), date.fromordinal(last))
        found[id_] = max(found[id_], closeness(wanted, span))
    return found


def _day(day: str) -> Span:
    only = date.fromisoformat(day)
    return Span(only, only)
