"""What several machines made of one memory, as one: a pure function of the versions they made.

`merge_heads` is what a sync asks for: the newest version of each machine goes in, and what comes
out depends on them and on what they came from, never on who asks, in which order they arrived, or
what a clock says. Two machines that know the same versions get the same tree, byte for byte.

Several are merged one after another, in one order everywhere, each on the last version that it has
in common with what came before it. Where there are several such, they are merged first. A version
that only merges others says nothing of its own: in its place count those that it merged.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

from familiar_cli.memory.layout import SYNC
from familiar_cli.memory.merge.files import Editor, MergedTree, Side, Tree, merge_trees
from familiar_cli.sync.ancestry import AncestryWalk, common, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


class VersionGraph(Protocol):
    """Every version that is known, and what it came from."""

    def parents(self, commit: str) -> Sequence[str]:
        """Return the versions that this one came from; several where it merges them."""

    def tree(self, commit: str) -> Tree:
        """Return its files as far as they are synced; see `layout.is_synced`."""

    def tree_id(self, commit: str) -> str:
        """Return a key that is equal for two versions exactly when all their synced files are."""

    def instance(self, commit: str) -> str:
        """Return the machine that made it."""

    def source(self, commit: str) -> str:
        """Return who changed something with it, such as `human` or `memory_writer`."""

    def changed(self, commit: str) -> Collection[str]:
        """Return the paths that it changed, of what the version before it held."""

    def read(self, blob: str) -> bytes:
        """Return the content of a file."""


def merge_heads(
    heads: Collection[str], past: VersionGraph, *, first: Sequence[str] = ()
) -> MergedTree:
    """Merge all of `heads`.

    Where two versions of a file cannot be had both, that of the machine that stands first in
    `first`, or else by its name, stays in the file; `merge_trees` knows the exceptions.

    Args:
        heads: Versions; at least one. One that another came from, or is merged in, adds nothing.
        past: Where they came from.
        first: Machines whose versions are shown first, best first; the same on every machine.
    """
    return _Merging(past, first).of(heads)


class _Merging:
    """Merges, each set of versions once."""

    def __init__(self, past: VersionGraph, first: Sequence[str]) -> None:
        self._past = past
        self._rank = {instance: at for at, instance in enumerate(first)}
        self._made: dict[tuple[str, ...], MergedTree] = {}
        self._blobs: dict[str, bytes] = {}
        self._parents: dict[str, Sequence[str]] = {}

    def of(self, heads: Iterable[str]) -> MergedTree:
        """Merge `heads`."""
        whole = newest(self.parents, heads)
        if len(whole) == 1:
            return MergedTree(self._past.tree(whole[0]))
        recorded = self._recorded(whole)
        if recorded:
            return MergedTree(self._past.tree(recorded))
        parts = tuple(sorted(self._unmerged(whole), key=self._place))
        if parts not in self._made:
            self._made[parts] = self._fold(parts)
        return self._made[parts]

    def parents(self, commit: str) -> Sequence[str]:
        """Return a version's parents; of a merge that equals one of them, only that one."""
        if commit not in self._parents:
            above = self._past.parents(commit)
            if len(above) > 1:
                own = self._past.tree_id(commit)
                above = [one for one in sorted(above) if self._past.tree_id(one) == own][
                    :1
                ] or above
            self._parents[commit] = above
        return self._parents[commit]

    def _place(self, commit: str) -> tuple[int, str, str]:
        instance = self._past.instance(commit)
        return self._rank.get(instance, len(self._rank)), instance, commit

    def _recorded(self, heads: Sequence[str]) -> str | None:
        """Return one of several versions that all merge the same, chosen by what it holds."""
        if len({self._past.tree_id(head) for head in heads}) == 1:
            return heads[0]
        walk = AncestryWalk(self.parents, [[head] for head in heads])
        if not all(self._only_merges(commit) for commit in walk.apart()):
            return None
        return min(heads, key=lambda head: (self._past.tree_id(head), head))

    def _only_merges(self, commit: str) -> bool:
        """Return whether a version says nothing of its own.

        A person who merges with git may have settled something by hand.
        """
        above = self.parents(commit)
        if len(above) > 1 and self._past.source(commit) == SYNC:
            return True
        return [self._past.tree_id(one) for one in above] == [self._past.tree_id(commit)]

    def _unmerged(self, heads: Sequence[str]) -> list[str]:
        """Return the newest versions that say something of their own, as far as heads differ."""
        apart = set(AncestryWalk(self.parents, [[head] for head in heads]).apart())
        found, seen, waiting = set[str](), set(heads), list(heads)
        while waiting:
            commit = waiting.pop()
            if commit in apart and self._only_merges(commit):
                above = [parent for parent in self.parents(commit) if parent not in seen]
                seen.update(above)
                waiting += above
            else:
                found.add(commit)
        return newest(self.parents, found)

    def _fold(self, parts: Sequence[str]) -> MergedTree:
        made = MergedTree(self._past.tree(parts[0]))
        steps: list[MergedTree] = []
        for at, commit in enumerate(parts[1:], start=1):
            made = self._one_more(made, parts[:at], commit)
            steps.append(made)
        return MergedTree(
            made.files,
            {blob: self._blobs[blob] for blob in set(made.files.values()) & self._blobs.keys()},
            tuple(one for step in steps for one in step.conflicts),
            tuple(one for step in steps for one in step.notes),
        )

    def _one_more(self, made: MergedTree, merged: Sequence[str], commit: str) -> MergedTree:
        bases = common(self.parents, merged, [commit])
        base = self.of(bases).files if bases else {}
        walk = AncestryWalk(self.parents, [merged, [commit]])
        result = merge_trees(
            base,
            Side(made.files, self._past.instance(merged[0]), self._hands(walk, 0)),
            Side(self._past.tree(commit), self._past.instance(commit), self._hands(walk, 1)),
            self._read,
        )
        self._blobs.update(result.blobs)
        return result

    def _hands(self, walk: AncestryWalk, at: int) -> Callable[[str], tuple[Editor, ...]]:
        """Return a function that names who changed a file on one side, in the machines' order."""

        @cache
        def everything() -> dict[str, dict[Editor, None]]:
            found: dict[str, dict[Editor, None]] = {}
            own = (
                commit
                for commit in walk.only(at)
                if len(self._past.parents(commit)) <= 1 or self._past.source(commit) != SYNC
            )
            for commit in sorted(own, key=self._place):
                hand = Editor(self._past.instance(commit), self._past.source(commit))
                for path in self._past.changed(commit):
                    found.setdefault(path, {})[hand] = None
            return found

        return lambda path: tuple(everything().get(path, ()))

    def _read(self, blob: str) -> bytes:
        return self._blobs[blob] if blob in self._blobs else self._past.read(blob)
