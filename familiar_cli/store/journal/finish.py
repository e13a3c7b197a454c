"""Complete a decided change after a crash, by three-way merge.

Base is the state before the change, ours is the disk, theirs is the change. If a file still has its
old text plus an edit, that text is merged with the change.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct, convert, to_builtins

from familiar_cli.base.errors import FamiliarError, NotFoundError, UnsafePathError
from familiar_cli.base.files import Disk, is_misspelled, maker_of, read_plain, remove_leftovers
from familiar_cli.store.journal import objects
from familiar_cli.store.journal.edits import list_absent
from familiar_cli.store.journal.repository import (
    Repository,
    changed_files,
    file_id,
    find_entry,
    tree_files,
    walk_ancestors,
)
from familiar_cli.store.memory.layout import CONFLICTS_DIR, is_in_conflicts, is_synced
from familiar_cli.store.memory.store import files
from familiar_cli.store.memory.store.store import PENDING_MARK
from familiar_cli.store.memory.store.transactions import WritePlan, apply_plan
from familiar_cli.store.memory.store.walk import scan_files

if TYPE_CHECKING:
    from familiar_cli.store.memory.merge.files import MergedTree

FORMER_BRANCH = "familiar-former"


class PendingChange(Struct, frozen=True):
    """A change that is decided but not applied.

    Args:
        base: The preceding commit; None for the first.
        commit: The commit to apply.
        is_forward: Whether the commit came from elsewhere, perhaps with others between it and
            `base`.
    """

    base: str | None
    commit: str
    is_forward: bool = False


def read_mark(directory: str) -> PendingChange | None:
    """Return the marker, or None when every commit is on disk."""
    try:
        value = json.loads(read_plain(os.path.join(directory, PENDING_MARK)))
        mark = convert(value, PendingChange)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise objects.journal_unreadable(repr(PENDING_MARK), error) from error
    except (ValueError, RecursionError) as error:
        raise invalid_mark("makes no sense") from error
    if not objects.is_id(mark.commit) or not (mark.base is None or objects.is_id(mark.base)):
        raise invalid_mark("names no commits")
    return mark


def invalid_mark(why: str) -> FamiliarError:
    """Return the error for a marker that this program cannot have written."""
    error = objects.journal_damaged(f"{PENDING_MARK!r} {why}")
    error.hint = (
        f"Delete {PENDING_MARK!r} in journal.git: the memory stays as it is, and what differs from"
        " the journal is then committed as edited by hand."
    )
    return error


def write_mark(directory: str, mark: PendingChange, disk: Disk) -> None:
    """Mark a change as decided, durably. May raise OSError."""
    disk.put(os.path.join(directory, PENDING_MARK), (json.dumps(to_builtins(mark)) + "\n").encode())


def clear_mark(directory: str, disk: Disk) -> None:
    """Remove the marker. If a power failure restores it, finishing again changes nothing."""
    with suppress(FileNotFoundError):
        disk.unlink(os.path.join(directory, PENDING_MARK))


def mark_signature(directory: str) -> object:
    """Return a value unique to each marker, or None without one; costs one stat."""
    try:
        status = os.lstat(os.path.join(directory, PENDING_MARK))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class _Other:
    """Placeholder for anything that is not a regular file."""


OTHER: Final = _Other()


def finish_change(
    repository: Repository, memory: files.Tree, mark: PendingChange, tell: Callable[[str], None]
) -> bool:
    """Apply the change that `mark` names, and remove the marker.

    Returns:
        Whether a person had edited one of the files meanwhile; the edits are merged.

    Raises:
        ConflictError: A file was being edited at this moment; the marker stays.
        FamiliarError: The journal is damaged, or a write failed.
    """
    check_mark(repository, mark)
    head = repository.head()
    if head not in {mark.base, mark.commit}:
        _set_aside(repository, mark, tell)
        return True

    recovery = _Recovery(repository, memory, mark)
    recovery.run()
    if head != mark.commit:
        repository.set_head(mark.commit)
    changed = [change.rel_path for change in recovery.changes]
    plan = WritePlan(
        changes=tuple(recovery.changes),
        result=files.WriteResult(),
        seen=recovery.seen,
        leftovers=tuple(_find_leftovers(memory.real, [*recovery.rel_paths, *changed])),
    )
    apply_plan(memory.real, plan, repository.disk)
    remove_leftovers(plan.leftovers)
    with suppress(OSError):  # a leftover marker is harmless
        clear_mark(repository.path, repository.disk)
    repository.disk.sync_dir(repository.path)
    for notice in recovery.notices:
        tell(notice)
    return recovery.is_edited


class _Recovery:
    """The remaining steps of an interrupted change.

    Attributes:
        rel_paths: Files touched by the change.
        changes: Changes to make on disk.
        seen: Signature of each file in `changes`, taken before it was read.
        notices: User-facing messages.
        is_edited: Whether a person edited one of the files.
    """

    def __init__(self, repository: Repository, memory: files.Tree, mark: PendingChange) -> None:
        self._repository = repository
        self._memory = memory
        self._root = memory.real
        self._mark = mark
        self._old, self._new = (repository.tree_of(c) for c in (mark.base, mark.commit))
        self._absent = list_absent(repository)
        self._contents: dict[str, bytes] = {}
        self.rel_paths: list[str] = []
        self.changes: list[files.StoredChange] = []
        self.seen: dict[str, files.Signature | None] = {}
        self.notices: list[str] = []
        self.is_edited = False

    def run(self) -> None:
        """Plan the remaining steps, merging a person's edits."""
        edited: dict[str, bytes | None] = {}
        for rel_path, was, becomes in changed_files(self._repository.tree, self._old, self._new):
            self.rel_paths.append(rel_path)
            now = self._on_disk(rel_path)
            before, after = (self._read(id_) if id_ else None for id_ in (was, becomes))
            if now == after or self._stands_for(rel_path, becomes, now):
                continue
            if not is_synced(rel_path) and self._mark.is_forward:
                continue  # another machine's machine-local file
            _check_name(rel_path, is_new=before is None)
            if isinstance(now, _Other):
                self._leave(rel_path)
            elif now == before or self._stands_for(rel_path, was, now) or not is_synced(rel_path):
                self.changes.append(files.StoredChange(rel_path, now, after))
            else:
                edited[rel_path] = now
        self.is_edited = self.is_edited or bool(edited)
        if edited:
            self._merge(edited)

    def _stands_for(self, rel_path: str, id_: str | None, now: bytes | _Other | None) -> bool:
        """Tell whether a file is this machine's substitute for a version in the journal."""
        one = self._absent.get(rel_path)
        if one is None or isinstance(now, _Other):
            return False
        return one.stands_for(id_, None if now is None else objects.object_id("blob", now))

    def _merge(self, edited: Mapping[str, bytes | None]) -> None:
        from familiar_cli.store.memory.merge.files import HUMAN, Editor, Side, merge_trees

        asides = self._asides() - edited.keys()
        find = self._repository.tree
        base, theirs = (
            {p: i for p in asides | edited.keys() if (i := file_id(find, tree, p))}
            for tree in (self._old, self._new)
        )
        ours = {p: i for p in asides if (i := self._id_after(p, theirs))}
        ours |= {p: self._keep(now) for p, now in edited.items() if now is not None}
        merged = merge_trees(
            base,
            Side(ours, "your edit", lambda _: (Editor("your edit", HUMAN),)),
            Side(theirs, self._mark.commit[:10]),
            self._read,
        )
        for rel_path, id_ in sorted(merged.changes_from(ours).items()):
            now = edited[rel_path] if rel_path in edited else self._on_disk(rel_path)
            if isinstance(now, _Other):
                raise FamiliarError(
                    f"A change was interrupted and cannot be completed: {rel_path!r} is in the way",
                    hint=f"Move {rel_path!r} away, then run `familiar doctor`.",
                )
            self._contents |= merged.blobs
            content = None if id_ is None else self._read(id_)
            self.changes = [c for c in self.changes if c.rel_path != rel_path]
            self.changes.append(files.StoredChange(rel_path, now, content))
        self.notices += [
            _recovery_notice(rel_path, now, merged) for rel_path, now in edited.items()
        ]

    def _asides(self) -> set[str]:
        """Return the paths of conflict copies and their list."""
        items = {
            f"{CONFLICTS_DIR}/{path}"
            for tree in (self._old, self._new)
            if (entry := find_entry(self._repository.tree, tree, CONFLICTS_DIR)) and entry.is_dir
            for path, _ in tree_files(self._repository.tree, entry.id)
        }
        with suppress(NotFoundError):
            items.update(
                path for path, _ in scan_files(self._memory, CONFLICTS_DIR, hidden=True)[0]
            )
        return {path for path in items if is_in_conflicts(path)}

    def _id_after(self, rel_path: str, theirs: Mapping[str, str]) -> str | None:
        """Return a file's id once the unmerged changes are applied."""
        if rel_path in self.rel_paths:
            return theirs.get(rel_path)
        now = self._on_disk(rel_path)
        return self._keep(now) if isinstance(now, bytes) else None

    def _keep(self, content: bytes) -> str:
        id_ = objects.object_id("blob", content)
        self._contents[id_] = content
        return id_

    def _read(self, id_: str) -> bytes:
        known = self._contents.get(id_)
        return self._repository.objects.read(id_) if known is None else known

    def _on_disk(self, rel_path: str) -> bytes | _Other | None:
        self.seen[rel_path] = files.file_signature(os.path.join(self._root, *rel_path.split("/")))
        return content_on_disk(self._root, rel_path)

    def _leave(self, rel_path: str) -> None:
        self.is_edited = True
        self.notices.append(
            f"{rel_path!r} was edited after a change to it was interrupted, so it was not changed;"
            f" see what would have been written: `familiar memory show {self._mark.commit[:10]}`"
        )


