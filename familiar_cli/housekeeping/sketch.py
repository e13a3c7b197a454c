"""Find texts that are nearly the same among many, in time that grows with their length alone.

Each text becomes the set of its runs of words; of that set, a sketch of 64 smallest hashes
(MinHash, Broder 1997) in 16 bands of four is kept. Texts that share a band are compared in full,
each with at most a few of the band, so that thousands of copies of one text cost no more.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.fts import is_unspaced, words
from familiar_cli.memory.evidence import without_references

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RUN: Final = 4
_BANDS: Final = 16
_ROWS: Final = 4
_LEAST_RUNS: Final = 8
_MOST_COMPARED: Final = 4
_MOST_WORDS: Final = 50_000
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_SEED: Final = 20_260_401  # any; the same text must have the same sketch in every run


def words_of(text: str) -> list[str]:
    """Return the words of a text; of scripts without spaces, its characters."""
    bare = _COMMENT.sub(" ", without_references(text)) if "<!--" in text else text
    found = words(bare)
    if bare.isascii():
        return found[:_MOST_WORDS]
    split = (list(word) if is_unspaced(word) else [word] for word in found)
    return [part for parts in split for part in parts][:_MOST_WORDS]


def groups_alike(texts: Mapping[str, list[str]], least: float) -> Iterator[tuple[list[str], float]]:
    """Yield each group of texts that share at least `least` of their runs with its first one.

    Args:
        texts: The words of each text, by its name.
        least: From which share on; runs in both, of runs in either. 0 to 1.
    """
    import numpy as np

    hashes = _Hashes()
    runs = {name: hashes.runs(listed) for name, listed in texts.items()}
    usable = [name for name, found in runs.items() if len(found) >= _LEAST_RUNS]
    buckets: dict[tuple[int, bytes], list[str]] = defaultdict(list)
    leads: dict[str, str] = {}
    shares: dict[str, float] = {}
    for name in usable:
        bands = hashes.bands(runs[name])
        keys = [(number, band) for number, band in enumerate(bands)]
        others = dict.fromkeys(o for key in keys for o in buckets[key])
        best = max(((_share(np, runs[name], runs[o]), o) for o in others), default=(0.0, ""))
        if best[0] >= least:
            leads[name] = leads.get(best[1], best[1])
            shares[name] = best[0]
        for key in keys:
            if len(buckets[key]) < _MOST_COMPARED:
                buckets[key].append(name)
    members: dict[str, list[str]] = defaultdict(list)
    for name, lead in leads.items():
        members[lead].append(name)
    for lead, alike in members.items():
        yield [lead, *alike], min(shares[name] for name in alike)


class _Hashes:
    """Numbers for runs of words."""

    def __init__(self) -> None:
        import numpy as np

        self._np = np
        chooser = np.random.default_rng(_SEED)
        top = np.iinfo(np.uint64).max
        self._words: dict[str, int] = {}
        self._places = chooser.integers(1, top, _RUN, dtype=np.uint64) | np.uint64(1)
        self._factors = chooser.integers(1, top, (_BANDS * _ROWS, 1), dtype=np.uint64) | np.uint64(
            1
        )
        self._shifts = chooser.integers(0, top, (_BANDS * _ROWS, 1), dtype=np.uint64)

    def runs(self, listed: list[str]) -> Any:  # noqa: ANN401  # uint64[n], each number once
        np = self._np
        if len(listed) < _RUN:
            return np.empty(0, dtype=np.uint64)
        known = self._words
        for word in set(listed).difference(known):
            raw = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            known[word] = int.from_bytes(raw, "little")
        numbers = np.array([known[word] for word in listed], dtype=np.uint64)
        count = len(listed) - _RUN + 1
        mixed = sum(numbers[at : at + count] * self._places[at] for at in range(_RUN))
        return np.unique(mixed ^ (mixed >> np.uint64(29)))

    def bands(self, runs: Any) -> list[bytes]:  # noqa: ANN401
        np = self._np
        hashed = runs[None, :] * self._factors + self._shifts
        hashed ^= hashed >> np.uint64(32)
        smallest = (hashed * self._factors).min(axis=1).reshape(_BANDS, _ROWS)
        return [row.tobytes() for row in smallest]


def _share(np: Any, one: Any, other: Any) -> float:  # noqa: ANN401
    both = len(np.intersect1d(one, other, assume_unique=True))
    return both / (len(one) + len(other) - both)
