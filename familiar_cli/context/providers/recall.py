"""The raw past as pieces of a prompt: turns that fit, with who spoke and when.

Turns of one channel and one part of a day are one source, so that they stand together in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_zone
from familiar_cli.context.providers.packing import Excerpt, PieceSource
from familiar_cli.context.providers.passages import Passage
from familiar_cli.index.embedder import EmbedderError
from familiar_cli.index.hits import coverage
from familiar_cli.index.rank import scores_of_turns
from familiar_cli.text import framed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from familiar_cli.context.providers.packing import Packed
    from familiar_cli.context.types import ContextRequest
    from familiar_cli.finding import Finder
    from familiar_cli.history.recall import Nearness, Recalled
    from familiar_cli.history.rows import Turn
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.identity import Labels

MOST_TURNS: Final = 150
_ASKING: Final = ("?", "？", "؟", '?"', "?*")


@dataclass(frozen=True, slots=True)
class Recall:
    """What of the past fits what was said.

    Args:
        pieces: The turns.
        sources: The conversations that they are from.
        unread: How many turns were not searched yet.
        waiting: How many turns cannot be found by meaning yet, though others can.
        by_meaning: They were found by meaning, too.
        why: Why a turn that is asked about was not found.
    """

    pieces: tuple[Excerpt, ...] = ()
    sources: dict[str, PieceSource] = field(default_factory=dict)
    unread: int = 0
    waiting: int = 0
    by_meaning: bool = False
    why: Callable[[int], str | None] = lambda _: None

    def source_of(self, turn_id: int) -> str | None:
        """Return the source that holds a turn; None: it was not found."""
        return next((piece.source for piece in self.pieces if turn_id in piece.turns), None)

    def why_not(self, turn_id: int) -> str | None:
        """Return why a turn was not found; None: another provider knows."""
        return self.why(turn_id)

    def passage(self, packed: Packed) -> Passage:
        """Return what was packed of a conversation as a passage."""
        turns = [turn for piece in packed.pieces for turn in piece.turns]
        best = packed.best
        return Passage(
            label=packed.source.label,
            heading=packed.source.heading,
            score=best.score,
            strength=best.strength,
            text=packed.text,
            turns=(min(turns), max(turns)),
            origin=packed.source.origin,
        )


@dataclass(frozen=True, slots=True)
class Recaller:
    """Searches the past.

    Args:
        history: The history.
        label: Says what a channel is called.
        name: The familiar's.
        zone: The familiar's timezone; None: the system's.
        within_s: Most seconds for reading turns that are not searchable yet.
        finder: Finds turns by meaning.
    """

    history: HistoryStore
    label: Callable[[str], str]
    name: str
    zone: tzinfo | None
    within_s: float
    finder: Finder

    def __call__(
        self,
        request: ContextRequest,
        query: str,
        shown: frozenset[int],
        by_meaning: bool,  # noqa: FBT001
    ) -> Recall:
        """Return what fits `query`, without the turns that the prompt shows."""
        from familiar_cli.history.recall import recall  # noqa: PLC0415  # loads sqlite3

        near = self._near(query) if by_meaning else None
        found = recall(
            self.history,
            query,
            near=near,
            here=request.channel_id,
            viewer=request.viewer,
            before_id=request.before_id,
            leave_out=shown,
            limit=MOST_TURNS,
            within_s=0.0 if request.off_record else self.within_s,  # then nothing is written
        )
        authors = (turn.author for one in found.turns for turn in (one.turn, one.before) if turn)
        labels = request.labels.joined(authors)
        somebody = request.phrases.somebody
        made = _Pieces(query, self.name, shown, labels, somebody[:1].upper() + somebody[1:])
        scores = scores_of_turns(found.turns, query, speaker=made.speaker, zone=self.zone)
        sources: dict[str, PieceSource] = {}
        called = cache(self.label)  # most turns are of one channel
        pieces = []
        for found_turn, score in zip(found.turns, scores, strict=True):
            one = self._complement(found_turn, request)
            if one and one.turn.content.strip():
                source = self._source(one.turn, request, called)
                sources.setdefault(source.key, source)
                pieces.append(made.of(one, source.key, score))
        return Recall(
            tuple(pieces),
            sources,
            max(found.unread - len(shown), 0),  # the newest turns are in the prompt anyway
            self.finder.turns_without_vector() if by_meaning else 0,
            near is not None,
            lambda turn: self._why(turn, request),
        )

    def _complement(self, found: Recalled, request: ContextRequest) -> Recalled | None:
        """Select the turns that a chat program's own prompt lacks, each question with its answer.

        None: the prompt says it, or nobody answered.
        """
        from familiar_cli.history.selection import around  # noqa: PLC0415  # loads sqlite3

        if request.beside is None:
            return found
        turn, before = found.turn, found.before
        if turn.role == "user" and turn.content.rstrip().endswith(_ASKING):
            reply = around(self.history, turn, 0, 1, viewer=request.viewer)[-1].turn
            if reply.id == turn.id:
                return None
            turn, before = reply, turn
        if _stands_beside(turn, request):
            return None
        known = before is not None and _stands_beside(before, request)
        return replace(found, turn=turn, before=None if known else before)

    def _near(self, query: str) -> Nearness | None:
        try:
            return self.finder.near_turns(query)
        except EmbedderError:  # the search of memory asks the same model, and tells
            return None

    def _source(
        self, turn: Turn, request: ContextRequest, called: Callable[[str], str]
    ) -> PieceSource:
        local = to_zone(turn.at, self.zone)
        day, part = local.date(), local.hour // 6
        channel = framed(called(turn.channel_id))
        phrases = request.phrases
        where = "" if turn.channel_id == request.channel_id else f"{phrases.comma}{channel}"
        key = f"past:{turn.channel_id}:{day}-{part}"
        label, origin = f"{phrases.day(day)}{where}", f"{channel}, {day}"
        return PieceSource(key, label, phrases.said, origin=origin, phrases=phrases)

    def _why(self, turn_id: int, request: ContextRequest) -> str | None:
        turn, here = self.history.turn(turn_id), request.channel_id
        if turn is None:
            return None
        if not request.viewer.sees_turn(turn):
            return "it was said in private elsewhere"
        if not self.history.holds(here, turn) and turn.channel_id in self.history.family(here):
            return "it was said in another branch of this conversation"
        return "it does not match what was said well enough"


def _stands_beside(turn: Turn, request: ContextRequest) -> bool:
    """Tell whether a chat program's own prompt contains the words of a turn."""
    beside = request.beside
    return beside is not None and (beside.is_one(turn.content) or beside.cover(turn.content))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Makes pieces of turns.

    Args:
        query: What is searched for.
        name: The familiar's.
        shown: The turns that the prompt shows.
        labels: What people are called.
        somebody: What people without a name are called.
    """

    query: str
    name: str
    shown: frozenset[int]
    labels: Labels
    somebody: str

    def of(self, found: Recalled, source: str, score: float) -> Excerpt:
        """Return a turn that was found, with the one before it."""
        before = found.before if found.before and found.before.id not in self.shown else None
        return replace(
            self._piece(found.turn, source, score),
            before=self._piece(before, source, 0.0) if before else None,
        )

    def _piece(self, turn: Turn, source: str, score: float) -> Excerpt:
        speaker = self.speaker(turn)
        words = "\n  ".join(turn.content.strip().splitlines())  # none begins as a speaker does
        return Excerpt(
            source=source,
            start=turn.id,
            end=turn.id,
            text=f"{speaker}: {words}",
            score=score,
            strength=round(coverage(turn.content, self.query), 4),
            turns=frozenset({turn.id}),
            is_turn=True,
        )

    def speaker(self, turn: Turn) -> str:
        """Return whose words a turn holds."""
        if turn.role == "assistant":
            return framed(self.name)
        return self.labels.of(turn.author) if turn.author else self.somebody
