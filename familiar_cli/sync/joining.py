"""Merge what others sent with the memory here, and apply it as one transaction that can be undone.

The merge is worked out without the lock. Should a person or the program change the memory
meanwhile, it is worked out again; what a person changed is committed first, and so part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConflictError, FamiliarError, RefusedError
from familiar_cli.memory.sources import SYNC
from familiar_cli.memory.store.files import MAX_READ_BYTES
from familiar_cli.memory.store.transactions import Transaction
from familiar_cli.memory.store.types import MISSING, Joined
from familiar_cli.sync.ancestry import comes_before
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from familiar_cli.memory.desk.conflicts import Conflict
    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.merge.files import MergedTree, Note
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import Applied

SOURCE: Final = SYNC
"""Who changed the memory, as the journal names a merge."""

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
    """

    commits: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[Note, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def join(
    store: MemoryStore,
    repository: Repository,
    heads: Mapping[str, str],
    *,
    began: str,
    dry_run: bool = False,
) -> Outcome:
    """Make what other instances did a part of the memory.

    The caller has caught up with what people changed; who changes something after that is noticed.

    Args:
        store: The memory.
        repository: Its journal.
        heads: The newest commit of each other instance.
        began: The instance that the familiar began on.
        dry_run: Work everything out, change nothing.

    Raises:
        LockedError: Another writer held the memory for too long.
        FamiliarError: The journal is damaged, or the disk refused; nothing was changed.
    """
    error: FamiliarError | None = None
    own = repository.head()
    past = JournalPast(repository, began)
    if own is None or all(comes_before(past.parents, h, own) for h in set(heads.values())):
        return Outcome()
    for tried in range(_TRIES):
        if tried:
            store.catch_up()
        try:
            return _join_once(store, repository, heads, began=began, dry_run=dry_run)
        except ConflictError as meanwhile:
            error = meanwhile
    assert error is not None
    raise error


def _join_once(
    store: MemoryStore,
    repository: Repository,
    heads: Mapping[str, str],
    *,
    began: str,
    dry_run: bool,
) -> Outcome:
    own = repository.head()
    if own is None:
        return Outcome()
    past = JournalPast(repository, began)
    new = [h for h in dict.fromkeys(heads.values()) if not comes_before(past.parents, h, own)]
    if not new:
        return Outcome()
    from familiar_cli.sync.merge import merge_heads  # most syncs merge nothing

    merged = merge_heads([own, *new], past)
    here = past.tree(own)
    changes = merged.changes_from(here)
    if not changes:
        return Outcome()
    taking = _Taking(store, past, merged, here)
    taking.sort_out(changes)
    joined = Joined(own, tuple(_newest(past, new)), taking.absent)
    if not taking.steps and not _adds(repository, own, taking.absent):
        return Outcome(refused=taking.refused)
    message = _message(past, joined.commits)
    with store.transaction(SOURCE, message, dry_run=dry_run, joined=joined) as tx:
        taking.stage(tx)
    return _outcome(tx.result, joined, merged, taking)


def _outcome(done: Applied, joined: Joined, merged: MergedTree, taking: _Taking) -> Outcome:
    return Outcome(
        joined.commits,
        done.written,
        done.deleted,
        merged.conflicts,
        merged.notes,
        taking.refused,
    )


class _Taking:
    """Which changes of a merge can be made here."""

    def __init__(
        self,
        store: MemoryStore,
        past: JournalPast,
        merged: MergedTree,
        here: Mapping[str, str],
    ) -> None:
        self._store = store
        self._past = past
        self._merged = merged
        self._here = here
        self.steps: list[tuple[str, bytes | None, str]] = []
        self.absent: dict[str, str] = {}
        self.refused: dict[str, str] = {}

    def sort_out(self, changes: Mapping[str, str | None]) -> None:
        """Tell what can be made from what cannot; one file that is refused stops no other."""
        self.refused.update(self._past.refused)
        trial = Transaction(SOURCE, "")
        steps = []
        for path, id_ in sorted(changes.items(), key=lambda change: change[1] is not None):
            try:
                content = None if id_ is None else self._content(path, id_)
                steps.append((path, content, self._expected(path)))
                self._stage_one(trial, *steps[-1])
            except RefusedError as error:
                self.refused[path] = str(error)
        self.refused.update((p, str(e)) for p, e in self._store.refused(trial).items())
        self.steps = [step for step in steps if step[0] not in self.refused]
        gone = self.refused.keys() & changes.keys() - self._here.keys()
        self.absent = {path: id_ for path in sorted(gone) if (id_ := changes[path])}

    def stage(self, tx: Transaction) -> None:
        """Stage what can be made."""
        for path, content, expect in self.steps:
            self._stage_one(tx, path, content, expect)

    def _stage_one(self, tx: Transaction, path: str, content: bytes | None, expect: str) -> None:
        if content is None:
            tx.delete(path, expect=expect)
        else:
            tx.write(path, content, expect=expect, any_size=True)

    def _expected(self, path: str) -> str:
        known = self._here.get(path)
        return MISSING if known is None else sha256_of(self._past.read(known))

    def _content(self, path: str, id_: str) -> bytes:
        content = self._merged.blobs.get(id_)
        content = self._past.read(id_) if content is None else content
        most = max(self._store.limits.max_file_bytes, MOST_BYTES)
        if len(content) > most:
            raise RefusedError(f"{path!r} has {len(content):,} bytes, over the limit of {most:,}")
        return content


def _adds(repository: Repository, own: str, absent: Mapping[str, str]) -> bool:
    from familiar_cli.memory.journal import trees

    tree = repository.tree_of(own)
    return any(trees.file_id(repository.tree, tree, path) != id_ for path, id_ in absent.items())


def _newest(past: JournalPast, commits: Sequence[str]) -> list[str]:
    from familiar_cli.sync.ancestry import newest

    return newest(past.parents, commits)


def _message(past: JournalPast, commits: Sequence[str]) -> str:
    names = sorted({past.instance(commit) for commit in commits})
    return f"merge {', '.join(names)}"
