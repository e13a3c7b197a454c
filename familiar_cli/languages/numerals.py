"""Dates in digits, which all languages share."""

from familiar_cli.languages.table import Language

TABLE = Language(
    code="",
    forms=(
        r"{year}[-/]{month_number}[-/]{day}",
        r"{day}\. ?{month_number}\. ?{year}",
        r"{year}-{month_number}",
        r"(?<![.,:/-]){year}(?![.,:/-]?\d)",
    ),
)
