"""Machines that share a folder: a journal each, an instance id, and the folder as a remote."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path

from familiar_cli.base.files import Disk, SharedDisk
from familiar_cli.store.journal.exchange import JournalExchange
from familiar_cli.store.journal.objects import git_object
from familiar_cli.sync.folder import BundleFolder, FolderTransport
from familiar_cli.sync.remotes import MAIN_REF, MEMORY_REFS
from familiar_cli.sync.sealing import FileCipher, SignatureTrust, SigningKey
from tests.support.journals import World


class Machine(World):
    """A memory on one machine.

    Args:
        root: Where it lives.
        instance: Its id.
        folder: The folder that all share.
    """

    def __init__(self, root: Path, instance: str, folder: Path) -> None:
        super().__init__(root)
        self.instance = instance
        self.folder = folder
        self.exchange = JournalExchange(self.journal.repository, nullcontext)
        root.mkdir(exist_ok=True)
        if not self.journal.repository.exists:
            self.journal.repository.create()

    @property
    def ref(self) -> str:
        return MEMORY_REFS + self.instance

    @property
    def head(self) -> str:
        head = self.journal.repository.head()
        assert head
        return head

    @contextmanager
    def transport(self, *, sealing: FileCipher | None = None, disk: Disk | None = None, trust=None):
        journal = self.root / "journal.git"
        folder = BundleFolder(
            str(self.folder),
            str(journal / "incoming-"),
            str(journal / "familiar-folders" / "stick.json"),
            SigningKey(self.root / "bundle.key", trust or SignatureTrust()),
            sealing=sealing,
            tell=self.told.append,
            disk=disk or SharedDisk(),
        )
        transport = FolderTransport(folder, self.exchange)
        try:
            yield transport
        finally:
            transport.close()
            self.journal.repository.close()

    def push(self, head: str | None = None, **options) -> list[str]:
        """Push, and return what was refused and why."""
        head = head or self.head
        with self.transport(**options) as transport:
            done = transport.push({self.ref: head, MAIN_REF: head})
        return [one.refused for one in done if one.refused]

    def pull(self, **options) -> dict[str, str]:
        """Fetch all that is not here, and return the refs of the folder."""
        with self.transport(**options) as transport:
            refs = dict(transport.refs())
            wants = {id_ for id_ in refs.values() if not self.exchange.has(id_)}
            if wants:
                with self.exchange.incoming() as incoming:
                    transport.fetch(wants, [], incoming)
                    incoming.accept(wants)
        return refs

    def note(self, text: str) -> str:
        """Change the memory, and return the commit."""
        return self.commit(text, **{f"notes__{text}": f"- {text}\n"})

    def merged(self, other: str) -> str:
        """Commit a merge with another commit, which keeps our files."""
        repository = self.journal.repository
        tree = repository.tree_of(self.head)
        text = (
            f"tree {tree}\nparent {self.head}\nparent {other}\n"
            "author a <a@x> 1 +0000\ncommitter a <a@x> 1 +0000\n\nmerge\n"
        )
        made = git_object("commit", text.encode())
        repository.objects.write([made])
        repository.set_head(made.id)
        return made.id

    def file_at(self, commit: str, rel_path: str) -> bytes | None:
        """Return a file as it was at a commit."""
        repository = self.journal.repository
        try:
            return repository.file_at(commit, rel_path)
        finally:
            repository.close()

    def bundles(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir() if ".bundle" in p.name)

    def own_bundles(self) -> list[str]:
        return [name for name in self.bundles() if name.startswith(f"{self.instance}.")]
