"""Lists of words: what the quick look lets through, and what it must not hide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.writing.housekeeping import beliefs, hazards
from familiar_cli.writing.housekeeping.lines import Wordings, any_of, heads_of, known_in, words_in
from tests.support.cases import each

LISTS = [
    *(wordings for _, wordings in beliefs._SPANS),
    beliefs._NOW,
    beliefs._OVER,
    beliefs._NO_PLAN,
    beliefs._PAST,
    hazards.SECRET_WORDS,
]
ONE_OF = "\n".join(beliefs._ONE_OF.values())
SAID = [w.strip() for line in ONE_OF.splitlines() for w in line.split("|")]


@each("case", [str.lower, str.upper, str.title])
@each("wordings", LISTS)
def test_the_quick_look_hides_nothing_that_the_pattern_finds(wordings, case) -> None:
    for head in wordings.heads:
        text = case(f"- so {head}, and (2024)")
        if wordings.pattern.search(text):
            assert wordings.is_in(text), text


@each("said", SAID)
def test_every_wording_of_a_list_is_found(said) -> None:
    assert Wordings.of(ONE_OF).is_in(f"x {said}: y")


@given(st.text(alphabet="ab _-.é字\n", max_size=40))
def test_law_words_hold_no_marks(text) -> None:
    assert all(word.replace("\u0301", "").isalnum() for word in words_in(text.casefold()))


def test_a_word_is_no_part_of_another_but_where_words_are_not_parted() -> None:
    assert known_in("a scity", frozenset({"city"})) == frozenset()
    assert known_in("my_city", frozenset({"city"})) == {"city"}
    assert known_in("彼の住所は", frozenset({"住所"})) == {"住所"}
    assert any_of("b | ab").startswith(r"(?<![^\W_])ab")
    assert heads_of("works as | 住所") == {"works", "住所"}
