"""All vectors of the index: a file, and the rows added since it was written.

SQLite holds every vector and is the one that counts; the file is a copy in the order of chunk ids,
so that a search is one matrix product. A file that is missing, cut short or of another model is
left aside and written again.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.files import write_whole
from familiar_cli.index.rank import runs
from familiar_cli.index.schema import meta, set_meta
from familiar_cli.index.token_vectors import each_to_each, load_rows, size_of
from familiar_cli.sqlite import transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Ids = NDArray[np.int64]

_MAGIC: Final = b"FAMVEC1\n"
_HEADER: Final = struct.Struct("<8sqq")
NONE: Final = -2.0
"""Less than any cosine."""

DELTA_ROWS: Final = 1000
"""How many vectors may be outside the file before it is written again."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors by chunk id, in ascending order of ids within each part.

    Args:
        parts: Pairs of int64[n] ids and float32[n, d] rows.
    """

    parts: tuple[tuple[Ids, Matrix], ...]

    def __len__(self) -> int:
        return sum(len(ids) for ids, _ in self.parts)

    def cosines(self, questions: Matrix) -> Cosines:
        """Return for every vector its cosine to the nearest of `questions`, float32[s, d]."""
        import numpy as np  # noqa: PLC0415

        scores = [each_to_each(rows, questions).max(axis=1) for _, rows in self.parts]
        ids = [ids for ids, _ in self.parts]
        if not ids:
            return Cosines(np.empty(0, np.int64), np.empty(0, np.float32))
        joined = np.concatenate(ids), np.concatenate(scores)
        if len(ids) > 1 and len(ids[0]) and len(ids[1]) and ids[1][0] < ids[0][-1]:
            order = np.argsort(joined[0], kind="stable")
            return Cosines(joined[0][order], joined[1][order])
        return Cosines(*joined)


@dataclass(frozen=True, slots=True)
class Cosines:
    """The similarity of every chunk to a question; `ids` ascend."""

    ids: Ids
    values: Matrix

    def __len__(self) -> int:
        return len(self.ids)

    def top(self, count: int, listed: Ids | None = None, *, but: bool = False) -> list[int]:
        """Return the ids of the `count` nearest chunks (of those listed, or all `but` those)."""
        import numpy as np  # noqa: PLC0415

        ids, values = self.ids, self.values
        if listed is not None:
            keep = np.isin(ids, listed, invert=but)
            ids, values = ids[keep], values[keep]
        if len(ids) > count:
            ids = ids[np.argpartition(values, -count)[-count:]]
        return [int(i) for i in ids]

    def largest(self, firsts: Ids, ends: Ids) -> Matrix:
        """Return the largest cosine among ids from … to, float32[g]; `NONE`: none has a vector."""
        import numpy as np  # noqa: PLC0415

        sizes = ends - firsts
        if not len(self.ids) or not len(sizes):
            return np.full(len(sizes), NONE, np.float32)
        asked = runs(firsts, sizes)
        places = np.minimum(np.searchsorted(self.ids, asked), len(self.ids) - 1)
        values = np.where(self.ids[places] == asked, self.values[places], np.float32(NONE))
        return np.maximum.reduceat(values, np.cumsum(sizes) - sizes)

    def of(self, wanted: list[int]) -> dict[int, float]:
        """Return the cosines of those chunks that have a vector."""
        import numpy as np  # noqa: PLC0415

        if not len(self.ids) or not wanted:
            return {}
        asked = np.asarray(wanted, np.int64)
        places = np.minimum(np.searchsorted(self.ids, asked), len(self.ids) - 1)
        there = self.ids[places] == asked
        found = zip(asked[there].tolist(), self.values[places[there]].tolist(), strict=True)
        return dict(found)


def stamp(connection: sqlite3.Connection, directory: Path) -> tuple[str, str, str, int]:
    """Return a stamp that changes with the vectors, or when their file is truncated."""
    name = meta(connection, "matrix")
    size_bytes = size_of(directory / Path(name).name) if name else 0
    return meta(connection, "model"), name, meta(connection, "next_seq"), size_bytes


def load(connection: sqlite3.Connection, directory: Path) -> Vectors:
    """Return all vectors of the index."""
    dimension = int(meta(connection, "dimension") or 0)
    mapped = _mapped(directory, meta(connection, "matrix"), dimension)
    since = int(meta(connection, "matrix_seq") or 0) if mapped else 0
    fresh = _rows(connection, dimension, since)
    return Vectors(tuple(part for part in (mapped, fresh) if part and len(part[0])))


def is_lost(connection: sqlite3.Connection, directory: Path) -> bool:
    """Tell whether the file is missing or truncated."""
    name, dimension = meta(connection, "matrix"), int(meta(connection, "dimension") or 0)
    return bool(name) and _mapped(directory, name, dimension) is None


def write_if_lost(connection: sqlite3.Connection, directory: Path) -> None:
    """Rewrite a lost file; where that fails, SQLite's copy is used."""
    import sqlite3  # noqa: PLC0415

    if is_lost(connection, directory):
        with suppress(sqlite3.Error, OSError):
            _write(connection, directory, int(meta(connection, "dimension") or 0))


