"""Vectors of single tokens: a file of them that only grows, and how near texts are by them.

A text is near to a question when each token of the question is near to some token of the text
(*late interaction*, MaxSim). The file holds int8 rows, 127 times an L2-normalised vector; who it
belongs to knows where the rows of a text begin, how many they are, and how far the file is valid.
What a crash leaves behind that is overwritten. A file is never cut and its name never used again,
so whoever has it mapped keeps reading what he read before.
"""

from __future__ import annotations

import math
import os
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from familiar_cli import fts
from familiar_cli.files import write_whole
from familiar_cli.index.rank import runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.int8]
    Places = NDArray[np.int64]

ONE_THREAD: Final = 1024 * 64 * 8
"""Rows, columns and inner dimension, multiplied, up to which OpenBLAS keeps to one thread."""


def each_to_each(rows: Matrix, others: Matrix) -> Matrix:
    """Return the dot products float32[n, m] of float32[n, d] and float32[m, d]; m is small."""
    import numpy as np  # noqa: PLC0415  # 0.1 s

    found: Matrix = np.einsum("nd,md->nm", rows, others)
    return found


def weighted(rows: Matrix, weights: Matrix) -> Matrix:
    """Return the sums float32[n] of float32[n, d], each number times its weight."""
    import numpy as np  # noqa: PLC0415

    found: Matrix = np.einsum("nd,d->n", rows, weights)
    return found


