"""Overhead of the memory writer beside the model: `python benchmarks/writer.py [CHATS]`.

A scripted model waits as long as a real one would and then returns a perfect plan. The output is
the total time, the model's time, and the share of the rest. The goal is 20 %. CHATS is a MemoryBank
file (`memory_bank_dev.json`); without one, turns are generated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.who.identity import Author, Who
from familiar_cli.llm import tokens
from familiar_cli.llm.types import ScriptedModel
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.writer.memory_writer import MemoryWriter
from familiar_cli.writing.writer.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.llm.types import Completion, PreparedRequest

    Turn = tuple[str, str, datetime]

GOAL = 0.20


class Perfect(ScriptedModel):
    """Answers each request with a summary, a fact per person and a topic after `wait_s`."""

    def __init__(self, wait_s: float) -> None:
        super().__init__([], context_tokens=16384, max_tokens=4096)
        self.wait_s = wait_s
        self.asked = 0

    async def complete(
        self, request: PreparedRequest, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Wait, and return a plan."""
        await asyncio.sleep(self.wait_s)
        self.asked += 1
        text = json.loads(request.body)["messages"][1]["content"]
        self._replies = [json.dumps({"operations": list(plan(text, self.asked))})]
        self.requests.clear()
        return await super().complete(request, on_text)


def plan(text: str, number: int) -> Iterator[dict[str, object]]:
    ids = [int(n) for n in re.findall(r"^\[(\d+)\]", text, re.MULTILINE)]
    words = f"number {number} of many, with the bees and the garden in it"
    for path in re.findall(r"^- (sessions/\S+):", text, re.MULTILINE):
        yield {"op": "set_summary", "file": path, "lines": [f"Talk {words}."], "turns": ids[:3]}
    for path in re.findall(r"^- (people/\S+):", text, re.MULTILINE):
        lines = [f"Fact {n} {words}." for n in range(4)]
        yield {"op": "add_bullets", "file": path, "lines": lines, "turns": ids[:2]}
    topic = f"topics/topic-{number % 40}.md"
    yield {"op": "add_bullets", "file": topic, "lines": [f"Note {words}."], "turns": ids[:1]}


def fill(history: HistoryStore, chats: Path | None, turns: int) -> int:
    said = list(from_file(chats)) if chats else list(made_up(turns))
    for who, words, at in said:
        role = "user" if who else "assistant"
        author = Author("bench", who, None, who) if who else None
        history.append("bench", role, words, author=author, at=at)
    return len(said)


def made_up(turns: int) -> Iterator[Turn]:
    start = datetime(2026, 1, 1, 9, tzinfo=UTC)
    for n in range(turns):
        who = "" if n % 2 else f"P{n % 10}"
        at = start + timedelta(minutes=n % 40, hours=6 * (n // 40))
        yield who, f"Remark {n}: the garden is green and the bees are busy today.", at


def from_file(path: Path) -> Iterator[Turn]:
    for name, person in json.loads(path.read_text(encoding="utf-8")).items():
        for day, said in person["history"].items():
            at = datetime.fromisoformat(f"{day}T18:00:00+00:00")
            for n, turn in enumerate(said):
                yield name.strip(), turn["query"], at + timedelta(minutes=2 * n)
                yield "", turn["response"], at + timedelta(minutes=2 * n + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chats", nargs="?", type=Path)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--model-s", type=float, default=2.0, help="seconds per reply")
    parser.add_argument("--peak", action="store_true", help="measure memory instead of time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        history = HistoryStore(root / "history.db")
        turns = fill(history, given.chats, given.turns)
        model = Perfect(0.0 if given.peak else given.model_s)
        writer = MemoryWriter(
            MemoryStore(root / "memory"),
            history,
            model,
            tokens.heuristic(),
            Runs(root / "runs", root / "quarantine"),
            who=Who("Aria", "Aria tends a lighthouse."),
            zone=UTC,
        )
        if given.peak:
            tracemalloc.start()
        started, worked = stopwatch_s(), process_time()
        report = asyncio.run(writer.run())
        passed_s = stopwatch_s() - started
        history.close()
        print(f"{turns} turns, {report.batches} questions, {len(report.files)} files, ", end="")
        print(f"{report.spent.estimated_tokens / turns:.0f} tokens read a turn")
        if given.peak:
            print(f"peak {tracemalloc.get_traced_memory()[1] / 1e6:.1f} MB")
            return
        worked_s = process_time() - worked
        own = passed_s - report.spent.model_s
        print(f"{passed_s:.2f} s, the model {report.spent.model_s:.2f} s, the rest {own:.2f} s")
        print(f"{own / report.spent.model_s:.1%} beside the model; the goal is {GOAL:.0%}")
        print(f"of these {worked_s:.2f} s of work, which a busy machine stretches")


if __name__ == "__main__":
    main()
