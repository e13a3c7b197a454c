"""Counting the same text once: most of a prompt is what the prompt before it was."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from familiar_cli.tokens import TokenCounter

MOST_TEXTS: Final = 1024
MOST_CHARS: Final = 16_384  # a longer text is counted anew, so that little memory is held


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
        """Return how many tokens `text` has."""
        if len(text) > MOST_CHARS:
            return self._counter.count(text)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._counter.count(text)
            if len(self._known) > MOST_TEXTS:
                self._known.popitem(last=False)
        return known
