"""How two states of the memory differ: files as text that people and `patch` read, and renames."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from familiar_cli.diffs import unified
from familiar_cli.memory.journal import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dulwich.objects import TreeEntry

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.repository import Repository


@dataclass(frozen=True, slots=True)
class FileDiff:
    """How one file differs. `diff` is a unified diff, or one line for a file that is no text."""

    rel_path: str
    kind: Literal["added", "changed", "deleted"]
    diff: str


def between(
    repository: Repository, old: str | None, new: str | None, rel_path: str = ""
) -> Iterator[FileDiff]:
    """Yield how each file at or below `rel_path` differs between two trees, sorted by path."""
    for path, was, now in sorted(trees.changed(repository.tree, old, new)):
        if not rel_path or path == rel_path or path.startswith(rel_path + "/"):
            before, after = (repository.objects.read(i) if i else None for i in (was, now))
            yield file_diff(path, before, after)


def file_diff(rel_path: str, before: bytes | None, after: bytes | None) -> FileDiff:
    """Return how a file differs; None stands for no file."""
    kind: Literal["added", "changed", "deleted"] = "changed"
    if before is None or after is None:
        kind = "deleted" if after is None else "added"
    old, new = before or b"", after or b""
    names = [
        f"{side}/{rel_path}" if content is not None else "/dev/null"
        for side, content in (("a", before), ("b", after))
    ]
    if is_binary(old) or is_binary(new):
        text = (
            f"Binary files {names[0]} and {names[1]} differ: {len(old):,} -> {len(new):,} bytes\n"
        )
        return FileDiff(rel_path, kind, text)
    texts = (content.decode("utf-8", errors="replace") for content in (old, new))
    return FileDiff(rel_path, kind, unified(*texts, *names))


def is_binary(content: bytes) -> bool:
    """Tell whether `content` is no text, as git decides it."""
    return b"\0" in content[:8000]


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
    store = repository.objects.dulwich_store()
    try:
        changes = RenameDetector(store).changes_with_renames(
            ObjectID(old.encode()), ObjectID(new.encode())
        )
        found = [one for one in changes if one.type == "rename" and _text(one.new) == rel_path]
        return _text(found[0].old) if found else None
    finally:
        with suppress(BufferError):  # a pack that broke while it was read stays mapped
            store.close()


def _text(entry: TreeEntry | None) -> str | None:
    if entry is None or entry.path is None:
        return None
    return entry.path.decode("utf-8", errors="surrogateescape")
