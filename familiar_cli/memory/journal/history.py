"""Walk through the journal: which changes there were, of what, by whom, since when."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.memory.journal import commits, trees
from familiar_cli.memory.journal.commits import Touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.repository import Repository

SHORT = 10  # digits of an id that are shown
_HEX = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)
_BACK = re.compile(r"(?:HEAD|@)(?:~(\d*))?")
_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One commit, and what it changed.

    Args:
        commit: The commit.
        touched: Every file it changed, sorted by path.
        rel_path: The path that the file asked for had after it; empty when all were asked for.
    """

    commit: Commit
    touched: tuple[Touched, ...]
    rel_path: str = ""


class History:
    """The commits of a journal, newest first. The caller closes the repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.head = repository.head() if repository.exists else None

    def commits(self) -> Iterator[Commit]:
        """Yield the first-parent commits of this machine, newest first.

        What was merged from elsewhere is not among them; `log` has it.
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

        A file is followed through its renames.

        Args:
            rel_path: Below the memory; empty for everything.
            source: Only what this source changed.
            since: Only what happened then or later.
            limit: At most so many.
        """
        given = 0
        for change in self._of_path(rel_path) if rel_path else self._of_all():
            if since and change.commit.time < since:
                return
            if source is None or change.commit.source == source:
                if limit is not None and given >= limit:
                    return
                given += 1
                yield change

    def touched(self, commit: Commit) -> tuple[Touched, ...]:
        """Return every file that a commit changed, sorted by path."""
        if commit.touched is not None:
            return commit.touched
        old = self._repository.tree_of(commit.parent)
        changes = trees.changed(self._repository.tree, old, commit.tree, skip_bad=True)
        return tuple(Touched(_kind(was, now), path) for path, was, now in sorted(changes))

    def find(self, word: str) -> Commit:
        """Return the commit that `word` means: an id, the beginning of one, `HEAD`, `HEAD~2`.

        Raises:
            NotFoundError: There is none.
            UsageError: It is no id, or several begin so.
        """
        back = _BACK.fullmatch(word)
        if back:
            return self._back(word, int(back[1] or 1) if "~" in word else 0)
        if not is_id(word):
            raise UsageError(
                f"{word!r} is not a commit id",
                hint="Give the start of an id from `familiar memory log`.",
            )
        found = [id_ for id_ in self._ids() if id_.startswith(word.lower())]
        if not found:
            raise NotFoundError(
                f"No commit begins with {word!r}", hint="List them: `familiar memory log`."
            )
        if len(found) > 1:
            shown = ", ".join(id_[: max(SHORT, len(word) + 4)] for id_ in found[:_MOST_LISTED])
            raise UsageError(
                f"{len(found)} commits begin with {word!r}: {shown}", hint="Give more digits."
            )
        return self._repository.commit(found[0])

    def _back(self, word: str, steps: int) -> Commit:
        for n, commit in enumerate(self.commits()):
            if n == steps:
                return commit
        raise NotFoundError(f"No such commit: {word!r}", hint="List them: `familiar memory log`.")

    def _ids(self) -> Iterator[str]:
        waiting = [self.head] if self.head else []
        seen = set(waiting)
        for id_ in waiting:
            yield id_
            for parent in commits.parents(self._repository.objects.read(id_)):
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)

    def all_commits(self) -> Iterator[Commit]:
        """Yield every commit, including merged ones, newest first."""
        for commit, _ in self._newest_first("", lambda commit, _: _parents(commit, "")):
            yield commit

    def _of_all(self) -> Iterator[LoggedChange]:
        for commit in self.all_commits():
            yield LoggedChange(commit, self.touched(commit))

    def _of_path(self, rel_path: str) -> Iterator[LoggedChange]:
        changed: dict[tuple[str, str], bool] = {}

        def before(commit: Commit, at: str) -> list[tuple[str, str]]:
            changed[commit.id, at], found = self.before(commit, at)
            return found

        for commit, at in self._newest_first(rel_path, before):
            if changed[commit.id, at]:
                yield LoggedChange(commit, self.touched(commit), at)

    def before(self, commit: Commit, rel_path: str) -> tuple[bool, list[tuple[str, str]]]:
        """Tell whether a commit changed a file or directory, and its path before.

        Returns:
            Whether the commit itself made it what it is, and not one of several before it; and the
            commits before it, each with the path that it had there.
        """
        if not commit.merged:
            kind = self._how(commit, rel_path)
            at = rel_path
            if kind == "added" and any(t.kind == "deleted" for t in self.touched(commit)):
                at = self._former(commit, commit.parent, rel_path)
            return kind is not None, _parents(commit, at)
        parents = [id_ for id_, _ in _parents(commit, "")]
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
        from familiar_cli.memory.journal.diff import former_path

        return former_path(self._repository, commit, parent, rel_path) or rel_path

    def _entry(self, tree: str | None, rel_path: str) -> str | None:
        found = trees.find(self._repository.tree, tree, rel_path)
        return found.id if found else None

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
        """Return how a commit changed what is at `rel_path`, or None when it did not."""
        if commit.touched is not None:
            for touched in commit.touched:
                if touched.rel_path == rel_path:
                    return touched.kind
                if touched.rel_path.startswith(rel_path + "/"):
                    return "changed"
            return None
        old = self._repository.tree_of(commit.parent)
        was, now = (self._entry(tree, rel_path) for tree in (old, commit.tree))
        return None if was == now else _kind(was, now)


def _parents(commit: Commit, rel_path: str) -> list[tuple[str, str]]:
    return [(id_, rel_path) for id_ in (commit.parent, *commit.merged) if id_]


def is_id(word: str) -> bool:
    """Tell whether `word` could be the beginning of an id."""
    return bool(_HEX.fullmatch(word))


def _kind(was: str | None, now: str | None) -> Literal["added", "changed", "deleted"]:
    if was is None:
        return "added"
    return "deleted" if now is None else "changed"
