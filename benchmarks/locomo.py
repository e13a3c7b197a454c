"""Retrieval of sessions and turns on LoCoMo's questions.

`python -m benchmarks.locomo FILE [--model lexical|minilm|bge-small] [--distractors FILE]
[--summaries] [--json]` takes any file in LoCoMo's format. Each session becomes one Markdown file of
a memory directory, as the program writes them; the files are indexed and queried with the program's
own index and search. All conversations share one index; a second table uses one index per
conversation. `--distractors` adds the sessions of another file, in LoCoMo's or MemoryBank's format,
to the shared index. `--summaries` keeps what a writer leaves of a session, instead of its turns.

recall@k is the share of a question's evidence sessions (or turns) among the first k hits, averaged
over questions; a hit is one session (or one turn), so k hits name k of them. `any10` is the share
of questions with one evidence turn or more among ten. With `--summaries` a bullet names the turns
that it rests on, turns that no bullet names cannot be found, and everyone has a file with their
name. MRR is 1 / the rank of the first right session within the first 50. Questions whose evidence
names no turn of the conversation are left out. The intervals of the table are 95 % bootstrap
intervals over questions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from benchmarks.conversations import pages, read
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.llm.tokens import heuristic
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.embedder import EmbedderChoice, open_embedder
from familiar_cli.store.search.search import search_memory
from familiar_cli.store.search.types import SearchOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.conversations import Conversation, Pages, Place, Question, TurnId
    from familiar_cli.store.search.types import Wanted

MODELS = {"lexical": "none", "minilm": "minilm-l6-v2", "bge-small": "bge-small-en-v1.5"}
ADVERSARIAL = 5
CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "inference",
    4: "single-hop",
    ADVERSARIAL: "adversarial",
}
DEPTH = 10
FAR = 50
BOOTSTRAPS = 2000
PROMPT_HITS = 5
COLUMNS = (("R@5", "r5"), ("R@10", "r10"), ("MRR", "mrr"), ("turns R@10", "turns_r10"))


@dataclass(frozen=True)
class Row:
    """The result of one question."""

    category: int
    r5: float
    r10: float
    mrr: float
    turns_r5: float
    turns_r10: float
    turns_any10: float
    ms: float
    tokens: int


@dataclass(frozen=True)
class Measured:
    """The rows by method, and what building the index cost."""

    rows: dict[str, list[Row]]
    build_s: float
    lines: int


@dataclass(frozen=True)
class Asking:
    """An index of several conversations, and how it is asked."""

    index: EmbeddingIndex
    opened: EmbedderChoice
    places: dict[str, list[Place]]


def measure(
    conversations: list[Conversation],
    methods: dict[str, Wanted],
    opened: EmbedderChoice,
    *,
    distractors: Sequence[Conversation] = (),
    summaries: bool = False,
) -> Measured:
    """Index `conversations` together with `distractors`, and ask the questions of the former."""
    made = [pages(one, summaries=summaries) for one in (*conversations, *distractors)]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "memory")
        for one in made:
            write(root, one)
        index = EmbeddingIndex(MemoryStore(root))
        start = time.perf_counter()
        index.build_if_stale(opened.embedder)
        build_s = time.perf_counter() - start
        places = {path: held for one in made for path, held in one.places.items()}
        asking = Asking(index, opened, places)
        asked = [
            (question, path_of.path_of)
            for one, path_of in zip(conversations, made, strict=False)
            for question in one.questions
        ]
        rows = {
            name: [ask(asking, q, path_of, method) for q, path_of in asked]
            for name, method in methods.items()
        }
        return Measured(rows, round(build_s, 3), index.status().lines)


def write(root: Path, made: Pages) -> None:
    """Write memory files."""
    for rel_path, text in made.files.items():
        path = root / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def ask(asking: Asking, question: Question, path_of: dict[TurnId, str], method: Wanted) -> Row:
    """Ask one question twice, for files and for lines, and compare the hits with the evidence."""
    files = frozenset(path_of[turn] for turn in question.turns)
    turns = frozenset((path_of[turn], turn) for turn in question.turns)
    options = SearchOptions(k=DEPTH, method=method, snippet_tokens=150, viewer=OWNER)
    found = search_memory(asking.index, question.text, options, asking.opened)
    paths = [hit.rel_path for hit in found.hits]
    if not files.intersection(paths):
        more = search_memory(asking.index, question.text, replace(options, k=FAR), asking.opened)
        paths = [hit.rel_path for hit in more.hits]
    first = next((n for n, path in enumerate(paths) if path in files), None)
    order = turns_hit(asking, question, method)
    return Row(
        question.category,
        share(paths[:5], files),
        share(paths[:DEPTH], files),
        0.0 if first is None else 1 / (first + 1),
        share(order[:5], turns),
        share(order[:DEPTH], turns),
        float(not turns.isdisjoint(order[:DEPTH])),
        found.elapsed_ms,
        sum(heuristic().count(hit.text) for hit in found.hits[:PROMPT_HITS]),
    )


def turns_hit(asking: Asking, question: Question, method: Wanted) -> list[tuple[str, TurnId]]:
    """Return the turns of the best lines, best first, each once."""
    options = SearchOptions(k=2 * DEPTH, method=method, lines=True, viewer=OWNER)
    lines = search_memory(asking.index, question.text, options, asking.opened)
    named: dict[tuple[str, TurnId], None] = {}
    for hit in lines.hits:
        for begin, end, turns in asking.places.get(hit.rel_path, ()):
            if begin < hit.best_end and hit.best_start < end:
                named |= dict.fromkeys((hit.rel_path, turn) for turn in turns)
    return list(named)


def share(found: list[Any], wanted: frozenset[Any]) -> float:
    """Return the share of `wanted` that was found."""
    return len(wanted.intersection(found)) / len(wanted)


def summary(rows: list[Row], build_s: float) -> dict[str, Any]:
    """Return the numbers of one method, as `--json` prints them."""
    answerable = [row for row in rows if row.category != ADVERSARIAL]
    adversarial = [row for row in rows if row.category == ADVERSARIAL]
    return {
        "cats1_4": sessions(answerable),
        "all": sessions(rows),
        "turns": turns(answerable),
        "turns_adversarial": turns(adversarial),
        "categories": {
            name: sessions([row for row in rows if row.category == number])
            for number, name in CATEGORIES.items()
        },
        "ms_per_query": mean(row.ms for row in rows),
        "ms_p50": round(statistics.median(row.ms for row in rows), 2) if rows else 0.0,
        "tokens_per_query": mean(row.tokens for row in rows),
        "build_s": build_s,
    }


def turns(rows: list[Row]) -> dict[str, float]:
    """Return turn-level recall over `rows`; `any10`: one evidence turn or more among ten."""
    return {
        "r5": mean(row.turns_r5 for row in rows),
        "r10": mean(row.turns_r10 for row in rows),
        "any10": mean(row.turns_any10 for row in rows),
        "n": len(rows),
    }


def sessions(rows: list[Row]) -> dict[str, float]:
    """Return session-level recall and MRR over `rows`."""
    return {
        "r5": mean(row.r5 for row in rows),
        "r10": mean(row.r10 for row in rows),
        "mrr": mean(row.mrr for row in rows),
        "n": len(rows),
    }


def mean(values: Iterable[float]) -> float:
    """Return the mean to four places; 0 of nothing."""
    found = list(values)
    return round(statistics.fmean(found), 4) if found else 0.0


def interval(values: list[float]) -> str:
    """Return the 95 % bootstrap interval of a mean."""
    if not values:
        return ""
    chance = random.Random(0)
    means = sorted(
        statistics.fmean(chance.choices(values, k=len(values))) for _ in range(BOOTSTRAPS)
    )
    low, high = means[int(0.025 * BOOTSTRAPS)], means[int(0.975 * BOOTSTRAPS) - 1]
    return f"{low:.3f}–{high:.3f}"


def cell(title: str, values: list[float]) -> str:
    """Return one mean with its interval."""
    return f"{title} {mean(values):.3f} ({interval(values)})"


def print_table(title: str, found: dict[str, list[Row]]) -> None:
    """Print one table for people."""
    print(f"\n{title}")
    for name, rows in found.items():
        some = [row for row in rows if row.category != ADVERSARIAL]
        cells = [cell(title, [getattr(row, key) for row in some]) for title, key in COLUMNS]
        made = summary(rows, 0.0)
        print(f"{name:8} {'  '.join(cells)}")
        by = "  ".join(
            f"{category} {numbers['r5']:.2f}/{numbers['r10']:.2f}/{numbers['mrr']:.2f}"
            for category, numbers in made["categories"].items()
            if numbers["n"]
        )
        print(
            f"         {by}  turns R@5 {made['turns']['r5']:.3f}, any@10"
            f" {made['turns']['any10']:.3f}, adversarial {made['turns_adversarial']['r10']:.3f}"
            f"  {made['ms_p50']:.1f} ms, {made['tokens_per_query']:.0f} tokens a query"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("file", type=Path, help="LoCoMo data, a JSON list of conversations")
    parser.add_argument("--model", choices=MODELS, default="lexical")
    parser.add_argument(
        "--distractors", type=Path, metavar="FILE", help="sessions to index beside those asked for"
    )
    parser.add_argument(
        "--summaries", action="store_true", help="index what a writer leaves instead of the turns"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    opened = open_embedder(MODELS[given.model], cache_dir())
    if given.model != "lexical" and opened.embedder is None:
        sys.exit(f"{opened.reason}: run `{opened.hint}`.")
    methods: dict[str, Wanted] = {"grep": "grep", "lexical": "lexical"}
    if opened.embedder:
        methods |= {"dense": "dense", "fused": "hybrid"}
    asked = read(given.file)
    others = read(given.distractors) if given.distractors else []
    together = measure(asked, methods, opened, distractors=others, summaries=given.summaries)
    if given.json:
        print(json.dumps(as_json(together)))
        return
    print_all(given, asked, others, together)
    apart: dict[str, list[Row]] = {name: [] for name in methods}
    for one in asked:
        for name, rows in measure([one], methods, opened, summaries=given.summaries).rows.items():
            apart[name] += rows
    print_table("One index a conversation", apart)


def as_json(made: Measured) -> dict[str, Any]:
    """Return what `--json` prints: the methods, and what the one index of all cost."""
    return {
        **{name: summary(rows, made.build_s) for name, rows in made.rows.items()},
        "build_s": made.build_s,
        "lines": made.lines,
        "build_s_per_1000_lines": per_1000(made),
    }


def per_1000(made: Measured) -> float:
    """Return how long 1,000 lines take to be indexed, in seconds."""
    return round(1000 * made.build_s / made.lines, 3) if made.lines else 0.0


def print_all(
    given: argparse.Namespace,
    asked: Sequence[Conversation],
    others: Sequence[Conversation],
    together: Measured,
) -> None:
    """Print what was measured, and the table of the one index of all."""
    files = sum(len(one.sessions) for one in asked)
    beside = sum(len(one.sessions) for one in others)
    questions = sum(len(one.questions) for one in asked)
    print(
        f"{files} sessions{f' and {beside} of others' if beside else ''}, {questions} questions,"
        f" model {given.model}, {os.cpu_count()} cores; {together.lines} lines indexed in"
        f" {together.build_s:.1f} s, {per_1000(together):.2f} s per 1,000"
    )
    print("categories 1 to 4 with 95 % intervals; by category R@5/R@10/MRR")
    print_table("All sessions in one index", together.rows)


if __name__ == "__main__":
    main()
