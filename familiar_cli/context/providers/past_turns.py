"""Turns of the past that fit a message, as pieces for the model.

Turns of one channel and one part of a day are one source, so that they stay together in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.text import framed
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.context.providers.packing import Excerpt, PackedSource, Passage, PieceSource
from familiar_cli.store.search import who_when
from familiar_cli.store.search.hits import query_coverage
from familiar_cli.store.search.rank import scores_of_turns, session_of
from familiar_cli.store.search.types import EmbedderError
from familiar_cli.store.search.weights import WEIGHTS

if TYPE_CHECKING:
    from familiar_cli.base.who.identity import Author
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.store.history.recall import Nearness, RecallHit
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.search.finding import Finder
    from familiar_cli.store.search.rank import Session
    from familiar_cli.store.search.turn_vectors import NearTurns

MOST_TURNS: Final = 150
MOST_WIDE_TURNS: Final = 400
MOST_WISHES: Final = 5
LEAST_WISH: Final = 0.5
"""Share of the best score that a standing wish has at least."""

_MOST_LOOKED_AT: Final = 300
_ASKING: Final = ("?", "？", "؟", '?"', "?*")


class Recall(Struct, frozen=True):
    """Turns of the past that match the message.

    Args:
        pieces: The turns.
        sources: Their conversations.
        unread: Number of turns not searched yet.
        waiting: Number of turns without a vector, though others have one.
        by_meaning: They were found by meaning, too.
        asked: The kind of question that they answer.
        why: Why a given turn was not found.
        missed: There was no time to search.
        strength: Returns the strength of a piece; see `Passage`.
    """

    pieces: tuple[Excerpt, ...] = ()
    sources: dict[str, PieceSource] = field(default_factory=dict)
    unread: int = 0
    waiting: int = 0
    by_meaning: bool = False
    asked: who_when.QuestionKind = who_when.QuestionKind()  # frozen
    why: Callable[[int], str | None] = lambda _: None
    missed: bool = False
    strength: Callable[[int], float] = lambda _: 0.0

    def source_of(self, turn_id: int) -> str | None:
        """Return the source that holds a turn; None if it was not found."""
        return next((piece.source for piece in self.pieces if turn_id in piece.turns), None)

    def passage(self, packed: PackedSource) -> Passage:
        """Return the packed part of a conversation as a passage."""
        turns = [turn for piece in packed.pieces for turn in piece.turns]
        strength, origin = self.strength(packed.best.start), packed.source.origin
        span = (min(turns), max(turns))
        return replace(packed.passage(), strength=strength, turns=span, origin=origin)


class Recaller(Struct, frozen=True):
    """Searches the past.

    Args:
        label: Returns the label of a channel.
        name: The familiar's name.
        zone: The familiar's timezone; None for the system's.
        within_s: Maximum seconds for indexing turns that are not searchable yet.
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
        cited: Mapping[int, float],
    ) -> Recall:
        """Return the turns that fit `query` or that found lines cite, except those shown."""
        from familiar_cli.store.history.recall import recall  # noqa: PLC0415  # loads sqlite3

        kind = who_when.asked_by(query, to_zone(now(), self.zone).date())
        is_wide = kind.is_wide
        query = kind.topic if is_wide else query
        near = self._near(query) if by_meaning and query else None
        find = partial(
            recall,
            self.history,
            query,
            near=near,
            cited=cited,
            here=request.channel_id,
            viewer=request.viewer,
            before_id=request.before_id,
            leave_out=shown,
            only_people=is_wide and kind.of_people,
            wide=is_wide,
            limit=MOST_WIDE_TURNS if is_wide else MOST_TURNS,
            within_s=0.0 if request.off_record else self.within_s,  # nothing is written then
        )
        recollection = find(between_ms=kind.between_ms(self.zone) if is_wide else ())
        if "order" in kind.kinds and not recollection.turns:
            recollection = find()  # the time is of one of the things that the question names
        authors = [
            turn.author for one in recollection.turns for turn in (one.turn, one.before) if turn
        ]
        labels = request.labels.joined(authors)
        somebody = request.phrases.somebody
        made = _Pieces(
            query, framed(self.name), shown, cache(labels.of), somebody[:1].upper() + somebody[1:]
        )
        turns = list(recollection.turns)
        sessions = {one.turn.id: session_of(one.turn, self.zone) for one in turns}
        scores = scores_of_turns(
            turns, query, list(sessions.values()), speaker=made.speaker, zone=self.zone
        )
        if is_wide:
            scores = who_when.spread_scores(turns, scores)
        elif "latest" in kind.kinds:
            scores = who_when.latest_scores(turns, scores)
        if kind.of_myself and kind.of_people and not is_wide:
            scores = who_when.people_first_scores(turns, scores)
        if not is_wide:
            wishes = self._wishes(request, query, near, shown)
            turns, scores = _with_wishes(turns, scores, wishes)
        sources: dict[Session, PieceSource] = {}
        called = cache(self.label)  # most turns are of one channel
        pieces = []
        for found_turn, score in zip(turns, scores, strict=True):
            one = self._complement(found_turn, request) if request.beside else found_turn
            if one and is_wide:
                one = replace(one, before=None)
            if one and one.turn.content.strip():
                session = sessions.get(one.turn.id) or session_of(one.turn, self.zone)
                source = sources.get(session)
                if source is None:
                    source = sources[session] = self._source(session, request, called)
                pieces.append(made.of(one, source.key, score))
        return Recall(
            tuple(pieces),
            {source.key: source for source in sources.values()},
            max(recollection.unread - len(shown), 0),  # the newest turns are in the prompt anyway
            self.finder.turns_without_vector(near) if by_meaning else 0,
            near is not None,
            kind,
            lambda turn: self._why(turn, request),
            strength=made.strength,
        )

    def _complement(self, result: RecallHit, request: ContextRequest) -> RecallHit | None:
        """Select the turns that a chat program's own prompt lacks, each question with its answer.

        None if the prompt contains it, or nobody answered.
        """
        from familiar_cli.store.history.selection import turns_around  # noqa: PLC0415  # loads sqlite3

        turn, before = result.turn, result.before
        if turn.role == "user" and turn.content.rstrip().endswith(_ASKING):
            reply = turns_around(self.history, turn, 0, 1, viewer=request.viewer)[-1].turn
            if reply.id == turn.id:
                return None
            turn, before = reply, turn
        if _stands_beside(turn, request):
            return None
        known = before is not None and _stands_beside(before, request)
        return replace(result, turn=turn, before=None if known else before)

    def _wishes(
        self, request: ContextRequest, query: str, near: Nearness | None, shown: frozenset[int]
    ) -> list[tuple[Turn, float]]:
        """Return the standing wishes that match the message best, with scores in [0, 1].

        They are the speaker's; if only one other person ever had any, theirs.
        """
        from familiar_cli.store.history.recall import newest_saying  # noqa: PLC0415  # loads sqlite3

        turns = newest_saying(
            self.history,
            who_when.wish_words(),
            who_when.is_standing_wish,
            viewer=request.viewer,
            here=request.channel_id,
            before_id=request.before_id,
            limit=_MOST_LOOKED_AT,
        )
        wishes = [one for one in turns if one.id not in shown]
        own = [one for one in wishes if one.author == request.author]
        if not own and len({one.author for one in wishes}) == 1:
            own = wishes
        alike = near.of(sorted(one.id for one in own)) if near and own else {}
        fits = [
            (one, min(max(alike.get(one.id, 0.0), query_coverage(one.content, query)), 1.0))
            for one in own
        ]
        return sorted(fits, key=lambda one: (-one[1], -one[0].id))[:MOST_WISHES]

    def _near(self, query: str) -> NearTurns | None:
        try:
            return self.finder.near_turns(query, self.name)
        except EmbedderError:  # the search of memory asks the same model, and tells
            return None

    def _source(
        self, session: Session, request: ContextRequest, called: Callable[[str], str]
    ) -> PieceSource:
        """Describe a conversation on a part of a day."""
        channel_id, day, part = session
        channel = framed(called(channel_id))
        phrases = request.phrases
        brief = phrases.day(day)
        where = "" if channel_id == request.channel_id else f"{phrases.comma}{channel}"
        return PieceSource(
            f"past:{channel_id}:{day}-{part}",
            f"{brief}{where}",
            phrases.said,
            origin=f"{channel}, {day}",
            place=where,
            brief=brief,
            day=f"{day}-{part}",
            phrases=phrases,
        )

    def _why(self, turn_id: int, request: ContextRequest) -> str | None:
        turn, here = self.history.turn(turn_id), request.channel_id
        if turn is None:
            return None
        if not request.viewer.sees_turn(turn):
            return "it was said in private elsewhere"
        if not self.history.holds(here, turn) and turn.channel_id in self.history.family(here):
            return "it was said in another branch of this conversation"
        return "it does not match the message well enough"


