"""`journal.git` on disk: a bare git repository with one branch, whose tip is the newest commit."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from familiar_cli.errors import FamiliarError
from familiar_cli.files import TEMP_PREFIX, Disk, read_plain
from familiar_cli.memory.journal import commits, trees
from familiar_cli.memory.journal.objects import Objects, damaged, is_id, unreadable
from familiar_cli.memory.late_journal import BRANCH, branch_path
from familiar_cli.memory.layout import INDEX_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from familiar_cli.memory.journal.commits import Commit

_KEPT_TREES = 64  # that stay in memory
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = false
\tbare = true
\tautocrlf = false
\tquotepath = false
"""
_EXCLUDE = f"{INDEX_DIR}/\n{TEMP_PREFIX}*\n"


class Repository:
    """Reads and moves the journal. Whoever writes holds the familiar's lock."""

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self.path = str(path)
        self.disk = disk or Disk()
        self.objects = Objects(os.path.join(self.path, "objects"), self.disk)
        self._trees: dict[str, bytes] = {}

    @property
    def exists(self) -> bool:
        """Whether there is a journal."""
        return os.path.isdir(self.path)

    @property
    def branch_path(self) -> str:
        """The file that names the newest commit."""
        return branch_path(self.path)

    def create(self) -> None:
        """Make an empty repository, all of it or nothing. May raise OSError."""
        new = f"{self.path}.{os.getpid()}.new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            self._lay_out(new)
            self.disk.replace(new, self.path)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self.disk.sync_dir(os.path.dirname(self.path))

    def _lay_out(self, new: str) -> None:
        for directory in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            os.makedirs(os.path.join(new, *directory.split("/")))
        for name, text in (
            ("HEAD", f"ref: {BRANCH}\n"),
            ("config", _CONFIG),
            ("info/exclude", _EXCLUDE),
        ):
            self.disk.create(os.path.join(new, *name.split("/")), text.encode())
        self.disk.sync_dir(new)

    def head(self) -> str | None:
        """Return the id of the newest commit, or None when there is none yet.

        Raises:
            FamiliarError: The branch does not name a commit.
        """
        try:
            text = read_text(self.branch_path)
            text = packed_refs(self.path).get(BRANCH) if text is None else text
        except OSError as error:
            raise unreadable(repr(self.branch_path), error) from error
        if text is None:
            return None
        if not is_id(text.strip()):
            raise damaged(f"{BRANCH} names no commit")
        return text.strip()

    def set_head(self, id_: str | None) -> None:
        """Make a commit the newest, durably. May raise OSError."""
        if id_ is None:
            with suppress(FileNotFoundError):
                self.disk.unlink(self.branch_path)
            self.disk.sync_dir(os.path.dirname(self.branch_path))
        else:
            self.disk.put(self.branch_path, f"{id_}\n".encode())

    def commit(self, id_: str) -> Commit:
        """Return a commit. Raises `FamiliarError` when it is missing or damaged."""
        return commits.decode(id_, self.objects.read(id_))

    def tree(self, id_: str) -> bytes:
        """Return a tree's content. Raises `FamiliarError` when it is missing or damaged."""
        if id_ not in self._trees:
            self.remember(id_, self.objects.read(id_))
        return self._trees[id_]

    def remember(self, id_: str, tree: bytes) -> None:
        """Keep a tree's content at hand."""
        while len(self._trees) >= _KEPT_TREES:
            del self._trees[next(iter(self._trees))]
        self._trees[id_] = tree

    def tree_of(self, commit: str | None) -> str | None:
        """Return the id of the memory's state at a commit."""
        return self.commit(commit).tree if commit else None

    def file_at(self, commit: str | None, rel_path: str) -> bytes | None:
        """Return a file's bytes as they were at a commit, or None when it was not there."""
        id_ = trees.file_id(self.tree, self.tree_of(commit), rel_path)
        return self.objects.read(id_) if id_ else None

    def close(self) -> None:
        """Let go of open packs."""
        self.objects.close()


def packed_refs(path: str) -> dict[str, str]:
    """Return the refs of a repository that git has packed. May raise OSError."""
    lines = (read_text(os.path.join(path, "packed-refs")) or "").splitlines()
    pairs = (line.split(" ", 1) for line in lines if not line.startswith(("#", "^")))
    return {pair[1]: pair[0] for pair in pairs if len(pair) > 1}


def read_text(path: str) -> str | None:
    """Return the text of a small file; None: there is none. May raise OSError."""
    try:
        return read_plain(path).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn what the system says of the journal into one error."""
    try:
        yield
    except OSError as error:
        raise FamiliarError(
            f"The journal {path!r} could not be written: {error.strerror or error};"
            " no memory was changed",
            hint="Free some space, or check its permissions; then try again.",
        ) from error
