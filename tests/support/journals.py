"""A memory with a journal, and other eyes to look at it: git's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from familiar_cli.base.files import Disk
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.journal.history import History
from familiar_cli.store.journal.past import MemoryPast
from familiar_cli.store.memory.store.store import MemoryStore

HAS_GIT = shutil.which("git") is not None


class Hasty(Disk):
    """A disk on which nothing is durable, for tests that are not about that."""

    def create(self, path: str, content: bytes, **more) -> None:
        super().create(path, content, **{**more, "durable": False})

    def settle(self, paths) -> None:
        """Leave it to the system."""

    def sync_dir(self, path: str) -> None:
        """Leave it to the system."""


class World:
    """A store, its journal, and what was told."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self.told: list[str] = []
        disk = disk or Hasty()
        self.journal = GitJournal(
            root / "journal.git", root / "memory", tell=self.told.append, disk=disk
        )
        self.store = MemoryStore(
            root / "memory",
            lock_path=root / ".lock",
            lock_timeout_s=60.0,
            journal=self.journal,
            disk=disk,
        )
        self.past = MemoryPast(self.store, self.journal, self.told.append)

    def again(self) -> World:
        """Return the same memory as another process sees it."""
        return World(self.root)

    def by_hand(self, rel_path: str, text: str | bytes) -> Path:
        """Write a file as an editor does."""
        path = self.root / "memory" / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def commit(self, message: str, source: str = "test", **files: str | None) -> str:
        """Write (None: delete) files, by name without `.md`, and return the commit's id."""
        with self.store.transaction(source, message) as tx:
            for stem, text in files.items():
                path = stem.replace("__", "/") + ".md"
                if text is None:
                    tx.delete(path)
                else:
                    tx.write(path, text)
        head = self.journal.repository.head()
        assert head
        return head

    def messages(self, *args, **options) -> list[str]:
        return [change.commit.message for change in self.past.log(*args, **options)]

    def sources(self) -> list[str]:
        return [change.commit.source for change in self.past.log()]

    def at_head(self, rel_path: str) -> bytes | None:
        repository = self.journal.repository
        found = repository.file_at(History(repository).head, rel_path)
        repository.close()
        return found

    def git(self, *argv: str) -> str:
        """Run git on the journal and return what it prints; whatever it complains about fails."""
        where = ["--git-dir", str(self.root / "journal.git"), "--work-tree", str(self.store.root)]
        done = subprocess.run(["git", *where, *argv], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        return done.stdout.decode()

    def check(self) -> None:
        """Let git look for damage."""
        if HAS_GIT:
            assert self.git("fsck", "--strict", "--no-dangling") == ""
