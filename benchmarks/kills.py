"""Kill commands at random steps, type a line before the next one, and count what is lost.

Three machines share one memory through a repository. Each step of a sync or a write that reaches
the disk may be its last. Before the next command a person types a line into some file, as an editor
does, often one that the interrupted change was about to change. Every line that was typed, or whose
write was acknowledged, is in a ledger; after all have synced, each of them has to stand in the
memory of each machine.

They share it over a path, over a folder with age, or over ssh with a real `sshd` on loopback.

`python -m benchmarks.kills [1000] [--over path|age|ssh] [--seed 1] [--dir DIR] [--json]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from unittest.mock import patch

from dulwich.repo import Repo

from familiar_cli.base.config import home
from familiar_cli.base.config.home import ensure_instance, read_instance
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import Disk
from familiar_cli.store.journal.finish import read_mark
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.journal.repository import changed_files
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.sync.begin import Sender, begin_from
from familiar_cli.sync.engine import SyncEngine, SyncOptions
from familiar_cli.sync.remotes import read_address

if TYPE_CHECKING:
    from collections.abc import Iterator

OVER = ("path", "age", "ssh")
SSHD = Path("/usr/sbin/sshd")
NAMES = ("laptop", "desk", "phone")
FILES = [f"{room}/{n}.md" for room in ("people", "topics") for n in range(4)]
KILLS_IN_ONE_WORLD = 40  # then the ledger is checked, and a new world begins
DIED = 9
MOST_STEPS = 120


@dataclass
class Ledger:
    """The result. `lost` and `differing` must be 0.

    Args:
        kills: How many commands were killed.
        halfway: How many of them left a change that was decided and not finished.
        lines: How many lines had to be there, on each machine.
        lost: How many were not, on some machine.
        differing: Worlds in which two machines did not come to the same files.
        seconds: How long it took.
    """

    kills: int = 0
    halfway: int = 0
    lines: int = 0
    lost: int = 0
    differing: int = 0
    seconds: float = 0.0


class DyingDisk(Disk):
    """A disk on which the process ends before the step with that number."""

    def __init__(self, last: int = 0) -> None:
        self._left = last

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os._exit(DIED)

    def create(self, path: str, content: bytes, **more: object) -> None:
        """Write a file, not durably: a killed process is no power failure."""
        self._step()
        super().create(path, content, **{**more, "durable": False})  # type: ignore[arg-type]

    def replace(self, old: str, new: str) -> None:
        """Give a file its name."""
        self._step()
        super().replace(old, new)

    def unlink(self, path: str) -> None:
        """Delete a file."""
        self._step()
        super().unlink(path)

    def settle(self, paths: object) -> None:
        """Leave it to the system."""

    def sync_dir(self, path: str) -> None:
        """Leave it to the system."""


@dataclass(frozen=True)
class Hub:
    """Where machines meet.

    Args:
        path: The repository or the folder, on this machine.
        address: How they reach it.
        sender: How it is encrypted.
    """

    path: Path
    address: str
    sender: Sender = field(default_factory=Sender)


def make_hub(root: Path, over: str) -> Hub:
    """Make an empty one below a directory. Over ssh, `sshd_running` is around."""
    path = root / "hub.git"
    if over == "age":
        import pyrage

        path.mkdir()
        secret = pyrage.x25519.Identity.generate()
        sender = Sender((str(secret.to_public()),), lambda: str(secret))
        return Hub(path, f"dir:{path}", sender)
    Repo.init_bare(str(path), mkdir=True)
    port = os.environ.get("FAMILIAR_BENCHMARK_SSHD", "")
    return Hub(path, f"ssh://127.0.0.1:{port}{path}" if over == "ssh" else str(path))


@contextmanager
def sshd_running() -> Iterator[None]:
    """Run a real `sshd` on loopback, which lets this process in."""
    with tempfile.TemporaryDirectory() as where, socket.socket() as free:
        root = Path(where)
        for name in ("host", "user"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)]
            subprocess.run(make, check=True)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        lines = [f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {root / 'host'}"]
        lines += [f"AuthorizedKeysFile {root / 'user.pub'}", f"PidFile {root / 'pid'}"]
        lines += ["StrictModes no", "UsePAM no", "PermitRootLogin yes", "MaxStartups 100"]
        (root / "config").write_text("\n".join(lines) + "\n")
        Path("/run/sshd").mkdir(exist_ok=True)
        argv = [str(SSHD), "-D", "-e", "-f", str(root / "config")]
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as server:
            options = f"-i {root / 'user'} -F /dev/null -o StrictHostKeyChecking=no"
            os.environ["GIT_SSH_COMMAND"] = f"ssh {options} -o UserKnownHostsFile={root / 'known'}"
            os.environ["FAMILIAR_BENCHMARK_SSHD"] = str(port)
            try:
                _wait_for(port)
                yield
            finally:
                server.terminate()
                del os.environ["GIT_SSH_COMMAND"], os.environ["FAMILIAR_BENCHMARK_SSHD"]


def _wait_for(port: int) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise SystemExit("sshd did not start")


class Machine:
    """One machine, each command of which opens the memory anew."""

    def __init__(self, root: Path, hub: Hub, began: str = "") -> None:
        self.root, self.hub = root, hub
        root.mkdir()
        if began:
            store, journal = self.open()
            address, id_path = read_address(hub.address), root / "instance.id"
            with patch.object(home, "new_id", partial(home.new_id, root.name)):
                begin_from(store, journal.repository, id_path, address, sender=hub.sender)
            journal.repository.close()
        else:
            ensure_instance(root / "instance.id", chosen=root.name)

    @property
    def instance(self) -> str:
        """How it signs its commits."""
        found = read_instance(self.root / "instance.id")
        return "" if found is None or found.is_first else found.id

    def open(self, last: int = 0) -> tuple[MemoryStore, GitJournal]:
        """Open the memory, on a disk that ends the process before step `last`."""
        disk = DyingDisk(last)
        memory = self.root / "memory"
        path = self.root / "journal.git"
        journal = GitJournal(path, memory, disk=disk, instance=lambda: self.instance)
        return MemoryStore(
            memory, lock_path=self.root / ".lock", journal=journal, disk=disk
        ), journal

    def sync(self, last: int = 0) -> None:
        """Sync with the repository."""
        store, journal = self.open(last)
        id_path = self.root / "instance.id"
        engine = SyncEngine(
            store,
            journal.repository,
            id_path,
            lambda: read_instance(id_path),  # type: ignore[arg-type,return-value]
            sender=self.hub.sender,
        )
        try:
            engine.sync("hub", read_address(self.hub.address), SyncOptions())
        finally:
            journal.repository.close()

    def append(self, rel_path: str, line: str, last: int = 0) -> None:
        """Append a line to a file, as the program does."""
        store, journal = self.open(last)
        with store.transaction("memory_writer", "a line") as tx:
            tx.append(rel_path, line, on_new_line=True)
        journal.repository.close()

    def interrupted(self) -> list[str]:
        """Return the files of a change that was decided and not finished."""
        journal = self.open()[1]
        mark = read_mark(journal.path)
        if mark is None:
            return []
        repository = journal.repository
        old, new = (repository.tree_of(commit) for commit in (mark.base, mark.commit))
        paths = [path for path, _, _ in changed_files(repository.tree, old, new)]
        repository.close()
        return [path for path in paths if path in FILES]

    def text(self) -> dict[str, str]:
        """Return every file of the memory."""
        top = self.root / "memory"
        files = (path for path in sorted(top.rglob("*")) if path.is_file())
        return {path.relative_to(top).as_posix(): path.read_text() for path in files}


class World:
    """Three machines, and the lines that none of them may lose."""

    def __init__(self, root: Path, dice: random.Random, ledger: Ledger, over: str) -> None:
        self.dice, self.ledger = dice, ledger
        hub = make_hub(root, over)
        first = Machine(root / NAMES[0], hub)
        store, journal = first.open()
        with store.transaction("human", "first") as tx:
            for path in FILES:
                tx.write(path, f"# {path}\n\nAbout {path}.\n\n- known from the start\n")
        journal.repository.close()
        first.sync()
        self.machines = [first, *(Machine(root / name, hub, began=NAMES[0]) for name in NAMES[1:])]
        self.lines: list[str] = []

    def line(self) -> str:
        """Return a new line that must not get lost."""
        self.lines.append(f"line {len(self.lines)} of {self.dice.getrandbits(40)}")
        return self.lines[-1]

    def type_line(self, machine: Machine) -> None:
        """Write a line into a file as an editor does: at its end, or below the first item."""
        path = machine.root / "memory" / self.dice.choice(machine.interrupted() or FILES)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        line = f"- {self.line()}\n"
        match self.dice.randrange(4):
            case 0:
                text = text.replace("\n- ", f"\n{line}- ", 1) if "\n- " in text else text + line
            case 1:
                text += f"\n{line.removeprefix('- ')}"
            case 2 if "About" in text:
                text = text.replace("About", f"{line[2:-1]}. About", 1)
            case _:
                text += line
        path.write_text(text)

    def command(self, machine: Machine) -> None:
        """Run any command, in this process."""
        store, journal = machine.open()
        match self.dice.randrange(4):
            case 0:
                store.read_file(self.dice.choice(FILES))
            case 1:
                store.catch_up()
            case 2:
                machine.append(self.dice.choice(FILES), f"- {self.line()}\n")
            case _:
                machine.sync()
        journal.repository.close()

    def killed(self, machine: Machine) -> None:
        """Run a command that ends at a random step, in a process of its own."""
        last = self.dice.randint(1, MOST_STEPS)
        path, line = self.dice.choice(FILES), self.line()
        syncs = self.dice.random() < 0.8
        if syncs:
            self.lines.pop()
        child = os.fork()
        if not child:
            _carry_out(machine, last, "" if syncs else path, line)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.ledger.kills += code == DIED
        self.ledger.halfway += (machine.root / "journal.git" / "familiar-pending").exists()
        if not syncs and code != 0 and not any(line in text for text in machine.text().values()):
            self.lines.remove(line)  # nobody was told that it is there; a later one may finish it

    def run(self, kills: int) -> None:
        """Live until so many commands were killed."""
        enough = self.ledger.kills + kills
        while self.ledger.kills < enough:
            for machine in self.machines:
                for _ in range(self.dice.randrange(5)):
                    self.type_line(machine)
                if self.dice.random() < 0.6:
                    machine.sync()
            victim = self.dice.choice(self.machines)
            for _ in range(self.dice.randint(1, 3)):
                self.killed(victim)
                self.type_line(victim)
            self.command(victim)

    def check(self) -> None:
        """Let all machines sync, and look for each line on each of them."""
        for _ in range(3):
            for machine in self.machines:
                machine.sync()
        texts = [machine.text() for machine in self.machines]
        self.ledger.lines += len(self.lines)
        self.ledger.differing += any(text != texts[0] for text in texts)
        for text in texts:
            all_text = "\n".join(text.values())
            self.ledger.lost += sum(line not in all_text for line in self.lines)


def _carry_out(machine: Machine, last: int, path: str, line: str) -> NoReturn:
    code = 1
    try:
        with suppress(FamiliarError):
            if path:
                machine.append(path, f"- {line}\n", last)
            else:
                machine.sync(last)
            code = 0
    finally:
        os._exit(code)


def run(kills: int, seed: int, where: str | None = None, over: str = "path") -> Ledger:
    """Kill so many commands, in as many worlds as that takes."""
    ledger, begun, dice = Ledger(), time.perf_counter(), random.Random(seed)
    while ledger.kills < kills:
        with tempfile.TemporaryDirectory(dir=where) as root:
            world = World(Path(root), dice, ledger, over)
            world.run(min(KILLS_IN_ONE_WORLD, kills - ledger.kills))
            world.check()
    ledger.seconds = round(time.perf_counter() - begun, 1)
    return ledger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=1000)
    parser.add_argument("--over", choices=OVER, default="path")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", help="working directory; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with sshd_running() if given.over == "ssh" else nullcontext():
        found = asdict(run(given.kills, given.seed, given.dir, given.over))
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<22} {value:,}")


if __name__ == "__main__":
    main()
