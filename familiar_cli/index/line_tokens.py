"""Token vectors of the lines of memory: which file holds them, and where those of a line are.

`meta` names the file and says how many of its rows count; a line knows which are its own. Rows are
written before either says so, hence what a crash leaves behind is past the end and overwritten.
"""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.index import token_vectors
from familiar_cli.index.rank import LineNearness, runs
from familiar_cli.index.schema import meta, set_meta
from familiar_cli.index.token_vectors import Extents, weighted
from familiar_cli.sqlite import transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from familiar_cli.index.embedder import Encoded
    from familiar_cli.index.rank import LineCandidate, PassageLines, Pieces
    from familiar_cli.index.token_vectors import Places, Rows

    # Where the rows of a text begin, and how many they are; None twice: it has none.
    Extent = tuple[int | None, int | None]

NONE: Final = {"tokens": "", "token_rows": "0", "token_width": "0"}
"""What `meta` says while there is no file."""

REACH: Final = 2
"""Of a line's passage, so many lines before and after it count."""

_DEAD_ROWS: Final = 50_000  # that nobody needs any more, before the file is written again
_COPIED_ROWS: Final = 65_536


class CountedTokens(NamedTuple):
    """The file that counts: its name, its rows and their width."""

    name: str
    rows: int
    width: int


def held(connection: sqlite3.Connection) -> CountedTokens:
    """Return which file holds token vectors; its name is empty while there is none."""
    return CountedTokens(
        meta(connection, "tokens"),
        int(meta(connection, "token_rows") or 0),
        int(meta(connection, "token_width") or 0),
    )


def mapped(connection: sqlite3.Connection, directory: Path) -> Rows | None:
    """Return all rows that count; None where there are none, or the file is gone."""
    name, count, width = held(connection)
    return token_vectors.mapped(_path(directory, name), width, count) if name else None


def stamp(connection: sqlite3.Connection, directory: Path) -> tuple[CountedTokens, int]:
    """Return a stamp that changes with the rows, or when their file is truncated."""
    found = held(connection)
    return found, token_vectors.size_of(_path(directory, found.name)) if found.name else 0


def are_lost(connection: sqlite3.Connection, directory: Path) -> bool:
    """Tell whether the file is gone, or shorter than it should be."""
    return bool(held(connection).name) and mapped(connection, directory) is None


def put(connection: sqlite3.Connection, directory: Path, made: Encoded) -> list[Extent]:
    """Write the token vectors of some texts; return where those of each text are."""
    if made.tokens is None:
        return [(None, None)] * len(made.counts)
    name, start, width = held(connection)
    if not name:
        width, start = made.tokens.shape[1], 0
        name = token_vectors.create(directory, width)
        set_meta(connection, **{**NONE, "tokens": name, "token_width": str(width)})
    token_vectors.append(_path(directory, name), start, token_vectors.quantised(made.tokens))
    extents: list[Extent] = []
    for count in made.counts:
        extents.append((start, count))
        start += count
    return extents


def note(connection: sqlite3.Connection, extents: Sequence[Extent]) -> None:
    """Let the rows count that `put` wrote. Call it in the transaction that says whose they are."""
    ends = [first + count for first, count in extents if first is not None and count is not None]
    if ends:
        set_meta(connection, token_rows=str(max(ends)))


