"""Score what was found. Pure: numbers in, numbers out. See docs/reference/ranking.md."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli import fts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from familiar_cli.index.embedder import Spec
    from familiar_cli.index.lexical import Lexical

RECENCY_RATE_PER_DAY: Final = 0.007
_MIN_NICKNAME_CHARS: Final = 3


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts. Chosen by measurement: docs/reference/ranking.md.

    Args:
        file: BM25 of the whole file, within the lexical score.
        passage: BM25 of the passage, within the lexical score.
        line: BM25 of the line, within the lexical score.
        dense: Share of meaning against words.
        speaker: Added to a line whose speaker the question names.
        relevance: Share of words and meaning in the final score.
        recency: Share of how fresh the file is.
        links: Share of being, or being linked with, a person or topic that the question names.
        instance: Share of having been written by the same instance.
    """

    file: float = 0.5
    passage: float = 1.0
    line: float = 0.5
    dense: float = 0.5
    speaker: float = 0.1
    relevance: float = 0.8
    recency: float = 0.05
    links: float = 0.05
    instance: float = 0.1


WEIGHTS: Final = Weights()


class Line(NamedTuple):  # thousands are made for one question, and a tuple is made fastest
    """One line that may be an answer, as the index holds it; `passages` are ids, from … to."""

    id: int
    document_id: int
    speaker: str
    passages: tuple[int, int]


class Scored(NamedTuple):
    """One line with its scores; `lexical`, `dense` and `cosine` are None where not known.

    Args:
        lexical: In [0, 1]; 1 is the best match by words that this question has.
        dense: 0 for unrelated, about 1 for a question and its answer; the same for any question.
        cosine: The larger of the cosines of the line and its passage.
        passage: The id of the passage that matches best.
        relevance: Words and meaning together, and whether the speaker was named.
    """

    line: Line
    lexical: float
    dense: float | None
    cosine: float | None
    speaker: bool
    passage: int
    relevance: float


def recency(age_days: float) -> float:
    """Return how fresh a memory is, in (0, 1]; 1.0 means written today.

    Args:
        age_days: Age in days, >= 0.

    Raises:
        ValueError: `age_days` is negative.

    Source: docs/reference/ranking.md, "Recency" (halves after about 143 days).
    """
    if age_days < 0:
        raise ValueError(f"age_days must be >= 0, got {age_days!r}")
    return 1 / (1 + RECENCY_RATE_PER_DAY * age_days)


def nearness(cosine: float, spec: Spec) -> float:
    """Return how near in meaning a cosine is: 0 for unrelated, about 1 for an answer."""
    return max(0.0, (cosine - spec.far) / (spec.near - spec.far))


def is_named(speaker: str, query: str) -> bool:
    """Tell whether `query` names `speaker`, by a whole name or by a nickname with a capital."""
    if not speaker:
        return False
    whole, nicknames = _asked(query)
    names = fts.words(speaker)
    return any(name in whole or name.startswith(nicknames) for name in names)


@lru_cache(maxsize=4)
def _asked(query: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the words that may be names, and those with a capital, which may be nicknames."""
    capitals = [word for word in query.split() if word[:1].isupper()]
    short = {word for capital in capitals for word in fts.words(capital)[:1]} - fts.STOP_WORDS
    nicknames = tuple(sorted(word for word in short if len(word) >= _MIN_NICKNAME_CHARS))
    return frozenset(fts.content_words(query)), nicknames


def score(
    lines: Iterable[Line],
    lexical: Lexical,
    cosines: Mapping[int, float] | None,
    *,
    query: str,
    spec: Spec | None = None,
    weights: Weights = WEIGHTS,
) -> list[Scored]:
    """Return `lines` scored, best first.

    Args:
        lines: The candidates.
        lexical: What the full-text tables say; empty to go by meaning alone.
        cosines: Cosines by id of lines and passages, or None to go by words alone.
        query: What is asked.
        spec: The model that the cosines are of.
        weights: How much each signal counts.
    """
    candidates = list(lines)
    named = {speaker: is_named(speaker, query) for speaker in {c.speaker for c in candidates}}
    by_words = _by_words(candidates, lexical, weights)
    known = cosines or {}
    near = {id_: nearness(c, spec) for id_, c in known.items()} if spec else {}
    share = weights.dense if lexical.passages else 1.0
    found = []
    for line, words in zip(candidates, by_words, strict=True):
        passage = _best_passage(line, lexical.passages, known)
        dense = _by_meaning(line, near)
        # Nothing is known against a line that waits for its vector, so it is not put last.
        relevance = words if dense is None else (1 - share) * words + share * dense
        relevance += weights.speaker * named[line.speaker]
        cosine = None if dense is None else _most(line, known)
        found.append(Scored(line, words, dense, cosine, named[line.speaker], passage, relevance))
    return sorted(found, key=lambda s: (-s.relevance, s.line.document_id, s.line.id))


def final(
    relevance: float,
    *,
    age_days: float,
    linked: bool,
    same_instance: bool,
    weights: Weights = WEIGHTS,
) -> float:
    """Return the score that hits are sorted by."""
    return (
        weights.relevance * relevance
        + weights.recency * recency(age_days)
        + weights.links * linked
        + weights.instance * same_instance
    )


def _by_words(lines: Sequence[Line], lexical: Lexical, weights: Weights) -> list[float]:
    """Return the lexical score of each line, in [0, 1]; the best one has 1."""
    tables = (lexical.documents, lexical.passages, lexical.lines)
    shares = (weights.file, weights.passage, weights.line)
    files, passages, by_line = (
        {id_: share * value / max(table.values()) for id_, value in table.items()}
        for table, share in zip(tables, shares, strict=True)
    )
    raw = [
        files.get(line.document_id, 0.0)
        + max([passages.get(p, 0.0) for p in range(*line.passages)], default=0.0)
        + by_line.get(line.id, 0.0)
        for line in lines
    ]
    top = max(raw, default=0.0) or 1.0
    return [value / top for value in raw]


def _by_meaning(line: Line, near: Mapping[int, float]) -> float | None:
    """Return the mean nearness of a line and its nearest passage; None while both wait."""
    of_passage = [near[p] for p in range(*line.passages) if p in near]
    of_line = near.get(line.id)
    if of_line is None:
        return max(of_passage, default=None)
    return (of_line + max(of_passage)) / 2 if of_passage else of_line


def _most(line: Line, cosines: Mapping[int, float]) -> float:
    return max([cosines.get(i, -1.0) for i in (line.id, *range(*line.passages))])


def _best_passage(line: Line, lexical: Mapping[int, float], cosines: Mapping[int, float]) -> int:
    first, last = line.passages
    if last - first == 1:
        return first
    return max(range(first, last), key=lambda p: (lexical.get(p, 0.0), cosines.get(p, 0.0), -p))
