"""Which language a text is in, by its scripts and its commonest words. Cheap, and always the same.

English where that is not clear: also for languages that have no table.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final

from familiar_cli.languages import ENGLISH, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FIRST_TURNS: Final = 60
"""So many turns at most tell the language of a conversation."""

ENOUGH_CHARS: Final = 600
"""When the first turns have so many, those turns decide; before that, the character does."""

_TURN_CHARS: Final = 120  # of one turn: what somebody pastes is in any language

LEAST_LETTERS: Final = 30
"""Fewer say nothing; a sign of a script without spaces counts for three."""

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_SCRIPTS: Final = {
    "ja": re.compile("[\u3041-\u3096\u30a1-\u30fa]"),
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"),
    "ar": re.compile("[\u0620-\u064a]"),
    "other": re.compile(  # from Greek to Thai, the Arabic letters of other languages, Hangul
        "[\u0370-\u05ff\u0671-\u06ff\u0700-\u0e7f\u1100-\u11ff\uac00-\ud7af]"
    ),
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
_WIDE: Final = {"ja": 3, "zh": 3}
_MOST: Final = 0.5
_KANA: Final = 0.1  # of all signs, in Japanese; a name or two stand in Chinese, too
_PERSIAN: Final = 0.03
_LEAST_COMMON: Final = 0.12  # of all words
_CLEARLY: Final = 1.4  # times as many as of the language that is next

# Languages that have no table, and that would be taken for one that has.
_OTHERS: Final = """
    o os as um uma não é eu você que de em com para por mais mas ele ela foi isso muito está do da
    | il lo gli di che è sono per con una non ma come più io tu mi ti si della nel anche questo
    | de het een en van ik je niet dat is op te zijn met voor maar hij zij ook wat heb er
    | och att det är jag du inte en ett som på för med han hon men vad har den av
"""


def language_in(said: Iterable[str], character: Callable[[], Iterable[str]]) -> tuple[str, bool]:
    """Return the code of a familiar's language, and whether it is settled by what was said.

    Args:
        said: Its first turns, oldest first.
        character: Gives the texts that make it who it is.
    """
    first: list[str] = []
    weight = 0
    for turn in said:
        first.append(turn[:_TURN_CHARS])
        weight += sum(_weights(first[-1]).values())
        if weight >= ENOUGH_CHARS:
            return language_of("\n".join(first)) or ENGLISH.code, True
    own = language_of("\n".join(character()))
    return own or language_of("\n".join(first)) or ENGLISH.code, False


def language_of(text: str) -> str | None:
    """Return the code of the language that most of `text` is in; None: it is too short to say."""
    weights = _weights(text)
    total = sum(weights.values())
    if total < LEAST_LETTERS:
        return None
    wide = weights["ja"] + weights["zh"]
    if wide > _MOST * total:
        return "ja" if weights["ja"] > _KANA * wide else "zh"
    if weights["ar"] > _MOST * total:
        persian = len(re.findall("[پچژگکیےںٹڈ]", text))
        return ENGLISH.code if persian > _PERSIAN * weights["ar"] else "ar"
    return _by_words(text) if weights["latin"] > _MOST * total else ENGLISH.code


def _weights(text: str) -> dict[str, int]:
    """Return how much of a text is in each script."""
    return {
        name: len(script.findall(text)) * _WIDE.get(name, 1) for name, script in _SCRIPTS.items()
    }


def _by_words(text: str) -> str:
    words = Counter(word.casefold().replace("’", "'") for word in _WORD.findall(text))
    shares = {
        code: sum(words[word] for word in common) / words.total()
        for code, common in _common().items()
    }
    best, next_best = sorted(shares, key=lambda code: (-shares[code], code))[:2]
    is_clear = shares[best] >= max(_LEAST_COMMON, _CLEARLY * shares[next_best])
    return best if is_clear and not best.startswith("-") else ENGLISH.code


@cache
def _common() -> Mapping[str, frozenset[str]]:
    known = {table.code: frozenset(table.common.split()) for table in tables() if table.common}
    others = {f"-{n}": frozenset(words.split()) for n, words in enumerate(_OTHERS.split("|"))}
    return known | others
