"""Cut a text to a number of tokens: at the end of a sentence, else between words, else anywhere."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USEFUL_TOKENS: Final = 20
"""A text that had to be cut shorter than this says nothing any more."""

_CLOSERS: Final = r"[\"'”’»)\]*_」』）】]*"
# A stop ends a sentence when white space follows; the stops of CJK scripts need none.
_ENDS: Final = re.compile(rf"[.!?…।؟۔]+{_CLOSERS}(?=\s|$)|[。！？]+{_CLOSERS}|\n")
_WRAPPED_CHARS: Final = 60
_STOPS: Final = ".!?…"  # what follows these with a small letter is no new sentence
_LAST_WORD: Final = re.compile(r"(\w[\w.]*)\.$")
_ABBREVIATIONS: Final = frozenset(
    "dr mr mrs ms mx prof st sr jr rev capt lt sgt vs e.g eg i.e ie cf ca approx vol pp "  # noqa: SIM905
    "bzw z.b d.h u.a f.eks dvs p.ex mme mlle sra sta".split()
)
_MODIFIERS: Final = range(0x1F3FB, 0x1F400)  # skin tones, which belong to the emoji before them
_JOINERS: Final = "\u200d\ufe0e\ufe0f"


def cut_to(text: str, limit_tokens: int, count: Callable[[str], int]) -> str:
    """Return the beginning of `text` in at most `limit_tokens`; empty when too little is left.

    A cut at the end of a sentence, or between words, is taken when it keeps at least half of what
    fits. What is left has at least `USEFUL_TOKENS`.
    """
    fits = _longest_fit(text, limit_tokens, count)
    for end in (_sentence_end(text, fits), _word_end(text, fits), _whole_character(text, fits)):
        cut = text[:end].rstrip()
        if 2 * end >= fits and USEFUL_TOKENS <= count(cut) <= limit_tokens:
            return cut
    return ""


def whole_sentences(
    text: str, limit_tokens: int, count: Callable[[str], int], *, least: int = USEFUL_TOKENS
) -> str:
    """Return the sentences with which `text` begins, as many as fit; see `cut_to` if none does.

    Args:
        text: The text.
        limit_tokens: Most tokens.
        count: Counts tokens.
        least: Sentences with fewer tokens count as none.
    """
    if count(text) <= limit_tokens:
        return text
    whole = text[: _sentence_end(text, _longest_fit(text, limit_tokens, count))].rstrip()
    return whole if count(whole) >= least else cut_to(text, limit_tokens, count)


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the offset after each sentence of `text`."""
    for found in _ENDS.finditer(text):
        if found[0] == "\n":
            goes_on = _is_wrapped(text, found.start())
        else:
            goes_on = found[0][0] in _STOPS and _goes_on(text, found)
        if not goes_on:
            yield found.end()


def _is_wrapped(text: str, at: int) -> bool:
    """Return whether a line break only keeps a paragraph narrow."""
    line = text[text.rfind("\n", 0, at) + 1 : at].rstrip()
    is_long = len(line) >= _WRAPPED_CHARS and line[-1].isalnum()
    return is_long and text[at + 1 : at + 2].isalpha()


def _goes_on(text: str, stop: re.Match[str]) -> bool:
    """Return whether the sentence continues after this stop."""
    before = _LAST_WORD.search(text, max(0, stop.start() - 20), stop.start() + 1)
    if before and stop[0][:2] != "..":
        word = before[1]
        line_start = text[: before.start()].rpartition("\n")[2].strip(" -*#>") == ""
        initial = (len(word) == 1 and word.isupper()) or (line_start and word.isdigit())
        if initial or word.lower() in _ABBREVIATIONS:
            return True
    return text[stop.end() : stop.end() + 2].strip()[:1].islower()


def _longest_fit(text: str, limit_tokens: int, count: Callable[[str], int]) -> int:
    """Return how many characters of `text` have at most `limit_tokens`."""
    high = max(8 * limit_tokens, 64)
    while high < len(text) and count(text[:high]) <= limit_tokens:
        high *= 2
    low, high = 0, min(high, len(text))
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) <= limit_tokens:
            low = middle
        else:
            high = middle - 1
    return low


def _sentence_end(text: str, fits: int) -> int:
    """Return the last end of a sentence within `fits`; what follows decides whether it is one."""
    return max((end for end in sentence_ends(text[: fits + 3]) if end <= fits), default=0)


def _word_end(text: str, fits: int) -> int:
    if text[fits : fits + 1].isspace():
        return fits
    return max((found.start() for found in re.finditer(r"\s", text[:fits])), default=0)


def _whole_character(text: str, fits: int) -> int:
    """Return the last offset within `fits` that parts no letter from its marks."""
    end = fits
    while 0 < end < len(text) and (_belongs_before(text[end]) or text[end - 1] == _JOINERS[0]):
        end -= 1
    return end


def _belongs_before(character: str) -> bool:
    return (
        character in _JOINERS
        or ord(character) in _MODIFIERS
        or unicodedata.category(character).startswith("M")
    )
