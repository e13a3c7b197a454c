"""`Past`: what the commands ask the journal, who wrote each line among it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.diffs import matching_blocks
from familiar_cli.errors import BadInputError, FamiliarError, LockedError, NotFoundError, UsageError
from familiar_cli.memory.journal.commits import HUMAN
from familiar_cli.memory.journal.diff import is_binary
from familiar_cli.memory.journal.history import History, is_id
from familiar_cli.memory.journal.repository import translated
from familiar_cli.memory.store import paths
from familiar_cli.text import sha256_of, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.compact import Compacted
    from familiar_cli.memory.journal.diff import FileDiff
    from familiar_cli.memory.journal.git import GitJournal
    from familiar_cli.memory.journal.history import LoggedChange
    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.journal.undo import Undone
    from familiar_cli.memory.store.store import MemoryStore


_MOST_COMMITS = 2
_MOST_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two states of the memory.

    Args:
        old: The commit on the left; None for the empty memory before the first.
        new: The commit on the right.
        files: Each file that differs.
    """

    old: Commit | None
    new: Commit
    files: tuple[FileDiff, ...]


class MemoryPast:
    """The past of one memory.

    What people changed by hand is committed before anything is answered, so that it is part of the
    answer; when that cannot be, `tell` says so and the answer goes as far as the journal does.

    Args:
        store: The memory.
        journal: Its journal.
        tell: Told in words what a person should know.
        hasty: For whoever asks often: all files are looked at only now and then, and the one that
            is asked about each time.
    """

    def __init__(
        self,
        store: MemoryStore,
        journal: GitJournal,
        tell: Callable[[str], None] = lambda _: None,
        *,
        hasty: bool = False,
    ) -> None:
        self._store = store
        self._repository = journal.repository
        self._instance = journal.instance
        self._tell = tell
        self._hasty = hasty

    def log(
        self,
        rel_path: str = "",
        *,
        source: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[LoggedChange]:
        """Return the changes of a file, a directory or everything, newest first.

        Raises:
            NotFoundError: The journal knows nothing at `rel_path`.
        """
        clean = paths.parse(rel_path)
        with self._history(rel_path=clean) as history:
            found = list(history.log(clean, source=source, since=since, limit=limit))
            if not found and clean and not any(history.log(clean, limit=1)):
                raise self._unknown(clean)
            return found

    def show(self, word: str) -> tuple[LoggedChange, tuple[FileDiff, ...]]:
        """Return one change, and how each file differs by it.

        Raises:
            NotFoundError: There is no such commit.
        """
        from familiar_cli.memory.journal.diff import between
        from familiar_cli.memory.journal.history import LoggedChange

        with self._history() as history:
            commit = history.find(word)
            old = self._repository.tree_of(commit.parent)
            files = tuple(between(self._repository, old, commit.tree))
            return LoggedChange(commit, history.touched(commit)), files

    def came_from_elsewhere(self, commit: Commit) -> bool:
        """Tell whether a commit holds what other machines wrote."""
        from familiar_cli.memory.journal.undo import came_from_elsewhere

        return came_from_elsewhere(commit, self._instance())

    def diff(self, words: Sequence[str]) -> Difference:
        """Return what differs between two commits.

        Args:
            words: At most two commits and a path, in this order. One commit is compared with now;
                without any it is what the newest change (of the path) did.

        Raises:
            NotFoundError: There is no such commit or path.
            UsageError: The words make no sense.
        """
        from familiar_cli.memory.journal.diff import between

        with self._history() as history:
            named, rel_path = _split(history, words)
            if named:
                old: Commit | None = named[0]
                new = named[1] if len(named) > 1 else history.find("HEAD")
            else:
                newest = next(iter(history.log(rel_path, limit=1)), None)
                if newest is None:
                    raise self._unknown(rel_path)
                new = newest.commit
                old = self._repository.commit(new.parent) if new.parent else None
            files = between(self._repository, old.tree if old else None, new.tree, rel_path)
            return Difference(old, new, tuple(files))

    def blame(self, rel_path: str) -> list[BlamedLine]:
        """Return who wrote each line of a file.

        Raises:
            NotFoundError: There is no such file now.
            BadInputError: It is no text.
        """
        clean = paths.parse(rel_path)
        with self._history(rel_path=clean) as history:
            return blame(self._repository, history, clean)

    def version(self, rel_path: str, sha256: str) -> bytes | None:
        """Return the version of a file with a given hash, or None.

        Args:
            rel_path: The file.
            sha256: In hex, of its bytes.
        """
        with self._history(rel_path=rel_path) as history:
            for change in history.log(rel_path, limit=_MOST_VERSIONS):
                content = self._repository.file_at(change.commit.id, change.rel_path)
                if content is not None and sha256_of(content) == sha256.lower():
                    return content
            return None

    def before_edits(self, rel_path: str, *, since: datetime) -> bytes | None:
        """Return a file as it was before people's newest edits, or None.

        Args:
            rel_path: The file.
            since: Only edits that were made then or later.
        """
        with self._history(look=False) as history:
            base = self._repository.file_at(history.head, rel_path) if history.head else None
            if base == self._store.read_bytes(rel_path):
                base = None
            for change in history.log(rel_path, since=since):
                kinds = {one.rel_path: one.kind for one in change.touched}
                by_person = change.commit.source == HUMAN and not change.commit.undoes
                if not by_person or kinds.get(change.rel_path) != "changed":
                    break
                base = self._repository.file_at(change.commit.parent or "", change.rel_path)
            return base

    def undo(
        self,
        word: str | None = None,
        *,
        run: str | None = None,
        dry_run: bool = False,
        merges: bool = False,
    ) -> Undone:
        """Take a change, or all changes of a run, back by a new one; see `undo.undo`."""
        from familiar_cli.memory.journal.undo import undo

        with self._history() as history:
            return undo(
                self._store,
                self._repository,
                history,
                word,
                run=run,
                dry_run=dry_run,
                instance=self._instance(),
                merges=merges,
            )

    def restore(self, rel_path: str, at: str, *, dry_run: bool = False) -> Undone:
        """Make a file hold what it held at a commit; see `undo.restore`."""
        from familiar_cli.memory.journal.undo import restore

        clean = paths.parse(rel_path)
        with self._history() as history:
            commit = history.find(at)
            return restore(self._store, self._repository, commit, clean, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> Compacted:
        """Pack the journal.

        Raises:
            LockedError: A writer held the lock for too long.
            FamiliarError: The disk refused; nothing is lost.
        """
        from familiar_cli.memory.journal.compact import Compacted, compact
        from familiar_cli.memory.store.lock import held

        if not self._repository.exists:
            return Compacted(0, 0, 0)
        with (
            held(self._store.lock_path, self._store.lock_timeout_s),
            self._history(look=False),
            translated(self._repository.path),
        ):
            return compact(self._repository, dry_run=dry_run)

    @contextmanager
    def _history(self, *, look: bool = True, rel_path: str = "") -> Iterator[History]:
        if look and self._repository.exists:
            self._catch_up(rel_path)
        try:
            yield History(self._repository)
        finally:
            self._repository.close()

    def _catch_up(self, rel_path: str) -> None:
        try:
            self._store.catch_up(look=not self._hasty or self._differs(rel_path))
        except LockedError as error:
            self._tell(f"{error} Changes made by hand since the last commit are not shown.")
        except FamiliarError as error:
            self._tell(f"Changes made by hand could not be committed: {error}")

    def _differs(self, rel_path: str) -> bool:
        """Tell whether a file is not as the journal has it."""
        if not rel_path or not self._store.exists(rel_path):
            return False
        known = self._repository.file_at(self._repository.head(), rel_path)
        return known != self._store.read_bytes(rel_path)

    def _unknown(self, rel_path: str) -> NotFoundError:
        if not rel_path or not self._repository.exists:
            return NotFoundError(
                "The journal is empty until the first change",
                hint="Make one: `familiar memory append notes.md TEXT`.",
            )
        return NotFoundError(
            f"The journal has nothing at {rel_path!r}",
            hint="List all changes: `familiar memory log`.",
        )


def _split(history: History, words: Sequence[str]) -> tuple[list[Commit], str]:
    """Return the commits and the path that `words` mean; only the last may be a path."""
    *first, last = words or ("",)
    named = [history.find(word) for word in first]
    if last and len(named) < _MOST_COMMITS:
        try:
            return [*named, history.find(last)], ""
        except NotFoundError:  # a file may be called `cafe`
            pass
        except UsageError:
            if is_id(last):
                raise
    if len(named) > _MOST_COMMITS:
        raise UsageError("Too many arguments: expected at most two commits and a path")
    return named, paths.parse(last)


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """One line, counted from 1, and the commit that wrote it as it is."""

    line: int
    commit: Commit
    text: str


def blame(repository: Repository, history: History, rel_path: str) -> list[BlamedLine]:
    """Return every line of the newest state of a file. Renames are followed.

    Raises:
        NotFoundError: The journal has no such file now.
        BadInputError: It is no text.
    """
    content = repository.file_at(history.head, rel_path)
    if content is None:
        raise NotFoundError(
            f"The journal has no current file {rel_path!r}",
            hint=f"Check its past: `familiar memory log {typed(rel_path)}`.",
        )
    if is_binary(content):
        raise BadInputError(f"{rel_path!r} is not text, so it has no lines")
    return list(_blamed(repository, history, rel_path))


def _blamed(repository: Repository, history: History, rel_path: str) -> Iterator[BlamedLine]:
    """Walk back through the versions, assigning each line to the oldest that has it.

    Where versions were merged, each line goes back to the first that has it.
    """
    newest = _lines(repository.file_at(history.head, rel_path) or b"")
    wrote: dict[int, Commit] = {}
    # For each version at hand: places of lines in it -> in the newest.
    waiting = [(str(history.head), rel_path, newest, {n: n for n in range(len(newest))})]
    while waiting:
        id_, at, lines, unclear = waiting.pop()
        commit = repository.commit(id_)
        is_changed, earlier = history.before(commit, at)
        for parent, path in earlier:
            content = repository.file_at(parent, path) if is_changed and unclear else b""
            if not unclear or content is None:
                continue
            older = _lines(content) if is_changed else lines
            kept = _same(lines, older) if is_changed else {n: n for n in unclear}
            passed = {kept[n]: place for n, place in unclear.items() if n in kept}
            unclear = {n: place for n, place in unclear.items() if n not in kept}
            if passed:
                waiting.append((parent, path, older, passed))
        wrote |= dict.fromkeys(unclear.values(), commit)
    for n, line in enumerate(newest):
        yield BlamedLine(n + 1, wrote[n], line.decode("utf-8", errors="replace"))


def _same(lines: list[bytes], older: list[bytes]) -> dict[int, int]:
    """Return the places of `lines` that `older` has, too, and where."""
    most = min(len(lines), len(older))
    head = next((n for n in range(most) if lines[n] != older[n]), most)
    tail = next((n for n in range(most - head) if lines[-1 - n] != older[-1 - n]), most - head)
    middle = lines[head : len(lines) - tail], older[head : len(older) - tail]
    same = {n: n for n in range(head)}
    if all(middle):
        for a, b, size in matching_blocks(*middle):
            same |= {head + a + n: head + b + n for n in range(size)}
    return same | {len(lines) - n: len(older) - n for n in range(1, tail + 1)}


def _lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]
