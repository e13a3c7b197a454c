"""What the scores of a search promise, whatever numbers go in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.search import rank
from familiar_cli.store.search.embedder import SPECS
from familiar_cli.store.search.rank import (
    Candidate,
    Lexical,
    Scorer,
    cosine_nearness,
    file_score,
    recency_score,
)
from familiar_cli.store.search.schema import LINE
from familiar_cli.store.search.weights import WEIGHTS
from familiar_cli.store.search.who_when import people_among
from tests.support.cases import each

SPEC = SPECS["minilm-l6-v2"]
ages = st.floats(0, 200 * 365)
unit = st.floats(min_value=0, max_value=1)


def line(number: int, *, speaker: str = "", document: int = 1) -> Candidate:
    return Candidate(number, LINE, document, speaker, 100 + number, 101 + number, None, None)


def scored(lines, lexical, cosines=None, **more) -> list[rank.Scored]:
    """Score lines; the best comes first."""
    scorer = Scorer(lines, lexical, cosines or {}, **more)
    found = [scorer.explain(n, r) for n, r in enumerate(scorer.relevances()) if r is not None]
    return sorted(found, key=lambda one: one.relevance, reverse=True)


@each(("age_days", "freshness"), [(0, 1), (1000 / 7, 1 / 2), (3000 / 7, 1 / 4)])
def test_what_is_as_old_as_that_is_as_fresh_as_this(age_days, freshness) -> None:
    assert recency_score(age_days) == pytest.approx(freshness)


@given(ages, ages)
def test_waiting_makes_nothing_fresher(age_days, wait_days) -> None:
    assert recency_score(age_days + wait_days) <= recency_score(age_days)


def test_what_comes_from_the_future_has_no_age() -> None:
    with pytest.raises(ValueError, match="-3"):
        recency_score(-3)


@given(unit, ages, st.booleans(), st.booleans())
def test_the_best_there_can_be_is_one(relevance, age_days, linked, same) -> None:
    of_file = file_score(age_days=age_days, linked=linked, same_instance=same)
    found = WEIGHTS.relevance * relevance + of_file
    assert 0 <= found <= 1 + 1e-9


def test_instance_affinity_is_applied_once_and_is_a_tenth() -> None:
    more = {"age_days": 0.0, "linked": False}
    same, other = (file_score(same_instance=one, **more) for one in (True, False))
    assert same - other == pytest.approx(0.1)


@given(st.floats(-1, 1))
def test_nearness_is_never_negative(cosine) -> None:
    assert cosine_nearness(cosine, SPEC) >= 0


def test_words_alone_decide_without_a_model() -> None:
    found = scored([line(1), line(2)], Lexical({}, {101: 1.0, 102: 2.0}, {}))
    assert [s.line.id for s in found] == [2, 1]
    assert found[0].dense is None


def test_meaning_can_overrule_words() -> None:
    lexical = Lexical({}, {101: 1.0, 102: 0.9}, {})
    found = scored([line(1), line(2)], lexical, {1: 0.0, 2: 0.6}, spec=SPEC)
    assert [s.line.id for s in found] == [2, 1]


def test_a_memory_without_a_vector_yet_is_not_put_last() -> None:
    lexical = Lexical({}, {101: 1.0, 102: 0.5}, {})
    found = scored([line(1), line(2)], lexical, {2: 0.4, 102: 0.4}, spec=SPEC)
    assert found[0].line.id == 1
    assert found[0].relevance == 1.0


def test_who_is_asked_about_speaks_first() -> None:
    lines = [line(1, speaker="Bo"), line(2, speaker="Ada Byron")]
    found = scored(
        lines,
        Lexical({}, {101: 1.0, 102: 1.0}, {}),
        speakers=people_among(["Bo", "Ada Byron"], "What did Ada say?"),
    )
    assert [(s.line.id, s.speaker) for s in found] == [(2, True), (1, False)]


@each(
    ("speaker", "query", "named"),
    [
        ("Wilhelmina", "what did wilhelmina paint?", True),
        ("Josephine", "What did Jos paint?", True),
        ("Arthur", "What art did she paint?", False),
        ("Will", "Will she paint?", False),
        ("Will", "What did Will paint?", True),
        ("Zoë", "What did Zoë paint?", True),
        ("", "anything", False),
    ],
)
def test_a_speaker_is_named_by_name_or_nickname_never_by_a_common_word(
    speaker, query, named
) -> None:
    assert people_among([speaker], query).is_named(speaker) is named


def test_the_passage_that_matches_best_is_shown() -> None:
    one = Candidate(1, LINE, 1, "", 10, 13, None, None)
    (found,) = scored([one], Lexical({}, {10: 1.0, 11: 3.0, 12: 2.0}, {}))
    assert found.passage == 11


def test_what_holds_no_word_and_is_not_near_is_not_relevant() -> None:
    lines = [line(1), line(2), line(3)]
    scorer = Scorer(lines, Lexical({}, {101: 1.0}, {}), {2: 0.6, 3: 0.0}, spec=SPEC)
    assert [found is None for found in scorer.relevances(0.25)] == [False, False, True]


def test_the_shares_of_the_final_score_sum_to_one() -> None:
    w = WEIGHTS
    assert w.relevance + w.recency + w.links + w.instance == pytest.approx(1)
