"""Speed of searching memory, as a ratio to ripgrep over the same files in the same run.

Two ratios: `MemoryStore.search` in this process to a whole `rg`, and a whole `familiar memory grep`
to a whole `rg`. Both search every file and return every hit. The three alternate, so that a
drift in machine speed affects all alike; a ratio is the median over the rounds.
`python -m benchmarks.grep [--files 10000] [--runs 9] [--json]` exits with 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.store.memory.store.store import Limits, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 5.0  # of the ratio in this process
NO_CAP = 10_000_000
WORDS = [
    *("the", "a", "of", "and", "she", "he", "they", "likes", "hates", "plays", "said", "about"),
    *("again", "never", "maybe", "tea", "coffee", "garden", "music", "guitar", "ska", "concert"),
    *("rainy", "evening", "game", "boss", "fight", "tired", "happy", "Alice", "Bob", "Carol"),
]
PATTERNS = {
    "rare word": ("zanzibar", False),
    "rare word, any case": ("ZanziBar", True),
    "rare pattern": (r"zan\w+ \d{4}-\d\d", True),
    "digits, no hit": (r"\d{4}-\d{2}-\d{2}T", True),
    "no hit": ("xylophone", True),
    "headings": (r"^# Note 1\d\d\b", False),
    "not ASCII": ("日本語", True),
    "common word": ("guitar", True),
}


def write_corpus(memory: Path, files: int) -> None:
    """Write `files` notes of about 1.5 KB, the same on every machine."""
    dice = random.Random(1)
    for number in range(files):
        lines = [f"# Note {number}", ""]
        lines += ["- " + " ".join(dice.choices(WORDS, k=12)) for _ in range(20)]
        if number % 100 == 0:
            lines.append("She went to Zanzibar 2026-01 with Zoë: 日本語のメモ")
        path = memory / f"topic-{number // 500:02}" / f"note-{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(("\n".join(lines) + "\n").encode())


def ripgrep() -> str:
    """Return the `rg` of this environment, otherwise the one on the path."""
    beside = shutil.which("rg", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("rg")
    if not found:
        sys.exit("rg is not installed: pip install ripgrep")
    return found


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def process(argv: list[str], env: dict[str, str]) -> Callable[[], object]:
    """Return an action that runs `argv` to its end, whether or not there are hits."""
    return lambda: subprocess.run(argv, env=env, capture_output=True, check=False)


def measure(root: Path, pattern: str, *, any_case: bool, runs: int) -> dict[str, float]:
    """Return medians in ms and both ratios for one pattern."""
    store = MemoryStore(root / "memory", limits=Limits(max_results=NO_CAP))
    env = {**os.environ, "FAMILIAR_HOME": str(root.parent)}
    case = "-i" if any_case else "-s"
    rg = process([ripgrep(), "-n", "--no-heading", case, pattern, str(store.root)], env)
    familiar = [sys.executable, "-m", "familiar_cli", "memory", "grep", pattern]
    whole = process(familiar if any_case else [*familiar, "-s"], env)

    def search() -> int:
        return len(store.search(pattern, case_insensitive=any_case).hits)

    hits = search()
    rounds = [(seconds(search), seconds(whole), seconds(rg)) for _ in range(runs)]
    return {
        "hits": hits,
        "search_ms": statistics.median(s for s, _, _ in rounds) * 1000,
        "command_ms": statistics.median(c for _, c, _ in rounds) * 1000,
        "rg_ms": statistics.median(r for _, _, r in rounds) * 1000,
        "ratio": statistics.median(s / r for s, _, r in rounds),
        "command_ratio": statistics.median(c / r for _, c, r in rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        root = Path(home, "ada")
        write_corpus(root / "memory", given.files)
        (root / "character.toml").write_text(f"[memory]\nmax_results = {NO_CAP}\n", "utf-8")
        found = {
            name: measure(root, pattern, any_case=any_case, runs=given.runs)
            for name, (pattern, any_case) in PATTERNS.items()
        }
    worst = max(row["ratio"] for row in found.values())
    if given.json:
        print(json.dumps({"files": given.files, "limit": LIMIT, "worst": worst, "rows": found}))
    else:
        show(found, worst)
    sys.exit(worst > LIMIT)


def show(found: dict[str, dict[str, float]], worst: float) -> None:
    print(
        f"{'pattern':22}{'hits':>7}{'search':>9}{'command':>9}{'rg':>8}{'ratio':>8}{'command':>9}"
    )
    for name, row in found.items():
        print(
            f"{name:22}{row['hits']:>7}{row['search_ms']:>7.0f}ms{row['command_ms']:>7.0f}ms"
            f"{row['rg_ms']:>6.0f}ms{row['ratio']:>8.2f}{row['command_ratio']:>9.2f}"
        )
    print(f"worst ratio of the search itself: {worst:.2f}, limit {LIMIT:g}")


if __name__ == "__main__":
    main()
