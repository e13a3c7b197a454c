"""Find many names in a text, in time that does not grow with how many names there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.fts import is_unspaced

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORD: Final = re.compile(r"\w+")
_LEAST_CHARS: Final = 2
_MOST_PARTS: Final = 12


class Names:
    """Names as they are written, capitals included; those of unspaced scripts stand inside words.

    Args:
        names: What each name stands for.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._words: dict[tuple[str, ...], str] = {}
        self._inside: dict[str, str] = {}
        for name, meaning in names.items():
            parts = tuple(_WORD.findall(name))
            if len(name) < _LEAST_CHARS or not parts or len(parts) > _MOST_PARTS:
                continue
            if is_unspaced(name):
                self._inside["".join(parts)] = meaning
            else:
                self._words[parts] = meaning
        self._lengths: dict[str, set[int]] = {}
        for parts in self._words:
            self._lengths.setdefault(parts[0], set()).add(len(parts))
        self._chars: dict[str, set[int]] = {}
        for name in self._inside:
            self._chars.setdefault(name[0], set()).add(len(name))

    def in_text(self, text: str) -> set[str]:
        """Return what the names stand for that `text` holds."""
        words = _WORD.findall(text)
        found: set[str] = set()
        for at, word in enumerate(words):
            for length in self._lengths.get(word, ()):
                meaning = self._words.get(tuple(words[at : at + length]))
                if meaning:
                    found.add(meaning)
        if self._inside and not text.isascii():
            found |= self._in_runs("".join(words))
        return found

    def _in_runs(self, run: str) -> set[str]:
        return {
            self._inside[run[at : at + length]]
            for at, char in enumerate(run)
            for length in self._chars.get(char, ())
            if run[at : at + length] in self._inside
        }
