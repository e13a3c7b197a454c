"""Walk the journal: its commits, its days, and the differences between two states."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, tzinfo
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.base.text import unified
from familiar_cli.base.times.clock import to_zone
from familiar_cli.store.journal.repository import (
    ChangedFile,
    Commit,
    Repository,
    changed_files,
    decode_tree,
    find_entry,
    parents_of,
    tree_files,
    walk_ancestors,
)

if TYPE_CHECKING:
    from dulwich.objects import TreeEntry


class FileDiff(Struct, frozen=True):
    """The difference in one file: a unified diff, or one line for a binary file."""

    rel_path: str
    kind: Literal["added", "changed", "deleted"]
    diff: str


def diff_trees(
    repository: Repository, old: str | None, new: str | None, rel_path: str = ""
) -> Iterator[FileDiff]:
    """Yield the diff of each file at or below `rel_path` between two trees, sorted by path."""
    for path, was, now in sorted(changed_files(repository.tree, old, new)):
        if not rel_path or path == rel_path or path.startswith(rel_path + "/"):
            before, after = (repository.objects.read(i) if i else None for i in (was, now))
            yield file_diff(path, before, after)


def file_diff(rel_path: str, before: bytes | None, after: bytes | None) -> FileDiff:
    """Return the diff of a file; None stands for a missing file."""
    kind: Literal["added", "changed", "deleted"] = "changed"
    if before is None or after is None:
        kind = "deleted" if after is None else "added"
    old, new = before or b"", after or b""
    names = [
        f"{side}/{rel_path}" if content is not None else "/dev/null"
        for side, content in (("a", before), ("b", after))
    ]
    if is_binary(old) or is_binary(new):
        text = (
            f"Binary files {names[0]} and {names[1]} differ: {len(old):,} -> {len(new):,} bytes\n"
        )
        return FileDiff(rel_path, kind, text)
    texts = (content.decode("utf-8", errors="replace") for content in (old, new))
    return FileDiff(rel_path, kind, unified(*texts, *names))


def is_binary(content: bytes) -> bool:
    """Tell whether `content` is binary, by git's rule."""
    return b"\0" in content[:8000]


def former_path(
    repository: Repository, commit: Commit, parent: str | None, rel_path: str
) -> str | None:
    """Return the path from which `commit` moved a file to `rel_path`, or None if it is new.

    Args:
        repository: The journal.
        parent: The parent to compare with.
        rel_path: The file's path after the commit.

    A rename is a file deleted in the same commit with the same content, or else with content at
    least 60 % similar by git's measure.
    """
    old = repository.tree_of(parent)
    gone: dict[str, list[str]] = {}
    id_ = None
    for path, was, now in changed_files(repository.tree, old, commit.tree, skip_bad=True):
        if path == rel_path:
            id_ = now
        elif was and not now:
            gone.setdefault(was, []).append(path)
    if id_ in gone:
        same_name = [p for p in gone[id_] if p.rpartition("/")[2] == rel_path.rpartition("/")[2]]
        return (same_name or gone[id_])[0]
    return _find_similar(repository, old, commit.tree, rel_path) if gone else None


def _find_similar(repository: Repository, old: str | None, new: str, rel_path: str) -> str | None:
    from dulwich.diff_tree import RenameDetector
    from dulwich.objects import ObjectID

    assert old is not None
    store = repository.objects.dulwich_store()
    try:
        changes = RenameDetector(store).changes_with_renames(
            ObjectID(old.encode()), ObjectID(new.encode())
        )
        items = [
            one for one in changes if one.type == "rename" and _entry_path(one.new) == rel_path
        ]
        return _entry_path(items[0].old) if items else None
    finally:
        with suppress(BufferError):  # a pack found damaged while reading stays mapped
            store.close()


def _entry_path(entry: TreeEntry | None) -> str | None:
    if entry is None or entry.path is None:
        return None
    return entry.path.decode("utf-8", errors="surrogateescape")


SHORT = 10  # displayed length of an id
_HEX = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)
_BACK = re.compile(r"(?:HEAD|@)(?:~(\d*))?")
_MOST_LISTED = 8


class LoggedChange(Struct, frozen=True):
    """One commit and the files it changed.

    Args:
        touched: Every changed file, sorted by path.
        rel_path: Path of the requested file after the commit; empty when all files were requested.
    """

    commit: Commit
    touched: tuple[ChangedFile, ...]
    rel_path: str = ""


