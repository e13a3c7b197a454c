"""Whether two texts say the same, as far as letters can tell."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Final

from familiar_cli.markdown import split_lines, without_marker
from familiar_cli.memory.pages.evidence import without_references
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD: Final = re.compile(r"\w+")
_SOURCE: Final = re.compile(r"\s*\([^()]{1,80}\)\s*$")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# Shorter texts are said again without being copied: "likes tea".
_LEAST_CHARS: Final = 20
SAID_SHARE: Final = 0.7
"""So much of a sentence's words stand in a text that says it."""

_GRAM: Final = 4
_STEM_CHARS: Final = 4  # so much of a word stays when its ending changes
_DEBRIS: Final = frozenset("{}[]<>`")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u2e80-\U0003ffff]+")
_SHARE: Final = 0.8
_LEAST_LETTERS: Final = 4
_WIDE: Final = 3  # a sign of a script without spaces says as much as some letters do
_ONE_SCRIPT: Final = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "HALFWIDTH": "CJK", "BOPOMOFO": "CJK"}


def normal(text: str) -> str:
    """Return the words of a line or a text, so that small differences do not count."""
    shown = _LINK.sub(r"\1", without_marker(without_references(text)))
    return " ".join(_WORD.findall(fold(_SOURCE.sub("", shown))))


def normal_lines(text: str) -> frozenset[str]:
    """Return each line of `text` that has words, as `normal` returns it."""
    return frozenset(line for line in map(normal, split_lines(text)) if line)


class KnownTexts:
    """Texts that are known, and whether a line only repeats them."""

    def __init__(self, texts: Iterable[str]) -> None:
        # One after another, with something between that is in no line.
        texts = tuple(texts)
        self._whole = frozenset(filter(None, map(normal, texts)))
        self._all = " | ".join(" ".join(normal(line) for line in split_lines(t)) for t in texts)
        words = self._all.split()
        self._grams = {tuple(words[n : n + _GRAM]) for n in range(len(words) - _GRAM + 1)}

    def is_one(self, text: str) -> bool:
        """Tell whether a text, however short, is one of the known ones."""
        return normal(text) in self._whole

    def cover(self, text: str) -> bool:
        """Tell whether at least half of a multi-line text is in the known texts."""
        lines = [line for line in split_lines(text) if normal(line)]
        known = sum(len(line) for line in lines if self.has(line))
        return 2 * known >= sum(map(len, lines)) > 0

    def has(self, text: str) -> bool:
        """Return whether most of a line, if it is not a short one, stands in the known texts."""
        line = normal(text)
        if sum(_WIDE if ord(c) > 0x2E7F else 1 for c in line) < _LEAST_CHARS:  # noqa: PLR2004
            return False
        if line in self._all:
            return True
        words = line.split()
        grams = [tuple(words[n : n + _GRAM]) for n in range(len(words) - _GRAM + 1)]
        return bool(grams) and sum(g in self._grams for g in grams) >= _SHARE * len(grams)


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
        return self.share(text) >= SAID_SHARE


def main_script(text: str) -> str | None:
    """Return the script most letters of `text` are of, e.g. `LATIN`; None: too few letters."""
    scripts = _scripts(text)
    if scripts.total() < _LEAST_LETTERS:
        return None
    return scripts.most_common(1)[0][0]


def scripts_in(texts: Iterable[str]) -> frozenset[str]:
    """Return every script that a letter of `texts` is of."""
    found: Counter[str] = Counter()
    for text in texts:
        found.update(_scripts(text))
    return frozenset(found)


def _scripts(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for char, times in Counter(text).items():
        if char.isalpha():
            script = unicodedata.name(char, "?").split()[0]
            found[_ONE_SCRIPT.get(script, script)] += times
    return found


def _pieces(text: str) -> Iterable[str]:
    """Yield the beginnings of longer words, and the pairs of signs where no spaces are written."""
    for word in normal(text).split():
        if _UNSPACED.match(word):
            yield from (word[n : n + 2] for n in range(max(1, len(word) - 1)))
        elif len(word) >= _STEM_CHARS:
            yield word[:_STEM_CHARS]
