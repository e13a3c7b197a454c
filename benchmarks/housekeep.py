"""Cost of housekeeping, as a ratio to reading the files, for growing memories.

    python benchmarks/housekeep.py [FILES]

For a hundredth, a tenth and all of FILES (10,000), prints the time to read all files, the ratio of
all checks to it, and the time of each check alone. Each is the best of three.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.housekeeping.lines import Options, read_corpus
from familiar_cli.writing.housekeeping.run import CHECKS, look_through

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.writing.housekeeping.lines import Corpus

WORDS = [
    f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("la", "ren", "sk", "tto", "n")
]

WORDS_LOOKED_FOR = frozenset[str]().union(*(check.words for check in CHECKS))


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
    """Return the seconds of the fastest of three runs."""
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - started)
    return best


def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "memory"
        fill(root, count)
        store, options = MemoryStore(root), Options(date(2026, 6, 1))
        corpus = read_corpus(store, WORDS_LOOKED_FOR)
        plain = timed(lambda: [f.read_bytes() for f in root.rglob("*.md")])
        reading = timed(lambda: read_corpus(store, WORDS_LOOKED_FOR))
        whole = timed(lambda: look_through(store, options))
        print(
            f"{count:>6} files  plain reading {1000 * plain / count:.3f} ms a file  all checks"
            f" {1000 * whole / count:.2f} ms a file, {whole / plain:.0f} x plain"
        )
        print(f"        {'reading':<15} {reading / plain:6.1f} x plain")
        for check in CHECKS:
            alone = timed(lambda check=check: list(check.run(fresh(corpus), options)))
            print(f"        {check.name:<15} {alone / plain:6.1f} x plain")


def fresh(corpus: Corpus) -> Corpus:
    """Return the corpus with nothing computed yet."""
    return replace(corpus, notes=tuple(replace(note) for note in corpus.notes))


if __name__ == "__main__":
    look_through(MemoryStore(Path("nowhere")), Options(date(2026, 6, 1)))  # loads what is needed
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for files in (most // 100, most // 10, most):
        measure(files)
