"""The words in which people speak of time: one table for each language, and none of them code."""

from typing import Final

from familiar_cli.languages.table import Language

__all__ = ["LANGUAGES", "NUMERALS", "Language"]

LANGUAGES: Final = ("english", "german", "japanese", "arabic", "spanish", "french", "chinese")
"""The modules of the tables."""

NUMERALS: Final = "numerals"
"""The module of what all languages share."""
