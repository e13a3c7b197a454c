"""What a walk through the past finds, and how little of it that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.sync.joining import comes_before, common_commits

if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTH = 1000


class Line:
    """Commits in a row, `0` first; and those on top of them that are named."""

    def __init__(self, **above: str) -> None:
        self._above = above
        self.asked: list[str] = []

    def parents(self, commit: str) -> Sequence[str]:
        self.asked.append(commit)
        if commit in self._above:
            return [self._above[commit]]
        return [str(int(commit) - 1)] if int(commit) else []


def test_a_commit_on_top_of_a_long_past_costs_no_walk_through_it() -> None:
    line = Line(new=str(LENGTH))

    assert comes_before(line.parents, str(LENGTH), "new")
    assert not comes_before(line.parents, "new", str(LENGTH))

    assert len(line.asked) < 20


def test_two_sides_of_different_length_cost_what_they_have_apart() -> None:
    line = Line(new="950")

    assert common_commits(line.parents, ["new"], [str(LENGTH)]) == ["950"]

    assert len(line.asked) < 250
