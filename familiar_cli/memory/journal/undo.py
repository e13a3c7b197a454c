"""Take one change back by a new one, or bring a file back as it once was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.errors import ConflictError, NotFoundError
from familiar_cli.memory.journal import trees
from familiar_cli.memory.journal.commits import HUMAN, UNDOES
from familiar_cli.memory.journal.diff import is_binary
from familiar_cli.memory.journal.history import SHORT
from familiar_cli.memory.journal.merge import merge
from familiar_cli.memory.store.types import MISSING, Change
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.history import History
    from familiar_cli.memory.journal.merge import Clash
    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import Applied

_MOST_CLASHES = 5
_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class Undone:
    """What taking a change back did, or would do.

    Args:
        commit: The change.
        changes: What each file held before, and after.
        result: What the store did.
    """

    commit: Commit
    changes: tuple[Change, ...]
    result: Applied


def undo(
    store: MemoryStore,
    repository: Repository,
    history: History,
    word: str | None = None,
    *,
    dry_run: bool = False,
) -> Undone:
    """Take back one change by a new one; what was changed later elsewhere stays.

    Args:
        store: The memory.
        repository: Its journal.
        history: Its commits.
        word: Which commit; else the newest that is neither an undo nor undone already.
        dry_run: Check everything, change nothing.

    Raises:
        ConflictError: Later changes touch the same lines; nothing was changed.
        NotFoundError: There is no such commit, or nothing to take back.
    """
    commit = history.find(word) if word else newest_to_undo(history)
    changes = tuple(reversal(store, repository, commit))
    result = _carry_out(
        store,
        changes,
        f"undo {commit.id[:SHORT]}: {commit.message}",
        {UNDOES: commit.id},
        dry_run=dry_run,
    )
    return Undone(commit, changes, result)


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
            hint=f"See when there was: `familiar memory log {rel_path}`.",
        )
    change = Change(rel_path, _now(store, rel_path), then)
    message = f"restore {rel_path} as of {commit.id[:SHORT]}"
    return Undone(commit, (change,), _carry_out(store, [change], message, {}, dry_run=dry_run))


def newest_to_undo(history: History) -> Commit:
    """Return the newest commit that is in effect: neither an undo nor taken back by one.

    The first commit, with which everything began, is taken back only when it is named.
    """
    undone: set[str] = set()
    for commit in history.commits():
        if commit.parent is None:
            break
        if commit.undoes:
            if commit.id not in undone:
                undone.add(commit.undoes)
        elif commit.id not in undone:
            return commit
    raise NotFoundError(
        "There is nothing left to undo", hint="Look at what there was: `familiar memory log`."
    )


def reversal(store: MemoryStore, repository: Repository, commit: Commit) -> Iterable[Change]:
    """Return the changes that take `commit` back.

    Raises:
        ConflictError: Later changes touch the same lines.
    """
    old = repository.tree_of(commit.parent)
    changes, clashes = [], []
    for rel_path, was, became in sorted(trees.changed(repository.tree, old, commit.tree)):
        before, after = (repository.objects.read(i) if i else None for i in (was, became))
        now = _now(store, rel_path)
        merged, clash = _reversed(before, after, now)
        clashes += [_excerpt(rel_path, one, commit) for one in clash]
        if merged != now:
            changes.append(Change(rel_path, now, merged))
    if clashes:
        more = len(clashes) - _MOST_CLASHES
        tail = [f"and {more} more"] if more > 0 else []
        raise ConflictError(
            f"Later changes touch what {commit.id[:SHORT]} changed; nothing was undone\n"
            + "\n".join([*clashes[:_MOST_CLASHES], *tail]),
            hint="Edit the lines by hand, or take a whole file back:"
            f" `familiar memory restore PATH --at {(commit.parent or commit.id)[:SHORT]}`.",
        )
    return changes


def _reversed(
    before: bytes | None, after: bytes | None, now: bytes | None
) -> tuple[bytes | None, tuple[Clash, ...]]:
    """Return a file's content without the step from `before` to `after`, and what is in the way."""
    if now == after:
        return before, ()
    if now == before:
        return now, ()
    if now is None or any(is_binary(side or b"") for side in (before, after, now)):
        return now, (_whole(now, after, before),)
    merged = merge(after or b"", now, before or b"")
    gone = before is None and not merged.content
    return (None if gone else merged.content), merged.clashes


def _whole(now: bytes | None, after: bytes | None, before: bytes | None) -> Clash:
    from familiar_cli.memory.journal.merge import Clash

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
    changes: Iterable[Change],
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
