"""Many concurrent writers: whether anything is lost, and how long each waits.

A number of processes append lines, first all to one file, then spread over 50 files, and finally
as turns to one `history.db`. Every process appends as fast as it can, so each waits for all
the others; a wait is the time of one append, from the call until it is durable.

`python -m benchmarks.writers [--processes 8] [--appends 200] [--dir DIR] [--json]`
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.journal.past import MemoryPast
from familiar_cli.store.memory.store.store import MemoryStore

KINDS = ("one file", "50 files", "history.db")


def open_store(root: Path) -> tuple[MemoryStore, GitJournal]:
    journal = GitJournal(root / "journal.git", root / "memory")
    lock = root / ".lock"
    return MemoryStore(
        root / "memory", lock_path=lock, lock_timeout_s=300, journal=journal
    ), journal


def write(root: Path, kind: str, who: int, appends: int) -> None:
    """Append, and print the milliseconds of each append as one line of JSON."""
    store, _ = open_store(root)
    history = HistoryStore(root / "history.db", busy_timeout_s=300)
    waits = []
    for n in range(appends):
        begun = time.perf_counter()
        if kind == "history.db":
            history.append("cli", "user", f"{who}-{n}")
        else:
            path = "log.md" if kind == "one file" else f"people/{(who * 7 + n) % 50}.md"
            store.append_file(path, f"{who}-{n}\n", source=f"writer-{who}")
        waits.append((time.perf_counter() - begun) * 1000)
    history.close()
    print(json.dumps(waits))


def lines(root: Path, kind: str) -> list[str]:
    """Return every written line, in the order of its file."""
    if kind == "history.db":
        with closing(HistoryStore(root / "history.db")) as history:
            return [turn.content for turn in history.recent("cli", 1_000_000, viewer=OWNER)]
    files = (p for p in (root / "memory").rglob("*.md"))
    return [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def measure(root: Path, kind: str, processes: int, appends: int) -> dict[str, float]:
    root.mkdir()
    argv = [sys.executable, "-m", "benchmarks.writers", "--write", str(root), kind]
    begun = time.perf_counter()
    running = [
        subprocess.Popen([*argv, str(who), str(appends)], stdout=subprocess.PIPE)
        for who in range(processes)
    ]
    waits = sorted(ms for process in running for ms in json.loads(process.communicate()[0]))
    seconds = time.perf_counter() - begun
    wanted = Counter(f"{who}-{n}" for who in range(processes) for n in range(appends))
    found = Counter(lines(root, kind))
    missing = wanted - found
    commits = 0
    if kind != "history.db":
        commits = len(MemoryPast(*open_store(root)).log())
    return {
        "lost": missing.total(),
        "doubled": (found - wanted).total(),
        "commits": commits,
        "median_ms": statistics.median(waits),
        "p95_ms": waits[int(len(waits) * 0.95) - 1],
        "worst_ms": waits[-1],
        "per_second": len(waits) / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--dir", help="working directory; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        root, kind, who, appends = given.write
        return write(Path(root), kind, int(who), int(appends))
    with tempfile.TemporaryDirectory(dir=given.dir) as where:
        rows = {
            kind: measure(Path(where, kind), kind, given.processes, given.appends) for kind in KINDS
        }
    if given.json:
        return print(json.dumps(rows))
    for kind, row in rows.items():
        print(
            f"{kind:<11} lost {row['lost']:.0f}, doubled {row['doubled']:.0f},"
            f" {row['commits']:,.0f} commits; wait: median {row['median_ms']:,.0f} ms,"
            f" p95 {row['p95_ms']:,.0f} ms, worst {row['worst_ms']:,.0f} ms;"
            f" {row['per_second']:,.0f} a second"
        )
    return None


if __name__ == "__main__":
    main()
