"""Lists of words as patterns. A list is text with `|` or a new line between its wordings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Wordings:
    """Words that are looked for in many texts.

    Args:
        pattern: Finds any of them, as whole words where a script has words.
        literals: What one of which a text must hold, folded, for the pattern to find anything.
    """

    pattern: re.Pattern[str]
    literals: tuple[str, ...]

    @classmethod
    def of(cls, wordings: str) -> Wordings:
        """Return the wordings of a list."""
        return cls(re.compile(any_of(wordings), re.IGNORECASE), literals_of(_split(wordings)))

    def may_be_in(self, folded: str) -> bool:
        """Tell whether looking closer is worth it; hundreds of times faster than the pattern.

        Args:
            folded: The text, case folded.
        """
        return any(literal in folded for literal in self.literals)

    def is_in(self, text: str) -> bool:
        """Tell whether `text` holds any of the wordings."""
        return self.may_be_in(text.casefold()) and self.pattern.search(text) is not None


def any_of(wordings: str) -> str:
    """Return a pattern that any of the wordings matches, as whole words where a script has words.

    The longest comes first, so that `works as` is not taken for `works`.
    """
    ordered = sorted(_split(wordings), key=lambda wording: (-len(wording), wording))
    return "|".join(_bounded(wording) for wording in ordered)


def literals_of(wordings: Iterable[str]) -> tuple[str, ...]:
    """Return the longest word of each wording, folded; none that holds another one."""
    heads = sorted({max(re.split(r"[\s'’]", w.casefold()), key=len) for w in wordings}, key=len)
    kept: list[str] = []
    for head in heads:
        if not any(known in head for known in kept):
            kept.append(head)
    return tuple(kept)


def _split(wordings: str) -> set[str]:
    return {w.strip() for line in wordings.splitlines() for w in line.split("|") if w.strip()}


def _bounded(wording: str) -> str:
    pattern = re.escape(wording).replace(r"\ ", r"[ \t]+").replace("'", "['’]")
    has_words = ord(wording[0]) < 0x0E00  # noqa: PLR2004  # from Thai on, words are not parted
    return rf"(?<![^\W_]){pattern}(?![^\W_])" if has_words else pattern
