"""The versions of a memory that its journal holds, for merges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

from familiar_cli.store.journal.edits import is_recordable
from familiar_cli.store.journal.objects import object_id
from familiar_cli.store.journal.packs import DIR_MODE, SUBMODULE_MODE, tree_rows
from familiar_cli.store.journal.repository import HUMAN, Commit, Repository
from familiar_cli.store.memory.layout import SYNC, is_synced
from familiar_cli.store.memory.store.files import MAX_LEVELS, NOT_MEMORY

_PLAIN: Final = b"100644"
_FILES: Final = {_PLAIN, b"100755", b"100664"}
_LINK: Final = b"120000"
_NO_NAMES: Final = {"", ".", ".."}
_SMALL_BYTES: Final = 16 * 1024
_MOST_SMALL: Final = 4096
_WITH_LOCAL: Final = (b"people", b"sessions")  # directories of machine-local files


class JournalPast:
    """The versions that a journal holds.

    Args:
        repository: The journal.
        began: The original instance.

    Attributes:
        refused: Why entries were left out, by path.
    """

    def __init__(self, repository: Repository, began: str) -> None:
        self.repository = repository
        self._began = began
        self.refused: dict[str, str] = {}
        self.commit = lru_cache(maxsize=None)(repository.commit)
        self._files_of = lru_cache(maxsize=4096)(self._files_in)
        self._trees = lru_cache(maxsize=16)(self._synced)
        self._small: dict[str, bytes] = {}

    def parents(self, commit: str) -> tuple[str, ...]:
        """Return a version's parents."""
        one: Commit = self.commit(commit)
        return one.parents

    def tree(self, commit: str) -> Mapping[str, str]:
        """Return its synced files."""
        return self._trees(self.commit(commit).tree)

    def special(self, commit: str) -> Mapping[str, tuple[str, bytes]]:
        """Return id and mode of its entries that are neither plain files nor directories."""
        return dict(self._special(self.commit(commit).tree, "", 0))

    def _special(
        self, tree: str, prefix: str, depth: int
    ) -> Iterator[tuple[str, tuple[str, bytes]]]:
        for mode, name, raw in tree_rows(self.repository.objects.read(tree)):
            path = f"{prefix}{_decode(name)}"
            if mode == DIR_MODE and depth < MAX_LEVELS:
                yield from self._special(raw.hex(), f"{path}/", depth + 1)
            elif mode not in {DIR_MODE, _PLAIN}:
                yield path, (raw.hex(), mode)

    def whole_tree(self, commit: str) -> Mapping[str, str]:
        """Return all its files, including machine-local ones."""
        return dict(self._files(self.commit(commit).tree, "", 0))

    def holds_only_files(self, commit: str) -> bool:
        """Tell whether no entry of a version was left out."""
        if not self.refused:
            return True
        apart = JournalPast(self.repository, self._began)
        apart.tree(commit)
        return not apart.refused

    def tree_id(self, commit: str) -> str:
        """Return a key that is equal for versions with equal synced files."""
        content = self.repository.objects.read(self.commit(commit).tree)
        rows = []
        for mode, name, raw in tree_rows(content):
            id_ = raw.hex()
            if name.lower() in _WITH_LOCAL and mode == DIR_MODE:
                prefix = f"{_decode(name)}/"
                files = dict(self._files(id_, prefix, 1))
                synced = sorted(path for path in files if is_synced(path))
                id_ = object_id("blob", repr([(p, files[p]) for p in synced]).encode())
            rows.append((mode, name, id_))
        return object_id("blob", repr(rows).encode())

    def instance(self, commit: str) -> str:
        """Return the machine that made it."""
        return self.commit(commit).instance or self._began

    def source(self, commit: str) -> str:
        """Return its author: `human` for anything a person did."""
        one: Commit = self.commit(commit)
        return HUMAN if one.by_hand else one.source

    def only_merges(self, commit: str) -> bool:
        """Tell whether a version is a merge made by this program, without changes of its own."""
        return bool(self.commit(commit).merged) and self.source(commit) == SYNC

    def changed(self, commit: str) -> Collection[str]:
        """Return the paths changed."""
        one: Commit = self.commit(commit)
        if one.touched is not None:
            return [t.rel_path for t in one.touched if is_synced(t.rel_path)]
        before = self.tree(one.parent) if one.parent else {}
        return {path for path, _ in self.tree(commit).items() ^ before.items()}

    def read(self, blob: str) -> bytes:
        """Return the content of a file."""
        if blob in self._small:
            return self._small[blob]
        content = self.repository.objects.read(blob)
        if len(content) <= _SMALL_BYTES and len(self._small) < _MOST_SMALL:
            self._small[blob] = content  # what a merge reads is compared with once more
        return content

    def _synced(self, tree: str) -> dict[str, str]:
        return {path: id_ for path, id_ in self._files(tree, "", 0) if is_synced(path)}

    def _files(self, tree: str, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
        for name, id_, is_dir in self._files_of(tree, prefix):
            if is_dir and depth < MAX_LEVELS:
                yield from self._files(id_, f"{prefix}{name}/", depth + 1)
            elif is_dir:
                self.refused[f"{prefix}{name}"] = "it lies too deep"
            else:
                yield prefix + name, id_

    def _files_in(self, tree: str, prefix: str) -> tuple[tuple[str, str, bool], ...]:
        items = []
        for mode, raw_name, raw in tree_rows(self.repository.objects.read(tree)):
            name = _decode(raw_name)
            if problem := _entry_problem(mode, name):
                self.refused[prefix + name] = problem
            else:
                items.append((name, raw.hex(), mode == DIR_MODE))
        return tuple(items)


def _entry_problem(mode: bytes, name: str) -> str:
    """Return why an entry is not a memory file or directory; empty if it is."""
    if mode in {_LINK, SUBMODULE_MODE}:
        return NOT_MEMORY
    if mode != DIR_MODE and mode not in _FILES:
        return "it is neither a file nor a directory"
    if "\ufffd" in name or "/" in name or name in _NO_NAMES:
        return "its name is not valid"
    return "" if is_recordable(name) else "its name is reserved by git"


def _decode(name: bytes) -> str:
    return name.decode("utf-8", errors="replace")
