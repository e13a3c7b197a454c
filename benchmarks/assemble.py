"""How long assembling a prompt takes with a large memory and history, as a ratio to a small one.

Large: 10,000 memory files and 100,000 turns. Small: 10 and 10. The two run in turn, A B A B, so
that a machine whose speed drifts disturbs both alike; the ratio is the median over the pairs.
Measured twice: inside one process, where every turn opens the familiar anew, and as the whole
command `familiar ask TEXT --dry-run`. No model takes part, and the prompt may have 6,000 tokens.
`python -m benchmarks.assemble [--runs 100] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.history.rows import COLUMNS, to_row
from familiar_cli.history.store import HistoryStore
from familiar_cli.identity import Author
from familiar_cli.memory.self_files import field_markdown

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 1.5
SIZES = {"small": (10, 10), "large": (10_000, 100_000)}
WORDS = "the harbour light keeps watch while ships and gulls come home through slow rain".split()  # noqa: SIM905
ANNA = Author("cli", "anna", display_name="Anna")


def text(chance: random.Random, words: int) -> str:
    """Return that many words, drawn at random."""
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


def make(home: Path, name: str, files: int, turns: int) -> None:
    """Write a familiar with that many memory files and turns."""
    chance = random.Random(7)
    memory = home / name / "memory"
    for number in range(files):
        path = memory / "people" / f"{number % 100:02d}" / f"cli-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Person {number}\n\n{text(chance, 60)}\n", encoding="utf-8")
    for field in ("description", "personality", "scenario"):
        own = memory / "self" / f"{field}.md"
        own.parent.mkdir(exist_ok=True)
        own.write_text(field_markdown(field, text(chance, 150)), encoding="utf-8")
    (home / name / "character.toml").write_text('[llm]\npreset = "custom"\n', encoding="utf-8")
    fill(home / name / "history.db", chance, turns)


def fill(path: Path, chance: random.Random, count: int) -> None:
    """Write `count` turns in one transaction; the store's own way is one each."""
    with closing(HistoryStore(path)) as store:
        first = store.append("cli", "user", text(chance, 40), author=ANNA)
    marks = ", ".join("?" * len(COLUMNS))
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany(
            f"INSERT INTO turns ({', '.join(COLUMNS)}) VALUES ({marks})",
            (to_row(first) for _ in range(count - 1)),
        )


def in_process_ms(home: Path, name: str) -> float:
    """Return how long one prompt takes, the familiar opened anew."""
    start = time.perf_counter()
    with Familiar.load_from_disk(home, name) as familiar:
        trace = familiar.assemble(Said("Who is home tonight?", ANNA))
    assert trace.messages[-1].content == "Who is home tonight?"
    return (time.perf_counter() - start) * 1000


def whole_ms(home: Path, name: str) -> float:
    """Return how long the whole command takes."""
    command = [sys.executable, "-m", "familiar_cli", "ask", "Who is home tonight?", "--dry-run"]
    env = {**os.environ, "FAMILIAR_HOME": str(home), "FAMILIAR_ID": name}
    start = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


def compare(measure: Callable[[str], float], runs: int) -> dict[str, float]:
    """Return the medians of both, in ms, the slowest tenth of each, and the ratio."""
    measure("large"), measure("small")  # warm the file cache
    pairs = [(measure("large"), measure("small")) for _ in range(runs)]
    large, small = ([pair[side] for pair in pairs] for side in (0, 1))
    return {
        "large_p50_ms": statistics.median(large),
        "small_p50_ms": statistics.median(small),
        "large_p95_ms": statistics.quantiles(large, n=20)[-1],
        "small_p95_ms": statistics.quantiles(small, n=20)[-1],
        "ratio": statistics.median(a / b for a, b in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="pairs inside one process")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        for name, (files, turns) in SIZES.items():
            make(home, name, files, turns)
        found = {
            "in process": compare(lambda name: in_process_ms(home, name), given.runs),
            "whole command": compare(lambda name: whole_ms(home, name), max(given.runs // 5, 5)),
        }
    if given.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        print(
            f"{name:<14} large {row['large_p50_ms']:6.1f} ms (p95 {row['large_p95_ms']:6.1f})"
            f"   small {row['small_p50_ms']:6.1f} ms (p95 {row['small_p95_ms']:6.1f})"
            f"   ratio {row['ratio']:.2f} (at most {LIMIT})"
        )


if __name__ == "__main__":
    main()
