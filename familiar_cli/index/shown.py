"""What of a hit a person sees: nothing that its file holds only for the program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from familiar_cli.memory.pages.machine_text import machine_spans, shown_between

if TYPE_CHECKING:
    from familiar_cli.index.types import Hit


@dataclass(slots=True)
class ShownHits:
    """Judges the hits of one search by what is shown of them, and makes them so."""

    _texts: dict[str, str] = field(default_factory=dict)
    _spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def counts(self, hit: Hit, text: str) -> bool:
        """Return whether anything is shown of a hit's best line."""
        self._texts[hit.rel_path] = text
        hidden = self._hidden(hit)
        if not hidden:
            return True
        shown = shown_between(text, hit.best_start, hit.best_end, hidden)
        return any(map(str.isalnum, shown))

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
            self._spans[hit.rel_path] = machine_spans(self._texts[hit.rel_path])
        spans = self._spans[hit.rel_path]
        return [(a, b) for a, b in spans if a < hit.char_end and b > hit.char_start]
