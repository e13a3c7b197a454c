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

    from familiar_cli.languages.beliefs import Beliefs

__all__ = [
    "CODES",
    "ENGLISH",
    "LANGUAGES",
    "NUMERALS",
    "Language",
    "Phrases",
    "beliefs",
    "phrases",
    "tables",
]

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
    found: Phrases = _module(code).PHRASES
    return found


def beliefs() -> Iterator[Beliefs]:
    """Yield how each language states attributes with one value at a time, English first."""
    return (_module(code).BELIEFS for code in CODES)


def tables() -> Iterator[Phrases]:
    """Yield the wordings of every language, English first."""
    return map(phrases, CODES)


def _module(code: str) -> Any:  # noqa: ANN401
    return import_module(f"familiar_cli.languages.{CODES[code]}")
