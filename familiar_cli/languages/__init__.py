"""The tables of languages: one TOML file for each, read when it is first asked for.

A table holds the words in which people speak of time, the titles, headings and labels of files and
prompts, and the forms of statements about people.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tomllib import loads
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.languages.phrases import Phrases
from familiar_cli.languages.table import Beliefs, Language

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CODES",
    "ENGLISH",
    "NUMERALS",
    "Beliefs",
    "Language",
    "Phrases",
    "beliefs",
    "dates",
    "phrases",
    "tables",
]

CODES: Final = ("en", "de", "ja", "ar", "es", "fr", "zh")
"""The languages that have a table, `<code>.toml`, by their codes as in ISO 639."""

NUMERALS: Final = "numerals"
"""The table of what all languages share."""


@cache
def dates(code: str) -> Language:
    """Return the words in which a language speaks of time.

    Raises:
        KeyError: There is no such table.
    """
    return Language(**_part(code, "dates"))


@cache
def phrases(code: str) -> Phrases:
    """Return the wordings of a language.

    Raises:
        KeyError: There is no such table.
    """
    return Phrases(code=code, **_part(code, "phrases"))


def beliefs() -> Iterator[Beliefs]:
    """Yield how each language states attributes with one value at a time, English first."""
    return map(_beliefs, CODES)


def tables() -> Iterator[Phrases]:
    """Yield the wordings of every language, English first."""
    return map(phrases, CODES)


@cache
def _beliefs(code: str) -> Beliefs:
    return Beliefs(**_part(code, "beliefs"))


def _part(code: str, name: str) -> dict[str, Any]:
    if code not in CODES and code != NUMERALS:
        raise KeyError(code)
    return {key: _frozen(value) for key, value in _read(code)[name].items()}


@cache
def _read(code: str) -> dict[str, Any]:
    return loads(Path(__file__).with_name(f"{code}.toml").read_text("utf-8"))


def _frozen(value: Any) -> Any:  # noqa: ANN401
    """Return lists as tuples, and numbered keys as numbers."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {int(k) if k.lstrip("-").isdigit() else k: _frozen(v) for k, v in value.items()}
    return value


ENGLISH: Final = phrases("en")
