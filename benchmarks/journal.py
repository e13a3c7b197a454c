"""Cost of the journal: time of a commit as memory grows, time to read the log, disk space.

The cost of a commit is the time of one `append_file` to an existing file, with the journal and
everything made durable. Memories of different sizes alternate, so that a drift in machine speed
affects all alike; a ratio compares the means.

`python -m benchmarks.journal [--commits 60] [--history 5000] [--dir DIR] [--json]`
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.base.files import Disk
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.journal.past import MemoryPast
from familiar_cli.store.memory.store.store import Limits, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SIZES = (100, 1_000, 10_000)
ROOMS = ("people", "topics", "sessions", "lore")


class Hasty(Disk):
    """A disk that never syncs, to build up a long history quickly."""

    def create(self, path: str, content: bytes | Iterable[bytes], **how: object) -> None:
        """Write a file without syncing it."""
        super().create(path, content, durable=False, mode=how.get("mode"))

    def settle(self, paths: Sequence[str]) -> None:
        """Do not sync."""

    def sync_dir(self, path: str) -> None:
        """Do not sync."""


def name(n: int) -> str:
    return f"{ROOMS[n % len(ROOMS)]}/{n}.md"


def open_store(root: Path, disk: Disk | None = None) -> tuple[MemoryStore, GitJournal]:
    journal = GitJournal(root / "journal.git", root / "memory", disk=disk)
    limits = Limits(max_dir_files=100_000)
    return MemoryStore(root / "memory", limits=limits, journal=journal, disk=disk), journal


def fill(root: Path, count: int) -> None:
    """Make a memory of that many files of about 600 bytes, recorded in its journal."""
    for n in range(count):
        path = root / "memory" / name(n)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {n}\n\n" + "Something that was said.\n" * 24, encoding="utf-8")
    open_store(root)[0].append_file(name(0), "- first\n")


def cost_of_commits(where: Path, commits: int) -> dict[int, list[float]]:
    """Return the seconds of each commit, by the number of files."""
    stores = {}
    for size in SIZES:
        fill(where / str(size), size)
        stores[size] = open_store(where / str(size))[0]
    took: dict[int, list[float]] = {size: [] for size in SIZES}
    for n in range(commits + 3):
        for size, store in stores.items():
            begun = time.perf_counter()
            store.append_file(name(n * 7 % size), f"- line {n}\n", source="benchmark")
            took[size].append(time.perf_counter() - begun)
    return {size: seconds[3:] for size, seconds in took.items()}


def past(where: Path, commits: int) -> dict[str, float]:
    """Build up a history and return the time to read it and its disk space."""
    from familiar_cli.store.journal.exchange import disk_bytes

    store, journal = open_store(where, Hasty())
    for n in range(commits):
        store.append_file(name(n % 100), f"- line {n}: something that was said\n", source="b")
    past = MemoryPast(store, journal)
    found: dict[str, float] = {"commits": commits}
    for state in ("loose", "packed"):
        begun = time.perf_counter()
        if state == "packed":
            past.compact()
            found["compact_s"] = time.perf_counter() - begun
        found[f"bytes_per_commit_{state}"] = disk_bytes(journal.repository) / commits
        for what, ask in (
            ("log_of_one_file", lambda: past.log(name(42))),
            ("log_of_all", past.log),
            ("blame", lambda: past.blame(name(42))),
        ):
            begun = time.perf_counter()
            assert ask()
            found[f"{what}_{state}_s"] = time.perf_counter() - begun
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--history", type=int, default=5_000)
    parser.add_argument("--dir", help="working directory; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as where:
        took = cost_of_commits(Path(where), given.commits)
        found = past(Path(where, "past"), given.history)
    mean = {size: statistics.fmean(seconds) for size, seconds in took.items()}
    rows = {
        size: {
            "mean_ms": mean[size] * 1000,
            "median_ms": statistics.median(took[size]) * 1000,
            "worst_ms": max(took[size]) * 1000,
            "ratio": mean[size] / mean[SIZES[0]],
        }
        for size in SIZES
    }
    if given.json:
        print(json.dumps({"commit": rows, "past": found}))
        return
    for size, row in rows.items():
        print(
            f"{size:>7,} files  mean {row['mean_ms']:6.1f} ms  median {row['median_ms']:6.1f} ms"
            f"  worst {row['worst_ms']:6.1f} ms  ratio {row['ratio']:.2f}"
        )
    for what, value in found.items():
        print(f"{what.replace('_', ' '):<26} {value:10,.3f}")


if __name__ == "__main__":
    main()
