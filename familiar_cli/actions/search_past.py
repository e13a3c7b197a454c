"""Search the past from a terminal as a prompt searches it: by words, and by meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli import fts
from familiar_cli.clock import to_zone
from familiar_cli.errors import UsageError
from familiar_cli.history.recall import recall
from familiar_cli.index.embedder import EmbedderError
from familiar_cli.index.past import scores_of_turns
from familiar_cli.text import framed

if TYPE_CHECKING:
    from datetime import date, datetime

    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn
    from familiar_cli.visibility import Viewer

METHODS: Final = ("auto", "hybrid", "lexical")
_LOOKED_AT: Final = (
    150  # turns that words and meaning find; who spoke, and when, says which are best
)
_BEFORE_DAYS: Final = 1000  # so many turns are looked at when only some days count


@dataclass(frozen=True, slots=True)
class PastHit:
    """A turn that was found.

    Args:
        turns: The first and the last turn.
        channel: Where it was said.
        at: When.
        speaker: Who said it.
        text: The words.
        score: What turns and memories are sorted by.
    """

    turns: tuple[int, int]
    channel: str
    at: datetime
    speaker: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class PastFound:
    """What a search of the past gave.

    Args:
        hits: The turns, best first.
        method: `lexical` or `hybrid`.
        waiting: How many turns cannot be found by meaning yet.
    """

    hits: tuple[PastHit, ...]
    method: str
    waiting: int


def search_past(
    familiar: Familiar,
    query: str,
    *,
    k: int = 10,
    method: str = "auto",
    since: date | None = None,
    channel: str | None = None,
    viewer: Viewer,
    min_score: float = 0.0,
) -> PastFound:
    """Return the turns that fit `query`.

    Args:
        familiar: Whose past.
        query: A message or question, as typed.
        k: Most turns.
        method: `auto` takes words and meaning where turns have vectors, else words alone.
        since: Only what was said on this day or later.
        channel: Only this channel; None: all.
        viewer: Who will see them.
        min_score: Least score of a turn.

    Raises:
        UsageError: `query` holds no word, or there is no such method for turns.
        EmbedderError: `method` is `hybrid`, and nothing finds by meaning.
    """
    if method not in METHODS:
        raise UsageError(
            f"The past cannot be searched by {method!r}", hint=f"Known: {', '.join(METHODS)}."
        )
    if not fts.words(query):
        raise UsageError(f"There is no word to search for in {query!r}")
    near = None if method == "lexical" else familiar.near_turns(query)
    if near is None and method == "hybrid":
        raise EmbedderError(
            "No turn can be found by meaning yet", hint="Run `familiar index build`."
        )
    found = recall(
        familiar.history,
        query,
        near=near,
        channel_id=channel,
        viewer=viewer,
        limit=max(k, _LOOKED_AT) if since is None else _BEFORE_DAYS,
    )
    labels = familiar.labels(one.turn.author for one in found.turns)

    def speaker(turn: Turn) -> str:
        if turn.role == "assistant":
            return framed(familiar.name)
        return labels.of(turn.author) if turn.author else "Somebody"

    scores = scores_of_turns(found.turns, query, speaker=speaker, zone=familiar.zone)
    hits = [
        _hit(familiar, one.turn, score, speaker(one.turn))
        for one, score in zip(found.turns, scores, strict=True)
    ]
    wanted = [
        hit for hit in hits if hit.score >= min_score and (since is None or hit.at.date() >= since)
    ]
    wanted.sort(key=lambda hit: (-hit.score, hit.turns))
    waiting = familiar.turns_without_vector() if method != "lexical" else 0
    return PastFound(tuple(wanted[:k]), "hybrid" if near else "lexical", waiting)


def _hit(familiar: Familiar, turn: Turn, score: float, speaker: str) -> PastHit:
    return PastHit(
        (turn.id, turn.id),
        turn.channel_id,
        to_zone(turn.at, familiar.zone),
        speaker,
        turn.content,
        round(score, 4),
    )
