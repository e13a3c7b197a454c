"""Query the past of a memory, and revert changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from familiar_cli.base import errors
from familiar_cli.base.text import matching_blocks, sha256_of, shorten_list, typed
from familiar_cli.store.journal.edits import list_absent
from familiar_cli.store.journal.exchange import CompactionResult, compact_journal
from familiar_cli.store.journal.history import (
    SHORT,
    FileDiff,
    History,
    LoggedChange,
    diff_trees,
    file_diff,
    is_binary,
    is_id_prefix,
)
from familiar_cli.store.journal.repository import (
    HUMAN,
    UNDOES,
    Commit,
    Repository,
    changed_files,
    translate_errors,
)
from familiar_cli.store.memory.layout import DERIVED, PENDING_DIR, REJECTED_DIR, SYNC
from familiar_cli.store.memory.merge.blocks import Clash, lines_and_end, merge_lines
from familiar_cli.store.memory.merge.content import merge_onto
from familiar_cli.store.memory.store.files import (
    MISSING,
    StoredChange,
    WriteResult,
    is_private,
    parse_path,
)
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock

if TYPE_CHECKING:
    from familiar_cli.store.journal.git import GitJournal

_MOST_COMMITS = 2
_MOST_VERSIONS = 100
_MOST_CLASHES = 5
_MOST_LINES = 20
_MOST_FILES = 5
_MOST_KEPT = 400
_MOST_CHARS_KEPT = 20_000
# Differences by commit, path and number of files; a commit never changes.
_DIFFERENCES: dict[tuple[str, str, int | None], tuple[FileDiff, ...]] = {}


class Difference(Struct, frozen=True):
    """The difference between two states of the memory.

    Args:
        old: Left commit; None for the empty memory before the first.
        new: Right commit.
        files: Diffs of the files that differ.
    """

    old: Commit | None
    new: Commit
    files: tuple[FileDiff, ...]


class BlamedLine(Struct, frozen=True):
    """A line, numbered from 1, and the commit that last changed it."""

    line: int
    commit: Commit
    text: str


class UndoResult(Struct, frozen=True):
    """What reverting changes did, or would do.

    Args:
        commits: The reverted changes, newest first.
        changes: Content of each file before and after.
        result: The store's result.
        is_from_elsewhere: Whether some of the changes came from other machines.
    """

    commits: tuple[Commit, ...]
    changes: tuple[StoredChange, ...]
    result: WriteResult
    is_from_elsewhere: bool = False

    @property
    def commit(self) -> Commit:
        """The newest of the reverted commits."""
        return self.commits[0]

    @property
    def files(self) -> tuple[FileDiff, ...]:
        """Diffs of the reverted files."""
        return tuple(file_diff(c.rel_path, c.before, c.after) for c in self.changes)


class MemoryPast:
    """The history of one memory.

    Changes made by hand are committed before any query, so that answers include them. If that
    fails, `tell` reports it and answers cover only what the journal has.

    Args:
        tell: Callback for user-facing messages.
        hasty: Scan all files only occasionally, and the requested file each time; for frequent
            callers.
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
            NotFoundError: The journal has no changes at `rel_path`.
        """
        clean = parse_path(rel_path)
        with self._history(rel_path=clean) as history:
            changes = list(history.log(clean, source=source, since=since, limit=limit))
            if not changes and clean and not any(history.log(clean, limit=1)):
                raise self._unknown(clean)
            return changes

    def show(self, word: str) -> tuple[LoggedChange, tuple[FileDiff, ...]]:
        """Return one change and its diffs.

        Raises:
            NotFoundError: No such commit.
        """
        with self._history() as history:
            commit = history.find(word)
            return LoggedChange(commit, history.touched(commit)), self.differences(commit)

    def differences(
        self, commit: Commit, rel_path: str = "", most: int | None = None
    ) -> tuple[FileDiff, ...]:
        """Return the diffs of a commit's first `most` files at or below a path."""
        key = (commit.id, rel_path, most)
        if key not in _DIFFERENCES:
            old = self._repository.tree_of(commit.parent)
            diffs = tuple(islice(diff_trees(self._repository, old, commit.tree, rel_path), most))
            if sum(len(file.diff) for file in diffs) > _MOST_CHARS_KEPT:
                return diffs
            if len(_DIFFERENCES) >= _MOST_KEPT:
                _DIFFERENCES.clear()
            _DIFFERENCES[key] = diffs
        return _DIFFERENCES[key]

    def came_from_elsewhere(self, commit: Commit) -> bool:
        """Tell whether a commit holds changes from other machines."""
        return bool(commit.merged) or commit.source == SYNC or commit.instance != self._instance()

    def diff(self, words: Sequence[str]) -> Difference:
        """Compare two commits.

        Args:
            words: At most two commits and a path, in this order. One commit is compared with the
                present state; with none, shows the newest change (to the path).

        Raises:
            NotFoundError: No such commit or path.
            UsageError: The words are not valid commits and path.
        """
        with self._history() as history:
            commits, rel_path = _parse_words(history, words)
            if commits:
                old: Commit | None = commits[0]
                new = commits[1] if len(commits) > 1 else history.find("HEAD")
            else:
                newest = next(iter(history.log(rel_path, limit=1)), None)
                if newest is None:
                    raise self._unknown(rel_path)
                new = newest.commit
                old = self._repository.commit(new.parent) if new.parent else None
            files = diff_trees(self._repository, old.tree if old else None, new.tree, rel_path)
            return Difference(old, new, tuple(files))

    def blame(self, rel_path: str) -> list[BlamedLine]:
        """Return the last change of each line of a file.

        Raises:
            NotFoundError: The file does not exist now.
            BadInputError: The file is binary.
        """
        clean = parse_path(rel_path)
        with self._history(rel_path=clean) as history:
            content = self._repository.file_at(history.head, clean)
            if content is None:
                raise errors.NotFoundError(
                    f"The journal has no current file {clean!r}",
                    hint=f"Check its history: `familiar memory log {typed(clean)}`.",
                )
            if is_binary(content):
                raise errors.BadInputError(f"{clean!r} is not text, so it has no lines")
            return list(_blame_lines(self._repository, history, clean, lines_and_end(content)[0]))

    def version(self, rel_path: str, sha256: str) -> bytes | None:
        """Return the version of a file with a given checksum, or None.

        Args:
            sha256: Hex digest of its bytes.
        """
        with self._history(rel_path=rel_path) as history:
            for change in history.log(rel_path, limit=_MOST_VERSIONS):
                content = self._repository.file_at(change.commit.id, change.rel_path)
                if content is not None and sha256_of(content) == sha256.lower():
                    return content
            return None

    def before_edits(self, rel_path: str, *, since: datetime) -> bytes | None:
        """Return a file as it was before recent edits by hand, or None.

        Args:
            since: Only edits at or after this time.
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
        source: str = HUMAN,
    ) -> UndoResult:
        """Revert changes with a new one, keeping later changes to other lines.

        Leaves derived files (`memory.layout.DERIVED`) and editors' own files alone.

        Args:
            word: Commit to revert; by default the newest in effect that the program made here.
            run: Revert all commits of this run instead.
            dry_run: Check everything without changing anything.
            merges: Also revert changes from other machines that `word` or `run` names.
            source: Who reverts them.

        Raises:
            ConflictError: Later changes touch the same lines; nothing was changed.
            NotFoundError: No such commit or run, or nothing to revert.
            RefusedError: It merges changes from other machines, and `merges` is not set.
        """
        with self._history() as history:
            if word or run:
                commits = _of_run(history, run) if run else (history.find(word or ""),)
                undone = _undone_ids(history.all_commits())
                changes = self._reversal([c for c in commits if c.id not in undone])
                if changes and not (merges or dry_run):
                    self._check_made_here(commits, changes)
            else:
                commits, changes = self._newest_reversal(history)
            what = f"run {run}" if run else f"{commits[0].id[:SHORT]}: {commits[0].message}"
            trailers = {UNDOES: " ".join(commit.id for commit in commits)}
            result = self._carry_out(
                changes, f"undo {what}", trailers, dry_run=dry_run, source=source
            )
            is_from_elsewhere = any(map(self.came_from_elsewhere, commits))
            return UndoResult(commits, tuple(changes), result, is_from_elsewhere)

    def restore(self, rel_path: str, at: str, *, dry_run: bool = False) -> UndoResult:
        """Restore a file to its content at a commit.

        Raises:
            NotFoundError: The file did not exist then.
        """
        clean = parse_path(rel_path)
        with self._history() as history:
            commit = history.find(at)
            then = self._repository.file_at(commit.id, clean)
            if then is None:
                raise errors.NotFoundError(
                    f"There was no file {clean!r} at {commit.id[:SHORT]}; nothing was changed",
                    hint=f"Check its history: `familiar memory log {typed(clean)}`.",
                )
            change = StoredChange(clean, self._content_now(clean), then)
            message = f"restore {clean} as of {commit.id[:SHORT]}"
            result = self._carry_out([change], message, {}, dry_run=dry_run)
            return UndoResult((commit,), (change,), result)

    def _check_made_here(self, commits: Iterable[Commit], changes: Sequence[StoredChange]) -> None:
        """Refuse to undo other machines' changes without confirmation."""
        for commit in filter(self.came_from_elsewhere, commits):
            id_ = commit.id[:SHORT]
            files = shorten_list((change.rel_path for change in changes), _MOST_FILES)
            raise errors.RefusedError(
                f"{id_} contains changes from other machines; undoing it would remove them from"
                f" {files}, and with the next sync from the other"
                " machines; nothing was changed",
                hint=f"Preview it: `familiar memory undo {id_} --dry-run`; then add --yes.",
            )

    def _newest_reversal(self, history: History) -> tuple[tuple[Commit, ...], list[StoredChange]]:
        """Return the newest change in effect that the program made here, and its reversal.

        Edits by hand, changes from other machines, plans for review and the initial commit are
        reverted only when named.
        """
        undone = _undone_ids(history.all_commits())
        for commit in history.all_commits():
            is_ours = not (commit.by_hand or commit.undoes or self.came_from_elsewhere(commit))
            if commit.parent is None or not is_ours or commit.id in undone:
                continue
            changes = self._reversal([commit])
            if any(not _is_plan(change.rel_path) for change in changes):
                return (commit,), [c for c in changes if c.after or not _is_plan(c.rel_path)]
        raise errors.NotFoundError(
            "The program has no changes left to undo",
            hint="To undo an edit made by hand, give its id: `familiar memory log`.",
        )

    def _reversal(self, commits: Sequence[Commit]) -> list[StoredChange]:
        """Return the changes that revert `commits`, given newest first.

        Raises:
            ConflictError: Later changes touch the same lines.
        """
        result: dict[str, bytes | None] = {}
        left: dict[str, bytes | None] = {}
        clashes: list[tuple[str, Clash, Commit]] = []
        absent = list_absent(self._repository)
        for commit in commits:
            old = self._repository.tree_of(commit.parent)
            for rel_path, was, became in sorted(
                changed_files(self._repository.tree, old, commit.tree)
            ):
                if rel_path in DERIVED or any(map(is_private, rel_path.split("/"))):
                    continue
                if rel_path in absent and absent[rel_path].id in {was, became}:
                    continue
                if rel_path not in result:
                    result[rel_path] = left[rel_path] = self._content_now(rel_path)
                before, after = (
                    self._repository.objects.read(i) if i else None for i in (was, became)
                )
                left[rel_path], clash = _reverse_change(rel_path, before, after, left[rel_path])
                clashes += [(rel_path, one, commit) for one in clash]
        if clashes:
            raise _undo_conflict(clashes, commits)
        return [
            StoredChange(rel_path, now, left[rel_path])
            for rel_path, now in sorted(result.items())
            if left[rel_path] != now
        ]

    def _content_now(self, rel_path: str) -> bytes | None:
        return self._store.read_bytes(rel_path) if self._store.exists(rel_path) else None

    def _carry_out(
        self,
        changes: Iterable[StoredChange],
        message: str,
        trailers: dict[str, str],
        *,
        dry_run: bool,
        source: str = HUMAN,
    ) -> WriteResult:
        with self._store.transaction(source, message, dry_run=dry_run, trailers=trailers) as tx:
            for change in sorted(changes, key=lambda c: c.after is not None):  # make room first
                expect = MISSING if change.before is None else sha256_of(change.before)
                if change.after is None:
                    tx.delete(change.rel_path, expect=expect)
                else:
                    tx.write(change.rel_path, change.after, expect=expect, any_size=True)
        return tx.result

    def compact(self, *, dry_run: bool = False) -> CompactionResult:
        """Pack the journal.

        Raises:
            LockedError: Another writer held the lock for too long.
            FamiliarError: The disk refused a write; nothing is lost.
        """
        if not self._repository.exists:
            return CompactionResult(0, 0, 0)
        with (
            hold_lock(self._store.lock_path, self._store.lock_timeout_s),
            self._history(look=False),
            translate_errors(self._repository.path),
        ):
            return compact_journal(self._repository, dry_run=dry_run)

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
        except errors.LockedError as error:
            self._tell(f"{error} Changes made by hand since the last commit are not shown.")
        except errors.FamiliarError as error:
            self._tell(f"Changes made by hand could not be committed: {error}")

    def _differs(self, rel_path: str) -> bool:
        """Tell whether a file differs from the journal."""
        if not rel_path or not self._store.exists(rel_path):
            return False
        file = self._repository.file_at(self._repository.head(), rel_path)
        return file != self._store.read_bytes(rel_path)

    def _unknown(self, rel_path: str) -> errors.NotFoundError:
        if not rel_path or not self._repository.exists:
            return errors.NotFoundError(
                "The journal is empty until the first change",
                hint="Make one: `familiar memory append notes.md TEXT`.",
            )
        return errors.NotFoundError(
            f"The journal has nothing at {rel_path!r}",
            hint="List all changes: `familiar memory log`.",
        )


