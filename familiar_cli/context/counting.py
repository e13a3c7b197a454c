"""Counting the same text once: most of a prompt is what the prompt before it was."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from familiar_cli.tokens import TokenCounter

MOST_TEXTS: Final = 1024
MOST_CHARS: Final = 16_384  # a longer text is counted anew, so that little memory is held
_SAMPLED_CHARS: Final = 200_000  # a text that is longer is in nobody's prompt
_SAMPLES: Final = 100
_SAMPLE_CHARS: Final = 1_000


class RememberingCounter:
    """A token counter that remembers what it has counted.

    Args:
        counter: What counts.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._known: OrderedDict[str, int] = OrderedDict()

    @property
    def name(self) -> str:
        """The name of what counts."""
        return self._counter.name

    def count(self, text: str) -> int:
        """Count the tokens of `text`, estimating long texts from a sample."""
        if len(text) > _SAMPLED_CHARS:
            return self._estimated(text)
        if len(text) > MOST_CHARS:
            return self._counter.count(text)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._counter.count(text)
            if len(self._known) > MOST_TEXTS:
                self._known.popitem(last=False)
        return known

    def _estimated(self, text: str) -> int:
        step = len(text) // _SAMPLES
        sample = [text[at : at + _SAMPLE_CHARS] for at in range(0, step * _SAMPLES, step)]
        counted = sum(map(self._counter.count, sample))
        return round(counted * len(text) / sum(map(len, sample)))
