"""Paths that fit a pattern."""

from __future__ import annotations

import time

import pytest

from familiar_cli.base.errors import UnsafePathError
from tests.support.cases import each

FILES = [
    "notes.md",
    "people/alice.md",
    "people/bob.md",
    "people/old/carol.md",
    "people/.hidden.md",
    "self/.original.png",
    "topics/[x].md",
]


@pytest.fixture
def full(store):
    with store.transaction("test", "fill") as tx:
        for path in FILES:
            tx.write(path, "x")
    return store


@each(
    ("pattern", "found"),
    [
        ("*.md", ["notes.md"]),
        ("people/*.md", ["people/alice.md", "people/bob.md"]),
        ("people/**", ["people/alice.md", "people/bob.md", "people/old/carol.md"]),
        ("**/*o*.md", ["notes.md", "people/bob.md", "people/old/carol.md"]),
        ("**/old/**/*.md", ["people/old/carol.md"]),
        ("**/**/bob.md", ["people/bob.md"]),
        ("*/*", ["people/alice.md", "people/bob.md", "topics/[x].md"]),
        ("people/[ab]*", ["people/alice.md", "people/bob.md"]),
        ("people/[!a]*", ["people/bob.md"]),
        ("peopl?/bob.md", ["people/bob.md"]),
        ("topics/[[]x].md", ["topics/[x].md"]),
        ("notes.md", ["notes.md"]),
        ("./people//bob.md", ["people/bob.md"]),
        ("*/.*", ["people/.hidden.md", "self/.original.png"]),
        ("self/.original.*", ["self/.original.png"]),
        ("People/*", []),
        ("nowhere/*.md", []),
        ("notes.md/*", []),
        ("", []),
    ],
)
def test_pattern(full, pattern, found) -> None:
    assert full.glob(pattern) == found


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "people/../../*", "C:/*", "a\\*", "a\0*"])
def test_a_pattern_cannot_climb_out(full, pattern) -> None:
    with pytest.raises(UnsafePathError):
        full.glob(pattern)


def test_glob_stopped_at_its_cap_in_file_system_order(full) -> None:
    """The cap is an error; what is below it is always the whole, in the same order."""
    assert full.glob("**") == sorted(full.glob("**"))


def test_a_pattern_of_a_model_ends_soon(store) -> None:
    store.write_file("/".join(["a"] * 60) + "/" + "a" * 200, "x")
    begun = time.process_time()
    assert store.glob("**/a/" * 60 + "b") == []
    assert store.glob("**/" + "a*" * 100 + "b") == []
    assert time.process_time() - begun < 2
