"""The days of a journal: after which commit each ended, and the memory as it stood then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_zone
from familiar_cli.memory.journal import trees
from familiar_cli.memory.journal.diff import file_diff

if TYPE_CHECKING:
    from datetime import date, tzinfo

    from familiar_cli.memory.journal.diff import FileDiff
    from familiar_cli.memory.journal.repository import Repository

_KEPT: Final = 16  # comparisons


@dataclass(frozen=True, slots=True)
class JournalDay:
    """A day on which memory changed.

    Args:
        day: Which.
        commit: The last change of it.
        changes: How many there were.
    """

    day: date
    commit: str
    changes: int


class JournalDays:
    """The days of one journal, in order. Asked again, it reads only what is new.

    Args:
        repository: The journal.
        zone: Where days begin; None: in the system's timezone.
    """

    def __init__(self, repository: Repository, zone: tzinfo | None) -> None:
        self._repository = repository
        self._zone = zone
        self._head: str | None = None
        self._days: list[JournalDay] = []
        self._changed: dict[tuple[str | None, str | None], list[str]] = {}
        self._files: dict[str, list[tuple[str, str]]] = {}

    def all(self) -> list[JournalDay]:
        """Return every day on which something changed, the oldest first."""
        head = self._repository.head() if self._repository.exists else None
        if head == self._head:
            return self._days
        newer: list[tuple[date, str]] = []
        at = head
        while at and at != self._head:
            commit = self._repository.commit(at)
            newer.append((to_zone(commit.time, self._zone).date(), at))
            at = commit.parent
        if at is None:  # the journal was begun again, or never read
            self._days = []
        for day, commit_id in reversed(newer):
            self._add(day, commit_id)
        self._head = head
        return self._days

    def at(self, day: date) -> JournalDay | None:
        """Return the last day up to `day` on which something changed; None: it was before all."""
        return next((known for known in reversed(self.all()) if known.day <= day), None)

    def files(self, commit: str, directory: str = "") -> list[tuple[str, bool]]:
        """Return what was directly in a directory then: path, and whether it is a directory."""
        read, tree = self._repository.tree, self._repository.tree_of(commit)
        found = trees.find(read, tree, directory)
        if found is None or not found.is_dir:
            return []
        above = f"{directory}/" if directory else ""
        entries = trees.decode(read(found.id)).items()
        return sorted((above + name, entry.is_dir) for name, entry in entries)

    def every_file(self, commit: str) -> list[tuple[str, str]]:
        """Return path and id of each file that there was."""
        if commit not in self._files:
            tree = self._repository.tree_of(commit)
            self._files = {commit: list(trees.files(self._repository.tree, tree))}
        return self._files[commit]

    def content(self, commit: str, rel_path: str) -> bytes | None:
        """Return what a file held then; None: it was not there."""
        return self._repository.file_at(commit, rel_path)

    def blob(self, object_id: str) -> bytes:
        """Return the content of a file by its id."""
        return self._repository.objects.read(object_id)

    def changed(self, old: str | None, new: str | None) -> list[str]:
        """Return the paths of the files that differ between two commits, sorted."""
        if (old, new) not in self._changed:
            before, after = (self._repository.tree_of(commit) for commit in (old, new))
            changes = trees.changed(self._repository.tree, before, after)
            while len(self._changed) >= _KEPT:
                del self._changed[next(iter(self._changed))]
            self._changed[old, new] = sorted(path for path, *_ in changes)
        return self._changed[old, new]

    def difference(self, old: str | None, new: str | None, rel_path: str) -> FileDiff | None:
        """Return how a file differs between two commits; None: it does not."""
        before, after = (self._repository.file_at(commit, rel_path) for commit in (old, new))
        return None if before == after else file_diff(rel_path, before, after)

    def _add(self, day: date, commit: str) -> None:
        """Take in the next commit; a clock that was set back makes no day twice."""
        last = self._days[-1] if self._days else None
        if last and last.day >= day:
            self._days[-1] = JournalDay(last.day, commit, last.changes + 1)
        else:
            self._days.append(JournalDay(day, commit, 1))
