"""Vectors of tokens: near is what plain numpy says, and a file of them only grows."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.store import fts
from familiar_cli.store.search import embedder, token_vectors
from familiar_cli.store.search.embedder import SPECS, Encoded
from familiar_cli.store.search.rank import number_runs
from familiar_cli.store.search.token_vectors import Extents
from tests.support.cases import each


def unit(chance, count, width=8) -> np.ndarray:
    rows = chance.standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def question(*words: str) -> Encoded:
    tokens = np.eye(8, dtype=np.float32)[: len(words)]
    return Encoded(tokens[:1], tokens, (len(words),), words)


def extents(counts, chance) -> tuple[Extents, int]:
    """Return where texts of so many rows are, in another order than they are asked for."""
    starts, end = np.zeros(len(counts), np.int64), 0
    for number in chance.permutation(len(counts)):
        starts[number] = end
        end += counts[number]
    return Extents(starts, np.array(counts, np.int64)), end


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=20),
    st.integers(1, 5),
    st.integers(1, 30),
    st.integers(0, 2**32 - 1),
)
def test_maxima_are_those_of_plain_loops(counts, asked, block, seed) -> None:
    chance = np.random.default_rng(seed)
    where, total = extents(counts, chance)
    rows, question = token_vectors.quantise_vectors(unit(chance, total)), unit(chance, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_vectors, "block_rows", lambda *_: block)
        found, second = token_vectors.token_maxima(rows, where, question, asked)
        back = token_vectors.mean_maxima(rows, where, question)
    for text, (start, count) in enumerate(zip(where.starts, where.counts, strict=True)):
        cosines = rows[start : start + count].astype("f4") @ question.T / 127
        best = np.sort(np.concatenate((np.zeros((2, asked)), cosines.clip(0))), axis=0)
        assert found[text] == pytest.approx(best[-1], abs=1e-5)
        assert second[text] == pytest.approx(best[-2], abs=1e-5)
        assert back[text] == pytest.approx(cosines.max(axis=1).mean() if count else 0, abs=1e-5)


@given(st.integers(0, 2**32 - 1), st.integers(2, 96))
def test_a_cosine_moves_by_less_than_its_bound_when_rows_become_bytes(seed, width) -> None:
    chance = np.random.default_rng(seed)
    rows, question = unit(chance, 20, width), unit(chance, 3, width)
    kept = token_vectors.quantise_vectors(rows).astype(np.float32) / 127
    assert np.abs(kept @ question.T - rows @ question.T).max() <= width**0.5 * 0.5 / 127 + 1e-6


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=8))
def test_a_group_is_as_near_as_its_nearest_text(groups) -> None:
    found = np.random.default_rng(0).random((14, 3), np.float32)
    firsts = np.array([first for first, _ in groups])
    sizes = np.array([size for _, size in groups])
    best = token_vectors.largest_maxima(found, number_runs(firsts, sizes), sizes)
    wanted = [found[first : first + size].max(axis=0) for first, size in groups]
    assert best == pytest.approx(np.array(wanted))


@pytest.mark.parametrize("rows", [20, 8000])  # in the second, some words are only sampled
def test_rare_words_count_more_and_all_weights_make_one(rows) -> None:
    db = sqlite3.connect(":memory:")
    db.execute(f'CREATE VIRTUAL TABLE t USING fts5 (body, tokenize = "{fts.TOKENIZER}")')
    said = ["tea cakes" if number % 2 else "tea" for number in range(rows - 1)]
    db.executemany("INSERT INTO t (body) VALUES (?)", [(text,) for text in [*said, "tea rum"]])
    asked = question("tea", "cake", "rum", "gin", "…")
    weights = token_vectors.token_weights(db, "t", asked, rows)
    asked = replace(asked, kind="cake", things=asked.tokens)
    of_kind = token_vectors.token_weights(db, "t", asked, rows)
    db.close()
    held = np.array([rows, len(said) // 2, 1, 0, 0])
    wanted = np.sqrt(np.log1p((rows - held + 0.5) / (held + 0.5)))
    assert weights == pytest.approx(wanted / wanted.sum(), rel=1e-2)
    assert weights.sum() == of_kind.sum() == pytest.approx(1)
    assert of_kind[1] / of_kind[2] == pytest.approx(2 * weights[1] / weights[2])


def test_a_text_about_a_thing_of_the_kind_asked_for_is_near_to_the_word_for_the_kind() -> None:
    rows = token_vectors.quantise_vectors(np.eye(8, dtype=np.float32))
    where = Extents(np.arange(5), np.ones(5, np.int64))  # a text a token
    asked = question("ada", "hobbies", "spring")
    plain = token_vectors.question_maxima(rows, where, asked).best
    assert plain == pytest.approx(np.eye(5, 3))
    asked = replace(asked, kind="hobbies", things=np.eye(8, dtype=np.float32)[3:5])
    near = token_vectors.question_maxima(rows, where, asked).best
    assert near[:, 1] == pytest.approx([0, 1, 0, 1, 1])
    assert (near[:, [0, 2]] == plain[:, [0, 2]]).all()
    twice = Extents(np.arange(4), np.full(4, 2))
    second = token_vectors.question_maxima(rows, twice, asked, second=True).second
    assert second[:, 1] == pytest.approx([0, 0, 0, 1])  # two things, not one
    nobody = token_vectors.question_maxima(rows, where, asked.without({"hobbies"})).best
    assert (nobody == plain[:, [0, 2]]).all()


def test_the_best_is_one_and_the_first_quarter_is_zero() -> None:
    values = np.array([0.1, 0.3, 0.5, 0.7, 0.9], np.float32)
    assert token_vectors.scale_values(values) == pytest.approx([0, 0, 1 / 3, 2 / 3, 1], abs=1e-6)


@each(
    ("values", "wanted"),
    [
        ([0.2, 0.2, 0.5], [0, 0, 0.5]),
        ([0.4], [0.2]),
        ([0.4, 0.4], [0.2, 0.2]),
        ([0.8, 0.80001], [0.99995, 1]),
        ([0.0, 0.0], [0, 0]),
        ([1.0, 1.0], [1, 1]),
    ],
)
def test_what_is_less_near_than_an_answer_has_less_than_one(values, wanted) -> None:
    scaled = token_vectors.scale_values(np.array(values, np.float32))
    assert scaled == pytest.approx(wanted, abs=1e-4)


@each(
    ("values", "wanted"),
    [
        ([0.1, 0.1], [0.3, 0.3]),  # all are near, and nothing stands out
        ([0.1, 0.1, 0.22, 0.22, 0.0, 0.0], [0.187, 0.187, 0.427, 0.427, 0, 0]),
        ([0.0, 0.4, 0.2, 0.4, 0.0, 0.2], [0, 0.45, 0.2, 0.45, 0, 0.2]),
        ([0.0] * 9 + [1.0], [0.075] * 9 + [1]),
    ],
)
def test_the_mean_is_a_fifth_and_the_spread_has_bounds(values, wanted) -> None:
    scaled = token_vectors.scale_by_spread(np.array(values, np.float32))
    assert scaled == pytest.approx(wanted, abs=1e-3)


def test_the_first_quartile_is_that_of_numpy() -> None:
    chance = np.random.default_rng(0)
    for count in range(1, 40):
        values = chance.random(count, np.float32)
        assert token_vectors._first_quartile(values) == np.percentile(values, 25)


def test_a_matrix_is_of_one_model_and_keeps_lengths_comparable() -> None:
    matrix = embedder.load_projection("minilm-l6-v2")
    assert (matrix.shape, matrix.dtype) == ((384, 64), np.float32)
    assert matrix.T @ matrix == pytest.approx(np.eye(64), abs=1e-5)
    assert embedder.load_projection("bge-small-en-v1.5") is None


def test_versions_tell_models_with_a_matrix_from_those_without() -> None:
    versions = {name: embedder.projection_version(name) for name in SPECS}
    assert versions["minilm-l6-v2"] != versions["bge-small-en-v1.5"]
    assert versions["bge-small-en-v1.5"].endswith("whole")
