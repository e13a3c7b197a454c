"""One form for what readers take for the same word: for search, names and aliases, in any script.

Nothing that is only a matter of writing counts: case and width (`ß` is `ss`); Arabic and Hebrew
vowel points, tatweel, the forms of alef, alef maqsura, ta marbuta, and the Persian ya and kaf;
Indic nuktas, stress marks and candrabindu; Thai and Lao tone marks; hiragana or katakana; Chinese
characters that Unicode itself calls the same. What stays apart: accents of Latin, Greek and
Cyrillic letters, Indic and Thai vowel signs, the long vowels of kana, and traditional, simplified
and Japanese characters, of which Unicode's tables in Python say nothing.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_DROPPED: Final = (
    ("\u0591", "\u05bd"),  # Hebrew accents and points
    *((mark, mark) for mark in "\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"),
    ("\u0610", "\u061a"),  # Arabic marks and vowel points
    ("\u064b", "\u065f"),
    ("\u06d6", "\u06dc"),
    ("\u06df", "\u06e4"),
    *((mark, mark) for mark in "\u0640\u0670\u06e7\u06e8\u06ea\u06eb\u06ec\u06ed"),
    *((mark, mark) for mark in "\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc"),  # Indic nuktas
    ("\u0951", "\u0954"),  # Vedic accents
    ("\u0e47", "\u0e4c"),  # Thai tone marks and the sign of a silent letter
    ("\u0ec8", "\u0ecc"),  # Lao tone marks
    ("\u200b", "\u200d"),  # joiners, and a space without width
    ("\ufe00", "\ufe0f"),  # variation selectors
    ("\U000e0100", "\U000e01ef"),
    ("\u00ad", "\u00ad"),  # a soft hyphen
    ("\u2060", "\u2060"),
    ("\ufeff", "\ufeff"),
)
_SAME: Final = {
    **dict.fromkeys("آأإٱ", "ا"),
    **dict.fromkeys("ىیې", "ي"),
    "ة": "ه",
    "ۀ": "ه",
    "ک": "ك",
    # candrabindu as anusvara, script by script
    **{chr(block + 1): chr(block + 2) for block in range(0x0900, 0x0D00, 0x80)},
}
_KANA: Final = {
    **{chr(point): chr(point - 0x60) for point in range(0x30A1, 0x30F7)},
    "ヽ": "ゝ",
    "ヾ": "ゞ",
}
_LETTERS: Final = {
    **{chr(p): "" for a, b in _DROPPED for p in range(ord(a), ord(b) + 1)},
    **_SAME,
}

_JOINERS: Final = dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", "")


def fold_word(text: str) -> str:
    """Return `text` in the one form in which words are compared."""
    return text.lower() if text.isascii() else fold_kana(fold_letters(text))


def fold_letters(text: str) -> str:
    """Return `text` as `fold_word` does, but with katakana as it is."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i")
    return unicodedata.normalize("NFKC", _replaced(plain, _LETTERS))


def without_joiners(text: str) -> str:
    """Return `text` without what is drawn as nothing inside words."""
    return text if text.isascii() else _replaced(text, _JOINERS)


def _replaced(text: str, table: Mapping[str, str]) -> str:
    # `str.translate` takes ten times as long: few of the table's letters stand in one text.
    for letter in table.keys() & set(text):
        text = text.replace(letter, table[letter])
    return text


def fold_kana(text: str) -> str:
    """Return `text` with hiragana for katakana, letter by letter."""
    return text if text.isascii() else _replaced(text, _KANA)
