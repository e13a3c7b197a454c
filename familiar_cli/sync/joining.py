"""Merge what others sent with the memory here, and apply it as one transaction that can be undone.

The merge is worked out without the lock. Should a person or the program change the memory
meanwhile, it is worked out again; what a person changed is committed first, and so part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConflictError, FamiliarError, RefusedError
from familiar_cli.memory.journal.absent import listed
from familiar_cli.memory.layout import SYNC
from familiar_cli.memory.store.files import MAX_READ_BYTES
from familiar_cli.memory.store.transactions import Transaction
from familiar_cli.memory.store.types import MISSING, AbsentVersion, Joined
from familiar_cli.sync.ancestry import comes_before, newest
from familiar_cli.sync.devices import LargeDeletion, count_deleted, is_large
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.merge.conflicts import Conflict
    from familiar_cli.memory.merge.files import MergedTree, MergeNote
    from familiar_cli.memory.store.store import MemoryStore

MOST_BYTES: Final = MAX_READ_BYTES // 8
"""The largest file that is taken over; larger ones stay on the machine that has them."""

_TRIES: Final = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a merge did, or would do.

    Args:
        commits: The commits of others that are part of the memory now; none: nothing was new.
        written: The files that it wrote.
        deleted: The files that it deleted.
        conflicts: The files of which it kept two versions.
        notes: What else a person may want to know.
        refused: Why a file could not be taken over, by path.
        waiting: Commits that are not merged before a person accepts what they delete.
    """

    commits: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[MergeNote, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[LargeDeletion, ...] = ()


def join(
    store: MemoryStore,
    repository: Repository,
    heads: Mapping[str, str],
    *,
    began: str,
    accepted: frozenset[str] = frozenset(),
    dry_run: bool = False,
) -> Outcome:
    """Make what other instances did a part of the memory.

    The caller has caught up with what people changed; who changes something after that is noticed.

    Args:
        store: The memory.
        repository: Its journal.
        heads: The newest commit of each other instance.
        began: The instance that the familiar began on.
        accepted: Commits that may delete as much as they like.
        dry_run: Work everything out, change nothing.

    Raises:
        LockedError: Another writer held the memory for too long.
        FamiliarError: The journal is damaged, or the disk refused; nothing was changed.
    """
    error: FamiliarError | None = None
    for tried in range(_TRIES):
        if tried:
            store.catch_up()
        try:
            is_last = tried == _TRIES - 1
            how = _JoinOptions(accepted, dry_run=dry_run, is_last=is_last)
            return _join_once(store, repository, heads, began, how)
        except ConflictError as meanwhile:
            error = meanwhile
    assert error is not None
    raise error


@dataclass(frozen=True, slots=True)
class _JoinOptions:
    """See `join`; `is_last`: nothing is tried again after this."""

    accepted: frozenset[str]
    dry_run: bool
    is_last: bool


def _join_once(
    store: MemoryStore,
    repository: Repository,
    heads: Mapping[str, str],
    began: str,
    how: _JoinOptions,
) -> Outcome:
    own = repository.head()
    if own is None:
        return Outcome()
    past = JournalPast(repository, began)
    new = [h for h in dict.fromkeys(heads.values()) if not comes_before(past.parents, h, own)]
    if not new:
        return _put_late(store, repository, past, own, dry_run=how.dry_run)
    from familiar_cli.sync.merge import merge_heads  # most syncs merge nothing

    merged = merge_heads([own, *new], past)
    here = past.tree(own)
    unmerged = {name: head for name, head in heads.items() if head in new}
    waiting = _large_deletions(past, own, unmerged, merged, how.accepted)
    if waiting:
        new = [head for head in new if head not in {one.commit for one in waiting}]
        if not new:
            return Outcome(waiting=waiting)
        merged = merge_heads([own, *new], past)
    taking = _Taking(store, past, merged.blobs, here, listed(repository))
    taking.sort_out(merged.changes_from(here), is_settled=how.is_last)
    commits = tuple(newest(past.parents, new))
    is_forward = taking.can_forward and _continues(past, own, commits, merged)
    if not is_forward and not taking.changes_tree:
        return Outcome(refused=taking.refused, waiting=waiting)
    joined = Joined(
        own, commits, taking.absent, tuple(taking.gone), taking.new_blobs(), is_forward=is_forward
    )
    message = _message(past, commits)
    with store.transaction(SYNC, message, dry_run=how.dry_run, joined=joined) as tx:
        taking.stage(tx)
    done = tx.result
    return Outcome(
        commits,
        done.written,
        done.deleted,
        merged.conflicts,
        merged.notes,
        taking.refused,
        waiting,
    )


def _large_deletions(
    past: JournalPast,
    own: str,
    heads: Mapping[str, str],
    merged: MergedTree,
    accepted: frozenset[str],
) -> tuple[LargeDeletion, ...]:
    """Return which heads wait: those that delete too much, or all when only together they do.

    Args:
        past: The journal.
        own: The newest commit here.
        heads: The newest commits of instances and branches that are not merged yet.
        merged: All of them together.
        accepted: Commits that may delete as much as they like.
    """
    from familiar_cli.sync.merge import merge_heads

    here = past.tree(own)
    if accepted.issuperset(heads.values()) or not _deletes_much(merged, here):
        return ()
    names = sorted(heads, key=lambda name: (not name.startswith("refs/"), name))
    found, alone = [], []
    for head, instance in {heads[name]: name for name in names}.items():
        if head not in accepted:
            made = merge_heads([own, head], past)
            deleted = count_deleted(made.changes_from(here), here)
            found.append(LargeDeletion(head, instance, deleted, len(here)))
            alone += [found[-1]] if _deletes_much(made, here) else []
    return tuple(alone or found)


def _deletes_much(merged: MergedTree, here: Mapping[str, str]) -> bool:
    return is_large(count_deleted(merged.changes_from(here), here), len(here))


def _continues(past: JournalPast, own: str, commits: Sequence[str], merged: MergedTree) -> bool:
    """Tell whether there is one new commit, it follows `own`, and it holds nothing but memory."""
    if len(commits) > 1 or not comes_before(past.parents, own, commits[0]):
        return False
    return past.tree(commits[0]) == merged.files and past.holds_only_files(commits[0])


def _put_late(
    store: MemoryStore, repository: Repository, past: JournalPast, own: str, *, dry_run: bool
) -> Outcome:
    """Write those files that could not be here before, and can now."""
    known = listed(repository)
    if not known:
        return Outcome()
    taking = _Taking(store, past, {}, past.tree(own), known)
    taking.sort_out({})
    if not taking.steps:
        return Outcome()
    message = "write what could not be here before"
    with store.transaction(SYNC, message, dry_run=dry_run) as tx:
        taking.stage(tx)
    return Outcome(written=tx.result.written)


class _Taking:
    """Which changes of a merge can be made here.

    Attributes:
        steps: What can be made on disk.
        absent: New versions that cannot be here.
        gone: Files that were not here, and are deleted.
        refused: Why a file could not be taken over, by path.
    """

    def __init__(
        self,
        store: MemoryStore,
        past: JournalPast,
        blobs: Mapping[str, bytes],
        here: Mapping[str, str],
        known: Mapping[str, AbsentVersion],
    ) -> None:
        self._store = store
        self._past = past
        self._blobs = blobs
        self._here = here
        self._known = {path: one for path, one in known.items() if here.get(path) == one.id}
        self._changes: Mapping[str, str | None] = {}
        self.steps: list[tuple[str, bytes | None, str]] = []
        self.absent: dict[str, AbsentVersion] = {}
        self.gone: list[str] = []
        self.refused: dict[str, str] = {}

    @property
    def can_forward(self) -> bool:
        """Whether every deletion can be made."""
        return all(
            self._changes[path] is not None for path in self.refused if path in self._changes
        )

    @property
    def changes_tree(self) -> bool:
        """Whether the journal will hold anything else than now."""
        return bool(self.absent or self.gone) or any(
            path in self._changes for path, *_ in self.steps
        )

    def new_blobs(self) -> dict[str, bytes]:
        """Return the contents that the merge made and that cannot be here, by id."""
        ids = {one.id for one in self.absent.values()}
        return {id_: content for id_, content in self._blobs.items() if id_ in ids}

    def sort_out(self, changes: Mapping[str, str | None], *, is_settled: bool = False) -> None:
        """Tell what can be made from what cannot; one file that is refused stops no other.

        Files that could not be here before are tried again.
        """
        self._changes = changes
        self.refused.update(self._past.refused)
        late = {path: one.id for path, one in self._known.items() if path not in changes}
        trial, steps = Transaction(SYNC, ""), []
        every = {**changes, **late}
        for path, id_ in sorted(every.items(), key=lambda change: change[1] is not None):
            if id_ is None and path in self._known and not self._known[path].here:
                self.gone.append(path)
                continue
            try:
                content = None if id_ is None else self._content(path, id_)
                steps.append((path, content, self._expected(path)))
                self._stage_one(trial, *steps[-1])
            except RefusedError as error:
                self.refused[path] = str(error)
        problems = self._store.refused(trial, is_settled=is_settled)
        self.refused.update((path, str(error)) for path, error in problems.items())
        self.steps = [step for step in steps if step[0] not in self.refused]
        self.absent = {
            path: AbsentVersion(id_, self._id_here(path), self.refused[path])
            for path in sorted(self.refused.keys() & changes.keys())
            if (id_ := changes[path])
        }
        for path in late.keys() & self.refused.keys():
            del self.refused[path]

    def stage(self, tx: Transaction) -> None:
        """Stage what can be made."""
        for path, content, expect in self.steps:
            self._stage_one(tx, path, content, expect)

    def _stage_one(self, tx: Transaction, path: str, content: bytes | None, expect: str) -> None:
        if content is None:
            tx.delete(path, expect=expect)
        else:
            tx.write(path, content, expect=expect, any_size=True)

    def _id_here(self, path: str) -> str:
        """Return the id of what a file holds on disk; empty: there is none."""
        return self._known[path].here if path in self._known else self._here.get(path, "")

    def _expected(self, path: str) -> str:
        known = self._id_here(path)
        return sha256_of(self._past.read(known)) if known else MISSING

    def _content(self, path: str, id_: str) -> bytes:
        content = self._blobs.get(id_)
        content = self._past.read(id_) if content is None else content
        most = max(self._store.limits.max_file_bytes, MOST_BYTES)
        if len(content) > most:
            raise RefusedError(f"{path!r} has {len(content):,} bytes, over the limit of {most:,}")
        return content


def _message(past: JournalPast, commits: Sequence[str]) -> str:
    names = sorted({past.instance(commit) for commit in commits})
    return f"merge {', '.join(names)}"
