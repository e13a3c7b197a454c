"""Which versions came before which: the graph of commits, walked no further than it must be.

No clock has a say in it, and no walk goes below what all that it compares have in common.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    Parents = Callable[[str], Sequence[str]]


class AncestryWalk:
    """The commits that several groups of commits came from, as far down as they differ.

    Args:
        parents: Returns the parents of a commit.
        groups: Each group has a colour, by its place; a commit has those of all that came from it.
    """

    def __init__(self, parents: Parents, groups: Sequence[Iterable[str]]) -> None:
        self.colours: dict[str, int] = {}
        self.all = (1 << len(groups)) - 1
        self._parents = parents
        self._above: dict[str, Sequence[str]] = {}
        self._inherited: set[str] = set()
        self._walk([(commit, 1 << at) for at, group in enumerate(groups) for commit in group])

    def _walk(self, starts: Iterable[tuple[str, int]]) -> None:
        waiting, unfinished = deque[str](), set[str]()
        for commit, colour in starts:
            self._paint(commit, colour, waiting, unfinished)
        while unfinished:
            commit = waiting.popleft()
            unfinished.discard(commit)
            colour = self.colours[commit]
            for parent in self._of(commit):
                self._paint(parent, colour, waiting, unfinished)
        self._pass_on()

    def _paint(self, commit: str, colour: int, waiting: deque[str], unfinished: set[str]) -> None:
        had = self.colours.get(commit, 0)
        if had | colour == had:
            return
        self.colours[commit] = had | colour
        if had | colour == self.all:
            unfinished.discard(commit)
            # Where one group has been already, the others catch up with it first: else they would
            # follow it, one step behind, to the first commit of all.
            (waiting.appendleft if had else waiting.append)(commit)
        else:
            waiting.append(commit)
            unfinished.add(commit)

    def _of(self, commit: str) -> Sequence[str]:
        if commit not in self._above:
            self._above[commit] = self._parents(commit)
        return self._above[commit]

    def _pass_on(self) -> None:
        """Give all colours to what is known to come before a commit that has them all."""
        waiting = [commit for commit, colour in self.colours.items() if colour == self.all]
        while waiting:
            for parent in self._above.get(waiting.pop(), ()):
                if parent not in self._inherited:
                    self._inherited.add(parent)
                    self.colours[parent] = self.all
                    waiting.append(parent)

    def shared(self) -> list[str]:
        """Return the newest commits known that all groups came from; a few may be too old."""
        return [
            commit
            for commit, colour in self.colours.items()
            if colour == self.all and commit not in self._inherited
        ]

    def only(self, at: int) -> list[str]:
        """Return the commits that the group with that place came from, and not all groups."""
        bit = 1 << at
        return [c for c, colour in self.colours.items() if colour & bit and colour != self.all]

    def apart(self) -> list[str]:
        """Return the commits that some groups came from, and not all."""
        return [commit for commit, colour in self.colours.items() if colour != self.all]


def all_before(parents: Parents, commits: Iterable[str]) -> Iterator[str]:
    """Yield commits and all that they came from, each once, nearest first."""
    waiting = list(dict.fromkeys(commits))
    seen = set(waiting)
    for commit in waiting:
        yield commit
        new = [parent for parent in parents(commit) if parent not in seen]
        seen.update(new)
        waiting += new


def newest(parents: Parents, commits: Iterable[str]) -> list[str]:
    """Return those of `commits` that no other of them came from, sorted."""
    several = sorted(set(commits))
    if len(several) < 2:  # noqa: PLR2004  # one came from no other
        return several
    colours = AncestryWalk(parents, [[commit] for commit in several]).colours
    return [commit for at, commit in enumerate(several) if colours[commit] == 1 << at]


def common(parents: Parents, ours: Collection[str], theirs: Collection[str]) -> list[str]:
    """Return the newest commits that came before both, sorted; a commit comes before itself."""
    return newest(parents, AncestryWalk(parents, [ours, theirs]).shared())


def comes_before(parents: Parents, old: str, new: str) -> bool:
    """Return whether `new` came from `old`, or is it."""
    return AncestryWalk(parents, [[old], [new]]).colours[old] & 2 > 0
