"""Cost of one more week for a familiar that is one year old, and for one that is ten.

Run `python -m benchmarks.consolidate`. The model answers at once, so that only the program's
own work is measured; the tokens of the prompts are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from familiar_cli.base.who.identity import Who
from familiar_cli.llm import tokens
from familiar_cli.llm.asking import Asker
from familiar_cli.llm.types import Completion, ScriptedModel
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.consolidation.calendar import Consolidator, survey_periods
from familiar_cli.writing.consolidation.composing import Composer
from familiar_cli.writing.consolidation.engine import FileMaker
from familiar_cli.writing.consolidation.period_states import Today

DAY = timedelta(days=1)
FIRST = date(2010, 1, 4)  # a Monday, and the first day of an ISO year
WORDS = "Anna moved the bees again, and Bob sang in the kitchen until it was dark outside. "


class Answering(ScriptedModel):
    """A model that says the same in other words each time."""

    def __init__(self) -> None:
        super().__init__([], context_tokens=32_000)

    async def complete(self, request, on_text=None):  # noqa: ANN001, ANN201, ARG002, D102
        self.requests.append(request)
        number = len(self.requests)
        points = [{"text": f"Bees moved, {number}-{n}: {WORDS}", "from": [1]} for n in range(5)]
        text = json.dumps({"summary": f"{WORDS} {number}", "points": points})
        return Completion(text, "stop", self.name, None)


@dataclass(frozen=True)
class Cost:
    """The cost of a run."""

    seconds: float
    prompt_tokens: int
    files: int


class Life:
    """A familiar with one session a day."""

    def __init__(self, root: Path) -> None:
        journal = GitJournal(root / "journal.git", root / "memory")
        self.store = MemoryStore(root / "memory", journal=journal)
        self.cache = root / "cache.json"
        self.day = FIRST

    def live(self, days: int) -> None:
        """Write one session a day."""
        directory = self.store.root / "sessions"
        directory.mkdir(parents=True, exist_ok=True)
        for _ in range(days):
            lines = "".join(f"- {WORDS}{self.day.toordinal()}-{n}.\n" for n in range(6))
            path = directory / f"{self.day}-evening.md"
            path.write_text(f"# {self.day}, evening\n\n{lines}", encoding="utf-8", newline="\n")
            self.day += DAY

    def consolidate(self) -> Cost:
        """Make what is due on the morning after the last day."""
        model = Answering()
        count = tokens.heuristic().count
        asker = Asker(model, count, Path, "consolidation", reply_tokens=1200)
        composer = Composer(asker, Who("Aria"), part_tokens=6000)
        started = time.perf_counter()
        now = datetime.combine(self.day, datetime.min.time(), UTC) + timedelta(hours=6)
        states = survey_periods(self.store, Today(now, UTC), "bench", self.cache)
        engine = FileMaker(self.store, lambda: composer)
        report = asyncio.run(Consolidator(states, engine).run())
        seconds = time.perf_counter() - started
        return Cost(seconds, asker.spent.estimated_tokens, len(report.done))


def measure(years: int, weeks: int) -> tuple[Cost, Cost]:
    """Return the cost of all years at once, and the average cost of each further week."""
    with tempfile.TemporaryDirectory() as directory:
        life = Life(Path(directory))
        life.live(364 * years)
        past = life.consolidate()
        time.sleep(5.5)  # files that young are read again, lest an edit go unseen
        life.consolidate()
        found = []
        for _ in range(weeks):
            life.live(7)
            found.append(life.consolidate())
    middle = sorted(found, key=lambda cost: cost.seconds)[len(found) // 2]
    tokens_a_week = sum(cost.prompt_tokens for cost in found) // len(found)
    return past, Cost(middle.seconds, tokens_a_week, sum(c.files for c in found) // len(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, nargs="*", default=[1, 10])
    parser.add_argument("--weeks", type=int, default=13)
    given = parser.parse_args()
    first = 0.0
    for years in given.years:
        past, week = measure(years, given.weeks)
        first = first or week.seconds
        print(
            f"year {years + 1:>2}: a week takes {week.seconds:.2f} s and {week.prompt_tokens:,} "
            f"tokens of prompts for {week.files} files; "
            f"all the years before took {past.seconds:.1f} s and {past.prompt_tokens:,} tokens; "
            f"ratio {week.seconds / first:.2f}"
        )


if __name__ == "__main__":
    main()
