"""Matrix products in the thread that asks for them.

A BLAS hands a larger product to several threads, and waiting for these costs far more than they
save: one matrix of 5,000 vectors and one question takes 0.4 ms here, and 8 ms there. On a machine
that is busy a product of two thousand tokens takes 0.2 s there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

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