def _recovery_notice(rel_path: str, now: bytes | None, merged: MergedTree) -> str:
    what = f"{rel_path!r} was {'deleted' if now is None else 'edited'} after a change to it"
    copy = next((one.copy for one in merged.conflicts if one.path == rel_path), "")
    if copy:
        return (
            f"{what} was interrupted, in the same place; your version stays, the other one is"
            f" {copy!r}: `familiar sync resolve`"
        )
    if now is None:
        return f"{what} was interrupted; the changed version was kept"
    return f"{what} was interrupted; both are in it"


def check_mark(repository: Repository, mark: PendingChange) -> None:
    """Raise `FamiliarError` if this program cannot have written `mark`."""
    if mark.is_forward:
        every = walk_ancestors([mark.commit], lambda id_: repository.commit(id_).parents)
        is_change = mark.base is not None and mark.base in every
    else:
        is_change = repository.commit(mark.commit).parent == mark.base
    if not is_change:
        raise invalid_mark(f"names no change of commit {mark.base}")


def content_on_disk(root: str, rel_path: str) -> bytes | _Other | None:
    """Return a file's content, None if it does not exist, `OTHER` if it is not a regular file.

    Raises:
        FamiliarError: It cannot be read.
    """
    path = root
    parts = rel_path.split("/")
    try:
        for depth, part in enumerate(parts, 1):
            path = os.path.join(path, part)
            mode = os.lstat(path).st_mode
            if is_misspelled(path):
                return None
            if not (stat.S_ISREG(mode) if depth == len(parts) else stat.S_ISDIR(mode)):
                return OTHER
        return read_plain(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FamiliarError(
            f"A change of {rel_path!r} was interrupted and cannot be completed: "
            f"{error.strerror or error}",
            hint="Check its permissions, then run `familiar doctor`.",
        ) from error


def _check_name(rel_path: str, *, is_new: bool) -> None:
    """Refuse a name that no change of the memory can contain: the marker is forged."""
    try:
        allowed = files.parse_new_path(rel_path) if is_new else files.parse_old_path(rel_path)
    except UnsafePathError as error:
        raise invalid_mark(f"names a change of {rel_path!r}: {error}") from error
    if allowed != rel_path:
        raise invalid_mark(f"names a change of {rel_path!r}, which is not a valid file path")


def _find_leftovers(root: str, rel_paths: Iterable[str]) -> list[str]:
    """Return the temporary files (real paths) in the directories of `rel_paths`."""
    items = []
    for directory in {os.path.dirname(_real_path(root, rel_path)) for rel_path in rel_paths}:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        items += [os.path.join(directory, n) for n in names if maker_of(n)]
    return items


def _set_aside(repository: Repository, mark: PendingChange, tell: Callable[[str], None]) -> None:
    """Drop a marker whose change is applied; keep one the branch does not know."""
    at = repository.head()
    while at and at != mark.commit:
        at = repository.commit(at).parent
    if at is None:
        aside = os.path.join(repository.path, f"familiar-unfinished-{mark.commit[:10]}")
        repository.disk.replace(os.path.join(repository.path, PENDING_MARK), aside)
        tell(
            f"The journal's branch was moved by hand while commit {mark.commit[:10]} was being"
            f" carried out; {aside!r} names it. Compare: `familiar memory show {mark.commit[:10]}`"
        )
    clear_mark(repository.path, repository.disk)


def _real_path(root: str, rel_path: str) -> str:
    return os.path.join(root, *rel_path.split("/"))
