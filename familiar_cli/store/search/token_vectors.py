"""Vectors of single tokens: similarity of texts by them, and those of the lines of memory.

A text is similar to a question if each token of the question is similar to some token of the text
(*late interaction*, MaxSim). Rows are int8, 127 times an L2-normalised vector. `meta` names the
file of lines and the number of its valid rows; a line knows its own. Rows are written before either
refers to them, so what a crash leaves behind is past the end and overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from familiar_cli.base.sqlite import transaction
from familiar_cli.store import fts
from familiar_cli.store.search.rank import PieceParts, Pieces, columns_of, distinct_ids, number_runs
from familiar_cli.store.search.schema import TOKENS_PREFIX, read_metas, set_meta
from familiar_cli.store.search.vectors import (
    RowFile,
    block_rows,
    drop_others,
    new_name,
    size_of,
    weighted_sums,
)

if TYPE_CHECKING:
    import sqlite3

    import numpy as np
    from numpy.typing import NDArray

    from familiar_cli.store.search.embedder import Encoded

    Matrix = NDArray[np.float32]
    Rows = NDArray[np.int8]
    Places = NDArray[np.int64]
    # Where the rows of a text begin, and how many they are; None twice: it has none.
    Extent = tuple[int | None, int | None]

SCALE: Final = 127
_MOST_LOW: Final = 0.75  # of the best, where few lines are found and all are alike
NEAR: Final = 0.8
"""How near the line is that answers a question: MiniLM's median. Unrelated ones come to 0.55."""

_OF_KIND: Final = 2.0  # weight of the word for what is asked for, of which several are wanted
_MOST_COUNTED: Final = 3_000  # texts that hold a word; of more, their share of the newest is taken


class Extents(Struct, frozen=True):
    """Rows of some texts: the first one, and their number, int64[n] each."""

    starts: Places
    counts: Places


def token_rows(path: Path, width: int) -> RowFile:
    """Open a file for token vectors of `width` numbers."""
    return RowFile(path, ("i1", (width,)))


def quantise_vectors(vectors: Matrix) -> Rows:
    """Convert L2-normalised vectors to the file's format."""
    import numpy as np  # noqa: PLC0415

    return np.rint(vectors * SCALE).astype(np.int8)


class Maxima(NamedTuple):
    """Similarities of texts to each token of a question, float32[n, q], >= 0.

    Args:
        best: By a text's nearest token.
        second: By its second nearest token; where that was not asked for, the same as `best`.
    """

    best: Matrix
    second: Matrix


def token_maxima(rows: Rows, extents: Extents, question: Matrix, second: int = 0) -> Maxima:
    """Return each text's similarity to each token of a question.

    Args:
        rows: int8[t, w], of all texts.
        extents: The rows of the texts to compare.
        question: float32[q, w], each L2-normalised.
        second: For so many tokens of the question, the first, second nearest ones are needed.
    """
    import numpy as np  # noqa: PLC0415

    best = np.zeros((len(extents.counts), len(question)), np.float32)
    other = np.zeros((len(best), second), np.float32) if second else best
    for texts, begins, near in _near_blocks(rows, extents, question):
        best[texts] = nearest = np.maximum.reduceat(near, begins, axis=0)
        if second:
            some, sizes = near[:, :second], np.diff(begins, append=len(near))
            below = some * (some < nearest[:, :second].repeat(sizes, axis=0))
            other[texts] = np.maximum.reduceat(below, begins, axis=0)
    return Maxima(*(np.maximum(one, 0.0, out=one) for one in (best, other)))


def mean_maxima(rows: Rows, extents: Extents, question: Matrix) -> Matrix:
    """Return the mean similarity of a text's tokens, each to the nearest of a question's."""
    import numpy as np  # noqa: PLC0415

    result = np.zeros(len(extents.counts), np.float32)
    for texts, begins, near in _near_blocks(rows, extents, question):
        nearest = np.ascontiguousarray(near.T).max(axis=0)  # in a tenth of the time of `axis=1`
        result[texts] = np.add.reduceat(nearest, begins) / extents.counts[texts]
    return result


