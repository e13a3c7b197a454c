"""How near in time lines are to what a question asks for."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from familiar_cli.index.dates import day_span, period_of, time_of
from familiar_cli.spans import Span, spans_in
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from familiar_cli.index.rank import LineCandidate


def times_of_lines(
    connection: sqlite3.Connection, query: str, today: date, lines: Sequence[LineCandidate]
) -> dict[int, float]:
    """Return how near each line is to the times that `query` names; empty if it names none.

    A line is of the day of its file, or of a time that it speaks of itself, which counts more.
    """
    wanted = spans_in(query, today)
    if not wanted:
        return {}
    spoken_of: dict[int, list[Span]] = {}
    select = "SELECT line_id, first, last FROM times WHERE line_id IN"
    for id_, first, last in rows_among(connection, select, [line.id for line in lines]):
        span = Span(date.fromordinal(first), date.fromordinal(last))
        spoken_of.setdefault(id_, []).append(span)
    select = "SELECT id, rel_path, day FROM documents WHERE id IN"
    files = {
        id_: day_span(date.fromisoformat(day)) if day else period_of(rel_path)
        for id_, rel_path, day in rows_among(
            connection, select, {line.document_id for line in lines}
        )
    }
    return {
        line.id: time_of(wanted, files[line.document_id], spoken_of.get(line.id, ()))
        for line in lines
    }
