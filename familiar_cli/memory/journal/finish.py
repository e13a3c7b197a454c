"""Carry out a decided change that a crash cut short. What a person wrote since then is kept."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError, UnsafePathError
from familiar_cli.files import TEMP_PREFIX, is_misspelled, read_plain
from familiar_cli.memory.journal import pending, trees
from familiar_cli.memory.journal.absent import is_absent
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.files import signature
from familiar_cli.memory.store.types import Applied, Change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.memory.journal.pending import Pending
    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.store.files import Tree


class _Other:
    """Something that is no plain file."""


OTHER: Final = _Other()


def finish(
    repository: Repository, memory: Tree, mark: Pending, tell: Callable[[str], None]
) -> bool:
    """Carry out what `mark` names, and take it away.

    Returns:
        Whether a person had changed one of the files meanwhile; that file is left alone.

    Raises:
        FamiliarError: The journal is damaged, or the disk refused.
    """
    check(repository, mark)
    head = repository.head()
    if head not in {mark.base, mark.commit}:
        _set_aside(repository, mark, tell)
        return True
    from familiar_cli.memory.store.apply import apply
    from familiar_cli.memory.store.plan import WritePlan

    changes, edited = _left_to_do(repository, memory.real, mark)
    if head != mark.commit:
        repository.set_head(mark.commit)
    plan = WritePlan(
        changes=tuple(changes),
        result=Applied(),
        seen={c.rel_path: signature(_real(memory.real, c.rel_path)) for c in changes},
        leftovers=tuple(_leftovers(memory.real, [*edited, *_paths(repository, mark)])),
    )
    apply(memory.real, plan, repository.disk)
    for path in plan.leftovers:
        with suppress(OSError):
            os.unlink(path)
    with suppress(OSError):  # a mark that stays does no harm
        pending.clear(repository.path, repository.disk)
    repository.disk.sync_dir(repository.path)
    for rel_path in edited:
        tell(
            f"{rel_path!r} was edited after a change to it was interrupted, so it was not "
            f"changed; see what would have been written: `familiar memory show {mark.commit[:10]}`"
        )
    return bool(edited)


def check(repository: Repository, mark: Pending) -> None:
    """Raise `FamiliarError` when no change of ours can have left `mark`."""
    if repository.commit(mark.commit).parent != mark.base:
        raise pending.senseless(f"names no change of commit {mark.base}")


def on_disk(root: str, rel_path: str) -> bytes | _Other | None:
    """Return a plain file's content, None when nothing is there, `OTHER` for anything else.

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


def _left_to_do(repository: Repository, root: str, mark: Pending) -> tuple[list[Change], list[str]]:
    """Return the changes not yet on disk, and the files that a person changed since."""
    changes, edited = [], []
    for rel_path in _paths(repository, mark):
        before, after = (repository.file_at(c, rel_path) for c in (mark.base, mark.commit))
        now = on_disk(root, rel_path)
        if now == after or (now is None and is_absent(repository, mark.commit, rel_path)):
            continue
        if now == before:
            _check_name(rel_path, is_new=before is None)
            changes.append(Change(rel_path, before, after))
        else:
            edited.append(rel_path)
    return changes, edited


def _check_name(rel_path: str, *, is_new: bool) -> None:
    """Refuse a name that no change of the memory could have had: the mark is forged."""
    try:
        allowed = paths.parse_new(rel_path) if is_new else paths.parse_old(rel_path)
    except UnsafePathError as error:
        raise pending.senseless(f"names a change of {rel_path!r}: {error}") from error
    if allowed != rel_path:
        raise pending.senseless(f"names a change of {rel_path!r}, which is not a valid file path")


def _paths(repository: Repository, mark: Pending) -> list[str]:
    old, new = (repository.tree_of(commit) for commit in (mark.base, mark.commit))
    return [path for path, _, _ in trees.changed(repository.tree, old, new)]


def _leftovers(root: str, rel_paths: Iterable[str]) -> list[str]:
    """Return the temporary files (real paths) in the directories of `rel_paths`."""
    found = []
    for directory in {os.path.dirname(_real(root, rel_path)) for rel_path in rel_paths}:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        found += [os.path.join(directory, n) for n in names if n.startswith(TEMP_PREFIX)]
    return found


def _set_aside(repository: Repository, mark: Pending, tell: Callable[[str], None]) -> None:
    """Drop a mark that is done already; keep one that the branch knows nothing of."""
    at, seen = repository.head(), 0
    while at and at != mark.commit:
        at, seen = repository.commit(at).parent, seen + 1
    if at is None:
        aside = os.path.join(repository.path, f"familiar-unfinished-{mark.commit[:10]}")
        repository.disk.replace(os.path.join(repository.path, pending.NAME), aside)
        tell(
            f"The journal's branch was moved by hand while commit {mark.commit[:10]} was being"
            f" carried out; {aside!r} names it. Compare: `familiar memory show {mark.commit[:10]}`"
        )
    pending.clear(repository.path, repository.disk)


def _real(root: str, rel_path: str) -> str:
    return os.path.join(root, *rel_path.split("/"))
