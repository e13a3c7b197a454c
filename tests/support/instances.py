"""Machines that share one memory: a journal each, and an engine that syncs it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

from familiar_cli.base.config import home
from familiar_cli.base.config.home import Instance, ensure_instance, read_instance
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.journal.past import MemoryPast
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.sync.begin import begin_from
from familiar_cli.sync.engine import SyncEngine, SyncOptions
from familiar_cli.sync.remotes import read_address
from tests.support.journals import Hasty, World

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.base.files import Disk


class Machine(World):
    """One machine with a copy of the memory."""

    def __init__(self, root: Path, name: str, began: str = "", disk: Disk | None = None) -> None:
        disk = disk or Hasty()
        root.mkdir(parents=True, exist_ok=True)
        super().__init__(root)
        self.name = name
        self.id_path = root / "instance.id"
        self._instance: tuple[int, Instance] | None = None
        if not began:
            ensure_instance(self.id_path, chosen=name)
        self.journal = GitJournal(
            root / "journal.git", root / "memory", disk=disk, instance=self.signature
        )
        self.store = MemoryStore(
            root / "memory", lock_path=root / ".lock", journal=self.journal, disk=disk
        )
        self.past = MemoryPast(self.store, self.journal, self.told.append)

    @property
    def instance(self) -> Instance:
        written = self.id_path.stat().st_mtime_ns
        if self._instance is None or self._instance[0] != written:
            found = read_instance(self.id_path)
            assert found
            self._instance = (written, found)
        return self._instance[1]

    def signature(self) -> str:
        return "" if self.instance.is_first else self.instance.id

    def sync(self, address, **how):
        engine = SyncEngine(
            self.store, self.journal.repository, self.id_path, lambda: self.instance
        )
        try:
            read = read_address(str(address))
            return engine.sync(
                "stick" if read.kind == "folder" else "hub", read, SyncOptions(**how)
            )
        finally:
            self.journal.repository.close()

    def files(self) -> dict[str, str]:
        top = self.root / "memory"
        return {
            path.relative_to(top).as_posix(): path.read_text()
            for path in sorted(top.rglob("*"))
            if path.is_file()
        }


def adopt(machine, hub) -> None:
    address = read_address(str(hub))
    with patch.object(home, "new_id", partial(home.new_id, machine.name)):
        begin_from(machine.store, machine.journal.repository, machine.id_path, address)
    machine.journal.repository.close()
