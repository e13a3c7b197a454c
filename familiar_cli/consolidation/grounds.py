"""Whether a source says what a model wrote, as far as its words can tell."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from familiar_cli.memory.pages.similarity import SAID_SHARE
from familiar_cli.truncate import sentence_ends

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.memory.pages.similarity import EvidenceText

T = TypeVar("T")


def best(sources: Iterable[tuple[T, EvidenceText]], text: str) -> list[T]:
    """Return what belongs to the sources that have most words of `text`; none may say it."""
    shares = [(thing, source.share(text)) for thing, source in sources]
    most = max([SAID_SHARE, *(share for _, share in shares)])
    return [thing for thing, share in shares if share >= most]


def sentences(text: str) -> list[str]:
    """Return the sentences of a line."""
    cuts = [0, *sentence_ends(text), len(text)]
    found = (text[start:end].strip() for start, end in pairwise(cuts))
    return [sentence for sentence in found if sentence]