def _near_blocks(
    rows: Rows, extents: Extents, question: Matrix
) -> Iterator[tuple[Places, Places, Matrix]]:
    """Yield the cosines of tokens with a question's, some texts at a time.

    With them, float32[t, q], come the indexes of those texts, and where each begins.
    """
    import numpy as np  # noqa: PLC0415

    columns = np.ascontiguousarray(question.T / np.float32(SCALE))
    at_once = block_rows(*columns.shape)
    (filled,) = extents.counts.nonzero()
    counts = extents.counts[filled]
    places, ends = number_runs(extents.starts[filled], counts), counts.cumsum()
    begins, first = ends - counts, 0
    while first < len(filled):
        done = int(begins[first])
        last = max(first + 1, int(ends.searchsorted(done + at_once, side="right")))
        some = rows.take(places[done : int(ends[last - 1])], axis=0)
        yield filled[first:last], begins[first:last] - done, some.astype(np.float32) @ columns
        first = last


def question_maxima(
    rows: Rows, extents: Extents, asked: Encoded, *, second: bool = False
) -> Maxima:
    """Return each text's similarity to each token of a question.

    A text that is about a thing of the kind asked for is as similar as if it named the kind; by the
    second measure, one about two such things.

    Args:
        second: Whether the second measure is needed.
    """
    import numpy as np  # noqa: PLC0415

    assert asked.tokens is not None
    places = [place for place, word in enumerate(asked.words) if word == asked.kind]
    if asked.things is None or not places:
        return token_maxima(rows, extents, asked.tokens, len(asked.words) * second)
    count, both = len(asked.words), np.concatenate((asked.tokens, asked.things))
    of_all = token_maxima(rows, extents, both, count * second)
    best = np.ascontiguousarray(of_all.best[:, :count])
    other = of_all.second if second else best
    things = np.sort(of_all.best[:, count:], axis=1)[:, -2:]
    for place in places:
        np.maximum(best[:, place], things[:, -1], out=best[:, place])
        if second:
            np.maximum(other[:, place], things[:, 0], out=other[:, place])
    return Maxima(best, other)


def largest_maxima(result: Matrix, members: Places, sizes: Places) -> Matrix:
    """Return the largest `maxima` of groups of texts, float32[g, q].

    Args:
        result: The result of `maxima`.
        members: Indexes of the texts, group by group.
        sizes: Size of each group, >= 1.
    """
    import numpy as np  # noqa: PLC0415

    begins = np.cumsum(sizes) - sizes
    best: Matrix = result.take(members[begins], axis=0)
    for step in range(1, int(sizes.max())):  # groups are small; `reduceat` takes twice as long
        others = members[begins + np.minimum(step, sizes - 1)]
        np.maximum(best, result.take(others, axis=0), out=best)
    return best


def token_weights(
    connection: sqlite3.Connection,
    table: str,
    asked: Encoded,
    count: int,
    *,
    counts: fts.Counts | None = None,
    visible: fts.Visible | None = None,
) -> Matrix:
    """Return the weights of a question's tokens: the square root of their IDF; the sum is 1.

    Args:
        connection: The database with the texts' full-text table.
        table: Its name.
        asked: The question; the word for the kind of thing that it asks for counts twice.
        count: Approximate number of texts.
        counts: As in `fts.frequencies`.
        visible: As in `fts.frequencies`.
    """
    import numpy as np  # noqa: PLC0415

    held = fts.frequencies(
        connection, table, set(asked.words), _MOST_COUNTED, counts=counts, visible=visible
    )
    about = {w: n if n <= _MOST_COUNTED else share * count for w, (n, share) in held.items()}
    by_token = np.array([min(about[word], count) for word in asked.words])
    rare = np.sqrt(np.log1p((count - by_token + 0.5) / (by_token + 0.5)))
    if asked.things is not None:
        rare *= [_OF_KIND if word == asked.kind else 1.0 for word in asked.words]
    shares: Matrix = (rare / rare.sum()).astype(np.float32)
    return shares


def scale_values(values: Matrix) -> Matrix:
    """Scale `values` so that the best is 1, and the first quartile is 0.

    A best value below that of typical answers stays below 1, so that two sources are comparable.
    Values close to the best are always above 0.
    """
    best = float(values.max())
    low = min(_first_quartile(values), _MOST_LOW * best)
    shares: Matrix = ((values - low) / (max(best, NEAR) - low)).clip(0.0, 1.0)
    return shares


