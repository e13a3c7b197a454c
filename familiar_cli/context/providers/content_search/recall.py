"""The raw past as pieces of a prompt: turns that fit, with who spoke and when.

Turns of one channel and one part of a day are one source, so that they stand together in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.context.providers.content_search.packing import Piece, Source
from familiar_cli.context.providers.content_search.passages import Passage
from familiar_cli.index.dates import day_words
from familiar_cli.index.hits import coverage
from familiar_cli.index.rank import WEIGHTS, is_named
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import tzinfo

    from familiar_cli.context.providers.content_search.packing import Packed
    from familiar_cli.context.types import ContextRequest
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

KIND: Final = "Said"
MOST_TURNS: Final = 150
_NAME_CHARS: Final = 40
_TURN_CHARS: Final = 1200  # of one turn; a longer one is cut at a sentence when it is packed


@dataclass(frozen=True, slots=True)
class Recall:
    """What of the past fits what was said.

    Args:
        pieces: The turns.
        sources: The conversations that they are from.
        unread: How many turns were not searched yet.
        why: Why a turn that is asked about was not found.
    """

    pieces: tuple[Piece, ...] = ()
    sources: dict[str, Source] = field(default_factory=dict)
    unread: int = 0
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
        )


@dataclass(frozen=True, slots=True)
class Recaller:
    """Searches the past.

    Args:
        history: The history.
        private: Gives the channels whose words stay there.
        label: Says what a channel is called.
        name: Gives the familiar's name.
        zone: The familiar's timezone; None: the system's.
        within_s: Most seconds for reading turns that are not searchable yet.
    """

    history: HistoryStore
    private: Callable[[], Collection[str]]
    label: Callable[[str], str]
    name: Callable[[], str]
    zone: tzinfo | None
    within_s: float

    def __call__(self, request: ContextRequest, query: str, shown: frozenset[int]) -> Recall:
        """Return what fits `query`, without the turns that the prompt shows."""
        from familiar_cli.history.recall import recall  # noqa: PLC0415  # loads sqlite3

        hidden = frozenset(self.private()) - {request.channel_id}
        found = recall(
            self.history,
            query,
            hidden_channels=hidden,
            before_id=request.before_id,
            leave_out=shown,
            limit=MOST_TURNS,
            within_s=self.within_s,
        )
        name = self.name() if found.turns else ""
        sources: dict[str, Source] = {}
        pieces = []
        for one in found.turns:
            if not one.turn.content.strip():
                continue
            source = self._source(one.turn, request.channel_id)
            sources.setdefault(source.key, source)
            before = one.before if one.before and one.before.id not in shown else None
            pieces.append(_piece(one.turn, source.key, one.score, query, name, before))
        return Recall(tuple(pieces), sources, found.unread, lambda turn: self._why(turn, hidden))

    def _source(self, turn: Turn, here: str) -> Source:
        local = turn.at.astimezone(self.zone)
        part = local.hour // 6
        where = "" if turn.channel_id == here else f", {one_line(self.label(turn.channel_id), 60)}"
        key = f"past:{turn.channel_id}:{local:%Y-%m-%d}-{part}"
        return Source(key, f"{day_words(local.date())}{where}", KIND)

    def _why(self, turn_id: int, hidden: Collection[str]) -> str | None:
        turn = self.history.turn(turn_id)
        if turn is None:
            return None
        if turn.channel_id in hidden:
            return "it was said in private elsewhere"
        return "it does not fit what was said well enough to be recalled"


def _piece(
    turn: Turn, source: str, score: float, query: str, name: str, before: Turn | None = None
) -> Piece:
    speaker = _speaker(turn, name)
    score = WEIGHTS.relevance * (score + WEIGHTS.speaker * is_named(speaker, query))
    return Piece(
        source=source,
        start=turn.id,
        end=turn.id,
        text=f"{speaker}: {turn.content.strip()}",
        score=score,
        strength=round(coverage(turn.content, query), 4),
        turns=frozenset({turn.id}),
        before=_piece(before, source, 0.0, query, name) if before else None,
    )


def _speaker(turn: Turn, name: str) -> str:
    if turn.role == "assistant":
        return one_line(name, _NAME_CHARS)
    return one_line(turn.author.label, _NAME_CHARS) if turn.author else "Somebody"
