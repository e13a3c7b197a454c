"""A window that is full begins at the same turn for several prompts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.budget import Budgeter, first_kept
from familiar_cli.context.types import Contribution, ExampleLine, Fit, Layer, PromptSpan
from familiar_cli.llm import tokens

windows = st.lists(st.tuples(st.none() | st.integers(1, 10**9), st.integers(0, 500)), max_size=60)


@given(windows)
def test_at_most_a_third_is_lost(window) -> None:
    ids, weights = [i for i, _ in window], [w for _, w in window]

    start = first_kept(ids, weights)

    assert 3 * sum(weights[:start]) <= sum(weights)
    assert 0 <= start < max(len(window), 1)


def test_of_a_few_turns_none_is_left_out() -> None:
    assert first_kept([7, 8, 16], [1] * 3) == 0


def test_turns_that_are_in_no_history_are_not_left_out() -> None:
    assert first_kept([None] * 40, [1] * 40) == 0


@given(st.integers(1, 10**6), st.integers(40, 60))
def test_a_window_begins_at_one_turn_for_several_prompts(first, size) -> None:
    starts = [
        start_id + first_kept(range(start_id, start_id + size), [1] * size)
        for start_id in range(first, first + 80)
    ]

    assert starts == sorted(starts)
    assert len(set(starts)) <= 80 / 7


def turn(number: int) -> Contribution:
    return Contribution(
        Layer.recent_history,
        80,
        f"turn {number} " + "word " * (5 + number * 7 % 23),
        "history.cli",
        PromptSpan.chat,
        turn_id=number,
        role="user",
        fit=Fit.run,
    )


def example(number: int) -> Contribution:
    line = ExampleLine("user", f"example {number} " + "word " * 30)
    return Contribution(
        Layer.character,
        60,
        "x",
        "character.mes_example",
        PromptSpan.example,
        fit=Fit.whole,
        dialogue=(line,),
    )


def test_a_full_window_neither_slides_every_turn_nor_lets_examples_come_and_go() -> None:
    budgeter = Budgeter(tokens.heuristic())
    examples = [example(n) for n in range(6)]
    limits = {Layer.recent_history: 600, Layer.character: 250}
    shown = []
    for newest in range(100, 140):
        offered = [*examples, *(turn(n) for n in range(newest - 60, newest))]
        filled = budgeter.fill(offered, limits, 850)
        shown.append(
            (
                [f.dialogue[0].text[:9] for f in filled.fragments[:6] if f.kept],
                next(f.turn_id for f in filled.fragments[6:] if f.kept),
            )
        )

    assert len({start for _, start in shown}) <= 10
    assert [kept for kept, _ in shown] == [shown[0][0]] * 40
    assert 0 < len(shown[0][0]) < 6


def test_a_turn_that_went_with_others_says_so() -> None:
    budgeter = Budgeter(tokens.heuristic())
    offered = [turn(n) for n in range(1, 60)]

    filled = budgeter.fill(offered, {Layer.recent_history: 600}, 620)

    reasons = {f.reason.partition(": ")[2] for f in filled.fragments if not f.kept}
    assert reasons == {
        "layer recent_history holds 600",
        "a newer turn did not fit",
        "old turns are dropped several at a time",
    }
