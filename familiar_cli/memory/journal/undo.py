"""Take changes back by a new one, or bring a file back as it once was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.errors import ConflictError, NotFoundError, RefusedError
from familiar_cli.memory.journal import trees
from familiar_cli.memory.journal.absent import listed
from familiar_cli.memory.journal.commits import HUMAN, UNDOES
from familiar_cli.memory.journal.diff import file_diff, is_binary
from familiar_cli.memory.journal.history import SHORT
from familiar_cli.memory.layout import DERIVED, SYNC
from familiar_cli.memory.merge.content import merge_onto
from familiar_cli.memory.merge.lines import Clash, merge_lines
from familiar_cli.memory.store.paths import is_private
from familiar_cli.memory.store.types import MISSING, StoredChange
from familiar_cli.text import sha256_of, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.diff import FileDiff
    from familiar_cli.memory.journal.history import History
    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import Applied

_MOST_CLASHES = 5
_MOST_LINES = 20
_MOST_FILES = 5


@dataclass(frozen=True, slots=True)
class Undone:
    """What taking changes back did, or would do.

    Args:
        commits: The changes, newest first.
        changes: What each file held before, and after.
        result: What the store did.
        is_from_elsewhere: Some of it came from other machines.
    """

    commits: tuple[Commit, ...]
    changes: tuple[StoredChange, ...]
    result: Applied
    is_from_elsewhere: bool = False

    @property
    def commit(self) -> Commit:
        """The newest of the changes."""
        return self.commits[0]

    @property
    def files(self) -> tuple[FileDiff, ...]:
        """How each file differs by it."""
        return tuple(file_diff(c.rel_path, c.before, c.after) for c in self.changes)


def undo(
    store: MemoryStore,
    repository: Repository,
    history: History,
    word: str | None = None,
    *,
    run: str | None = None,
    dry_run: bool = False,
    instance: str = "",
    merges: bool = False,
) -> Undone:
    """Take changes back by a new one; what was changed later elsewhere stays.

    What the program makes again by itself (`layout.DERIVED`), and what an editor keeps for itself,
    is left as it is.

    Args:
        store: The memory.
        repository: Its journal.
        history: Its commits.
        word: Which commit; else the newest in effect that the program made here.
        run: All commits of that run instead.
        dry_run: Check everything, change nothing.
        instance: The instance here, as commits name it.
        merges: Take back what came from other machines, too, where `word` or `run` names it.

    Raises:
        ConflictError: Later changes touch the same lines; nothing was changed.
        NotFoundError: There is no such commit or run, or nothing to take back.
        RefusedError: It merges what other machines wrote, and `merges` is not set.
    """
    if word or run:
        commits = _of_run(history, run) if run else (history.find(word or ""),)
        undone = _undone(history.all_commits())
        changes = reversal(store, repository, [c for c in commits if c.id not in undone])
        if changes and not (merges or dry_run):
            _check_made_here(commits, changes, instance)
    else:
        commits, changes = _newest(store, repository, history, instance)
    what = f"run {run}" if run else f"{commits[0].id[:SHORT]}: {commits[0].message}"
    trailers = {UNDOES: " ".join(commit.id for commit in commits)}
    result = _carry_out(store, changes, f"undo {what}", trailers, dry_run=dry_run)
    is_from_elsewhere = any(came_from_elsewhere(commit, instance) for commit in commits)
    return Undone(commits, tuple(changes), result, is_from_elsewhere)


def came_from_elsewhere(commit: Commit, instance: str) -> bool:
    """Tell whether a commit holds what other machines wrote; `instance` is the one here."""
    return bool(commit.merged) or commit.source == SYNC or commit.instance != instance


def restore(
    store: MemoryStore, repository: Repository, commit: Commit, rel_path: str, *, dry_run: bool
) -> Undone:
    """Make a file hold again what it held at `commit`.

    Raises:
        NotFoundError: It was not there.
    """
    then = repository.file_at(commit.id, rel_path)
    if then is None:
        raise NotFoundError(
            f"There was no file {rel_path!r} at {commit.id[:SHORT]}; nothing was changed",
            hint=f"Check its past: `familiar memory log {typed(rel_path)}`.",
        )
    change = StoredChange(rel_path, _now(store, rel_path), then)
    message = f"restore {rel_path} as of {commit.id[:SHORT]}"
    result = _carry_out(store, [change], message, {}, dry_run=dry_run)
    return Undone((commit,), (change,), result)


def _check_made_here(
    commits: Iterable[Commit], changes: Sequence[StoredChange], instance: str
) -> None:
    """Refuse to undo other machines' changes without confirmation."""
    for commit in commits:
        if came_from_elsewhere(commit, instance):
            id_ = commit.id[:SHORT]
            files = [change.rel_path for change in changes]
            more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
            raise RefusedError(
                f"{id_} holds what other machines wrote; undoing it would remove that from"
                f" {', '.join(files[:_MOST_FILES])}{more}, and with the next sync from the other"
                " machines; nothing was changed",
                hint=f"See it: `familiar memory undo {id_} --dry-run`. Do it: add --yes.",
            )


def _newest(
    store: MemoryStore, repository: Repository, history: History, instance: str
) -> tuple[tuple[Commit, ...], list[StoredChange]]:
    """Return the newest change in effect that the program made here, and its reversal.

    What people changed by hand, what came from other machines, and the first commit, with which
    everything began, are taken back only when they are named.
    """
    undone = _undone(history.all_commits())
    for commit in history.all_commits():
        is_ours = not (commit.by_hand or commit.undoes or came_from_elsewhere(commit, instance))
        if commit.parent is None or not is_ours or commit.id in undone:
            continue
        if changes := reversal(store, repository, [commit]):
            return (commit,), changes
    raise NotFoundError(
        "There is nothing left to undo that the program changed",
        hint="Take an edit by hand back by its id: `familiar memory log`.",
    )


