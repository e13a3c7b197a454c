"""Vectors in files: rows that are only appended, and the vectors of all lines.

SQLite holds every vector and is the one that counts; the file is a copy in the order of chunk ids,
so that a search is one matrix product. A file that is missing, cut short or of another model is
left aside and written again.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base.files import status_of, write_whole
from familiar_cli.base.sqlite import transaction
from familiar_cli.store.search.rank import number_runs
from familiar_cli.store.search.schema import VECTORS_PREFIX, read_meta, read_metas, set_meta

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Ids = NDArray[np.int64]
    Records = NDArray[np.void]

_MAGIC: Final = b"FAMTOK1\n"
_HEADER: Final = struct.Struct("<8sq")
_READ_BYTES: Final = 16 * 1024 * 1024  # reading so much takes a few milliseconds
NONE: Final = -2.0
"""Less than any cosine."""

DELTA_ROWS: Final = 1000
"""How many vectors may be outside the file before they are appended."""

_AT_ONCE: Final = 4096  # vectors that are copied from SQLite

# A BLAS hands a larger product to several threads, and waiting for these costs far more than they
# save: one matrix of 5,000 vectors and one question takes 0.4 ms here, and 8 ms there. On a machine
# that is busy a product of two thousand tokens takes 0.2 s there.
ONE_THREAD: Final = 1024 * 64 * 8
"""Rows, columns and inner dimension, multiplied, up to which OpenBLAS keeps to one thread."""


def each_to_each(rows: Matrix, others: Matrix) -> Matrix:
    """Return the dot products float32[n, m] of float32[n, d] and float32[m, d]; m is small."""
    import numpy as np  # noqa: PLC0415  # 0.1 s

    result: Matrix = np.einsum("nd,md->nm", rows, others)
    return result


def weighted_sums(rows: Matrix, weights: Matrix) -> Matrix:
    """Return the sums float32[n] of float32[n, d], each number times its weight."""
    import numpy as np  # noqa: PLC0415

    result: Matrix = np.einsum("nd,d->n", rows, weights)
    return result


def block_rows(width: int, columns: int) -> int:
    """Return how many rows of `width` numbers to multiply with this many columns at once."""
    return max(1, ONE_THREAD // max(1, width * columns))


class RowFile:
    """A file of rows of one type: a magic number, the size of a row, and the rows.

    It only grows, and its owner knows the number of valid rows: what a crash leaves after those is
    overwritten. So existing mappings never change.

    Args:
        path: The file; it need not exist.
        kind: The type of a row.
    """

    def __init__(self, path: Path, kind: Any) -> None:  # noqa: ANN401  # whatever numpy takes
        import numpy as np  # noqa: PLC0415  # 0.1 s

        self.path = path
        self.kind: np.dtype[Any] = np.dtype(kind)

    def count(self) -> int:
        """Count the complete rows; 0 if there is no such file."""
        size = self.kind.itemsize
        if not size or row_bytes(self.path) != size:
            return 0
        return (self.path.stat().st_size - _HEADER.size) // size

    def append(self, at: int, rows: NDArray[Any]) -> None:
        """Write `rows` after the first `at`, durably; the first rows begin the file.

        Raises:
            OSError: Rows before `at` are gone, or the file cannot be written.
        """
        if not at and row_bytes(self.path) != self.kind.itemsize:
            write_whole(self.path, _HEADER.pack(_MAGIC, self.kind.itemsize))
        with self.path.open("r+b") as file:
            file.seek(_HEADER.size + at * self.kind.itemsize)
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())

    def load(self, count: int) -> NDArray[Any] | None:
        """Return the first `count` rows; None if the file is missing, truncated or foreign.

        Large files are mapped. One truncated by another program would kill the reader, so small
        files are read, and large ones are checked before each use: see `size_of`.
        """
        import numpy as np  # noqa: PLC0415

        try:
            if not count:
                is_ours = row_bytes(self.path) == self.kind.itemsize
                return np.empty(0, self.kind) if is_ours else None
            if self.count() < count:
                return None
            if count * self.kind.itemsize > _READ_BYTES:
                mapped = np.memmap(self.path, self.kind, "r", _HEADER.size, (count,))
                return np.asarray(mapped)
            result = np.fromfile(self.path, self.kind, count, offset=_HEADER.size)
        except (OSError, ValueError):
            return None
        return result if len(result) == count else None


def row_bytes(path: Path) -> int:
    """Return the size of a file's rows; 0 if there is no such file."""
    try:
        with path.open("rb") as file:
            magic, size = _HEADER.unpack(file.read(_HEADER.size))
    except (OSError, struct.error):
        return 0
    return int(size) if magic == _MAGIC else 0


def size_of(path: Path) -> int:
    """Return the size of a file, or -1 if there is none."""
    status = status_of(path)
    return status.st_size if status else -1


def new_name(prefix: str, suffix: str) -> str:
    """Return a file name that is never used again, so that no mapped file changes."""
    return f"{prefix}{os.urandom(8).hex()}{suffix}"


def drop_others(directory: Path, prefix: str, name: str) -> None:
    """Delete the files that no new search will open, as far as the system permits."""
    for path in directory.glob(f"{prefix}*"):
        if path.name != name:
            with suppress(OSError):
                path.unlink()


