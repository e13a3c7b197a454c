"""Write the table of words for times in other languages, from CLDR: `python -m tools.locale_times`.

It needs Babel, which nothing else does: `pip install babel`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from babel import Locale

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = Path(__file__).parents[1] / "familiar_cli" / "imports" / "locale_times.json"
LOCALES = [
    "af",
    "am",
    "ar",
    "az",
    "be",
    "bg",
    "bn",
    "ca",
    "cs",
    "da",
    "de",
    "el",
    "en",
    "es",
    "et",
    "eu",
    "fa",
    "fi",
    "fil",
    "fr",
    "ga",
    "gl",
    "gu",
    "he",
    "hi",
    "hr",
    "hu",
    "hy",
    "id",
    "is",
    "it",
    "ja",
    "ka",
    "kk",
    "km",
    "kn",
    "ko",
    "ky",
    "lo",
    "lt",
    "lv",
    "mk",
    "ml",
    "mn",
    "mr",
    "ms",
    "my",
    "nb",
    "ne",
    "nl",
    "pa",
    "pl",
    "ps",
    "pt",
    "pt_PT",
    "ro",
    "ru",
    "si",
    "sk",
    "sl",
    "sq",
    "sr",
    "sv",
    "sw",
    "ta",
    "te",
    "th",
    "tr",
    "uk",
    "ur",
    "uz",
    "vi",
    "zh",
    "zh_Hant",
    "zu",
]
NOON = 12 * 60 * 60
_WIDTHS = ("abbreviated", "wide")


def _clean(text: str) -> str:
    return " ".join(text.replace("\u200f", "").replace("\u200e", "").split()).casefold()


def _halves(locale: Locale) -> Iterator[tuple[str, str]]:
    """Yield each word for half of the day; in Chinese, phones write the parts of the day."""
    starts = {"am": 0, "pm": NOON}
    if locale.language == "zh":
        rules = (locale.day_period_rules or {}).get(None, {})
        starts |= {name: found[0].get("from", 0) for name, found in rules.items() if found}
    for context in locale.day_periods.values():
        for width in _WIDTHS:
            for period, word in context.get(width, {}).items():
                if period in starts:
                    yield _clean(word), "pm" if starts[period] >= NOON else "am"


def _months(locale: Locale) -> Iterator[tuple[str, int]]:
    for context in ("format", "stand-alone"):
        for width in _WIDTHS:
            for number, word in locale.months[context][width].items():
                yield _clean(word).rstrip("."), number


def build_table() -> dict[str, Any]:
    """Collect the words of all languages; one that means different things is left out."""
    halves: dict[str, set[str]] = defaultdict(set)
    months: dict[str, set[int]] = defaultdict(set)
    for name in LOCALES:
        locale = Locale.parse(name)
        for word, half in _halves(locale):
            halves[word].add(half)
        for word, number in _months(locale):
            months[word].add(number)
    return {
        "halves": {
            half: sorted(word for word, found in halves.items() if found == {half} and word)
            for half in ("am", "pm")
        },
        "months": {
            str(number): sorted(
                word
                for word, found in months.items()
                if found == {number} and any(letter.isalpha() for letter in word)
            )
            for number in range(1, 13)
        },
    }


def main() -> None:
    """Write the table."""
    table = build_table()
    lines = [
        f'"{name}": ' + json.dumps({k: "|".join(v) for k, v in part.items()}, ensure_ascii=False)
        for name, part in table.items()
    ]
    TABLE.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