def shrink_if_due(connection: sqlite3.Connection, directory: Path) -> bool:
    """Write the rows that are needed into a new file, when more than half of the old are not."""
    name, count, width = held(connection)
    extents = connection.execute(
        "SELECT DISTINCT rows_from, rows_count FROM chunks"
        " WHERE rows_count IS NOT NULL ORDER BY rows_from"
    ).fetchall()
    dead = count - sum(size for _, size in extents)
    rows = mapped(connection, directory)
    if rows is None or dead <= max(_DEAD_ROWS, count // 2):
        _drop_others(directory, name)
        return False
    places, end = {}, 0
    for start, size in extents:
        places[start, size] = end
        end += size
    new = token_vectors.create(directory, width)
    _copy(rows, extents, directory / new)
    with transaction(connection):
        lines = connection.execute(
            "SELECT rows_from, rows_count, id FROM chunks WHERE rows_count IS NOT NULL"
        ).fetchall()
        connection.executemany(
            "UPDATE chunks SET rows_from = ? WHERE id = ?",
            [(places[start, size], id_) for start, size, id_ in lines],
        )
        set_meta(connection, tokens=new, token_rows=str(end))
    _drop_others(directory, new)
    return True


def nearness(
    pieces: Pieces,
    rows: Rows | None,
    asked: Encoded,
    lines: Sequence[LineCandidate],
    made_of: PassageLines,
    *,
    count: int,
) -> dict[int, LineNearness]:
    """Return how near lines and their passages are to a question, by the line's id.

    A line without token vectors is missing; without any, the result is empty.

    Args:
        pieces: What reads the index.
        rows: The vectors of all tokens.
        asked: The question.
        lines: The lines.
        made_of: All passages that hold them.
        count: About how many lines the index holds.
    """
    if rows is None or asked.tokens is None or rows.shape[1] != asked.tokens.shape[1]:
        return {}
    import numpy as np  # noqa: PLC0415  # only by meaning

    windows = _windows(lines, made_of)
    ids, extents = _extents(pieces, windows)
    there = np.isin(windows.lines, ids)
    if not there.any():
        return {}
    found = token_vectors.maxima(rows, extents, asked.tokens)
    weights = token_vectors.weights(pieces.connection, "lines_fts", asked.words, count)
    windows = _Windows(*(column[there] for column in windows))
    firsts = np.searchsorted(ids, windows.firsts)
    sizes = np.searchsorted(ids, windows.ends) - firsts
    around = weighted(token_vectors.largest(found, runs(firsts, sizes), sizes), weights)
    wanted, begins = np.unique(windows.lines, return_index=True)  # windows are sorted by line
    own = token_vectors.scaled(weighted(found[np.searchsorted(ids, wanted)], weights))
    passage = token_vectors.scaled(np.maximum.reduceat(around, begins))
    pairs = zip(own.tolist(), passage.tolist(), strict=True)
    return dict(zip(wanted.tolist(), itertools.starmap(LineNearness, pairs), strict=True))


class _Windows(NamedTuple):
    """The part of a passage that counts for a line, int64[n] each, in the order of lines."""

    lines: Places
    firsts: Places
    ends: Places


def _windows(lines: Iterable[LineCandidate], made_of: PassageLines) -> _Windows:
    import numpy as np  # noqa: PLC0415

    listed = sorted((line.id, *line.passages) for line in lines)
    ids, firsts, ends = np.array(listed, np.int64).reshape(-1, 3).T
    of_line = np.repeat(ids, ends - firsts)
    places = np.searchsorted(made_of.passages, runs(firsts, ends - firsts))
    begin = np.maximum(made_of.firsts[places], of_line - REACH)
    return _Windows(of_line, begin, np.minimum(made_of.ends[places], of_line + REACH + 1))


def _extents(pieces: Pieces, windows: _Windows) -> tuple[Places, Extents]:
    """Return the lines in `windows` that have token vectors, ascending, and where those are."""
    import numpy as np  # noqa: PLC0415

    wanted = np.unique(runs(windows.firsts, windows.ends - windows.firsts)).tolist()
    found = [
        (one.id, one.rows_from, one.rows_count)
        for one in pieces.among(wanted)
        if one.rows_count is not None
    ]
    ids, starts, counts = np.array(found, np.int64).reshape(-1, 3).T
    return ids, Extents(starts, counts)


def _copy(rows: Rows, extents: Iterable[tuple[int, int]], path: Path) -> None:
    """Write those rows of the old file to the new one, some megabytes at a time."""
    import numpy as np  # noqa: PLC0415

    waiting, size, done = [], 0, 0
    for start, count in extents:
        waiting.append(rows[start : start + count])
        size += count
        if size >= _COPIED_ROWS:
            token_vectors.append(path, done, np.concatenate(waiting))
            waiting, size, done = [], 0, done + size
    if waiting:
        token_vectors.append(path, done, np.concatenate(waiting))


def _path(directory: Path, name: str) -> Path:
    return directory / Path(name).name


def _drop_others(directory: Path, name: str) -> None:
    """Delete the files that no new search will open, as far as the system lets them go."""
    for path in directory.glob(f"{token_vectors.PREFIX}*"):
        if path.name != name:
            with contextlib.suppress(OSError):
                path.unlink()