def write_if_due(
    connection: sqlite3.Connection, directory: Path, *, at_most_outside: int = DELTA_ROWS
) -> bool:
    """Write the file again when too many vectors are outside it, or too many in it are gone."""
    dimension = int(meta(connection, "dimension") or 0)
    (total,) = connection.execute("SELECT COUNT(vector_seq) FROM chunks").fetchone()
    mapped = _mapped(directory, meta(connection, "matrix"), dimension)
    since = int(meta(connection, "matrix_seq") or 0) if mapped else 0
    (outside,) = connection.execute(
        "SELECT COUNT(*) FROM chunks WHERE vector_seq > ?", (since,)
    ).fetchone()
    held = len(mapped[0]) if mapped else 0
    gone = held - (total - outside)
    if outside <= at_most_outside and gone <= max(DELTA_ROWS, held // 10):
        return False
    del mapped
    _write(connection, directory, dimension)
    return True


def encode(row: Matrix) -> bytes:
    """Return a vector as SQLite holds it: float32, little-endian."""
    return row.astype("<f4", copy=False).tobytes()


def _rows(connection: sqlite3.Connection, dimension: int, since: int) -> tuple[Ids, Matrix]:
    import numpy as np  # noqa: PLC0415

    size = 4 * dimension
    # Sorted here: SQLite would run through all chunks to find a few in the order of their ids.
    found = connection.execute("SELECT id, vector FROM chunks WHERE vector_seq > ?", (since,))
    whole = sorted((i, v) for i, v in found if len(v) == size)
    ids = np.array([i for i, _ in whole], np.int64)
    rows = np.frombuffer(b"".join(v for _, v in whole), "<f4").reshape(len(whole), dimension)
    return ids, rows


def _mapped(directory: Path, name: str, dimension: int) -> tuple[Ids, Matrix] | None:
    if not name:
        return None
    path = directory / Path(name).name
    try:
        with path.open("rb") as file:
            magic, count, width = _HEADER.unpack(file.read(_HEADER.size))
            right_size = os.fstat(file.fileno()).st_size == _HEADER.size + count * (8 + 4 * width)
        if magic != _MAGIC or width != dimension or not right_size or not count:
            return None
        ids = load_rows(path, "<i8", _HEADER.size, (count,))
        rows = load_rows(path, "<f4", _HEADER.size + 8 * count, (count, width))
    except (OSError, struct.error, ValueError):
        return None
    return None if ids is None or rows is None else (ids, rows)


def _write(connection: sqlite3.Connection, directory: Path, dimension: int) -> None:
    """Write all vectors into a new file, then let meta name it, then drop the old ones."""
    with transaction(connection):
        through = int(meta(connection, "next_seq") or 1) - 1
        name = f"vectors-{os.urandom(8).hex()}.f32"  # never again, so no mapped file changes
        write_whole(directory / name, _content(connection, dimension))
        set_meta(connection, matrix=name, matrix_seq=str(through))
    for path in directory.glob("vectors-*"):
        if path.name != name:
            _drop(path)


def _content(connection: sqlite3.Connection, dimension: int) -> Iterator[bytes]:
    size = 4 * dimension
    rows = "FROM chunks WHERE vector_seq IS NOT NULL AND LENGTH(vector) = ?"
    ids = [i for (i,) in connection.execute(f"SELECT id {rows} ORDER BY id", (size,))]
    yield _HEADER.pack(_MAGIC, len(ids), dimension)
    yield struct.pack(f"<{len(ids)}q", *ids)
    for (vector,) in connection.execute(f"SELECT vector {rows} ORDER BY id", (size,)):
        yield vector


def _drop(path: Path) -> None:
    """Delete a file that no new search will open; a system that cannot do so now leaves it."""
    try:
        path.unlink()
    except OSError:
        return
