"""Unified diffs that people and `patch` read."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.diffs import unified, unified_file

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