class History:
    """The commits of a journal, newest first. The caller closes the repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.head = repository.head() if repository.exists else None

    def commits(self) -> Iterator[Commit]:
        """Yield the first-parent commits of this machine, newest first.

        Commits merged from other machines are left out; `log` includes them.
        """
        at = self.head
        while at:
            commit = self._repository.commit(at)
            yield commit
            at = commit.parent

    def log(
        self,
        rel_path: str = "",
        *,
        source: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[LoggedChange]:
        """Yield the changes of a file or directory (or of everything), newest first.

        Follows a file through renames.

        Args:
            rel_path: Path in the memory; empty for everything.
            source: Only changes by this source.
            since: Only changes at or after this time.
            limit: Maximum number of changes.
        """
        given = 0
        all_of_it = (LoggedChange(one, self.touched(one)) for one in self.all_commits())
        for change in self._of_path(rel_path) if rel_path else all_of_it:
            if since and change.commit.time < since:
                return
            if source is None or change.commit.source == source:
                if limit is not None and given >= limit:
                    return
                given += 1
                yield change

    def touched(self, commit: Commit) -> tuple[ChangedFile, ...]:
        """Return every file a commit changed, sorted by path."""
        if commit.touched is not None:
            return commit.touched
        old = self._repository.tree_of(commit.parent)
        changes = changed_files(self._repository.tree, old, commit.tree, skip_bad=True)
        return tuple(
            ChangedFile(_change_kind(was, now), path) for path, was, now in sorted(changes)
        )

    def find(self, word: str) -> Commit:
        """Resolve `word` to a commit: an id or its prefix, `HEAD`, `HEAD~2`.

        Raises:
            NotFoundError: No such commit.
            UsageError: Not a commit id, or an ambiguous prefix.
        """
        back = _BACK.fullmatch(word)
        if back:
            return self._back(word, int(back[1] or 1) if "~" in word else 0)
        if not is_id_prefix(word):
            raise UsageError(
                f"{word!r} is not a commit id",
                hint="Give the start of an id from `familiar memory log`.",
            )
        id_s = [id_ for id_ in self._ids() if id_.startswith(word.lower())]
        if not id_s:
            raise NotFoundError(
                f"No commit begins with {word!r}", hint="List them: `familiar memory log`."
            )
        if len(id_s) > 1:
            text = ", ".join(id_[: max(SHORT, len(word) + 4)] for id_ in id_s[:_MOST_LISTED])
            raise UsageError(
                f"{len(id_s)} commits begin with {word!r}: {text}", hint="Give more digits."
            )
        return self._repository.commit(id_s[0])

    def _back(self, word: str, steps: int) -> Commit:
        for n, commit in enumerate(self.commits()):
            if n == steps:
                return commit
        raise NotFoundError(f"No such commit: {word!r}", hint="List them: `familiar memory log`.")

    def _ids(self) -> Iterator[str]:
        objects = self._repository.objects
        if self.head:
            yield from walk_ancestors([self.head], lambda id_: parents_of(objects.read(id_)))

    def all_commits(self) -> Iterator[Commit]:
        """Yield every commit, including merged ones, newest first."""
        for commit, _ in self._newest_first("", lambda commit, _: _parents_with_path(commit, "")):
            yield commit

    def _of_path(self, rel_path: str) -> Iterator[LoggedChange]:
        changed: dict[tuple[str, str], bool] = {}

        def before(commit: Commit, at: str) -> list[tuple[str, str]]:
            changed[commit.id, at], items = self.before(commit, at)
            return items

        for commit, at in self._newest_first(rel_path, before):
            if changed[commit.id, at]:
                yield LoggedChange(commit, self.touched(commit), at)

    def before(self, commit: Commit, rel_path: str) -> tuple[bool, list[tuple[str, str]]]:
        """Tell whether a commit changed a path, and where its parents have it.

        Returns:
            Whether the commit itself produced this version, rather than one of its parents; and its
            parents, each with the path there.
        """
        if not commit.merged:
            kind = self._how(commit, rel_path)
            at = rel_path
            if kind == "added" and any(t.kind == "deleted" for t in self.touched(commit)):
                at = self._former(commit, commit.parent, rel_path)
            return kind is not None, _parents_with_path(commit, at)
        parents = commit.parents
        now = self._entry(commit.tree, rel_path)
        then = {id_: self._entry(self._repository.tree_of(id_), rel_path) for id_ in parents}
        same = next((id_ for id_ in parents if then[id_] == now), None)
        if same:
            return False, [(same, rel_path)]
        places = [
            (id_, rel_path if then[id_] else self._former(commit, id_, rel_path)) for id_ in parents
        ]
        return True, places

    def _former(self, commit: Commit, parent: str | None, rel_path: str) -> str:
        return former_path(self._repository, commit, parent, rel_path) or rel_path

    def _entry(self, tree: str | None, rel_path: str) -> str | None:
        entry = find_entry(self._repository.tree, tree, rel_path)
        return entry.id if entry else None

    def _newest_first(
        self, rel_path: str, before: Callable[[Commit, str], list[tuple[str, str]]]
    ) -> Iterator[tuple[Commit, str]]:
        """Yield commits by time, children before parents, with the path in each."""
        if self.head is None:
            return
        seen = {(self.head, rel_path)}
        first = self._repository.commit(self.head)
        waiting = [(-first.time.timestamp(), 0, first, rel_path)]
        while waiting:
            *_, commit, at = heapq.heappop(waiting)
            earlier = before(commit, at)
            yield commit, at
            for place in earlier:
                if place not in seen:
                    seen.add(place)
                    one = self._repository.commit(place[0])
                    heapq.heappush(waiting, (-one.time.timestamp(), len(seen), one, place[1]))

    def _how(self, commit: Commit, rel_path: str) -> str | None:
        """Return how a commit changed `rel_path`, or None if it did not."""
        if commit.touched is not None:
            for touched in commit.touched:
                if touched.rel_path == rel_path:
                    return touched.kind
                if touched.rel_path.startswith(rel_path + "/"):
                    return "changed"
            return None
        old = self._repository.tree_of(commit.parent)
        was, now = (self._entry(tree, rel_path) for tree in (old, commit.tree))
        return None if was == now else _change_kind(was, now)


def _parents_with_path(commit: Commit, rel_path: str) -> list[tuple[str, str]]:
    return [(id_, rel_path) for id_ in commit.parents]


def is_id_prefix(word: str) -> bool:
    """Tell whether `word` could be an id prefix."""
    return bool(_HEX.fullmatch(word))


def _change_kind(was: str | None, now: str | None) -> Literal["added", "changed", "deleted"]:
    if was is None:
        return "added"
    return "deleted" if now is None else "changed"


_KEPT: Final = 16  # comparisons


class JournalDay(Struct, frozen=True):
    """A day on which memory changed.

    Args:
        day: The date.
        commit: The day's last change.
        changes: Number of changes.
    """

    day: date
    commit: str
    changes: int


class JournalDays:
    """The days of one journal, in order; later calls read only new commits.

    Args:
        repository: The journal.
        zone: Timezone that separates days; None for the system's.
    """

    def __init__(self, repository: Repository, zone: tzinfo | None) -> None:
        self._repository = repository
        self._zone = zone
        self._head: str | None = None
        self._days: list[JournalDay] = []
        self._changed: dict[tuple[str | None, str | None], list[str]] = {}
        self._files: dict[str, list[tuple[str, str]]] = {}

    def all(self) -> list[JournalDay]:
        """Return every day with a change, oldest first."""
        head = self._repository.head() if self._repository.exists else None
        if head == self._head:
            return self._days
        newer: list[tuple[date, str]] = []
        at = head
        while at and at != self._head:
            commit = self._repository.commit(at)
            newer.append((to_zone(commit.time, self._zone).date(), at))
            at = commit.parent
        if at is None:  # the journal was restarted or not read yet
            self._days = []
        for day, commit_id in reversed(newer):
            self._add(day, commit_id)
        self._head = head
        return self._days

    def at(self, day: date) -> JournalDay | None:
        """Return the last day with a change up to `day`, or None if there is none."""
        return next((known for known in reversed(self.all()) if known.day <= day), None)

    def files(self, commit: str, directory: str = "") -> list[tuple[str, bool]]:
        """List a directory as of a commit: path, and whether it is a directory."""
        read, tree = self._repository.tree, self._repository.tree_of(commit)
        found = find_entry(read, tree, directory)
        if found is None or not found.is_dir:
            return []
        above = f"{directory}/" if directory else ""
        entries = decode_tree(read(found.id)).items()
        return sorted((above + name, entry.is_dir) for name, entry in entries)

    def every_file(self, commit: str) -> list[tuple[str, str]]:
        """Return path and id of each file as of a commit."""
        if commit not in self._files:
            tree = self._repository.tree_of(commit)
            self._files = {commit: list(tree_files(self._repository.tree, tree))}
        return self._files[commit]

    def content(self, commit: str, rel_path: str) -> bytes | None:
        """Return the content of a file as of a commit, or None if it did not exist."""
        return self._repository.file_at(commit, rel_path)

    def blob(self, object_id: str) -> bytes:
        """Return the content of a file by its id."""
        return self._repository.objects.read(object_id)

    def changed(self, old: str | None, new: str | None) -> list[str]:
        """Return the paths of the files that differ between two commits, sorted."""
        if (old, new) not in self._changed:
            before, after = (self._repository.tree_of(commit) for commit in (old, new))
            changes = changed_files(self._repository.tree, before, after)
            while len(self._changed) >= _KEPT:
                del self._changed[next(iter(self._changed))]
            self._changed[old, new] = sorted(path for path, *_ in changes)
        return self._changed[old, new]

    def difference(self, old: str | None, new: str | None, rel_path: str) -> FileDiff | None:
        """Return the diff of a file between two commits, or None if it is the same."""
        before, after = (self._repository.file_at(commit, rel_path) for commit in (old, new))
        return None if before == after else file_diff(rel_path, before, after)

    def _add(self, day: date, commit: str) -> None:
        """Add the next commit; a clock set back does not repeat a day."""
        last = self._days[-1] if self._days else None
        if last and last.day >= day:
            self._days[-1] = JournalDay(last.day, commit, last.changes + 1)
        else:
            self._days.append(JournalDay(day, commit, 1))
