"""Whether a source says what a model wrote, as far as its words can tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.likeness import normal
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEM_CHARS: Final = 4  # so much of a word stays when its ending changes
_SHARE: Final = 0.7
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u2e80-\U0003ffff]+")


class Source:
    """A text that others are held against."""

    def __init__(self, text: str) -> None:
        self._text = fold(text)

    def says(self, text: str) -> bool:
        """Return whether most words of `text` stand here, whatever their endings and order."""
        pieces = set(_pieces(text))
        return sum(piece in self._text for piece in pieces) >= _SHARE * max(1, len(pieces))


def sentences(text: str) -> list[str]:
    """Return the sentences of a line."""
    return [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]


def _pieces(text: str) -> Iterable[str]:
    """Yield the beginnings of longer words, and the pairs of signs where no spaces are written."""
    for word in normal(text).split():
        if _UNSPACED.match(word):
            yield from (word[n : n + 2] for n in range(max(1, len(word) - 1)))
        elif len(word) >= _STEM_CHARS:
            yield word[:_STEM_CHARS]
