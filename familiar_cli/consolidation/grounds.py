"""Whether a source says what a model wrote, as far as its words can tell."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

from familiar_cli.memory.pages.similarity import normal
from familiar_cli.text import fold
from familiar_cli.truncate import sentence_ends

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")
_STEM_CHARS: Final = 4  # so much of a word stays when its ending changes
_SHARE: Final = 0.7
_DEBRIS: Final = frozenset("{}[]<>`")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u2e80-\U0003ffff]+")


class EvidenceText:
    """A text that others are held against."""

    def __init__(self, text: str) -> None:
        self._text = fold(text)

    def share(self, text: str) -> float:
        """Return which share of the words of `text` stand here, whatever their endings and order.

        It is 0 for what is no sentence: what has no words, or has the signs of a program's data.
        """
        pieces = set(_pieces(text))
        if not pieces or _DEBRIS.intersection(text):
            return 0.0
        return sum(piece in self._text for piece in pieces) / len(pieces)

    def says(self, text: str) -> bool:
        """Return whether most words of `text` stand here."""
        return self.share(text) >= _SHARE


def best(sources: Iterable[tuple[T, EvidenceText]], text: str) -> list[T]:
    """Return what belongs to the sources that have most words of `text`; none may say it."""
    shares = [(thing, source.share(text)) for thing, source in sources]
    most = max([_SHARE, *(share for _, share in shares)])
    return [thing for thing, share in shares if share >= most]


def sentences(text: str) -> list[str]:
    """Return the sentences of a line."""
    cuts = [0, *sentence_ends(text), len(text)]
    found = (text[start:end].strip() for start, end in pairwise(cuts))
    return [sentence for sentence in found if sentence]


def _pieces(text: str) -> Iterable[str]:
    """Yield the beginnings of longer words, and the pairs of signs where no spaces are written."""
    for word in normal(text).split():
        if _UNSPACED.match(word):
            yield from (word[n : n + 2] for n in range(max(1, len(word) - 1)))
        elif len(word) >= _STEM_CHARS:
            yield word[:_STEM_CHARS]
