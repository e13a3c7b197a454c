"""Time to assemble a prompt as people and turns grow, as a ratio to a small familiar.

Along each axis the larger familiars alternate with the smallest, A B A B, so that a drift in
machine speed affects both alike. The ratio is the median over the pairs, and that of the slowest
twentieths. It is measured inside one process, where every turn opens the familiar anew, and for the
largest familiar also as the whole command `familiar ask TEXT --dry-run`. No model is called, the
speaker and one other person are named, and the token budget is 6,000.
`python -m benchmarks.assemble [--runs 60] [--json]`.
"""

from __future__ import annotations

import argparse
import asyncio
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.actions.talk.talk import assemble
from familiar_cli.base.files import SETTLED_NS
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.rows import COLUMNS, to_row
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.memory.pages.front_matter import field_markdown

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 1.5
LONG_AGO_S = 1e9
# However busy the machine is, nothing is left out.
SETTINGS = '[llm]\npreset = "custom"\n\n[context]\nprovider_deadline_s = 600.0\n'
Row = dict[str, float]
PEOPLE = (10, 1_000, 10_000)
TURNS = (100, 10_000, 1_000_000)
SMALL = (PEOPLE[0], TURNS[0])
LARGE = (PEOPLE[-1], TURNS[-1])
WORDS = "the harbour light keeps watch while ships and gulls come home through slow rain".split()  # noqa: SIM905
ANNA = Author("cli", "3", display_name="Anna")
QUESTION = "Is Nick7 home tonight?"


def text(chance: random.Random, words: int) -> str:
    """Return that many random words."""
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


def make(home: Path, size: tuple[int, int]) -> str:
    """Write a familiar with that many people's files and turns, and return its id."""
    people, turns = size
    name = f"p{people}-t{turns}"
    chance = random.Random(7)
    memory = home / name / "memory"
    (memory / "people").mkdir(parents=True)
    for number in range(people):
        path = memory / "people" / f"cli-{number}.md"
        page = f"# Person {number}\n\n{text(chance, 60)}\n\n## Aliases\n\n- Nick{number}\n"
        path.write_text(page, encoding="utf-8")
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    for field in ("description", "personality", "scenario"):
        own = memory / "self" / f"{field}.md"
        own.parent.mkdir(exist_ok=True)
        own.write_text(field_markdown(field, text(chance, 150)), encoding="utf-8")
    (home / name / "character.toml").write_text(SETTINGS, encoding="utf-8")
    fill(home / name / "history.db", chance, turns)
    time.sleep(SETTLED_NS / 1e9)  # what was written just now is looked at twice
    with Familiar.load_from_disk(home, name) as familiar, closing(familiar.names()) as names:
        names.refresh()  # the first look at all files and turns is no part of a turn
        familiar.finder.index_words()
        familiar.index.refresh()  # the second one finds all in step
    return name


def fill(path: Path, chance: random.Random, count: int) -> None:
    """Write `count` turns in one transaction; the store uses one per turn."""
    with closing(HistoryStore(path)) as store:
        first = store.append("cli", "user", text(chance, 40), author=ANNA)
    marks = ", ".join("?" * len(COLUMNS))
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany(
            f"INSERT INTO turns ({', '.join(COLUMNS)}) VALUES ({marks})",
            (to_row(first) for _ in range(count - 1)),
        )


def in_process_ms(home: Path, name: str) -> float:
    """Return the time of one prompt, with the familiar opened anew."""
    start = time.perf_counter()
    with Familiar.load_from_disk(home, name) as familiar:
        trace = asyncio.run(assemble(familiar, Said(QUESTION, ANNA)))
    assert trace.messages[-1].content == QUESTION
    return (time.perf_counter() - start) * 1000


def whole_ms(home: Path, name: str) -> float:
    """Return the time of the whole command."""
    command = [sys.executable, "-m", "familiar_cli", "ask", QUESTION, "--dry-run"]
    env = {**os.environ, "FAMILIAR_HOME": str(home), "FAMILIAR_ID": name}
    start = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


def compare(measure: Callable[[str], float], large: str, small: str, runs: int) -> Row:
    """Return the medians of both, in ms, the slowest twentieth of each, and the ratios."""
    measure(large), measure(small)  # warm the file cache, and the index of names
    pairs = [(measure(large), measure(small)) for _ in range(runs)]
    slow, quick = ([pair[side] for pair in pairs] for side in (0, 1))
    slow_p95, quick_p95 = (statistics.quantiles(times, n=20)[-1] for times in (slow, quick))
    return {
        "p50_ms": statistics.median(slow),
        "small_p50_ms": statistics.median(quick),
        "p95_ms": slow_p95,
        "small_p95_ms": quick_p95,
        "ratio_p50": statistics.median(a / b for a, b in pairs),
        "ratio_p95": slow_p95 / quick_p95,
    }


def measure_all(home: Path, runs: int) -> dict[str, Row]:
    """Return a row for each size along both axes, and for the largest as a whole command."""
    sizes = {SMALL, LARGE, *((n, TURNS[0]) for n in PEOPLE), *((PEOPLE[0], n) for n in TURNS)}
    names = {size: make(home, size) for size in sorted(sizes)}
    inside = partial(in_process_ms, home)
    found = {}
    for size in sorted(sizes - {SMALL}):
        title = f"{size[0]:,} people, {size[1]:,} turns"
        found[title] = compare(inside, names[size], names[SMALL], runs)
    whole = partial(whole_ms, home)
    found["whole command, largest"] = compare(whole, names[LARGE], names[SMALL], max(runs // 6, 5))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60, help="pairs inside one process")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = measure_all(Path(directory), given.runs)
    if given.json:
        print(json.dumps(found))
        return
    print(f"against {SMALL[0]} people, {SMALL[1]} turns; ratios at most {LIMIT}")
    for name, row in found.items():
        print(
            f"{name:<32} p50 {row['p50_ms']:6.1f} ms  p95 {row['p95_ms']:6.1f} ms"
            f"   ratio p50 {row['ratio_p50']:.2f}  p95 {row['ratio_p95']:.2f}"
        )


if __name__ == "__main__":
    main()
