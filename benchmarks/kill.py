"""Kill a writer at random moments, and check what is left of the memory and its journal.

A child process commits transactions of 1 to 20 files and acknowledges each one. It gets SIGKILL at
a random moment; then the memory is opened again. It must hold a whole number of transactions, all
that were acknowledged and at most one more. So must the journal, and git must find no error in it.
Then the next child continues.

`python -m benchmarks.kill [--kills 300] [--seed 1] [--life 3] [--dir DIR] [--json]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.journal.history import History
from familiar_cli.store.memory.store.store import MemoryStore

FILES = [f"{room}/{n}.md" for room in ("people", "topics", "sessions/2026") for n in range(12)]
MOST_FILES = 20
PACE = 5  # transactions that are timed before the first kill


@dataclass
class Found:
    """The result of the kills. Everything but `kills` and the counts below it must be 0."""

    kills: int = 0
    transactions: int = 0
    unacknowledged: int = 0
    finished_by_the_next: int = 0
    torn: int = 0
    lost: int = 0
    half: int = 0
    leftovers: int = 0
    journal_differs: int = 0
    fsck: int = 0
    seconds: float = 0.0


def content(path: str, number: int) -> bytes:
    """Return what transaction `number` writes into a file: long enough to be torn."""
    return f"# {path}\n\n{number}\n".encode() + b"x" * (number * 37 % 3000) + b"\nend\n"


def planned(seed: int, number: int) -> dict[str, bytes | None]:
    """Return what transaction `number` does: some files are written, some deleted."""
    dice = random.Random(f"{seed}-{number}")
    paths = dice.sample(FILES, dice.randint(1, MOST_FILES))
    return {p: None if dice.random() < 0.1 else content(p, number) for p in paths}


def open_store(root: Path) -> MemoryStore:
    journal = GitJournal(root / "journal.git", root / "memory")
    return MemoryStore(root / "memory", lock_path=root / ".lock", journal=journal)


def write_for_ever(root: Path, seed: int, begin: int, done: int) -> None:
    """Commit one transaction after the other, and write the number of each to `done`."""
    store = open_store(root)
    number = begin
    while True:
        with store.transaction("writer", f"transaction {number}") as tx:
            for path, text in planned(seed, number).items():
                if text is not None:
                    tx.write(path, text)
                elif store.exists(path):
                    tx.delete(path)
            tx.write("count.md", f"{number}\n")
        os.write(done, f"{number}\n".encode())
        number += 1


def after(state: dict[str, bytes], changes: dict[str, bytes | None], number: int) -> None:
    """Bring `state` up to date with a transaction."""
    for path, text in changes.items():
        state.pop(path, None)
        if text is not None:
            state[path] = text
    state["count.md"] = f"{number}\n".encode()


def one_life(root: Path, seed: int, begin: int, seconds: float) -> int:
    """Let a writer run for a while, kill it, and return its last acknowledged transaction."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write_for_ever(root, seed, begin, writing)
        finally:
            os._exit(1)
    os.close(writing)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().split()
    return int(said[-1]) if said else begin - 1


def pace(seed: int, where: str | None) -> float:
    """Return the seconds per transaction of an undisturbed writer."""
    with tempfile.TemporaryDirectory(dir=where) as root:  # load every module once
        open_store(Path(root)).append_file("a.md", "x")
        open_store(Path(root)).catch_up()
    with tempfile.TemporaryDirectory(dir=where) as root:
        reading, writing = os.pipe()
        begun = time.perf_counter()
        child = os.fork()
        if child == 0:
            write_for_ever(Path(root), seed, 0, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            for _ in range(PACE):
                stream.readline()
        seconds = time.perf_counter() - begun
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return seconds / PACE


def look(root: Path, found: Found, state: dict[str, bytes], seed: int, acknowledged: int) -> int:
    """Open the memory again, compare it with its expected content, and return the newest number."""
    found.finished_by_the_next += (root / "journal.git" / "familiar-pending").exists()
    store = open_store(root)
    memory = {
        e.rel_path: store.read_bytes(e.rel_path)
        for e in store.walk(hidden=True).files
        if e.rel_path != ".gitignore"
    }
    newest = int(memory.get("count.md", b"-1").split()[0])
    while found.transactions <= newest:
        after(state, planned(seed, found.transactions), found.transactions)
        found.transactions += 1
    found.lost += newest < acknowledged
    found.half += newest > acknowledged + 1
    found.unacknowledged += newest > acknowledged
    wrong = {path for path in memory | state if memory.get(path) != state.get(path)}
    found.torn += sum(not memory.get(path, b"end\n").endswith(b"end\n") for path in wrong)
    found.half += bool(wrong)
    found.leftovers += sum(".tmp-familiar" in path.name for path in (root / "memory").rglob("*"))
    found.journal_differs += journal_differs(store, root, newest, memory)
    return newest


def journal_differs(store: MemoryStore, root: Path, newest: int, memory: dict[str, bytes]) -> bool:
    """Tell whether the journal differs from the memory."""
    store.catch_up()
    repository = GitJournal(root / "journal.git", root / "memory").repository
    head = next(History(repository).commits(), None)
    if head is None:
        return newest >= 0
    wanted = f"transaction {newest}"
    held = {path: repository.file_at(head.id, path) for path in memory}
    return head.message != wanted or held != memory


def fsck(root: Path) -> bool:
    """Tell whether git finds anything wrong with the journal; False also without git."""
    if not shutil.which("git") or not (root / "journal.git").exists():
        return False
    argv = ["git", "--git-dir", str(root / "journal.git"), "fsck", "--strict", "--no-dangling"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if not line.startswith("notice:")]
    return done.returncode != 0 or bool(said)  # a notice says that there is no commit yet


def run(root: Path, kills: int, seed: int, longest_s: float) -> Found:
    found, state, begun = Found(), {}, time.perf_counter()
    dice = random.Random(seed)
    newest = -1
    for n in range(kills):
        acknowledged = one_life(root, seed, newest + 1, dice.uniform(0, longest_s))
        newest = look(root, found, state, seed, acknowledged)
        found.kills += 1
        if n % 10 == 0 or n == kills - 1:
            found.fsck += fsck(root)
    found.seconds = time.perf_counter() - begun
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--life", type=float, default=3.0, help="longest, in transactions")
    parser.add_argument("--dir", help="working directory; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as root:
        found = run(Path(root), given.kills, given.seed, given.life * pace(given.seed, given.dir))
    if given.json:
        print(json.dumps(asdict(found)))
        return
    for name, value in asdict(found).items():
        print(f"{name.replace('_', ' '):<22} {value:,.0f}")


if __name__ == "__main__":
    main()
