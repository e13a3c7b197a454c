"""The past of the journal and of single files, as merges need it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

from familiar_cli.memory.journal.bounds import DIR_MODE, raw_entries
from familiar_cli.memory.journal.commits import HUMAN
from familiar_cli.memory.journal.edits import recordable
from familiar_cli.memory.journal.history import History
from familiar_cli.memory.journal.objects import object_id
from familiar_cli.memory.layout import SYNC, is_synced
from familiar_cli.memory.store.paths import MAX_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from familiar_cli.memory.journal.bounds import RawEntry
    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.repository import Repository


_FILES: Final = {b"100644", b"100755", b"100664"}
_LINK: Final = b"120000"
_NO_NAMES: Final = {"", ".", ".."}
_SMALL_BYTES: Final = 16 * 1024
_MOST_SMALL: Final = 4096
_WITH_LOCAL: Final = (b"people", b"sessions")  # where files are that stay on one machine


class JournalPast:
    """The versions that a journal holds.

    Args:
        repository: The journal.
        began: The instance that the familiar began on.

    Attributes:
        refused: Why something was left out, by path.
    """

    def __init__(self, repository: Repository, began: str) -> None:
        self._repository = repository
        self._began = began
        self.refused: dict[str, str] = {}
        self.commit = lru_cache(maxsize=None)(repository.commit)
        self._files_of = lru_cache(maxsize=4096)(self._files_in)
        self._trees = lru_cache(maxsize=16)(self._synced)
        self._small: dict[str, bytes] = {}

    def parents(self, commit: str) -> tuple[str, ...]:
        """Return the versions that this one came from."""
        one: Commit = self.commit(commit)
        return (one.parent, *one.merged) if one.parent else one.merged

    def tree(self, commit: str) -> Mapping[str, str]:
        """Return its files as far as they are synced."""
        return self._trees(self.commit(commit).tree)

    def whole_tree(self, commit: str) -> Mapping[str, str]:
        """Return all its files, also those that stay on the machine that made them."""
        return dict(self._files(self.commit(commit).tree, "", 0))

    def holds_only_files(self, commit: str) -> bool:
        """Tell whether nothing of a version was left out."""
        if not self.refused:
            return True
        apart = JournalPast(self._repository, self._began)
        apart.tree(commit)
        return not apart.refused

    def tree_id(self, commit: str) -> str:
        """Return a key that is equal for two versions exactly when all their synced files are."""
        content = self._repository.objects.read(self.commit(commit).tree)
        rows = []
        for entry in raw_entries(content):
            id_ = entry.id
            if entry.name.lower() in _WITH_LOCAL and entry.mode == DIR_MODE:
                prefix = f"{_text(entry.name)}/"
                files = dict(self._files(id_, prefix, 1))
                synced = sorted(path for path in files if is_synced(path))
                id_ = object_id("blob", repr([(p, files[p]) for p in synced]).encode())
            rows.append((entry.mode, entry.name, id_))
        return object_id("blob", repr(rows).encode())

    def instance(self, commit: str) -> str:
        """Return the machine that made it."""
        return self.commit(commit).instance or self._began

    def source(self, commit: str) -> str:
        """Return who changed something with it: `human` for whatever a person did."""
        one: Commit = self.commit(commit)
        return HUMAN if one.by_hand else one.source

    def only_merges(self, commit: str) -> bool:
        """Tell whether a version is a merge that this program made: it says nothing of its own."""
        return bool(self.commit(commit).merged) and self.source(commit) == SYNC

    def changed(self, commit: str) -> Collection[str]:
        """Return the paths that it changed."""
        one: Commit = self.commit(commit)
        if one.touched is not None:
            return [t.rel_path for t in one.touched if is_synced(t.rel_path)]
        before = self.tree(one.parent) if one.parent else {}
        return {path for path, _ in self.tree(commit).items() ^ before.items()}

    def read(self, blob: str) -> bytes:
        """Return the content of a file."""
        if blob in self._small:
            return self._small[blob]
        content = self._repository.objects.read(blob)
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
        for entry in raw_entries(self._repository.objects.read(tree)):
            name = _text(entry.name)
            if problem := _problem(entry, name):
                self.refused[prefix + name] = problem
            else:
                found.append((name, entry.id, entry.mode == DIR_MODE))
        return tuple(found)


def _problem(entry: RawEntry, name: str) -> str:
    """Return why an entry is no file or directory of a memory; empty: it is one."""
    if entry.mode == _LINK:
        return "it is a link"
    if entry.mode != DIR_MODE and entry.mode not in _FILES:
        return "it is neither a file nor a directory"
    if "\ufffd" in name or "/" in name or name in _NO_NAMES:
        return "its name is not valid"
    return "" if recordable(name) else "its name is reserved by git"


def _text(name: bytes) -> str:
    return name.decode("utf-8", errors="replace")


T = TypeVar("T")

Clock = Mapping[str, int]
"""How many changes by instance; one that is not in it counts 0."""

Order = Literal["equal", "before", "after", "concurrent"]

EMBODIMENT: Final = "Embodiment"
"""The line of a commit that names the embodiment that a change comes from."""

HASH_CHARS: Final = 12


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a file.

    Args:
        at: The number of the commit that made it, from 1.
        commit: Its id.
        instance: Who made it.
        source: As whom, e.g. `human`.
        is_gone: The file was deleted.
    """

    at: int
    commit: str
    instance: str
    source: str
    is_gone: bool


def compare(one: Clock, other: Clock) -> Order:
    """Return how `one` stands to `other`; `concurrent` when each holds what the other lacks."""
    has_less = any(count > one.get(name, 0) for name, count in other.items())
    has_more = any(count > other.get(name, 0) for name, count in one.items())
    if has_less and has_more:
        return "concurrent"
    if has_less:
        return "before"
    return "after" if has_more else "equal"


def clock_of(versions: Sequence[Version]) -> Clock:
    """Return the clock of the last of these versions."""
    return dict(sorted(Counter(version.instance for version in versions).items()))


class FilePasts:
    """The versions of the files of one memory, read once and then continued.

    Args:
        repository: The journal.
        began: The instance that the familiar began on; its commits do not name it.
        is_wanted: Tells of a path whether anybody asks for its versions.
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
        """How many commits there are: the version of the whole memory."""
        return len(self._commits)

    @property
    def hash(self) -> str:
        """What tells the newest commit from that of any other journal; empty: there is none."""
        return self.hash_at(self.count)

    @property
    def paths(self) -> Sequence[str]:
        """The files that are or were there, sorted."""
        return sorted(self._versions)

    def hash_at(self, at: int) -> str:
        """Return the hash of the memory's version with that number; empty: there is none."""
        return self._commits[at - 1][:HASH_CHARS] if 0 < at <= self.count else ""

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """Return the cached result of `make` for the last `key`, or make it."""
        if self._kept[0] != key:
            self._kept = (key, make())
        return cast("T", self._kept[1])

    def read_on(self) -> None:
        """Take in what the journal holds beyond what is known.

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
            else:  # all of it is another one than it was
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
        """Return the versions of a file, oldest first; none of one that was never there."""
        return self._versions.get(rel_path, ())

    def text(self, rel_path: str, version: Version) -> str | None:
        """Return a file's text in one of its versions; None: it was not there, or no text."""
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