def block_rows(width: int, columns: int) -> int:
    """Return how many rows of `width` numbers to multiply with so many columns at once."""
    return max(1, ONE_THREAD // max(1, width * columns))


PREFIX: Final = "tokens-"
SCALE: Final = 127
_MAGIC: Final = b"FAMTOK1\n"
_HEADER: Final = struct.Struct("<8sq")
_LOW_PERCENT: Final = 25
_MOST_LOW: Final = 0.75  # of the best, where few lines are found and all are alike
NEAR: Final = 0.8
"""How near the line is that answers a question: MiniLM's median. Unrelated ones come to 0.55."""

_READ_BYTES: Final = 16 * 1024 * 1024  # reading so much takes a few milliseconds
_MOST_COUNTED: Final = 3_000  # texts that hold a word; of more, their share of the newest is taken


class Extents(NamedTuple):
    """Where the rows of some texts are: the first one, and how many, int64[n] each."""

    starts: Places
    counts: Places


def create(directory: Path, width: int) -> str:
    """Make an empty file for vectors of `width` numbers in `directory`, and return its name."""
    name = f"{PREFIX}{os.urandom(8).hex()}.i8"
    begin(directory / name, width)
    return name


def begin(path: Path, width: int) -> None:
    """Make an empty file for vectors of `width` numbers, where none is mapped."""
    write_whole(path, _HEADER.pack(_MAGIC, width))


def rows_in(path: Path) -> int:
    """Return how many whole rows a file has; 0: there is no such file."""
    width = width_of(path)
    return (path.stat().st_size - _HEADER.size) // width if width else 0


def append(path: Path, at: int, rows: Rows) -> None:
    """Write `rows` after the first `at`, durably, over what a crash may have left there.

    Raises:
        OSError: There is no such file, or it cannot be written.
    """
    with path.open("r+b") as file:
        file.seek(_HEADER.size + at * rows.shape[1])
        file.write(rows.tobytes())
        file.flush()
        os.fsync(file.fileno())


def width_of(path: Path) -> int:
    """Return how many numbers a row has; 0: there is no such file."""
    try:
        with path.open("rb") as file:
            magic, width = _HEADER.unpack(file.read(_HEADER.size))
    except (OSError, struct.error):
        return 0
    return int(width) if magic == _MAGIC else 0


def load_rows(
    path: Path, kind: np.dtype[Any] | str, offset: int, shape: tuple[int, ...]
) -> NDArray[Any] | None:
    """Load an array of a file, or map it where it is large; None if the file is too short.

    A mapped file that another program cuts short kills whoever reads on, so a small one is read,
    and a large one is looked at before each use: see `size_of`.

    Raises:
        OSError: There is no such file, or it cannot be read.
    """
    import numpy as np  # noqa: PLC0415  # 0.1 s

    size_bytes = np.dtype(kind).itemsize * math.prod(shape)
    if path.stat().st_size < offset + size_bytes:
        return None
    if size_bytes > _READ_BYTES:
        return np.asarray(np.memmap(path, kind, "r", offset, shape))
    found = np.fromfile(path, kind, math.prod(shape), offset=offset)
    return found.reshape(shape) if found.size == math.prod(shape) else None


def size_of(path: Path) -> int:
    """Return the size of a file, or -1 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def mapped(path: Path, width: int, count: int) -> Rows | None:
    """Return the first `count` rows, or None if the file is missing, truncated or foreign."""
    import numpy as np  # noqa: PLC0415  # 0.1 s

    try:
        if not width or width_of(path) != width:
            return None
        if not count:
            return np.empty((0, width), np.int8)
        return load_rows(path, "i1", _HEADER.size, (count, width))
    except (OSError, ValueError):
        return None


def quantised(vectors: Matrix) -> Rows:
    """Return L2-normalised vectors as the file holds them."""
    import numpy as np  # noqa: PLC0415

    return np.rint(vectors * SCALE).astype(np.int8)


def maxima(rows: Rows, extents: Extents, question: Matrix) -> Matrix:
    """Return how near each text comes to each token of a question, float32[n, q], 0 at least.

    Args:
        rows: int8[t, w], of all texts.
        extents: Which of them belong to the texts that are asked about.
        question: float32[q, w], each L2-normalised.
    """
    import numpy as np  # noqa: PLC0415

    found = np.zeros((len(extents.counts), len(question)), np.float32)
    columns = question.T / np.float32(SCALE)
    at_once = block_rows(*columns.shape)
    (filled,) = np.nonzero(extents.counts)
    ends = np.cumsum(extents.counts[filled])
    first = 0
    while first < len(filled):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + at_once, side="right")))
        some = filled[first:last]
        starts, counts = extents.starts[some], extents.counts[some]
        near = rows[runs(starts, counts)].astype(np.float32) @ columns
        found[some] = np.maximum.reduceat(near, ends[first:last] - counts - done, axis=0)
        first = last
    return np.maximum(found, 0.0, out=found)


def largest(found: Matrix, members: Places, sizes: Places) -> Matrix:
    """Return the largest `maxima` of groups of texts, float32[g, q].

    Args:
        found: What `maxima` returned.
        members: The numbers of the texts, group by group.
        sizes: How many are in each group; none is empty.
    """
    import numpy as np  # noqa: PLC0415

    best: Matrix = np.maximum.reduceat(found[members], np.cumsum(sizes) - sizes, axis=0)
    return best


def weights(connection: sqlite3.Connection, table: str, words: Sequence[str], count: int) -> Matrix:
    """Return how much the tokens of a question count: the square root of their IDF; the sum is 1.

    Args:
        connection: Where the full-text table of the texts is.
        table: Its name.
        words: The tokens' words.
        count: About how many texts there are.
    """
    import numpy as np  # noqa: PLC0415

    held = fts.frequencies(connection, table, set(words), _MOST_COUNTED)
    about = {w: n if n <= _MOST_COUNTED else share * count for w, (n, share) in held.items()}
    by_token = np.array([min(about[word], count) for word in words])
    rare = np.sqrt(np.log1p((count - by_token + 0.5) / (by_token + 0.5)))
    shares: Matrix = (rare / rare.sum()).astype(np.float32)
    return shares


def scaled(values: Matrix) -> Matrix:
    """Return `values` so that the best is 1, and their first quarter is 0.

    A best one that is less near than answers are has less than 1, so that what two places hold can
    be compared. What is nearly as near as the best always has more than 0.
    """
    import numpy as np  # noqa: PLC0415

    best = float(values.max())
    low = min(float(np.percentile(values, _LOW_PERCENT)), _MOST_LOW * best)
    shares: Matrix = np.clip((values - low) / (max(best, NEAR) - low), 0.0, 1.0)
    return shares
