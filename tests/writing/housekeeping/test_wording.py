"""Lists of words: what the quick look lets through, and what it must not hide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.writing.housekeeping import hazards
from familiar_cli.writing.housekeeping.lines import any_of, heads_of, known_in, words_in
from tests.support.cases import each

WORDINGS = hazards.SECRET_WORDS


@each("case", [str.lower, str.upper, str.title])
def test_the_quick_look_hides_nothing_that_the_pattern_finds(case) -> None:
    for head in WORDINGS.heads:
        text = case(f"- so {head}, and (2024)")
        if WORDINGS.pattern.search(text):
            assert WORDINGS.is_in(text), text


@given(st.text(alphabet="ab _-.é字\n", max_size=40))
def test_law_words_hold_no_marks(text) -> None:
    assert all(word.replace("\u0301", "").isalnum() for word in words_in(text.casefold()))


def test_a_word_is_no_part_of_another_but_where_words_are_not_parted() -> None:
    assert known_in("a scity", frozenset({"city"})) == frozenset()
    assert known_in("my_city", frozenset({"city"})) == {"city"}
    assert known_in("彼の住所は", frozenset({"住所"})) == {"住所"}
    assert any_of("b | ab").startswith(r"(?<![^\W_])ab")
    assert heads_of("works as | 住所") == {"works", "住所"}
