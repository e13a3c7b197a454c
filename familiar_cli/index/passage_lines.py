"""Which lines passages are made of, as arrays: a question may find a thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from familiar_cli.index.pieces import Pieces
    from familiar_cli.index.rank import LineCandidate

    Numbers = NDArray[np.int64]


class PassageLines(NamedTuple):
    """Passages by id, ascending, each with the ids of its lines, from … to; int64[n] each."""

    passages: Numbers
    firsts: Numbers
    ends: Numbers


def lines_of_passages(pieces: Pieces, lines: Iterable[LineCandidate]) -> PassageLines:
    """Return the passages that hold some of `lines`."""
    import numpy as np  # noqa: PLC0415  # only by meaning

    wanted = {passage for held in {line.passages for line in lines} for passage in range(*held)}
    found = [(p.id, p.part_first, p.part_last) for p in pieces.among(sorted(wanted))]
    return PassageLines(*np.array(found, np.int64).reshape(-1, 3).T)


def runs(firsts: Numbers, sizes: Numbers) -> Numbers:
    """Return the numbers `firsts[n]`, `firsts[n] + 1`, … of each group, `sizes[n]` of them."""
    import numpy as np  # noqa: PLC0415

    begins = np.cumsum(sizes) - sizes
    return np.repeat(firsts - begins, sizes) + np.arange(int(sizes.sum()))