def _parse_words(history: History, words: Sequence[str]) -> tuple[list[Commit], str]:
    """Resolve `words` to commits and a path; only the last may be a path."""
    *first, last = words or ("",)
    commits = [history.find(word) for word in first]
    if last and len(commits) < _MOST_COMMITS:
        try:
            return [*commits, history.find(last)], ""
        except errors.NotFoundError:  # a file may be named like an id: `cafe`
            pass
        except errors.UsageError:
            if is_id_prefix(last):
                raise
    if len(commits) > _MOST_COMMITS:
        raise errors.UsageError("Too many arguments: expected at most two commits and a path")
    return commits, parse_path(last)


def _blame_lines(
    repository: Repository, history: History, rel_path: str, newest: list[bytes]
) -> Iterator[BlamedLine]:
    """Walk back through the versions, attributing each line to the oldest that has it.

    Across merges, a line goes to the first parent that has it.
    """
    wrote: dict[int, Commit] = {}
    # per version to visit: line number there -> line number in the newest
    waiting = [(str(history.head), rel_path, newest, {n: n for n in range(len(newest))})]
    while waiting:
        id_, at, lines, unclear = waiting.pop()
        commit = repository.commit(id_)
        is_changed, earlier = history.before(commit, at)
        for parent, path in earlier:
            content = repository.file_at(parent, path) if is_changed and unclear else b""
            if not unclear or content is None:
                continue
            older = lines_and_end(content)[0] if is_changed else lines
            kept = _match_lines(lines, older) if is_changed else {n: n for n in unclear}
            passed = {kept[n]: place for n, place in unclear.items() if n in kept}
            unclear = {n: place for n, place in unclear.items() if n not in kept}
            if passed:
                waiting.append((parent, path, older, passed))
        wrote |= dict.fromkeys(unclear.values(), commit)
    for n, line in enumerate(newest):
        yield BlamedLine(n + 1, wrote[n], line.decode("utf-8", errors="replace"))


