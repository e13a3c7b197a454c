"""Past turns are favoured as memory is: by who speaks with whom, and by when it was."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.recall import RecallHit
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.search.rank import scores_of_turns, session_of
from familiar_cli.store.search.weights import WEIGHTS


def turn(
    number: int, who: str, day: str, text: str = "The fence.", channel: str = "den"
) -> RecallHit:
    author = Author("test", who.lower(), display_name=who)
    at = datetime.fromisoformat(f"{day}T20:00").replace(tzinfo=UTC)
    said = Turn(number, channel, author, "user", text, at, "text", "test", partial=False)
    return RecallHit(said, 0.5, None)


def scores(query: str, *turns: RecallHit) -> list[float]:
    """Return what is added to each, in units of its weight in the final score."""
    sessions = [session_of(one.turn, UTC) for one in turns]
    found = scores_of_turns(
        turns, query, sessions, speaker=lambda t: t.author.display_name, zone=UTC
    )
    return [score / WEIGHTS.relevance - 0.5 for score in found]


def test_turns_of_a_conversation_with_whom_a_question_names_are_favoured() -> None:
    own, beside, other = (
        turn(1, "Anna", "2023-05-08"),
        turn(2, "Bo", "2023-05-08"),
        turn(3, "Bo", "2023-05-08", channel="attic"),
    )
    added = scores("What did Anna say?", own, beside, other)
    assert added == pytest.approx([WEIGHTS.people + WEIGHTS.speaker, WEIGHTS.people, 0])


def test_turns_of_the_time_that_a_question_names_are_favoured() -> None:
    within, before = turn(1, "Bo", "2023-06-09"), turn(2, "Bo", "2022-01-03")
    said = turn(3, "Bo", "2023-07-03", "We painted it last month.")
    added = scores("the fence in June 2023", within, before, said)
    assert added == pytest.approx([0.8 * WEIGHTS.time, 0, WEIGHTS.time], abs=1e-6)


def test_nothing_is_added_for_a_question_without_name_or_time() -> None:
    assert scores("the fence", turn(1, "Anna", "2023-05-08")) == [0]


def test_no_turns_have_no_scores() -> None:
    assert scores("What did Anna say?") == []
