"""Score what was found. Pure: numbers in, numbers out. See docs/reference/ranking.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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


@dataclass(frozen=True, slots=True)
class Line:
    """One line that may be an answer, as the index holds it; `passages` are ids, from … to."""

    id: int
    document_id: int
    speaker: str
    passages: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Scored:
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
    names = fts.words(speaker)
    asked = fts.content_words(query)
    if any(name in asked for name in names):
        return True
    capitals = [word for word in query.split() if word[:1].isupper()]
    short = {word for capital in capitals for word in fts.words(capital)[:1]} - fts.STOP_WORDS
    return any(
        name.startswith(word) for name in names for word in short if len(word) >= _MIN_NICKNAME_CHARS
    )


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
    by_words = _by_words(candidates, lexical, weights)
    named = {speaker: is_named(speaker, query) for speaker in {c.speaker for c in candidates}}
    found = []
    for line, words in zip(candidates, by_words, strict=True):
        cosine, dense = _by_meaning(line, cosines, spec)
        relevance = _fused(words, dense, weights, words_count=bool(lexical.passages))
        relevance += weights.speaker * named[line.speaker]
        passage = _best_passage(line, lexical.passages, cosines or {})
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
    tables = (lexical.documents, lexical.passages, lexical.lines)
    file_top, passage_top, line_top = (max(t.values(), default=0.0) or 1.0 for t in tables)
    raw = [
        weights.file * lexical.documents.get(line.document_id, 0.0) / file_top
        + weights.passage * _most(line, lexical.passages) / passage_top
        + weights.line * lexical.lines.get(line.id, 0.0) / line_top
        for line in lines
    ]
    top = max(raw, default=0.0) or 1.0
    return [value / top for value in raw]


def _by_meaning(
    line: Line, cosines: Mapping[int, float] | None, spec: Spec | None
) -> tuple[float | None, float | None]:
    """Return the larger cosine and the nearness of a line and its passage; None while they wait."""
    if cosines is None or spec is None:
        return None, None
    known = [c for c in (cosines.get(line.id), _most_known(line, cosines)) if c is not None]
    if not known:
        return None, None
    return max(known), sum(nearness(c, spec) for c in known) / len(known)


def _fused(words: float, dense: float | None, weights: Weights, *, words_count: bool) -> float:
    if dense is None:
        return words  # nothing is known against it, so a new memory is not put last
    if not words_count:
        return dense
    return (1 - weights.dense) * words + weights.dense * dense


def _most(line: Line, scores: Mapping[int, float]) -> float:
    return max((scores.get(p, 0.0) for p in range(*line.passages)), default=0.0)


def _most_known(line: Line, scores: Mapping[int, float]) -> float | None:
    return max((scores[p] for p in range(*line.passages) if p in scores), default=None)


def _best_passage(line: Line, lexical: Mapping[int, float], cosines: Mapping[int, float]) -> int:
    return max(
        range(*line.passages),
        key=lambda p: (lexical.get(p, 0.0), cosines.get(p, 0.0), -p),
        default=0,
    )
