"""Cost of many people in processor time, as a ratio to the fewest.

Two things are measured: finding the names in a message (`names`), and assembling the whole prompt
of a turn in which three people are named (`prompt`), each with the familiar opened anew and all
files indexed. The sizes alternate, A B C A B C, so that a drift in machine speed affects all alike;
a ratio is the median over the rounds. Also measured, once: the time of the first scan of all files,
and of a thorough scan of unchanged ones, which runs after the reply.
`python -m benchmarks.people [--sizes 1000,50000] [--runs 60] [--json]`; it takes minutes to index
50,000 people.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.actions.talk.talk import assemble
from familiar_cli.base import files
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT = 1.5
LONG_AGO_S = 1e9
# However busy the machine is, nothing is left out.
SETTINGS = '[llm]\npreset = "custom"\n\n[context]\nprovider_deadline_s = 600.0\n'
files.SETTLED_NS = -1  # what was written just now would be looked at twice
ANNA = Author("discord", "1", display_name="Anna")
SAID = "Has Zoë3 Bell seen nick5 or 山田2号? The rest of you will have to wait until the morning."


def make(home: Path, size: int) -> None:
    """Write a familiar that knows that many people, all of them for years."""
    people = home / f"f{size}" / "memory" / "people"
    people.mkdir(parents=True)
    for number in range(size):
        path = people / f"discord-{number}.md"
        names = f"- nick{number}\n- Zoë{number} Bell\n- 山田{number}号\n"
        text = f"# Person {number}\n\nLikes tea.\n\n## Aliases\n\n{names}"
        path.write_text(text, encoding="utf-8")
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    os.utime(people, (LONG_AGO_S, LONG_AGO_S))
    (home / f"f{size}" / "character.toml").write_text(SETTINGS, "utf-8")
    with Familiar.load_from_disk(home, f"f{size}") as familiar:
        for _ in range(2):  # the second time finds all in step
            familiar.finder.index_words()


def look(home: Path, size: int) -> dict[str, float]:
    """Return the cost of the first scan, and of a thorough one of unchanged files, in ms."""
    with Familiar.load_from_disk(home, f"f{size}") as familiar, closing(familiar.names()) as names:
        start = time.perf_counter()
        names.publish()
        first = time.perf_counter()
        people = familiar.paths.memory / "people"
        os.utime(people / "_aliases.json", (LONG_AGO_S, LONG_AGO_S))
        os.utime(people, (LONG_AGO_S, LONG_AGO_S))
        names.publish()
        names.refresh(thorough=True)
        again = time.perf_counter()
        names.refresh(thorough=True)
        return {
            "first_ms": 1000 * (first - start),
            "thorough_ms": 1000 * (time.perf_counter() - again),
        }


def names_ms(home: Path, size: int) -> float:
    """Return the processor time to find the names in a message."""
    with Familiar.load_from_disk(home, f"f{size}") as familiar:
        _ = familiar.memory
        start = time.process_time()
        with closing(familiar.names()) as names:
            names.refresh()
            found = names.find(SAID)
        assert len(found) == 3
        return 1000 * (time.process_time() - start)


def prompt_ms(home: Path, size: int) -> float:
    """Return the processor time of the whole prompt."""
    start = time.process_time()
    with Familiar.load_from_disk(home, f"f{size}") as familiar:
        trace = asyncio.run(assemble(familiar, Said(SAID, ANNA)))
    kept = [piece for piece in trace.contributions if piece.source == "content_search.people"]
    assert len(kept) == 4
    return 1000 * (time.process_time() - start)


def compare(
    measure: Callable[[int], float], sizes: Sequence[int], runs: int
) -> dict[int, dict[str, float]]:
    """Return median and slowest twentieth of each size in ms, and its ratio to the first."""
    for size in sizes:
        measure(size)
    rounds = [[measure(size) for size in sizes] for _ in range(runs)]
    return {
        size: {
            "p50_ms": statistics.median(times := [row[at] for row in rounds]),
            "p95_ms": statistics.quantiles(times, n=20)[-1],
            "ratio": statistics.median(row[at] / row[0] for row in rounds),
        }
        for at, size in enumerate(sizes)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,1000,10000", help="people in each familiar")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home, sizes = Path(directory), list(map(int, given.sizes.split(",")))
        for size in sizes:
            make(home, size)
        looks = {size: look(home, size) for size in sizes}
        found = {
            "names": compare(lambda size: names_ms(home, size), sizes, given.runs),
            "prompt": compare(lambda size: prompt_ms(home, size), sizes, given.runs),
        }
    if given.json:
        print(json.dumps({**found, "look": looks}))
        return
    for what, rows in found.items():
        for size, row in rows.items():
            print(
                f"{what:<7} {size:>6} people   p50 {row['p50_ms']:6.2f} ms   "
                f"p95 {row['p95_ms']:6.2f} ms   ratio {row['ratio']:.2f} (at most {LIMIT})"
            )
    for size, row in looks.items():
        print(
            f"look    {size:>6} people   the first {row['first_ms']:8.1f} ms   "
            f"a thorough one {row['thorough_ms']:6.1f} ms"
        )


if __name__ == "__main__":
    main()
