"""New commits in the making: their objects are collected, then written at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.memory.journal import commits, trees
from familiar_cli.memory.journal.objects import git_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from familiar_cli.memory.journal.objects import GitObject
    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.store.types import Joined

MOST_NAMED: Final = 50  # files a commit names itself; beyond that, its trees are compared
_MOST_HELD_BYTES = 32 * 1024 * 1024


class UnseenCommits:
    """Commits on top of `head` that nobody sees before `save` and `Repository.set_head`."""

    def __init__(self, repository: Repository, head: str | None) -> None:
        self._repository = repository
        self.head = head
        self.tree = repository.tree_of(head)
        self._objects: dict[str, GitObject] = {}
        self._new_trees: dict[str, bytes] = {}
        self._held_bytes = 0

    def commit(
        self,
        source: str,
        message: str,
        contents: Iterable[tuple[str, bytes | None]],
        at: datetime,
        *,
        trailers: Mapping[str, str] | None = None,
        old_bytes: Mapping[str, int] | None = None,
        joined: Joined | None = None,
    ) -> bool:
        """Add a commit that makes each file hold its content (None: be gone).

        Args:
            source: Who.
            message: What for, in one line; empty when a person changed the files by hand.
            contents: Path and content of each file.
            at: When, in the timezone that git is to show.
            trailers: What else to note.
            old_bytes: The sizes of files before, where known; others are looked up.
            joined: What came from other instances; there is a commit even when nothing differs.

        Returns:
            Whether anything differs; else there is no commit.
        """
        ids: dict[str, str | None] = {}
        new_bytes: dict[str, int] = {}
        for rel_path, content in contents:
            ids[rel_path] = None if content is None else self._add(git_object("blob", content)).id
            new_bytes[rel_path] = len(content or b"")
        elsewhere: dict[str, str | None] = {}
        if joined:
            elsewhere = {path: one.id for path, one in joined.absent.items()}
            elsewhere |= dict.fromkeys(joined.gone)
            for content in joined.blobs.values():
                self._add(git_object("blob", content))
        tree, new = trees.rewrite(self._read, self.tree, {**ids, **elsewhere})
        if joined is None and (not ids or tree == self.tree):
            return False
        for made in new:
            self._new_trees[self._add(made).id] = made.content
        rows = [
            *((trailers or {}).items()),
            *(self._of_files(ids, old_bytes or {}, new_bytes) if not elsewhere else ()),
            ("Bytes-After", str(sum(new_bytes.values()))),
        ]
        self.head = self._add(
            commits.encode(
                tree,
                self.head,
                source,
                message or by_hand(ids),
                at=at,
                trailers=rows,
                merged=joined.commits if joined else (),
            )
        ).id
        self.tree = tree
        return True

    def save(self) -> None:
        """Make all objects durable. May raise OSError."""
        self._repository.objects.write(self._objects.values())
        for id_, content in self._new_trees.items():
            self._repository.remember(id_, content)
        self._objects.clear()
        self._new_trees.clear()
        self._held_bytes = 0

    def _of_files(
        self,
        ids: Mapping[str, str | None],
        old_bytes: Mapping[str, int],
        new_bytes: Mapping[str, int],
    ) -> list[tuple[str, str]]:
        old = {path: trees.file_id(self._read, self.tree, path) for path in ids}
        real = sorted(path for path, id_ in ids.items() if id_ != old[path])
        rows = [("Files", str(len(real)))]
        if len(real) > MOST_NAMED:
            return rows
        read = self._repository.objects.read
        was = {
            path: old_bytes[path] if path in old_bytes else len(read(id_))
            for path in real
            if (id_ := old[path])
        }
        for path in real:
            kind = "Deleted" if ids[path] is None else "Changed" if old[path] else "Added"
            rows.append((kind, path))
        pairs = (f"{was.get(p, '-')}>{'-' if ids[p] is None else new_bytes[p]}" for p in real)
        return [
            *rows,
            (commits.LENGTHS, " ".join(pairs)),
            ("Bytes-Before", str(sum(was.values()))),
        ]

    def _read(self, tree: str) -> bytes:
        return self._new_trees[tree] if tree in self._new_trees else self._repository.tree(tree)

    def _add(self, one: GitObject) -> GitObject:
        if one.id not in self._objects:
            self._objects[one.id] = one
            self._held_bytes += len(one.content)
            if self._held_bytes > _MOST_HELD_BYTES:
                self.save()
        return one


def by_hand(paths: Collection[str]) -> str:
    """Return the message for what people changed."""
    if len(paths) == 1:
        return f"edited by hand: {next(iter(paths))}"
    return f"edited by hand: {len(paths):,} files"
