"""Versions of a memory kept in a dictionary: what a merge is tried out on without a journal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from familiar_cli.store.memory.merge.files import blob_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from familiar_cli.store.memory.merge.files import Tree


@dataclass(frozen=True, slots=True)
class _Version:
    parents: tuple[str, ...]
    tree: dict[str, str]
    instance: str
    source: str


@dataclass(slots=True)
class Versions:
    """Several machines' versions of one memory; see `merge.Past`.

    Args:
        read_ids: The ids of the contents that were asked for, in order.
    """

    read_ids: list[str] = field(default_factory=list)
    _versions: dict[str, _Version] = field(default_factory=dict)
    _blobs: dict[str, bytes] = field(default_factory=dict)

    def add(
        self,
        files: Mapping[str, bytes],
        parents: Sequence[str] = (),
        *,
        instance: str = "",
        source: str = "memory_writer",
    ) -> str:
        """Keep a version with these files, and return its id."""
        tree = {path: blob_id(content) for path, content in files.items()}
        self._blobs.update((blob_id(content), content) for content in files.values())
        told = repr((len(self._versions), sorted(tree.items()), tuple(parents), instance))
        commit = hashlib.sha1(told.encode(), usedforsecurity=False).hexdigest()
        self._versions[commit] = _Version(tuple(parents), tree, instance, source)
        return commit

    def files(self, tree: Tree, made: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        """Return the contents of a tree, of which a merge made some."""
        blobs = self._blobs | dict(made or {})
        return {path: blobs[blob] for path, blob in tree.items()}

    def parents(self, commit: str) -> Sequence[str]:
        """Return the versions that this one came from."""
        return self._versions[commit].parents

    def tree(self, commit: str) -> Tree:
        """Return its files."""
        return self._versions[commit].tree

    def tree_id(self, commit: str) -> str:
        """Return what two versions with the same files share."""
        return repr(sorted(self.tree(commit).items()))

    def instance(self, commit: str) -> str:
        """Return the machine that made it."""
        return self._versions[commit].instance

    def source(self, commit: str) -> str:
        """Return who changed something with it."""
        return self._versions[commit].source

    def changed(self, commit: str) -> Collection[str]:
        """Return the paths that it changed."""
        above = self.parents(commit)
        before = self.tree(above[0]) if above else {}
        return {path for path, _ in self.tree(commit).items() ^ before.items()}

    def read(self, blob: str) -> bytes:
        """Return the content of a file."""
        self.read_ids.append(blob)
        return self._blobs[blob]