def _with_wishes(
    turns: Sequence[RecallHit], scores: Sequence[float], wishes: Sequence[tuple[Turn, float]]
) -> tuple[list[RecallHit], list[float]]:
    """Add standing wishes, ranked beside the best results."""
    from familiar_cli.store.history.recall import RecallHit  # noqa: PLC0415  # loads sqlite3

    best = max(scores, default=WEIGHTS.relevance)
    made = {one.turn.id: (one, score) for one, score in zip(turns, scores, strict=True)}
    for turn, fit in wishes:
        one, score = made.get(turn.id, (RecallHit(turn, 0.0, None), 0.0))
        edge = best * (LEAST_WISH + (1 - LEAST_WISH) * fit)
        made[turn.id] = one, max(score, edge)
    return [one for one, _ in made.values()], [score for _, score in made.values()]


def _stands_beside(turn: Turn, request: ContextRequest) -> bool:
    """Tell whether a chat program's own prompt contains the text of a turn."""
    beside = request.beside
    return beside is not None and (beside.is_one(turn.content) or beside.cover(turn.content))


class _Pieces(Struct, frozen=True):
    """Converts turns to pieces.

    Args:
        query: The search query.
        name: The label of the familiar.
        shown: The turns in the prompt.
        label: Returns the label of a person.
        somebody: Label of people without a name.
    """

    query: str
    name: str
    shown: frozenset[int]
    label: Callable[[Author], str]
    somebody: str
    _texts: dict[int, str] = field(default_factory=dict)

    def of(self, found: RecallHit, source: str, score: float) -> Excerpt:
        """Return a found turn with the one before it."""
        before = found.before if found.before and found.before.id not in self.shown else None
        after, earlier, *_ = *found.above, 0, 0
        preceding = partial(self._piece, before, earlier, source) if before else None
        lift = WEIGHTS.relevance * found.lift
        return self._piece(found.turn, after, source, score, before=preceding, lift=lift)

    def _piece(
        self,
        turn: Turn,
        after: int,
        source: str,
        score: float = 0.0,
        *,
        before: Callable[[], Excerpt] | None = None,
        lift: float = 0.0,
    ) -> Excerpt:
        speaker = self.speaker(turn)
        words = "\n  ".join(turn.content.strip().splitlines())  # none begins like a speaker's label
        self._texts[turn.id] = turn.content
        return Excerpt(
            source=source,
            start=turn.id,
            end=turn.id,
            text=f"{speaker}: {words}",
            score=score,
            turns=frozenset({turn.id}),
            before=before,
            after=after,
            is_turn=True,
            lead=len(speaker) + 2,
            lift=lift,
        )

    def strength(self, turn_id: int) -> float:
        """Return the share of the question's words that a turn made into a piece contains."""
        return round(query_coverage(self._texts[turn_id], self.query), 4)

    def speaker(self, turn: Turn) -> str:
        """Return the speaker of a turn."""
        if turn.role == "assistant":
            return self.name
        return self.label(turn.author) if turn.author else self.somebody
