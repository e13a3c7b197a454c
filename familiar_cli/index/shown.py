"""What of a hit is shown: nothing that its file holds only for the program, or in private."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from familiar_cli.index.grep import holds_any
from familiar_cli.memory.pages.machine_text import machine_spans, shown_between
from familiar_cli.memory.pages.privacy import private_spans

if TYPE_CHECKING:
    from familiar_cli.index.types import Hit
    from familiar_cli.visibility import Viewer


@dataclass(slots=True)
class ShownHits:
    """Judges the hits of one search by what is shown of them, and makes them so.

    Args:
        query: What was asked.
        viewer: Who will see them.
    """

    query: str
    viewer: Viewer
    _texts: dict[str, str] = field(default_factory=dict)
    _spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _with_private: set[str] = field(default_factory=set)

    def counts(self, hit: Hit, text: str) -> bool:
        """Return whether anything is shown of a hit's best line.

        A file that holds something private counts only where its public words answer: what is
        found by a private word would tell that the word is there.
        """
        self._texts[hit.rel_path] = text
        hidden = self._hidden(hit)
        if hit.rel_path in self._with_private and not self._answers(hit, text):
            return False
        if not hidden:
            return True
        shown = shown_between(text, hit.best_start, hit.best_end, hidden)
        return any(map(str.isalnum, shown))

    def _answers(self, hit: Hit, text: str) -> bool:
        """Return whether the public words of the best line share one with the question."""
        hidden = self._spans[hit.rel_path]
        return holds_any(shown_between(text, hit.best_start, hit.best_end, hidden), self.query)

    def of(self, hit: Hit) -> Hit:
        """Return a hit that counts as it is shown."""
        text, hidden = self._texts[hit.rel_path], self._hidden(hit)
        start, end = max(hit.best_start, hit.char_start), min(hit.best_end, hit.char_end)
        if not hidden:
            return replace(hit, best=text[start:end])
        whole = shown_between(text, hit.char_start, hit.char_end, hidden)
        return replace(hit, text=whole, best=shown_between(text, start, end, hidden))

    def _hidden(self, hit: Hit) -> list[tuple[int, int]]:
        """Return what of the hit is not shown."""
        if hit.rel_path not in self._spans:
            text = self._texts[hit.rel_path]
            private = private_spans(text, self.viewer)
            if private:
                self._with_private.add(hit.rel_path)
            self._spans[hit.rel_path] = sorted([*machine_spans(text), *private])
        spans = self._spans[hit.rel_path]
        return [(a, b) for a, b in spans if a < hit.char_end and b > hit.char_start]
