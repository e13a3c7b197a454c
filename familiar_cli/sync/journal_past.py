"""The history of the journal and of single files, for merges and embodiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar, cast

from msgspec import Struct

from familiar_cli.store.journal.edits import is_recordable
from familiar_cli.store.journal.history import History
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
        found = []
        for mode, raw_name, raw in tree_rows(self.repository.objects.read(tree)):
            name = _decode(raw_name)
            if problem := _entry_problem(mode, name):
                self.refused[prefix + name] = problem
            else:
                found.append((name, raw.hex(), mode == DIR_MODE))
        return tuple(found)


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


T = TypeVar("T")

Clock = Mapping[str, int]
"""Vector clock: number of changes by instance, 0 if missing."""

EMBODIMENT: Final = "Embodiment"
"""Commit trailer that names the embodiment a change came from."""

HASH_CHARS: Final = 12


class Version(Struct, frozen=True):
    """One version of a file.

    Args:
        at: Number of its commit, from 1.
        commit: Commit id.
        instance: Instance that made it.
        source: Author, e.g. `human`.
        is_gone: Whether the file was deleted.
    """

    at: int
    commit: str
    instance: str
    source: str
    is_gone: bool


def clock_of(versions: Sequence[Version]) -> Clock:
    """Return the clock of the last version."""
    return dict(sorted(Counter(version.instance for version in versions).items()))


class FilePasts:
    """Versions of a memory's files, loaded once and then updated.

    Args:
        repository: The journal.
        began: The original instance; its commits do not name it.
        is_wanted: Tells whether the versions of a path are needed.
    """

    def __init__(
        self, repository: Repository, began: str, is_wanted: Callable[[str], bool]
    ) -> None:
        self._repository = repository
        self._began = began
        self._is_wanted = is_wanted
        self._versions: dict[str, list[Version]] = {}
        self._commits: list[str] = []
        self._kept: tuple[object, object] = (None, None)

    @property
    def count(self) -> int:
        """Number of commits: the version of the whole memory."""
        return len(self._commits)

    @property
    def hash(self) -> str:
        """Identifies the newest commit among all journals; empty if there is none."""
        return self.hash_at(self.count)

    @property
    def paths(self) -> Sequence[str]:
        """Existing and former files, sorted."""
        return sorted(self._versions)

    def hash_at(self, at: int) -> str:
        """Return the hash of the memory's version with that number, or an empty string."""
        return self._commits[at - 1][:HASH_CHARS] if 0 < at <= self.count else ""

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """Return the cached result of `make` for the last `key`, or make it."""
        if self._kept[0] != key:
            self._kept = (key, make())
        return cast("T", self._kept[1])

    def read_on(self) -> None:
        """Load new commits from the journal.

        Raises:
            FamiliarError: It is damaged.
        """
        try:
            history = History(self._repository)
            known = self._commits[-1] if self._commits else None
            new: list[Commit] = []
            for commit in history.commits():
                if commit.id == known:
                    break
                new.append(commit)
            else:  # the history was replaced
                self._commits, self._versions = [], {}
            for commit in reversed(new):
                self._commits.append(commit.id)
                for touched in history.touched(commit):
                    if self._is_wanted(touched.rel_path):
                        version = self._version(commit, is_gone=touched.kind == "deleted")
                        self._versions.setdefault(touched.rel_path, []).append(version)
        finally:
            self._repository.close()

    def versions(self, rel_path: str) -> Sequence[Version]:
        """Return a file's versions, oldest first; empty for an unknown file."""
        return self._versions.get(rel_path, ())

    def text(self, rel_path: str, version: Version) -> str | None:
        """Return a file's text in a version, or None if missing or not text."""
        if version.is_gone:
            return None
        try:
            content = self._repository.file_at(version.commit, rel_path)
        finally:
            self._repository.close()
        try:
            return None if content is None else content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def _version(self, commit: Commit, *, is_gone: bool) -> Version:
        instance = commit.trailers.get(EMBODIMENT, "") or commit.instance or self._began
        return Version(self.count, commit.id, instance, commit.source, is_gone)