class Vectors(Struct, frozen=True):
    """Vectors by chunk id, as records of `id` and `vector`, float32[d]."""

    parts: tuple[Records, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def cosines(self, questions: Matrix) -> Cosines:
        """Return each vector's cosine to the nearest of `questions`, float32[s, d]."""
        import numpy as np  # noqa: PLC0415

        if not self.parts:
            return Cosines(np.empty(0, np.int64), np.empty(0, np.float32))
        scores = [each_to_each(part["vector"], questions).max(axis=1) for part in self.parts]
        ids = np.concatenate([part["id"] for part in self.parts])
        order = np.argsort(ids, kind="stable")
        return Cosines(ids[order], np.concatenate(scores)[order])


class Cosines(Struct, frozen=True):
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
        items: list[int] = ids.tolist()
        return items

    def largest(self, firsts: Ids, ends: Ids) -> Matrix:
        """Return the largest cosine in each range of ids, float32[g]; `NONE` without vectors."""
        import numpy as np  # noqa: PLC0415

        sizes = ends - firsts
        if not len(self.ids) or not len(sizes):
            return np.full(len(sizes), NONE, np.float32)
        asked = number_runs(firsts, sizes)
        places = np.minimum(self.ids.searchsorted(asked), len(self.ids) - 1)
        values = np.where(self.ids[places] == asked, self.values[places], np.float32(NONE))
        return np.maximum.reduceat(values, sizes.cumsum() - sizes)

    def of(self, wanted: Ids) -> dict[int, float]:
        """Return the cosines of those chunks that have a vector."""
        import numpy as np  # noqa: PLC0415

        if not len(self.ids):
            return {}
        places = np.minimum(self.ids.searchsorted(wanted), len(self.ids) - 1)
        there = self.ids[places] == wanted
        result = zip(wanted[there].tolist(), self.values[places[there]].tolist(), strict=True)
        return dict(result)


def vectors_stamp(connection: sqlite3.Connection, directory: Path) -> tuple[str, str, str, int]:
    """Return a stamp that changes with the vectors, or when their file is truncated."""
    model, name, next_seq = read_metas(connection, "model", "matrix", "next_seq")
    size_bytes = size_of(directory / Path(name).name) if name else 0
    return model, name, next_seq, size_bytes


def load_vectors(connection: sqlite3.Connection, directory: Path) -> Vectors:
    """Return all vectors of the index."""
    copied = _read_copied(connection, directory)
    since = 0 if copied is None else int(read_meta(connection, "matrix_seq"))
    fresh = _to_records(connection, _new_vectors(connection, since).fetchall())
    return Vectors(tuple(part for part in (copied, fresh) if part is not None and len(part)))


def is_lost(connection: sqlite3.Connection, directory: Path) -> bool:
    """Tell whether the file is missing or truncated."""
    return bool(read_meta(connection, "matrix")) and _read_copied(connection, directory) is None


def write_if_lost(connection: sqlite3.Connection, directory: Path) -> None:
    """Rewrite a lost file; on failure, SQLite's copy is used."""
    if is_lost(connection, directory):
        with suppress(sqlite3.Error, OSError):
            _write_file(connection, directory, is_new=True)


def write_if_due(
    connection: sqlite3.Connection, directory: Path, *, at_most_outside: int = DELTA_ROWS
) -> bool:
    """Append vectors if too many are outside the file; rewrite it if too many are unused."""
    (total,) = connection.execute("SELECT COUNT(vector_seq) FROM chunks").fetchone()
    copied = _read_copied(connection, directory)
    since, held = (
        (0, 0) if copied is None else (int(read_meta(connection, "matrix_seq")), len(copied))
    )
    (outside,) = connection.execute(
        "SELECT COUNT(*) FROM chunks WHERE vector_seq > ?", (since,)
    ).fetchone()
    are_many_gone = held - (total - outside) > max(DELTA_ROWS, held // 10)
    if outside <= at_most_outside and not are_many_gone:
        return False
    del copied
    _write_file(connection, directory, is_new=are_many_gone)
    return True


def _read_copied(connection: sqlite3.Connection, directory: Path) -> Records | None:
    """Return the vectors in the file; None if it is missing or unusable."""
    name, count = read_meta(connection, "matrix"), int(read_meta(connection, "matrix_rows") or 0)
    return _row_file(connection, directory, name).load(count) if name and count else None


def _row_file(connection: sqlite3.Connection, directory: Path, name: str) -> RowFile:
    return RowFile(directory / Path(name).name, _vector_kind(connection))


def _vector_kind(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return [("id", "<i8"), ("vector", "<f4", (int(read_meta(connection, "dimension") or 0),))]


def _new_vectors(connection: sqlite3.Connection, since: int) -> sqlite3.Cursor:
    return connection.execute("SELECT id, vector FROM chunks WHERE vector_seq > ?", (since,))


def _to_records(connection: sqlite3.Connection, items: list[tuple[int, bytes]]) -> Records:
    import numpy as np  # noqa: PLC0415

    kind = np.dtype(_vector_kind(connection))
    size = kind["vector"].itemsize
    whole = b"".join(struct.pack("<q", id_) + row for id_, row in items if len(row) == size)
    return np.frombuffer(whole, kind)


def _write_file(connection: sqlite3.Connection, directory: Path, *, is_new: bool) -> None:
    """Append the missing vectors, or write all to a new file; then record its name in meta."""
    with transaction(connection):
        kept = None if is_new else _read_copied(connection, directory)
        since, count = (
            (0, 0) if kept is None else (int(read_meta(connection, "matrix_seq")), len(kept))
        )
        name = new_name(VECTORS_PREFIX, ".f32") if kept is None else read_meta(connection, "matrix")
        del kept
        file, cursor = _row_file(connection, directory, name), _new_vectors(connection, since)
        while rows := cursor.fetchmany(_AT_ONCE):
            records = _to_records(connection, rows)
            file.append(count, records)
            count += len(records)
        through = int(read_meta(connection, "next_seq") or 1) - 1
        set_meta(connection, matrix=name, matrix_rows=str(count), matrix_seq=str(through))
    drop_others(directory, VECTORS_PREFIX, name)
