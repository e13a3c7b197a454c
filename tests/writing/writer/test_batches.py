"""Where a long row of turns is cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.store.history.rows import Turn
from familiar_cli.writing.writer.grounds import Caps, by_privacy, split_steps
from tests.support.viewers import rules_of

MORNING = datetime(2026, 4, 7, 8, 0, tzinfo=UTC)
PAUSE_S = 3600.0


def said(*minutes) -> list[Turn]:
    """Return turns that were said so many minutes after the morning began."""
    return [
        Turn(
            n,
            "cli",
            None,
            "user",
            "words",
            MORNING + timedelta(minutes=at),
            "text",
            "cli",
            partial=False,
        )
        for n, at in enumerate(minutes, 1)
    ]


def sizes(turns, caps, cost=1) -> list[int]:
    return [len(piece) for piece in split_steps(turns, caps, lambda _: cost)]


@pytest.mark.parametrize(("before", "expected"), [(1, [3]), (2, [2, 2])])
def test_a_quarter_of_the_turns_is_enough_to_end_at_a_pause(before, expected) -> None:
    turns = said(*range(before), 100, 101)
    assert sizes(turns, Caps(8, 1000, PAUSE_S)) == expected


@pytest.mark.parametrize(("cost", "expected"), [(24, [3]), (25, [1, 2])])
def test_a_quarter_of_the_tokens_is_enough_to_end_at_a_pause(cost, expected) -> None:
    assert sizes(said(0, 100, 101), Caps(50, 100, PAUSE_S), cost) == expected


@pytest.mark.parametrize(("minutes", "expected"), [(59, [4]), (60, [2, 2])])
def test_a_conversation_ends_with_a_pause_as_long_as_is_set(minutes, expected) -> None:
    assert sizes(said(0, 1, 1 + minutes, 2 + minutes), Caps(8, 1000, PAUSE_S)) == expected


def test_a_batch_is_in_the_order_of_its_time() -> None:
    (batch,) = by_privacy(said(30, 31, 0, 1), rules_of())
    assert [turn.id for turn in batch.turns] == [3, 4, 1, 2]