def _match_lines(lines: list[bytes], older: list[bytes]) -> dict[int, int]:
    """Map the lines also present in `older` to their line numbers there."""
    most = min(len(lines), len(older))
    head = next((n for n in range(most) if lines[n] != older[n]), most)
    tail = next((n for n in range(most - head) if lines[-1 - n] != older[-1 - n]), most - head)
    middle = lines[head : len(lines) - tail], older[head : len(older) - tail]
    same = {n: n for n in range(head)}
    if all(middle):
        for a, b, size in matching_blocks(*middle):
            same |= {head + a + n: head + b + n for n in range(size)}
    return same | {len(lines) - n: len(older) - n for n in range(1, tail + 1)}


def _is_plan(rel_path: str) -> bool:
    return rel_path.startswith((f"{PENDING_DIR}/", f"{REJECTED_DIR}/"))


def _of_run(history: History, run: str) -> tuple[Commit, ...]:
    """Return the commits of a run, newest first."""
    commits = tuple(c for c in history.all_commits() if c.run_id == run and not c.undoes)
    if not commits:
        raise errors.NotFoundError(
            f"No change belongs to the run {run!r}",
            hint="`familiar memory log --json` gives the id as `run_id`.",
        )
    return commits


def _undone_ids(commits: Iterable[Commit]) -> set[str]:
    """Return which commits, given newest first, are reverted by an undo still in effect."""
    undone: set[str] = set()
    for commit in commits:
        if commit.id not in undone:
            undone.update(commit.undoes)
    return undone


