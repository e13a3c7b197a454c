"""One table for each language, and none of them code.

A table holds the words in which people speak of time, and the titles, headings and labels of files
and prompts.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.languages.english import PHRASES as ENGLISH
from familiar_cli.languages.phrases import Phrases
from familiar_cli.languages.table import Language

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CODES", "ENGLISH", "LANGUAGES", "NUMERALS", "Language", "Phrases", "phrases", "tables"]

CODES: Final = {
    "en": "english",
    "de": "german",
    "ja": "japanese",
    "ar": "arabic",
    "es": "spanish",
    "fr": "french",
    "zh": "chinese",
}
"""The module of each language's table, by its code."""

LANGUAGES: Final = tuple(CODES.values())
"""The modules of the tables."""

NUMERALS: Final = "numerals"
"""The module of what all languages share."""


@cache
def phrases(code: str) -> Phrases:
    """Return the wordings of a language.

    Raises:
        KeyError: There is no such table.
    """
    module: Any = import_module(f"familiar_cli.languages.{CODES[code]}")
    found: Phrases = module.PHRASES
    return found


def tables() -> Iterator[Phrases]:
    """Yield the wordings of every language, English first."""
    return map(phrases, CODES)
