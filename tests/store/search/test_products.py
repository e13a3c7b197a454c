"""Matrix products in the thread that asks for them."""

import numpy as np

from familiar_cli.store.search import vectors
from tests.support.cases import each


def some(rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, width), np.float32)


def test_each_vector_is_multiplied_with_each_question():
    rows, questions = some(50, 8), some(3, 8)
    np.testing.assert_allclose(vectors.each_to_each(rows, questions), rows @ questions.T, rtol=1e-4)


def test_no_vectors_give_an_empty_product():
    assert vectors.each_to_each(some(0, 8), some(3, 8)).shape == (0, 3)


def test_weights_count_number_by_number():
    rows, weights = some(50, 8), some(1, 8)[0]
    np.testing.assert_allclose(vectors.weighted_sums(rows, weights), rows @ weights, rtol=1e-3)


@each("columns", [1, 8, 16, 200, 1_000_000])
def test_a_block_stays_in_one_thread_and_has_a_row(columns: int):
    rows = vectors.block_rows(64, columns)
    assert rows == 1 or rows * 64 * columns <= vectors.ONE_THREAD
