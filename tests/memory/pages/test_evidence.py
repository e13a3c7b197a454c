from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli.memory.pages.evidence import last_turn, reference, turn_ids, without_references

IDS = st.sets(st.integers(1, 10**12), max_size=20)


@settings(max_examples=60)
@given(ids=IDS)
def test_what_is_written_is_read_again(ids) -> None:
    assert turn_ids(f"- a line {reference(ids)}") == tuple(sorted(ids))


@settings(max_examples=60)
@given(ids=IDS, text=st.text(st.characters(exclude_characters="<"), max_size=30))
def test_a_reader_sees_the_words_alone(ids, text) -> None:
    line = f"{text} {reference(ids)}" if ids else text
    assert without_references(line).rstrip() == text.rstrip()


def test_neighbours_are_written_as_a_range() -> None:
    assert reference([3, 1, 2, 7]) == "<!-- turns 1-3, 7 -->"
    assert reference([]) == ""


def test_a_slip_of_the_pen_does_not_fill_the_machine() -> None:
    assert len(turn_ids("<!-- turns 1-999999999999 -->")) < 20_000


def test_the_newest_turn_is_told_without_counting_them() -> None:
    assert last_turn("- a <!-- turns 9, 12-13, 4 --> <!-- turns 2 -->") == 13
    assert last_turn("<!-- turns 1-999999999999 -->") == 999_999_999_999
    assert last_turn("- a") is None
