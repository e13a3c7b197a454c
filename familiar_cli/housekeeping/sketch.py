"""Find texts that are nearly the same among many, in time that grows with their length alone.

Each text becomes the set of its runs of words, each run a number that is as good as random. Numbers
stand on a circle; 64 places on it, the same for all texts, each have a next number of the text. Two
texts have the same next number at a place about as often as they share runs (MinHash, Broder 1997,
with one permutation, Li, Owen and Zhang 2012). Four neighbouring places are a band. Texts that
share a band are compared in full, each with at most a few of the band, so that thousands of copies
of one text cost no more.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.fts import is_unspaced, words
from familiar_cli.housekeeping.lines import without_comments
from familiar_cli.housekeeping.wording import words_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUN: Final = 4
_BANDS: Final = 16
_ROWS: Final = 4
_LEAST_RUNS: Final = 8
_MOST_COMPARED: Final = 4
_MOST_WORDS: Final = 50_000
_SEED: Final = 20_260_401  # any; the same text must have the same sketch in every run


def words_of(folded: str) -> list[str]:
    """Return the words of a text that is case folded; of scripts without spaces, its characters."""
    bare = without_comments(folded) if "<!--" in folded else folded
    if bare.isascii():
        return words_in(bare)[:_MOST_WORDS]
    split = (list(word) if is_unspaced(word) else [word] for word in words(bare))
    return [part for parts in split for part in parts][:_MOST_WORDS]


class Sketches:
    """Texts that are put in one after another, and which of them are alike.

    Args:
        least: From which share of common runs on, of all runs of the two; 0 to 1.
    """

    def __init__(self, least: float) -> None:
        import numpy as np

        self._np = np
        self._least = least
        chooser = np.random.default_rng(_SEED)
        top = np.iinfo(np.uint64).max
        self._factors = chooser.integers(1, top, _RUN, dtype=np.uint64) | np.uint64(1)
        self._places = np.sort(chooser.integers(0, top, _BANDS * _ROWS, dtype=np.uint64))
        self._words: dict[str, int] = {}
        self._runs: dict[str, Any] = {}
        self._buckets: dict[tuple[int, bytes], list[str]] = defaultdict(list)
        self._leads: dict[str, str] = {}
        self._shares: dict[str, float] = {}

    def add(self, name: str, listed: list[str]) -> None:
        """Put in a text, given by its words. One with few of them is like no other."""
        runs = self._runs_of(listed)
        if len(runs) < _LEAST_RUNS:
            return
        keys = list(enumerate(self._bands(runs)))
        others = dict.fromkeys(other for key in keys for other in self._buckets[key])
        best = max(((self._share(runs, other), other) for other in others), default=(0.0, ""))
        if best[0] >= self._least:
            self._leads[name] = self._leads.get(best[1], best[1])
            self._shares[name] = best[0]
        self._runs[name] = runs
        for key in keys:
            if len(self._buckets[key]) < _MOST_COMPARED:
                self._buckets[key].append(name)

    def groups(self) -> Iterator[tuple[list[str], float]]:
        """Yield each group of texts that are alike, and the smallest share that put one into it."""
        members: dict[str, list[str]] = defaultdict(list)
        for name, lead in self._leads.items():
            members[lead].append(name)
        for lead, alike in members.items():
            yield [lead, *alike], min(self._shares[name] for name in alike)

    def _runs_of(self, listed: list[str]) -> Any:  # noqa: ANN401  # uint64[n], sorted, each once
        np = self._np
        if len(listed) < _RUN:
            return np.empty(0, dtype=np.uint64)
        known = self._words
        for word in set(listed).difference(known):
            raw = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            known[word] = int.from_bytes(raw, "little")
        numbers = np.fromiter(map(known.__getitem__, listed), np.uint64, len(listed))
        count = len(listed) - _RUN + 1
        mixed = sum(numbers[at : at + count] * self._factors[at] for at in range(_RUN))
        return np.unique(mixed ^ (mixed >> np.uint64(29)))

    def _bands(self, runs: Any) -> list[bytes]:  # noqa: ANN401
        """Return the next number at each place, the last followed by the first, in bands."""
        next_ones = runs[self._np.searchsorted(runs, self._places) % len(runs)]
        return [band.tobytes() for band in next_ones.reshape(_BANDS, _ROWS)]

    def _share(self, one: Any, name: str) -> float:  # noqa: ANN401
        other = self._runs[name]
        both = len(self._np.intersect1d(one, other, assume_unique=True))
        return both / (len(one) + len(other) - both)