def _first_quartile(values: Matrix) -> float:
    """Return the 25th percentile exactly as `np.percentile` does, in a tenth of the time."""
    import numpy as np  # noqa: PLC0415

    place, quarters = divmod(len(values) - 1, 4)
    after = place + bool(quarters)
    low, high = np.partition(values, (place, after))[[place, after]]
    share, step = np.float32(quarters / 4), high - low
    return float(high - step * (1 - share) if quarters > 1 else low + step * share)


_MEAN: Final = 0.2  # what a turn scores that is as near as the average one
_SPREADS: Final = (0.1, 0.16)  # of similarities; most questions lie in between


def scale_by_spread(values: Matrix) -> Matrix:
    """Scale `values` to [0, 1]: the mean is 0.2, and a standard deviation makes 0.2.

    The mean counts as half of the best at most, since few texts may all be near. A small spread,
    where nothing stands out, counts as 0.1, and a large one, of few texts, as 0.16.
    """
    middle = min(float(values.mean()), float(values.max()) / 2)
    spread = min(max(float(values.std()), _SPREADS[0]), _SPREADS[1])
    shares: Matrix = (_MEAN + _MEAN * (values - middle) / spread).clip(0.0, 1.0)
    return shares


NONE: Final = {"tokens": "", "token_rows": "0", "token_width": "0"}
"""What `meta` says while there is no file."""

REACH: Final = 2
"""Of a line's passage, so many lines before and after it count."""

_DEAD_ROWS: Final = 50_000  # that nobody needs any more, before the file is written again
_COPIED_ROWS: Final = 65_536


class CountedTokens(NamedTuple):
    """The valid file: its name, its number of rows and their width."""

    name: str
    rows: int
    width: int


def token_file(connection: sqlite3.Connection) -> CountedTokens:
    """Return the file of token vectors; its name is empty if there is none."""
    name, rows, width = read_metas(connection, "tokens", "token_rows", "token_width")
    return CountedTokens(name, int(rows or 0), int(width or 0))


def map_rows(connection: sqlite3.Connection, directory: Path) -> Rows | None:
    """Return all valid rows; None if there are none, or the file is gone."""
    name, count, width = token_file(connection)
    return _row_file(directory, name, width).load(count) if name else None


def token_stamp(connection: sqlite3.Connection, directory: Path) -> tuple[CountedTokens, int]:
    """Return a stamp that changes with the rows, or when their file is truncated."""
    tokens = token_file(connection)
    return tokens, size_of(directory / Path(tokens.name).name) if tokens.name else 0


def are_lost(connection: sqlite3.Connection, directory: Path) -> bool:
    """Tell whether the file is missing or truncated."""
    return bool(token_file(connection).name) and map_rows(connection, directory) is None


def put_tokens(connection: sqlite3.Connection, directory: Path, encoding: Encoded) -> list[Extent]:
    """Write the token vectors of some texts; return the rows of each text."""
    if encoding.tokens is None:
        return [(None, None)] * len(encoding.counts)
    name, start, width = token_file(connection)
    if not name:
        width, start = encoding.tokens.shape[1], 0
        name = new_name(TOKENS_PREFIX, ".i8")
        set_meta(connection, **{**NONE, "tokens": name, "token_width": str(width)})
    _row_file(directory, name, width).append(start, quantise_vectors(encoding.tokens))
    extents: list[Extent] = []
    for count in encoding.counts:
        extents.append((start, count))
        start += count
    return extents


def note_extents(connection: sqlite3.Connection, extents: Sequence[Extent]) -> None:
    """Make the rows written by `put` valid. Call it in the transaction that assigns them."""
    ends = [first + count for first, count in extents if first is not None and count is not None]
    if ends:
        set_meta(connection, token_rows=str(max(ends)))


