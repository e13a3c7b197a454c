"""Cost of sync over a path: nothing to do, one commit, a first clone, and merging many files.

Each number is the time of a whole command, from its start to its end. A first clone is compared
with `git clone` of the same repository in the same run, over git's own protocol (`file://`) and by
linking files. Nothing is deleted before the end, since a file system may make files slowly where
many were deleted a moment ago. What is new costs the same in a memory of a tenth of the size:
`growth` compares. Beside that, two versions of a list of 20,000 lines are merged, in the
process, against `git merge-file`; and a new file of 6 MB is sent and received.

`python -m benchmarks.sync [--files 10000] [--commits 5000] [--changed 1000]
[--lines 20000] [--large-bytes 6000000] [--dir DIR] [--json]`
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
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.memory.merge.content import merge_content
from familiar_cli.store.memory.store.store import MemoryStore

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


def merged_lists(where: Path, lines: int, edits: int) -> dict[str, float]:
    """Merge two versions of a long list, in which so many lines were changed on each side."""
    items = [
        f"- Fact {n}: somebody said something on a day. <!-- turns {n} -->" for n in range(lines)
    ]
    sides = {"base": items, "ours": list(items), "theirs": list(items)}
    for n in range(edits):
        sides["ours"][n * lines // edits] += " One changed this."
        sides["theirs"].insert((2 * n + 1) * lines // edits // 2, f"- The other added {n}.")
    paths = [where / f"{side}.md" for side in ("ours", "base", "theirs")]
    ours, base, theirs = (("\n".join(sides[path.stem]) + "\n").encode() for path in paths)
    for path, content in zip(paths, (ours, base, theirs), strict=True):
        path.write_bytes(content)
    command = ["git", "merge-file", "-p", *map(str, paths)]
    found = {
        "merge_list_s": _fastest(lambda: merge_content("a.md", base, ours, theirs)),
        "git_merge_file_s": _fastest(
            lambda: subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        ),
    }
    found["merge_list_ratio"] = found["merge_list_s"] / found["git_merge_file_s"]
    return found


def sent_and_received(where: Path, size_bytes: int) -> dict[str, float]:
    """Send and receive a new file of that size."""
    laptop, desk, hub = Place(where / "laptop"), Place(where / "desk"), where / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    laptop.run("init", "ada", "--template", "companion")
    laptop.run("sync", "remote", "add", "hub", str(hub))
    laptop.sync()
    desk.run("init", "--from-remote", str(hub), "ada")
    desk.sync()
    laptop.sync()
    lines = (f"- Line {n}, {n * 7919 % 104_729}\n" for n in range(size_bytes // 20))
    (laptop.root / "memory" / "large.md").write_text("".join(lines), "utf-8")
    found = {"send_large_s": laptop.sync(), "receive_large_s": desk.sync()}
    found["receive_large_ratio"] = found["receive_large_s"] / found["send_large_s"]
    return found


def _fastest(work: Callable[[], object]) -> float:
    return min(seconds(work) for _ in range(TIMES))


def _clone(address: str, to: Path) -> None:
    subprocess.run(["git", "clone", "-q", address, str(to)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--changed", type=int, default=1_000)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--large-bytes", type=int, default=6_000_000)
    parser.add_argument("--dir", help="working directory; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as where:
        tenth = max(1, given.files // 10), max(1, given.commits // 10)
        small = measured(Path(where, "small"), *tenth, min(given.changed, tenth[0]))
        large = measured(Path(where, "large"), given.files, given.commits, given.changed)
        files = merged_lists(Path(where), given.lines, given.lines // 500)
        files |= sent_and_received(Path(where), given.large_bytes)
    growth = {key: large[key] / small[key] for key in ("nothing_s", "one_commit_s")}
    if given.json:
        print(json.dumps({"small": small, "large": large, "growth": growth, "files": files}))
        return
    for key, value in large.items():
        print(f"{key:20} {value:9.3f}   in a tenth {small[key]:9.3f}")
    for key, value in files.items():
        print(f"{key:20} {value:9.3f}")
    for key, value in growth.items():
        print(f"growth of {key:10} {value:9.2f}")


if __name__ == "__main__":
    main()
