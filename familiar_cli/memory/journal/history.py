"""Walk through the journal: which changes there were, of what, by whom, since when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.memory.journal import commits, trees
from familiar_cli.memory.journal.commits import Touched

if TYPE_CHECKING:
    from collections.abc import Iterator
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
        """Yield every commit, newest first."""
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
        return tuple(
            Touched(_kind(was, now), path)
            for path, was, now in sorted(trees.changed(self._repository.tree, old, commit.tree))
        )

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
        at = self.head
        while at:
            yield at
            _, at = commits.tree_and_parent(self._repository.objects.read(at))

    def _of_all(self) -> Iterator[LoggedChange]:
        for commit in self.commits():
            yield LoggedChange(commit, self.touched(commit))

    def _of_path(self, rel_path: str) -> Iterator[LoggedChange]:
        at = rel_path
        for commit in self.commits():
            kind = self._how(commit, at)
            if kind is None:
                continue
            touched = self.touched(commit)
            yield LoggedChange(commit, touched, at)
            if kind == "added" and any(t.kind == "deleted" for t in touched):
                from familiar_cli.memory.journal.renames import former_path

                at = former_path(self._repository, commit, at) or at

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
        was, now = (trees.find(self._repository.tree, t, rel_path) for t in (old, commit.tree))
        if was == now:
            return None
        return _kind(was.id if was else None, now.id if now else None)


def is_id(word: str) -> bool:
    """Tell whether `word` could be the beginning of an id."""
    return bool(_HEX.fullmatch(word))


def _kind(was: str | None, now: str | None) -> Literal["added", "changed", "deleted"]:
    if was is None:
        return "added"
    return "deleted" if now is None else "changed"