def shrink_if_due(connection: sqlite3.Connection, directory: Path) -> bool:
    """Copy the used rows to a new file if more than half of the old ones are unused."""
    name, count, width = token_file(connection)
    extents = connection.execute(
        "SELECT DISTINCT rows_from, rows_count FROM chunks"
        " WHERE rows_count IS NOT NULL ORDER BY rows_from"
    ).fetchall()
    dead = count - sum(size for _, size in extents)
    rows = map_rows(connection, directory)
    if rows is None or dead <= max(_DEAD_ROWS, count // 2):
        drop_others(directory, TOKENS_PREFIX, name)
        return False
    places, end = {}, 0
    for start, size in extents:
        places[start, size] = end
        end += size
    new = new_name(TOKENS_PREFIX, ".i8")
    _copy_rows(rows, extents, _row_file(directory, new, width))
    with transaction(connection):
        lines = connection.execute(
            "SELECT rows_from, rows_count, id FROM chunks WHERE rows_count IS NOT NULL"
        ).fetchall()
        connection.executemany(
            "UPDATE chunks SET rows_from = ? WHERE id = ?",
            [(places[start, size], id_) for start, size, id_ in lines],
        )
        set_meta(connection, tokens=new, token_rows=str(end))
    drop_others(directory, TOKENS_PREFIX, new)
    return True


def token_nearness(
    pieces: Pieces,
    rows: Rows | None,
    encoding: Encoded,
    lines: PieceParts,
    made_of: PieceParts,
    *,
    count: int,
    second: bool = False,
) -> dict[int, tuple[float, float]]:
    """Return the similarity of lines and their passages to a question, by the line's id.

    Lines without token vectors are missing; without any, the result is empty.

    Args:
        pieces: Reader of the index.
        rows: The vectors of all tokens.
        encoding: The question.
        made_of: All passages that contain them.
        count: Approximate number of lines in the index.
        second: Lines, but not passages, are compared by the second measure of `Maxima`.
    """
    if rows is None or encoding.tokens is None or rows.shape[1] != encoding.tokens.shape[1]:
        return {}
    import numpy as np  # noqa: PLC0415  # only by meaning

    windows = _line_windows(lines, made_of)
    ids, extents = _window_extents(pieces, windows)
    if not len(ids):
        return {}
    there = ids[np.minimum(ids.searchsorted(windows.lines), len(ids) - 1)] == windows.lines
    if not there.any():
        return {}
    result, apart = question_maxima(rows, extents, encoding, second=second)
    shares = token_weights(
        pieces.connection,
        "lines_fts",
        encoding,
        count,
        counts=pieces.counts,
        visible=pieces.lines_seen,
    )
    if not there.all():
        windows = _Windows(*(column[there] for column in windows))
    firsts = ids.searchsorted(windows.firsts)
    sizes = ids.searchsorted(windows.ends) - firsts
    around = weighted_sums(largest_maxima(result, number_runs(firsts, sizes), sizes), shares)
    (begins,) = np.diff(windows.lines, prepend=-1).nonzero()  # windows are sorted by line
    target = windows.lines[begins]
    line = scale_values(weighted_sums(apart[ids.searchsorted(target)], shares))
    passage = scale_values(np.maximum.reduceat(around, begins))
    pairs = zip(line.tolist(), passage.tolist(), strict=True)
    return dict(zip(target.tolist(), pairs, strict=True))


class _Windows(NamedTuple):
    """The part of a passage that counts for a line, int64[n] each, in the order of lines."""

    lines: Places
    firsts: Places
    ends: Places


def _line_windows(lines: PieceParts, made_of: PieceParts) -> _Windows:
    import numpy as np  # noqa: PLC0415

    of_line = lines.ids.repeat(lines.ends - lines.firsts)
    places = made_of.ids.searchsorted(lines.all_parts())
    begin = np.maximum(made_of.firsts[places], of_line - REACH)
    return _Windows(of_line, begin, np.minimum(made_of.ends[places], of_line + REACH + 1))


def _window_extents(pieces: Pieces, windows: _Windows) -> tuple[Places, Extents]:
    """Return the lines in `windows` with token vectors, ascending, and their rows."""
    wanted = distinct_ids(number_runs(windows.firsts, windows.ends - windows.firsts)).tolist()
    candidates = [one for one in pieces.among(wanted) if one.rows_count is not None]
    ids, starts, counts = columns_of(candidates, "id", "rows_from", "rows_count")
    return ids, Extents(starts, counts)


def _copy_rows(rows: Rows, extents: Iterable[tuple[int, int]], file: RowFile) -> None:
    """Copy rows of the old file to the new one, some megabytes at a time."""
    import numpy as np  # noqa: PLC0415

    waiting, size, done = [], 0, 0
    for start, count in extents:
        waiting.append(rows[start : start + count])
        size += count
        if size >= _COPIED_ROWS:
            file.append(done, np.concatenate(waiting))
            waiting, size, done = [], 0, done + size
    if waiting:
        file.append(done, np.concatenate(waiting))


def _row_file(directory: Path, name: str, width: int) -> RowFile:
    return token_rows(directory / Path(name).name, width)
