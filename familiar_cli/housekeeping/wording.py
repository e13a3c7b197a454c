"""Lists of words as patterns. A list is text with `|` or a new line between its wordings.

A pattern of hundreds of wordings is slow. Each wording therefore has a head, one word of it that
every text has to hold; the words of a text, taken once, tell whether a closer look is worth it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_TO_SPACES: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_FIRST_UNSPACED: Final = "\u0e00"  # from Thai on, words are not parted


@dataclass(frozen=True, slots=True)
class Wordings:
    """Words that are looked for in many texts.

    Args:
        pattern: Finds any of them, as whole words where a script has words.
        heads: One word of each, folded.
    """

    pattern: re.Pattern[str]
    heads: frozenset[str]

    @classmethod
    def of(cls, *wordings: str) -> Wordings:
        """Return the wordings of lists."""
        listed = "\n".join(wordings)
        return cls(re.compile(any_of(listed), re.IGNORECASE), heads_of(listed))

    def is_in(self, text: str) -> bool:
        """Tell whether `text` holds any of the wordings."""
        return bool(known_in(text.casefold(), self.heads)) and bool(self.pattern.search(text))


def any_of(wordings: str) -> str:
    """Return a pattern that any of the wordings matches, as whole words where a script has words.

    The longest comes first, so that `works as` is not taken for `works`.
    """
    ordered = sorted(_split(wordings), key=lambda wording: (-len(wording), wording))
    return "|".join(_bounded(wording) for wording in ordered)


def heads_of(wordings: str) -> frozenset[str]:
    """Return the longest word of each wording, folded."""
    return frozenset(max(_WORD.findall(w.casefold()), key=len) for w in _split(wordings))


def known_in(folded: str, heads: frozenset[str]) -> frozenset[str]:
    """Return which of `heads` a text holds: as a word, and of unspaced scripts anywhere.

    Args:
        folded: The text, case folded.
        heads: Words, folded.
    """
    found = heads.intersection(words_in(folded))
    if folded.isascii():
        return found
    return found.union(h for h in heads if h[0] >= _FIRST_UNSPACED and h in folded)


def words_in(folded: str) -> list[str]:
    """Return the words of a text in order; of unspaced scripts each whole run."""
    return folded.translate(_TO_SPACES).split() if folded.isascii() else _WORD.findall(folded)


def _split(wordings: str) -> set[str]:
    return {w.strip() for line in wordings.splitlines() for w in line.split("|") if w.strip()}


def _bounded(wording: str) -> str:
    pattern = re.escape(wording).replace(r"\ ", r"[ \t]+").replace("'", "['’]")
    has_words = wording[0] < _FIRST_UNSPACED
    return rf"(?<![^\W_]){pattern}(?![^\W_])" if has_words else pattern
