"""The matrices that make token vectors short. `benchmarks/fit_projection.py` fits them."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

DIRECTORY: Final = Path(__file__).with_name("projections")
VERSION: Final = "1"
"""Raised when other tokens of a text are kept, or they are kept in another form."""

_DIGITS: Final = 12


@cache
def load(model: str) -> Matrix | None:
    """Return float32[d, w] for the token vectors of `model`; None: they stay as long as they are.

    A matrix belongs to one model: the numbers of another mean something else.
    """
    import numpy as np  # noqa: PLC0415  # 0.1 s

    path = DIRECTORY / f"{model}.npy"
    return np.load(path, allow_pickle=False) if path.is_file() else None


@cache
def version(model: str) -> str:
    """Return what changes whenever token vectors of `model` may not be compared any more."""
    path = DIRECTORY / f"{model}.npy"
    if not path.is_file():
        return f"{VERSION}-whole"
    return f"{VERSION}-{sha256(path.read_bytes()).hexdigest()[:_DIGITS]}"
