"""Does looking through memory cost what reading it costs, however much there is?

    python benchmarks/housekeep.py [FILES]

Prints, for a tenth and for all of FILES (10,000), how long plain reading of all files takes, how
long all checks take, and each check alone.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.housekeeping.reading import read_corpus
from familiar_cli.housekeeping.run import CHECKS, look_through
from familiar_cli.housekeeping.types import Options
from familiar_cli.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = [
    f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("la", "ren", "sk", "tto", "n")
]


def page(chance: random.Random, number: int, count: int) -> str:
    lines = [f"# Person {number}", ""]
    for _ in range(25):
        words = " ".join(chance.choices(WORDS, k=12))
        lines.append(f"- {words} ({2020 + chance.randrange(6)}-0{1 + chance.randrange(9)}-11)")
    lines.append(
        f"- knows [someone](discord-{chance.randrange(count)}.md) and Person {number // 2}"
    )
    return "\n".join(lines) + "\n"


def fill(root: Path, count: int) -> None:
    chance = random.Random(7)
    for directory in ("people", "topics"):
        (root / directory).mkdir(parents=True)
    previous = ""
    for number in range(count):
        where = f"people/discord-{number}.md" if number % 2 else f"topics/t{number}.md"
        text = page(chance, number, count)
        if number % 10 == 2:  # a near duplicate of the one before it
            text = previous.replace("- ", "- so ", 1)
        (root / where).write_text(text, encoding="utf-8")
        previous = text


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "memory"
        fill(root, count)
        store, options = MemoryStore(root), Options(date(2026, 6, 1))
        plain = min(timed(lambda: [f.read_bytes() for f in root.rglob("*.md")]) for _ in range(3))
        reading = timed(lambda: read_corpus(store))
        found = []
        whole = timed(lambda: found.append(look_through(store, options)))
        print(
            f"{count:>6} files  plain reading {plain:6.2f} s  the store's {reading:6.2f} s  all"
            f" checks {whole:6.2f} s ({whole / plain:.1f} x plain, {1000 * whole / count:.2f} ms "
            f"a file), {len(found[0].findings)} findings"
        )
        corpus = read_corpus(store)
        for check in CHECKS:
            alone = timed(lambda check=check: list(check.run(corpus, options)))
            print(f"        {check.name:<15} {alone:6.2f} s")


if __name__ == "__main__":
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    measure(most // 10)
    measure(most)