def _undo_conflict(
    clashes: Sequence[tuple[str, Clash, Commit]], commits: Sequence[Commit]
) -> errors.ConflictError:
    """Return the error that names every file whose later changes conflict."""
    newest, oldest = commits[0], commits[-1]
    what = f"the run {newest.run_id}" if len(commits) > 1 else newest.id[:SHORT]
    files = list(dict.fromkeys(rel_path for rel_path, _, _ in clashes))
    excerpts = [_clash_excerpt(*clash) for clash in clashes[:_MOST_CLASHES]]
    more = len(clashes) - len(excerpts)
    error = errors.ConflictError(
        f"Later changes of {', '.join(files)} touch what {what} changed; nothing was undone\n"
        + "\n".join([*excerpts, *([f"and {more} more"] if more > 0 else [])]),
        hint="Edit the lines by hand, or restore a whole file: "
        f"`familiar memory restore PATH --at {(oldest.parent or oldest.id)[:SHORT]}`.",
    )
    error.data = {
        "commits": [commit.id for commit in commits],
        "clashes": [{"rel_path": rel_path, "line": one.line} for rel_path, one, _ in clashes],
    }
    return error


def _reverse_change(
    rel_path: str, before: bytes | None, after: bytes | None, now: bytes | None
) -> tuple[bytes | None, tuple[Clash, ...]]:
    """Return a file's content without the change from `before` to `after`, and its conflicts."""
    if now == after:
        return before, ()
    if now == before:
        return now, ()
    if now is None or any(is_binary(side or b"") for side in (before, after, now)):
        return now, (_whole_clash(now, after, before),)
    sides = after or b"", now, before or b""
    content = None if after is None else merge_onto(rel_path, *sides)
    clashes: tuple[Clash, ...] = ()
    if content is None:  # lines carry a position or are unique
        content, clashes = merge_lines(*sides)
    return (None if before is None and not content else content), clashes


def _whole_clash(now: bytes | None, after: bytes | None, before: bytes | None) -> Clash:
    def lines(content: bytes | None) -> tuple[bytes, ...]:
        if content is None:
            return (b"(no file)",)
        if is_binary(content):
            return (f"(no text, {len(content):,} bytes)".encode(),)
        return tuple(content.splitlines())

    return Clash(1, lines(now), lines(after), lines(before))


def _clash_excerpt(rel_path: str, clash: Clash, commit: Commit) -> str:
    id_ = commit.id[:SHORT]
    return "\n".join(
        (
            f"{rel_path}:{clash.line}",
            "<<<<<<< now",
            *_shown_lines(clash.ours),
            f"||||||| after {id_}",
            *_shown_lines(clash.base),
            f"======= before {id_}",
            *_shown_lines(clash.theirs),
            ">>>>>>>",
        )
    )


def _shown_lines(lines: tuple[bytes, ...]) -> list[str]:
    more = len(lines) - _MOST_LINES
    shown = [line.decode("utf-8", errors="replace") for line in lines[:_MOST_LINES]]
    return [*shown, f"({more:,} more lines)"] if more > 0 else shown
