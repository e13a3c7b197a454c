"""Cost of sync over a path: nothing to do, one commit, a first clone, and merging many files.

Each number is the time of a whole command, from its start to its end. A first clone is compared
with `git clone` of the same repository in the same run, over git's own protocol (`file://`) and by
linking files. Nothing is deleted before the end, since a file system may make files slowly where
many were deleted a moment ago. What is new costs the same in a memory of a tenth of the size:
`growth` compares.

`python -m benchmarks.sync [--files 10000] [--commits 5000] [--changed 1000] [--dir DIR] [--json]`
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.journal import Hasty
from familiar_cli.memory.journal.git import GitJournal
from familiar_cli.memory.store.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = 5
IN_DIRECTORY = 100


def name(n: int) -> str:
    return f"topics/t{n // IN_DIRECTORY}/{n}.md"


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class Place:
    """One machine, whose familiar is called ada."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "ada"

    def run(self, *words: str) -> None:
        """Run one command."""
        command = [sys.executable, "-m", "familiar_cli", *words, "--quiet"]
        environment = {**os.environ, "FAMILIAR_HOME": str(self.home), "FAMILIAR_OFFLINE": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as where the program is installed
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)

    def sync(self) -> float:
        """Sync, and return the seconds."""
        return seconds(lambda: self.run("sync"))

    def change(self, count: int, line: str) -> None:
        """Append a line to so many files, in one transaction."""
        store = self._store()
        with store.transaction("benchmark", f"change {count} files") as tx:
            for n in range(count):
                tx.append(name(n), line)

    def fill(self, files: int, commits: int) -> None:
        """Make a memory of so many files, with a history of so many changes."""
        for n in range(files):
            path = self.root / "memory" / name(n)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# Note {n}\n\n" + "- Something that was said.\n" * 20, "utf-8")
        store = self._store()
        for n in range(commits):
            store.append_file(name(n * 7 % files), f"- line {n}\n", source="benchmark")

    def _store(self) -> MemoryStore:
        journal = GitJournal(self.root / "journal.git", self.root / "memory", disk=Hasty())
        return MemoryStore(self.root / "memory", journal=journal, disk=Hasty())


def measured(where: Path, files: int, commits: int, changed: int) -> dict[str, float]:
    """Return the seconds of each kind of sync in a memory of that size."""
    laptop, desk, hub = Place(where / "laptop"), Place(where / "desk"), where / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    laptop.run("init", "ada", "--template", "companion")
    laptop.fill(files, commits)
    laptop.run("sync", "remote", "add", "hub", str(hub))
    found = {"first_push_s": laptop.sync()}
    found["nothing_s"] = statistics.median(laptop.sync() for _ in range(TIMES))
    took = []
    for n in range(TIMES):
        laptop.run("memory", "append", name(files - 1 - n % files), f"- new {n}\n")
        took.append(laptop.sync())
    found["one_commit_s"] = statistics.median(took)
    found["git_clone_s"] = seconds(lambda: _clone(f"file://{hub}", where / "a"))
    found["git_clone_links_s"] = seconds(lambda: _clone(str(hub), where / "b"))
    begin = ("init", "--from-remote", str(hub), "ada")
    found["first_clone_s"] = seconds(lambda: desk.run(*begin))
    found["first_clone_ratio"] = found["first_clone_s"] / found["git_clone_s"]
    desk.sync()
    desk.change(changed, "- from the desk\n")
    desk.sync()
    laptop.change(changed, "- from the laptop\n")  # of the same files
    found["merge_s"] = laptop.sync()
    return found


def _clone(address: str, to: Path) -> None:
    subprocess.run(["git", "clone", "-q", address, str(to)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--changed", type=int, default=1_000)
    parser.add_argument("--dir", help="working directory; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as where:
        tenth = max(1, given.files // 10), max(1, given.commits // 10)
        small = measured(Path(where, "small"), *tenth, min(given.changed, tenth[0]))
        large = measured(Path(where, "large"), given.files, given.commits, given.changed)
    growth = {key: large[key] / small[key] for key in ("nothing_s", "one_commit_s")}
    if given.json:
        print(json.dumps({"small": small, "large": large, "growth": growth}))
        return
    for key, value in large.items():
        print(f"{key:20} {value:9.3f}   in a tenth {small[key]:9.3f}")
    for key, value in growth.items():
        print(f"growth of {key:10} {value:9.2f}")


if __name__ == "__main__":
    main()
