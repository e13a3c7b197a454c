"""How much each signal counts: for a question for one fact, for a list, or for an inference.

A list rests on many turns over months, and an inference on a fact in other words. For both, meaning
counts more than words, what the named person said themselves counts more, and a line that only asks
counts less. Chosen by measurement: docs/reference/ranking.md, "Lists and inferences". The patterns
are English; questions in other languages are asked for facts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base import languages


class Weights(Struct, frozen=True):
    """How much each signal counts. Chosen by measurement: docs/reference/ranking.md.

    Args:
        file: BM25 of the whole file, within the lexical score.
        passage: BM25 of the passage, within the lexical score.
        line: BM25 of the line, within the lexical score.
        dense: Weight of meaning against words, with vectors of whole texts only.
        maxsim: Weight of meaning against words, with token vectors; half for the line, half for its
            passage.
        speaker: Added to a line whose speaker the question names.
        people: Added to a line in a file where all speak whom the question names.
        time: Added to a line of the time that the question names.
        relevance: Share of words and meaning in the final score.
        recency: Share of how fresh the file is.
        links: Share of being, or being linked with, a person or topic that the question names.
        instance: Share of having been written by the same instance.
        asking: Taken from a line that only asks.
        second: Share of the relevance of a file's second best line, added to the file's score.
        twice: Where files are ranked, a line is as near to a word as its second nearest token.
    """

    file: float = 0.5
    passage: float = 1.0
    line: float = 0.5
    dense: float = 0.5
    maxsim: float = 0.625
    speaker: float = 0.1
    people: float = 0.4
    time: float = 0.2
    relevance: float = 0.8
    recency: float = 0.05
    links: float = 0.05
    instance: float = 0.1
    asking: float = 0.0
    second: float = 0.0
    twice: bool = False


WEIGHTS: Final = Weights()
"""For a question that one line answers."""

LINES: Final = replace(WEIGHTS, asking=0.05)
"""The same where single lines or turns are ranked; a file may well begin with its question."""

LISTS: Final = replace(WEIGHTS, maxsim=0.7, speaker=0.2, asking=0.1, second=0.1, twice=True)
INFERENCES: Final = replace(LISTS, speaker=0.3, asking=0.15, twice=False)

_MOST_CHARS: Final = 500
_ASKING: Final = r"\?\W*$|^\W*(?:what|which|where|who|how|would|does|did|do|is|are)\b"
_INFERENCE: Final = r"\b(?:would|might|likely|could|probably|personality|considered?)\b"
_LIST: Final = (
    r"\b(?:both|common|how many|all the|kinds? of|types? of|some|ways)\b"
    r"|\b(?:what|which|where|who)\b.*\b(?:has|have)\b"
    # "What events …", "Which of her books …": a plural close to the question word.
    r"|(?:^|[.!?,]\s+)(?:what|which)\s+(?:\w+\s+){0,2}?(?!does|is|was|has|this|his)\w+(?<!s)s\b"
)
_OF_KINDS: Final = r"(?:kind|type|sort)s? of"
_KIND: Final = (
    rf"\b(?:what|which|how many|{_OF_KINDS})(?:\s+(?:are|were|some|of|the|{_OF_KINDS}))*"
    r"((?:[^\w.,;:!?]+[^\W\d_]+){1,4})"
)
_HABIT: Final = r"\b(?:to|for)\s+(?:a\s+)?(relax|destress|unwind|fun|work|exercise|living)\b"
_WHERE: Final = r"(?:^|[.!?,])\s*(where)\b"
_KIND_END: Final = (
    r"\W(?:can|could|did|do|does|had|has|have|would|might|will|is|are|was|were|am"
    r"|in|at|on|for|with|from|to|of|by|about|that|who)\b"
)
ASKS: Final = ("?", "？", "؟")
"""What a line ends with that only asks."""


@lru_cache(maxsize=64)  # a message is scored for memory and for turns
def weights_for(query: str, *, lines: bool = False) -> Weights:
    """Return the weights of the signals for what `query` asks.

    Args:
        query: The question.
        lines: Single lines or turns are ranked, and not files.
    """
    text = query[:_MOST_CHARS]
    if re.search(_ASKING, text, re.IGNORECASE):
        if re.search(_INFERENCE, text, re.IGNORECASE):
            return INFERENCES
        if re.search(_LIST, text, re.IGNORECASE):
            return LISTS
    return LINES if lines else WEIGHTS


class KindAsked(Struct, frozen=True):
    """A kind of thing that a question asks for, and things of that kind, as a list in a text."""

    word: str
    things: str


@lru_cache(maxsize=64)
def kind_asked(query: str) -> KindAsked | None:
    """Return the kind of thing of which `query` wants several; None if it names none with a table.

    "What activities does she like?" is answered by lines about camping and pottery.
    """
    text = query[:_MOST_CHARS].lower()
    if not re.search(_ASKING, text):
        return None
    words = re.findall(_HABIT, text)
    if weights_for(query) in {LISTS, INFERENCES}:
        phrases = [re.split(_KIND_END, phrase)[0] for phrase in re.findall(_KIND, text)]
        words = [word for phrase in phrases for word in re.findall(r"\w+", phrase)[::-1]] + words
        words += re.findall(_WHERE, text)
    known = languages.kinds("en") if words else {}
    return next((KindAsked(word, known[word]) for word in words if word in known), None)
