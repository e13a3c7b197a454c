"""Unified diffs that people and `patch` read."""

from __future__ import annotations

import shutil
import subprocess
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.text import changed_blocks, matching_blocks, unified, unified_file

lines = st.lists(st.sampled_from(["", "tea", "a\u2028b", "ale\r", "\x0c"]), max_size=6)
texts = st.tuples(lines, st.sampled_from(["", "\n"])).map(lambda t: "\n".join(t[0]) + t[1])


def test_equal_texts_do_not_differ() -> None:
    assert unified("tea\n", "tea\n", "a.md") == ""


def test_what_came_and_went_is_marked() -> None:
    wanted = "--- a.md\n+++ b.md\n@@ -1,2 +1,2 @@\n tea\n-ale\n+rum\n"
    assert unified("tea\nale\n", "tea\nrum\n", "a.md", "b.md") == wanted


def test_a_missing_newline_at_the_end_is_told() -> None:
    wanted = "--- a\n+++ a\n@@ -1 +1 @@\n-tea\n\\ No newline at end of file\n+tea\n"
    assert unified("tea", "tea\n", "a") == wanted


def test_a_file_that_comes_or_goes_stands_against_nothing() -> None:
    assert unified_file("a.md", None, "tea\n").startswith("--- /dev/null\n+++ b/a.md\n")
    assert unified_file("a.md", "tea\n", None).startswith("--- a/a.md\n+++ /dev/null\n")


@given(texts, texts)
def test_texts_differ_exactly_when_there_is_a_diff(before, after) -> None:
    assert bool(unified(before, after, "a")) == (before != after)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tea", "tea\nale"),
        ("one\ntwo\nthree\n", "one\n2\nthree"),
        ("a\u2028b\nc\n", "a\u2028b\nd\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
        ("", "x\n"),
    ],
)
def test_git_applies_it(tmp_path, before, after) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(before.encode())
    patch = unified_file("a.md", before, after).encode()
    subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, check=True)
    assert path.read_bytes() == after.encode()


@given(st.lists(st.integers(0, 5), max_size=12), st.lists(st.integers(0, 5), max_size=12))
def test_what_matches_is_the_same_and_in_order_in_both(before, after) -> None:
    for most in (0, 10_000):  # cut at what stands once, or compared in pairs
        with patch("familiar_cli.base.text._MOST_PAIRS", most):
            a = b = 0
            for i, j, n in matching_blocks(before, after):
                assert n > 0
                assert i >= a
                assert j >= b
                assert before[i : i + n] == after[j : j + n]
                a, b = i + n, j + n
            left = [x for i, i_end, _, _ in changed_blocks(before, after) for x in before[i:i_end]]
            kept = sum(n for *_, n in matching_blocks(before, after))
            assert len(left) + kept == len(before)


def test_long_lists_are_compared_without_looking_at_all_pairs() -> None:
    class Line(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Line.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    before = [Line(n) for n in range(20_000)]
    after = [Line(n) for n in range(20_000) if n % 90] + [Line("new")]
    kept = sum(n for *_, n in matching_blocks(before, after))
    assert kept == len(after) - 1
    assert Line.compared < 40 * len(before)
