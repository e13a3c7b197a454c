"""Conflicts from the command line: shown on both machines, settled on one, settled on both."""

from __future__ import annotations

import pytest

from tests.cli.test_sync import Home, first, hub, made, second  # noqa: F401  # fixtures

TEA, COPY = "topics/tea.md", "conflicts/topics/tea.md"


def shared(home: Home) -> dict[str, bytes]:
    return {
        path: content
        for path, content in home.files().items()
        if "/." not in path and not path.endswith("_aliases.json")
    }


@pytest.fixture
def apart(first: Home, second: Home) -> tuple[Home, Home]:  # noqa: F811
    """Two machines that changed one line in two ways, and more besides."""
    (first.memory / TEA).write_text("# Tea\n\n- green, not black\n- from here\n")
    (second.memory / TEA).write_text("# Tea\n\n- green with mint\n- from there\n")
    first.run("sync")
    assert second.data("sync", exit_code=7)["conflicts"]
    first.run("sync", exit_code=7)
    return first, second


def test_both_machines_hold_the_same_conflict(apart: tuple[Home, Home]) -> None:
    one, other = apart

    assert shared(one) == shared(other)
    assert one.data("status")["desk"]["conflicts"] == [TEA]
    text = one.files()[TEA].decode()
    assert "from here" in text
    assert "from there" in text
    assert (text.count("green"), one.files()[COPY].decode().count("green")) == (1, 1)


def test_a_conflict_that_stands_is_not_found_again(apart: tuple[Home, Home]) -> None:
    one, other = apart
    before = shared(one)

    for home in (*apart, *apart):
        home.run("sync", exit_code=7)

    assert shared(one) == shared(other) == before


@pytest.mark.parametrize(
    ("where", "how", "kept"),
    [
        (1, "--ours", ["mint"]),
        (0, "--ours", ["black"]),
        (1, "--theirs", ["black"]),
        (0, "--merged", ["black", "mint"]),
    ],
)
def test_what_is_settled_on_one_machine_is_settled_on_both(
    apart: tuple[Home, Home], where: int, how: str, kept: list[str]
) -> None:
    one, other = apart[1 - where], apart[where]

    other.run("sync", "resolve", TEA, how)
    other.run("sync")
    one.run("sync")

    assert shared(one) == shared(other)
    assert not [path for path in one.files() if path.startswith("conflicts/")]
    text = one.files()[TEA].decode()
    assert sorted(word for word in ("mint", "black") if word in text) == kept


def test_a_merge_can_be_undone_and_then_stays_undone(apart: tuple[Home, Home]) -> None:
    one, other = apart

    other.run("memory", "undo", "HEAD", "--yes")
    other.run("sync")
    one.run("sync")

    assert shared(one) == shared(other)
