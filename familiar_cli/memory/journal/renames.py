"""Find where a file was before a commit moved it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.memory.journal import trees

if TYPE_CHECKING:
    from dulwich.objects import TreeEntry

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.repository import Repository


def former_path(
    repository: Repository, commit: Commit, parent: str | None, rel_path: str
) -> str | None:
    """Return the path from which `commit` moved a file to `rel_path`, or None if it is new.

    Args:
        repository: The journal.
        commit: The commit.
        parent: The one of those before it that counts.
        rel_path: Where the file is now.

    The content tells: a file that went away in the same commit and was the same, or else at least
    60 % alike by git's measure.
    """
    old = repository.tree_of(parent)
    gone: dict[str, list[str]] = {}
    id_ = None
    for path, was, now in trees.changed(repository.tree, old, commit.tree, skip_bad=True):
        if path == rel_path:
            id_ = now
        elif was and not now:
            gone.setdefault(was, []).append(path)
    if id_ in gone:
        same_name = [p for p in gone[id_] if p.rpartition("/")[2] == rel_path.rpartition("/")[2]]
        return (same_name or gone[id_])[0]
    return _alike(repository, old, commit.tree, rel_path) if gone else None


def _alike(repository: Repository, old: str | None, new: str, rel_path: str) -> str | None:
    from dulwich.diff_tree import RenameDetector
    from dulwich.objects import ObjectID

    assert old is not None
    detector = RenameDetector(repository.objects.packs())
    for change in detector.changes_with_renames(ObjectID(old.encode()), ObjectID(new.encode())):
        if change.type == "rename" and _text(change.new) == rel_path:
            return _text(change.old)
    return None


def _text(entry: TreeEntry | None) -> str | None:
    if entry is None or entry.path is None:
        return None
    return entry.path.decode("utf-8", errors="surrogateescape")
