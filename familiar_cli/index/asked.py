"""What a question asks for: one thing, the order of many, how many, the last, or what changed.

Words of `languages` decide, and no model; the turns for a kind of question are chosen from what a
search found. Nothing of it is stored.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cache, lru_cache
from math import log
from typing import TYPE_CHECKING, Final

from familiar_cli import fts
from familiar_cli.clock import to_utc
from familiar_cli.languages import CODES, dates, questions
from familiar_cli.spans import Span, Yearly, folded, times_asked, times_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from familiar_cli.history.recall import Recalled

_WORD: Final = re.compile(r"\w+")
_MOST_YEARS: Final = 20
_DAY_MS: Final = 86_400_000
_MOST_CHARS: Final = 2_000
_WIDE: Final = frozenset({"order", "summary"})
_DATED: Final = frozenset({"order", "summary", "count", "change", "latest"})
_KINDS: Final = (*sorted(_DATED), "myself", "you")


@dataclass(frozen=True, slots=True)
class Asked:
    """The kind of a question.

    Args:
        kinds: Which of `order`, `count`, `latest`, `summary` and `change` it asks for.
        times: The times that it names.
        of_people: It asks for what people said, not for what the familiar did.
        of_myself: The one who asks is in it.
        topic: What a wide question is about, without the words that make it one; empty: anything.
        is_question: It ends as a question does.
        today: When it is asked.
    """

    kinds: frozenset[str] = frozenset()
    times: tuple[Span | Yearly, ...] = ()
    of_people: bool = False
    of_myself: bool = False
    topic: str = ""
    is_question: bool = False
    today: date = date.min

    @property
    def is_wide(self) -> bool:
        """Tell whether many turns of a long time are the answer, none of them alone."""
        counted = "count" in self.kinds and self.of_myself
        of_a_time = self.times and ("change" in self.kinds or (self.is_question and not self.topic))
        return bool(self.kinds & _WIDE or counted or of_a_time)

    @property
    def in_order(self) -> bool:
        """Tell whether the answer lies in the order of time."""
        return bool(self.kinds & (_DATED - {"change"})) or self.is_wide

    def between_ms(self, zone: tzinfo | None) -> list[tuple[int, int]]:
        """Return the times, from … to in milliseconds since 1970; of any year, that of many.

        Several times in a question for an order are of the things that it names, as they were told
        ("she moved last Saturday"), and limit nothing.
        """
        if "order" in self.kinds and len(self.times) > 1:
            return []
        spans = [one for time in self.times for one in _of_all_years(time, self.today)]
        return [(_begin_ms(one.first, zone), _begin_ms(one.last, zone) + _DAY_MS) for one in spans]


def _of_all_years(time: Span | Yearly, today: date) -> list[Span]:
    if isinstance(time, Span):
        return [time]
    spans = []
    for year in range(max(today.year - _MOST_YEARS, date.min.year), today.year + 1):
        with suppress(ValueError):
            spans.append(time.of(year))
    return spans


def _begin_ms(day: date, zone: tzinfo | None) -> int:
    return int(to_utc(datetime.combine(day, time()), zone).timestamp() * 1000)


def asked_by(query: str, today: date) -> Asked:
    """Return the kind of a question, in any of the languages."""
    text = folded(query[:_MOST_CHARS])
    said = {kind for kind, pattern in _patterns() if pattern.search(text)}
    times = tuple(times_asked(query, today))
    kinds, topic = frozenset(said) & _DATED, _topic_of(text, today)
    is_question = query.rstrip().endswith(("?", "？", "؟"))
    return Asked(kinds, times, "you" not in said, "myself" in said, topic, is_question, today)


def _topic_of(text: str, today: date) -> str:
    """Return a folded question without its times and the words of its kind."""
    for found in reversed(times_in(text, today)):
        text = f"{text[: found.start]} {text[found.end :]}"
    for kind in (*sorted(_DATED), "frame"):
        text = _any_language(kind).sub(" ", text)
    return " ".join(fts.words(text))


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, _any_language(kind)) for kind in _KINDS)


@cache
def _any_language(kind: str, *codes: str) -> re.Pattern[str]:
    """Return the words of all languages, or some, for something, as in folded texts."""
    parts = []
    for code in codes or CODES:
        words = folded(getattr(questions(code), kind))
        parts.append(rf"(?<!\w)(?:{words})(?!\w)" if dates(code).spaced else f"(?:{words})")
    return re.compile("|".join(parts))


@cache
def wish_words(*codes: str) -> tuple[str, ...]:
    """Return words of which each standing wish holds some, in some languages; none: in all."""
    listed = (questions(code).wish_words.split("|") for code in codes or CODES)
    return tuple(dict.fromkeys(word for words in listed for word in words))


@lru_cache(maxsize=4096)  # the same turns are asked of every message
def is_standing_wish(text: str) -> bool:
    """Tell whether somebody says what is to be done, or left, from then on."""
    said = folded(text[:_MOST_CHARS])
    spoken = f" {' '.join(_WORD.findall(said))} "
    return any(
        _any_language("wishes", code).search(said)
        for code in CODES
        if any(phrase in spoken for phrase in _wish_phrases(code))
    )


@cache
def _wish_phrases(code: str) -> tuple[str, ...]:
    edge = " " if dates(code).spaced else ""
    return tuple(f"{edge}{folded(phrase)}{edge}" for phrase in wish_words(code))


_SESSION_GAP_S: Final = 6 * 3600
OF_NOVELTY: Final = 0.3
OF_RANK: Final = 0.3
OF_LATEST: Final = 0.3
LATEST_FLOOR: Final = 0.4
"""Of a question for the last of something, the share of the best score from which a turn fits."""


OF_PEOPLE: Final = 0.15
"""Added to what people said, where who speaks asks about themselves."""


def spread_scores(turns: Sequence[Recalled], scores: Sequence[float]) -> list[float]:
    """Return the scores of `turns`, in their order, so that the best are from all of the time.

    What tells of something new is before what goes on with it, and the best turn of each session
    before the second best of another.

    Args:
        turns: What was found.
        scores: How well each fits.
    """
    novelty = _novelty([one.turn.content for one in turns], [one.turn.at for one in turns])
    top = max(scores, default=0.0) or 1.0
    raw = [score / top + OF_NOVELTY * new for score, new in zip(scores, novelty, strict=True)]
    ranks = _session_ranks(turns, raw)
    return [score - OF_RANK * (1 - 1 / (1 + rank)) for score, rank in zip(raw, ranks, strict=True)]


def latest_scores(turns: Sequence[Recalled], scores: Sequence[float]) -> list[float]:
    """Return the scores of `turns`, in their order; of those that fit well, later ones gain."""
    least = LATEST_FLOOR * max(scores, default=0.0)
    fit = sorted((turns[n].turn.at, n) for n, score in enumerate(scores) if score >= least)
    gains = {n: OF_LATEST * place / len(fit) for place, (_, n) in enumerate(fit, 1)}
    return [score + gains.get(n, 0.0) for n, score in enumerate(scores)]


def people_first_scores(turns: Sequence[Recalled], scores: Sequence[float]) -> list[float]:
    """Return the scores, with more for what people said than for what the familiar did."""
    return [
        score + OF_PEOPLE * (one.turn.role == "user")
        for one, score in zip(turns, scores, strict=True)
    ]


def _novelty(texts: Sequence[str], moments: Sequence[datetime]) -> list[float]:
    """Return how much of what each text says was not said before it, in [0, 1]."""
    words = [set(fts.content_words(text)) for text in texts]
    held = Counter(word for some in words for word in some)
    seen: set[str] = set()
    raw = [0.0] * len(texts)
    for n in sorted(range(len(texts)), key=lambda n: moments[n]):
        new = words[n] - seen
        raw[n] = sum(log(1 + held[word]) for word in new if held[word] > 1)
        seen |= words[n]
    top = max(raw, default=0.0) or 1.0
    return [value / top for value in raw]


def _session_ranks(turns: Sequence[Recalled], scores: Sequence[float]) -> list[int]:
    """Return the place of each turn among those of its session, the best has 0."""
    order = sorted(range(len(turns)), key=lambda n: (turns[n].turn.channel_id, turns[n].turn.at))
    sessions: list[list[int]] = []
    for n in order:
        one = turns[n].turn
        last = turns[sessions[-1][-1]].turn if sessions else one
        gap_s = (one.at - last.at).total_seconds()
        if not sessions or last.channel_id != one.channel_id or gap_s >= _SESSION_GAP_S:
            sessions.append([])
        sessions[-1].append(n)
    ranks = [0] * len(turns)
    for session in sessions:
        for rank, n in enumerate(sorted(session, key=lambda n: -scores[n])):
            ranks[n] = rank
    return ranks