def _of_run(history: History, run: str) -> tuple[Commit, ...]:
    """Return the commits of a run, newest first."""
    found = tuple(c for c in history.all_commits() if c.run_id == run and not c.undoes)
    if not found:
        raise NotFoundError(
            f"No change belongs to the run {run!r}",
            hint="Look its id up: `familiar memory log --json` gives it as `run_id`.",
        )
    return found


def _undone(commits: Iterable[Commit]) -> set[str]:
    """Return the ids of those commits, given newest first, that an undo in effect takes back."""
    undone: set[str] = set()
    for commit in commits:
        if commit.id not in undone:
            undone.update(commit.undoes)
    return undone


def reversal(
    store: MemoryStore, repository: Repository, commits: Sequence[Commit]
) -> list[StoredChange]:
    """Return the changes that take `commits`, given newest first, back.

    Raises:
        ConflictError: Later changes touch the same lines.
    """
    found: dict[str, bytes | None] = {}
    left: dict[str, bytes | None] = {}
    clashes: list[tuple[str, Clash, Commit]] = []
    absent = listed(repository)
    for commit in commits:
        old = repository.tree_of(commit.parent)
        for rel_path, was, became in sorted(trees.changed(repository.tree, old, commit.tree)):
            if rel_path in DERIVED or any(map(is_private, rel_path.split("/"))):
                continue
            if rel_path in absent and absent[rel_path].id in {was, became}:
                continue
            if rel_path not in found:
                found[rel_path] = left[rel_path] = _now(store, rel_path)
            before, after = (repository.objects.read(i) if i else None for i in (was, became))
            left[rel_path], clash = _reversed(rel_path, before, after, left[rel_path])
            clashes += [(rel_path, one, commit) for one in clash]
    if clashes:
        raise _conflict(clashes, commits)
    return [
        StoredChange(rel_path, now, left[rel_path])
        for rel_path, now in sorted(found.items())
        if left[rel_path] != now
    ]


def _conflict(
    clashes: Sequence[tuple[str, Clash, Commit]], commits: Sequence[Commit]
) -> ConflictError:
    """Return the error that names every file in which later changes are in the way."""
    newest, oldest = commits[0], commits[-1]
    what = f"the run {newest.run_id}" if len(commits) > 1 else newest.id[:SHORT]
    files = list(dict.fromkeys(rel_path for rel_path, _, _ in clashes))
    excerpts = [_excerpt(*clash) for clash in clashes[:_MOST_CLASHES]]
    more = len(clashes) - len(excerpts)
    error = ConflictError(
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


def _reversed(
    rel_path: str, before: bytes | None, after: bytes | None, now: bytes | None
) -> tuple[bytes | None, tuple[Clash, ...]]:
    """Return a file's content without the step from `before` to `after`, and what is in the way."""
    if now == after:
        return before, ()
    if now == before:
        return now, ()
    if now is None or any(is_binary(side or b"") for side in (before, after, now)):
        return now, (_whole(now, after, before),)
    sides = after or b"", now, before or b""
    content = None if after is None else merge_onto(rel_path, *sides)
    clashes: tuple[Clash, ...] = ()
    if content is None:  # lines say where, or can be told apart
        content, clashes = merge_lines(*sides)
    return (None if before is None and not content else content), clashes


def _whole(now: bytes | None, after: bytes | None, before: bytes | None) -> Clash:
    def lines(content: bytes | None) -> tuple[bytes, ...]:
        if content is None:
            return (b"(no file)",)
        if is_binary(content):
            return (f"(no text, {len(content):,} bytes)".encode(),)
        return tuple(content.splitlines())

    return Clash(1, lines(now), lines(after), lines(before))


def _excerpt(rel_path: str, clash: Clash, commit: Commit) -> str:
    id_ = commit.id[:SHORT]
    return "\n".join(
        (
            f"{rel_path}:{clash.line}",
            "<<<<<<< now",
            *_shown(clash.ours),
            f"||||||| after {id_}",
            *_shown(clash.base),
            f"======= before {id_}",
            *_shown(clash.theirs),
            ">>>>>>>",
        )
    )


def _shown(lines: tuple[bytes, ...]) -> list[str]:
    more = len(lines) - _MOST_LINES
    shown = [line.decode("utf-8", errors="replace") for line in lines[:_MOST_LINES]]
    return [*shown, f"({more:,} more lines)"] if more > 0 else shown


def _now(store: MemoryStore, rel_path: str) -> bytes | None:
    return store.read_bytes(rel_path) if store.exists(rel_path) else None


def _carry_out(
    store: MemoryStore,
    changes: Iterable[StoredChange],
    message: str,
    trailers: dict[str, str],
    *,
    dry_run: bool,
) -> Applied:
    with store.transaction(HUMAN, message, dry_run=dry_run, trailers=trailers) as tx:
        for change in sorted(changes, key=lambda c: c.after is not None):  # make room first
            expect = MISSING if change.before is None else sha256_of(change.before)
            if change.after is None:
                tx.delete(change.rel_path, expect=expect)
            else:
                tx.write(change.rel_path, change.after, expect=expect, any_size=True)
    return tx.result
