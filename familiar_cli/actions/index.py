"""Build, look at and clear all that finds memories and turns; it is derived, and comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.history.recall import count_unread
from familiar_cli.index.turn_vectors import EmbeddedTurns, TurnVectorStatus

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.index.build import Embedded, IndexStatus, Progress, Refreshed


@dataclass(frozen=True, slots=True)
class IndexBuilt:
    """What `build` did: files read, their pieces and turns that got a vector."""

    refreshed: Refreshed
    embedded: Embedded
    turns: EmbeddedTurns
    turns_waiting: int


@dataclass(frozen=True, slots=True)
class TurnsStatus:
    """How turns can be found.

    Args:
        turns: How many there are.
        unread: How many cannot be found by their words yet.
        vectors: How many can be found by meaning.
        waiting: How many wait for a vector.
        size_bytes: Of all vectors.
        token_vectors: Those of single tokens.
    """

    turns: int
    unread: int
    vectors: int
    waiting: int
    size_bytes: int
    token_vectors: int = 0


def build(familiar: Familiar, progress: Progress | None = None) -> IndexBuilt:
    """Bring everything up to date: words always, vectors when a model is on disk.

    Raises:
        FamiliarError: An index cannot be written, or the model does not work; what was done stays.
    """
    refreshed = familiar.finder.index_words(progress)
    embedder = familiar.finder.embedder.embedder
    if embedder is None:
        embedded = familiar.index.build_if_stale(None).embedded
        return IndexBuilt(refreshed, embedded, EmbeddedTurns(), familiar.history.count())
    embedded = familiar.index.embed_waiting(embedder, progress=progress)
    turns = familiar.finder.embed_turns(progress=progress)
    return IndexBuilt(refreshed, embedded, turns, familiar.finder.turns_without_vector())


def status(familiar: Familiar) -> tuple[IndexStatus, TurnsStatus]:
    """Return how memory and turns can be found; nothing is made or changed."""
    opened = familiar.finder.embedder.embedder
    made: TurnVectorStatus = familiar.finder.turn_vectors.status(opened)
    turns = familiar.history.count()
    waiting = familiar.finder.turns_without_vector() if opened else turns
    found = TurnsStatus(
        turns,
        count_unread(familiar.history),
        made.vectors,
        waiting,
        made.size_bytes,
        made.token_vectors,
    )
    return familiar.index.status(), found


def clear(familiar: Familiar) -> bool:
    """Delete the index of memory and the vectors of turns; tell whether there was any."""
    memory, turns = familiar.index.clear(), familiar.finder.turn_vectors.clear()
    return memory or turns
