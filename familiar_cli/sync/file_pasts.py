"""The past of every file as the journal tells it: its versions in order, and by whom each is.

A version's clock is counted from it, so no instance keeps a counter of its own: one that is wiped
cannot begin at 1 again, and one that is removed takes nothing back. Clocks tell which of two
versions came first, and never what to do about it; time has no part in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

from familiar_cli.memory.journal.history import History

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.repository import Repository

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
