"""Three machines do anything to a memory, by hand and at any time: in the end it is one memory.

They edit, rename (also only in case, or in Unicode's normal form), move, delete, put down binary
and oddly named files, nest directories, commit with another git to `main`, are killed while they
sync, and have clocks that are hours apart. Then each syncs until nothing changes: their files must
be the same, but for those that `sync status` lists.

`python -m benchmarks.converge [1000] [--over path|age|ssh] [--seed 1] [--dir DIR] [--json]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.kills import DIED, MOST_STEPS, NAMES, OVER, Machine, make_hub, sshd_running
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.times import clock
from familiar_cli.store.journal.edits import refused_files
from familiar_cli.sync.journal_past import JournalPast

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

STEPS_IN_ONE_WORLD = 40
MOST_ROUNDS = 6
_SKEW_HOURS = (0, 18, -7)
_STEMS = ("tea", "Tea", "TEA", "te\u0301a", "t\u00e9a", "\u1e9e-ss", "bees", "a b", "\u65e5\u672c")
_ROOMS = ("", "topics/", "Topics/", "people/", "lore/deep/er/")
_ODD = ("what: now.md", "CON.md", "end.", "topics/a*b.md", "x" * 240 + ".md", "lore/aux/in.md")
_GIT = shutil.which("git")


@dataclass
class Convergence:
    """The result. Apart from `steps`, `kills` and `seconds` all must be 0 or empty.

    Args:
        steps: How many things were done.
        kills: How many syncs were killed.
        unfinished: Worlds in which the machines went on changing something.
        errors: What a sync ended with.
        differing: Files that differ on two machines and that none of them lists, with their seed.
        seconds: How long it took.
    """

    steps: int = 0
    kills: int = 0
    unfinished: int = 0
    errors: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    seconds: float = 0.0


class World:
    """Three machines, and a clone of another git."""

    def __init__(self, root: Path, seed: int, found: Convergence, over: str = "path") -> None:
        self.root, self.seed, self.found = root, seed, found
        self.dice = random.Random(seed)
        self.hub = make_hub(root, over)
        first = Machine(root / NAMES[0], self.hub)
        store, journal = first.open()
        with store.transaction("human", "first") as tx:
            for name in ("topics/tea.md", "people/anna.md", "notes.md", "lore/deep/er/bees.md"):
                tx.write(name, "# One\n\n" + "".join(f"- fact {n} of {name}\n" for n in range(6)))
        journal.repository.close()
        first.sync()
        self.machines = [first, *(Machine(root / name, self.hub, NAMES[0]) for name in NAMES[1:])]
        self.hours = dict(zip(NAMES, _SKEW_HOURS, strict=True))

    def run(self, steps: int, act: Callable[[World, Machine], object] | None = None) -> None:
        """Do so many things, then let all come to rest and compare."""
        acts = [World.write, World.append, World.rename, World.sync] * 2
        acts += [World.delete, World.odd, World.kill, World.by_git]
        for _ in range(steps):
            machine = self.dice.choice(self.machines)
            with suppress(OSError):  # such as a file where a directory is
                (act or self.dice.choice(acts))(self, machine)
            self.found.steps += 1
        self.rest()
        self.compare()

    def path(self, machine: Machine) -> Path:
        """Return the place of some file, which need not be there."""
        name = self.dice.choice(_ROOMS) + self.dice.choice(_STEMS) + ".md"
        return machine.root / "memory" / name

    def one(self, machine: Machine) -> Path:
        """Return a file that is there."""
        files = [p for p in sorted((machine.root / "memory").rglob("*")) if p.is_file()]
        return self.dice.choice([p for p in files if ".index" not in p.parts])

    def write(self, machine: Machine) -> None:
        """Write a new file, text or not."""
        path = self.path(machine)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"- {self.dice.randrange(50)}\n" for _ in range(self.dice.randrange(8)))
        binary = self.dice.randbytes(40) if self.dice.random() < 0.2 else b""
        path.write_bytes(binary or f"# A title\n\n{lines}".encode())

    def append(self, machine: Machine) -> None:
        """Add a line somewhere."""
        path = self.one(machine)
        path.write_bytes(path.read_bytes() + f"- {self.dice.getrandbits(30)}\n".encode())

    def rename(self, machine: Machine) -> None:
        """Move a file, perhaps only to another spelling of its name, or a whole directory."""
        path = self.one(machine)
        to = self.path(machine)
        match self.dice.randrange(4):
            case 0:
                to = path.with_name(path.name.swapcase())
            case 1 if path.parent != machine.root / "memory":
                path, to = path.parent, path.parent.with_name(path.parent.name.capitalize())
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            path.rename(to)

    def delete(self, machine: Machine) -> None:
        """Delete a file, seldom a directory."""
        path = self.one(machine)
        if path.parent != machine.root / "memory" and self.dice.random() < 0.2:
            shutil.rmtree(path.parent)
        elif path.name != ".gitignore":
            path.unlink()

    def odd(self, machine: Machine) -> None:
        """Put down, or take away, what no other machine can have."""
        deep = "d/" * self.dice.choice((90, 120, 230)) + "x.md"
        path = machine.root / "memory" / self.dice.choice((*_ODD, deep))
        if path.exists():
            return path.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("odd\n")
        return None

    def by_git(self, machine: Machine) -> None:
        """Commit to `main` with another git, after some machine has pushed."""
        if _GIT is None or self.hub.sender.encrypt:
            return
        self.sync(machine)
        clone = self.root / f"clone-{self.dice.getrandbits(30)}"
        self._git("clone", "-q", str(self.hub.path), str(clone))
        (clone / "notes.md").write_text(f"# Web\n\n- {self.dice.getrandbits(30)}\n")
        who = ("-c", "user.name=Web", "-c", "user.email=web@example.org")
        self._git("-C", str(clone), "add", "-A")
        self._git("-C", str(clone), *who, "commit", "-q", "-m", "web")
        self._git("-C", str(clone), "push", "-q", "origin", "HEAD:main")
        shutil.rmtree(clone)

    def _git(self, *words: str) -> None:
        subprocess.run([str(_GIT), *words], check=True, capture_output=True)

    def sync(self, machine: Machine) -> None:
        """Sync, with the clock of that machine."""
        hours = self.hours[machine.root.name]
        here = mock.Mock(side_effect=partial(_later, clock.now, hours))
        with mock.patch.object(clock, "now", here):
            try:
                machine.sync()
            except FamiliarError as error:
                self.found.errors.append(f"seed {self.seed}: {machine.root.name}: {error}")

    def kill(self, machine: Machine) -> None:
        """Sync in a process that ends at a random step."""
        if not hasattr(os, "fork"):
            return
        last = self.dice.randint(1, MOST_STEPS)
        child = os.fork()
        if not child:
            with suppress(BaseException):
                machine.sync(last)
            os._exit(0)
        self.found.kills += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DIED

    def rest(self) -> None:
        """Let all machines sync until none of them changes anything."""
        for _ in range(MOST_ROUNDS):
            before = [self.files(machine) for machine in self.machines]
            for machine in self.machines:
                self.sync(machine)
            if before == [self.files(machine) for machine in self.machines]:
                return
        self.found.unfinished += 1

    def files(self, machine: Machine) -> dict[str, bytes]:
        """Return what is on disk, by path."""
        top = machine.root / "memory"
        found = (path for path in sorted(top.rglob("*")) if path.is_file())
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in found}

    def compare(self) -> None:
        """Note every file that differs and is not listed, on disk or in the journal."""
        disks = [self.files(machine) for machine in self.machines]
        listed = set().union(*map(self._listed, self.machines))
        trees = [self._tree(machine) for machine in self.machines]
        for kind, sides in (("on disk", disks), ("in the journal", trees)):
            for path in sorted(set().union(*sides)):
                is_same = len({side.get(path) for side in sides}) == 1
                if not is_same and path not in listed and path.count("/") <= 200:
                    self.found.differing.append(f"seed {self.seed}: {kind}: {path[:80]!r}")

    def _listed(self, machine: Machine) -> set[str]:
        repository = machine.open()[1].repository
        try:
            return set(refused_files(repository))
        finally:
            repository.close()

    def _tree(self, machine: Machine) -> dict[str, str]:
        repository = machine.open()[1].repository
        try:
            return dict(JournalPast(repository, NAMES[0]).tree(str(repository.head())))
        finally:
            repository.close()


def _later(now: Callable[[], datetime], hours: int) -> datetime:
    return now() + timedelta(hours=hours)


def run(
    steps: int,
    seed: int,
    where: str | None = None,
    act: Callable[[World, Machine], object] | None = None,
    over: str = "path",
) -> Convergence:
    """Let worlds live until so many things were done: any, or only `act`."""
    found, begun = Convergence(), time.perf_counter()
    while found.steps < steps:
        with tempfile.TemporaryDirectory(dir=where) as scratch:
            count = min(steps - found.steps, STEPS_IN_ONE_WORLD)
            World(Path(scratch), seed, found, over).run(count, act)
        seed += 1
    found.seconds = round(time.perf_counter() - begun, 1)
    return found


def main() -> None:
    """Parse, run, print; end with 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", type=int, nargs="?", default=1000)
    parser.add_argument("--over", choices=OVER, default="path")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with sshd_running() if given.over == "ssh" else nullcontext():
        found = run(given.steps, given.seed, given.dir, over=given.over)
    print(json.dumps(asdict(found)) if given.json else found)
    raise SystemExit(bool(found.errors or found.differing or found.unfinished))


if __name__ == "__main__":
    main()
