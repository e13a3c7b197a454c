"""Score past turns as lines of memory are scored: who speaks with whom, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now, to_zone
from familiar_cli.index.dates import day_span, time_of, times_of
from familiar_cli.index.people import parts_of, people_among
from familiar_cli.index.rank import WEIGHTS
from familiar_cli.spans import spans_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date, tzinfo

    from familiar_cli.history.recall import Recalled
    from familiar_cli.history.types import Turn
    from familiar_cli.spans import Span, Yearly

    Session = tuple[str, date, int]

_PART_HOURS: Final = 6  # of a day, as in the names of session files


def scores_of_turns(
    turns: Sequence[Recalled],
    query: str,
    *,
    speaker: Callable[[Turn], str],
    zone: tzinfo | None,
) -> list[float]:
    """Return the scores of `turns`, in their order; those of memories can be compared with them.

    Args:
        turns: What fits `query` by words and meaning.
        query: What was said.
        speaker: Gives whose words a turn holds.
        zone: The familiar's timezone; None: the system's.
    """
    sessions: dict[Session, set[str]] = {}
    for one in turns:
        sessions.setdefault(_session(one.turn, zone), set()).add(speaker(one.turn))
    named = people_among({label for labels in sessions.values() for label in labels}, query)
    shares = {
        session: named.share({part for label in labels for part in parts_of(label)})
        for session, labels in sessions.items()
    }
    wanted = spans_in(query, to_zone(now(), zone).date())
    return [
        WEIGHTS.relevance
        * (
            one.score
            + WEIGHTS.speaker * named.is_named(speaker(one.turn))
            + WEIGHTS.people * shares[_session(one.turn, zone)]
            + WEIGHTS.time * _time(one.turn, wanted, zone)
        )
        for one in turns
    ]


def _session(turn: Turn, zone: tzinfo | None) -> Session:
    local = to_zone(turn.at, zone)
    return turn.channel_id, local.date(), local.hour // _PART_HOURS


def _time(turn: Turn, wanted: Sequence[Span | Yearly], zone: tzinfo | None) -> float:
    if not wanted:
        return 0.0
    day = to_zone(turn.at, zone).date()
    return time_of(wanted, day_span(day), times_of(turn.content, day))
