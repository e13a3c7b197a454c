"""Retrieval of sessions and turns on LoCoMo's questions.

`python -m benchmarks.locomo FILE [--model lexical|minilm|bge-small] [--json]` takes any file in
LoCoMo's format. Each session becomes one Markdown file of a memory directory, as the program writes
them; the files are indexed and queried with the program's own index and search. All conversations
share one index; a second table uses one index per conversation.

recall@k is the share of a question's evidence sessions (or turns) among the first k hits, averaged
over questions; a hit is one session (or one turn), so k hits name k of them. MRR is 1 / the rank of
the first right session within the first 50. Questions whose evidence names no turn of the
conversation are left out. An image that a turn shares is represented by its caption, in brackets.
The intervals of the table are 95 % bootstrap intervals over questions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from familiar_cli.config.home import cache_dir
from familiar_cli.index.build import EmbeddingIndex
from familiar_cli.index.embedder import Opened, open_embedder
from familiar_cli.index.search import search
from familiar_cli.index.types import SearchOptions
from familiar_cli.memory.store.store import MemoryStore
from familiar_cli.text import slugify
from familiar_cli.tokens import heuristic
from familiar_cli.when import day_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.index.types import Wanted

MODELS = {"lexical": "none", "minilm": "minilm-l6-v2", "bge-small": "bge-small-en-v1.5"}
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "inference", 4: "single-hop", 5: "adversarial"}
SLOTS = ("night", "morning", "afternoon", "evening")
DEPTH = 10
FAR = 50
BOOTSTRAPS = 2000
PROMPT_HITS = 5
COLUMNS = (("R@5", "r5"), ("R@10", "r10"), ("MRR", "mrr"), ("turns R@10", "turns_r10"))


@dataclass(frozen=True)
class Question:
    """One question, and the files and turns that contain its answer."""

    text: str
    category: int
    files: frozenset[str]
    turns: frozenset[tuple[str, str]]


@dataclass
class Conversation:
    """One conversation as memory files: path to text, and path to the place of each turn."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    turns: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """The result of one question."""

    category: int
    r5: float
    r10: float
    mrr: float
    turns_r5: float
    turns_r10: float
    ms: float
    tokens: int


def read(path: Path) -> list[Conversation]:
    """Return the conversations in a file in LoCoMo's format."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return [conversation(sample, number) for number, sample in enumerate(data)]
    except FileNotFoundError:
        sys.exit(f"There is no file {str(path)!r}. Give the path of a LoCoMo data file.")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{str(path)!r} is no LoCoMo data file: {error!r}")


def conversation(sample: dict[str, Any], number: int) -> Conversation:
    """Return one conversation as the Markdown files that the program would write."""
    said = sample["conversation"]
    made = Conversation(str(sample.get("sample_id") or f"conversation-{number}"))
    place: dict[tuple[int, ...], tuple[str, str]] = {}
    sessions = sorted(int(k.split("_")[1]) for k in said if re.fullmatch(r"session_\d+", k))
    for session in sessions:
        turns = said[f"session_{session}"]
        if not turns:
            continue
        at = when(said[f"session_{session}_date_time"])
        rel_path = free_path(made, at)
        text, places = session_file(turns, at)
        made.files[rel_path] = text
        made.turns[rel_path] = places
        place |= {turn_id(turn["dia_id"]): (rel_path, turn["dia_id"]) for turn in turns}
    for asked in sample["qa"]:
        said_at = " ".join(map(str, asked.get("evidence") or []))
        evidence = [turn_id(found) for found in re.findall(r"D\d+:\d+", said_at)]
        turns_of = frozenset(place[e] for e in evidence if e in place)
        if turns_of:
            files = frozenset(rel_path for rel_path, _ in turns_of)
            made.questions.append(
                Question(str(asked["question"]), int(asked["category"]), files, turns_of)
            )
    return made


def turn_id(text: str) -> tuple[int, ...]:
    """Return the session and number in a turn's id; `D3:5` and `D3:05` are one."""
    return tuple(map(int, re.findall(r"\d+", text)))


def when(text: str) -> datetime:
    """Return a LoCoMo time such as `1:56 pm on 8 May, 2023`."""
    return datetime.strptime(text.strip().upper(), "%I:%M %p ON %d %B, %Y").replace(tzinfo=UTC)


def free_path(made: Conversation, at: datetime) -> str:
    """Return the path of a session file; a second session of the same slot gets a number."""
    folder = slugify(made.name) or "conversation"
    stem = f"sessions/{folder}/{at:%Y-%m-%d}-{SLOTS[at.hour // 6]}"
    count = 1
    while (path := f"{stem}{f'-{count}' if count > 1 else ''}.md") in made.files:
        count += 1
    return path


def session_file(
    turns: list[dict[str, Any]], at: datetime
) -> tuple[str, list[tuple[int, int, str]]]:
    """Return a session as Markdown, and the position of each turn in it."""
    speakers = list(dict.fromkeys(str(turn["speaker"]) for turn in turns))
    text = f"# {' and '.join(speakers)}, {day_words(at.date())}\n"
    places = []
    for turn in turns:
        words = " ".join(str(turn.get("text", "")).split())
        if turn.get("blip_caption"):
            words += f" [shares {turn['blip_caption']}]"
        start = len(text) + 1
        text += f"\n**{turn['speaker']}:** {words}\n"
        places.append((start, len(text), turn["dia_id"]))
    return text, places


def measure(
    conversations: list[Conversation], methods: dict[str, Wanted], opened: Opened
) -> dict[str, list[Row]]:
    """Index `conversations` together, ask all their questions, return the rows by method."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "memory")
        for made in conversations:
            for rel_path, text in made.files.items():
                path = root / rel_path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
        index = EmbeddingIndex(MemoryStore(root))
        index.build_if_stale(opened.embedder)
        turns = {path: places for made in conversations for path, places in made.turns.items()}
        asked = [question for made in conversations for question in made.questions]
        return {
            name: [ask(index, q, method, opened, turns) for q in asked]
            for name, method in methods.items()
        }


def ask(
    index: EmbeddingIndex,
    question: Question,
    method: Wanted,
    opened: Opened,
    turns: dict[str, list[tuple[int, int, str]]],
) -> Row:
    """Ask one question twice, for files and for lines, and compare the hits with the evidence."""
    found = search(index, question.text, SearchOptions(DEPTH, method, snippet_tokens=150), opened)
    paths = [hit.rel_path for hit in found.hits]
    if not question.files.intersection(paths):
        more = search(index, question.text, SearchOptions(FAR, method, snippet_tokens=150), opened)
        paths = [hit.rel_path for hit in more.hits]
    first = next((n for n, path in enumerate(paths) if path in question.files), None)
    order = turns_hit(index, question, method, opened, turns)
    return Row(
        question.category,
        share(paths[:5], question.files),
        share(paths[:DEPTH], question.files),
        0.0 if first is None else 1 / (first + 1),
        share(order[:5], question.turns),
        share(order[:DEPTH], question.turns),
        found.elapsed_ms,
        sum(heuristic().count(hit.text) for hit in found.hits[:PROMPT_HITS]),
    )


def turns_hit(
    index: EmbeddingIndex,
    question: Question,
    method: Wanted,
    opened: Opened,
    turns: dict[str, list[tuple[int, int, str]]],
) -> list[tuple[str, str]]:
    """Return the turns of the best lines, best first, each once."""
    lines = search(index, question.text, SearchOptions(2 * DEPTH, method, lines=True), opened)
    named: dict[tuple[str, str], None] = {}
    for hit in lines.hits:
        for begin, end, turn in turns[hit.rel_path]:
            if begin < hit.best_end and hit.best_start < end:
                named[hit.rel_path, turn] = None
    return list(named)


def share(found: list[Any], wanted: frozenset[Any]) -> float:
    """Return the share of `wanted` that was found."""
    return len(wanted.intersection(found)) / len(wanted)


def summary(rows: list[Row]) -> dict[str, Any]:
    """Return the numbers of one method, as `--json` prints them."""
    answerable = [row for row in rows if row.category in {1, 2, 3, 4}]
    return {
        "cats1_4": sessions(answerable),
        "all": sessions(rows),
        "turns": {
            "r5": mean(row.turns_r5 for row in answerable),
            "r10": mean(row.turns_r10 for row in answerable),
            "n": len(answerable),
        },
        "categories": {
            name: sessions([row for row in rows if row.category == number])
            for number, name in CATEGORIES.items()
        },
        "ms_per_query": mean(row.ms for row in rows),
        "tokens_per_query": mean(row.tokens for row in rows),
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
        some = [row for row in rows if row.category in {1, 2, 3, 4}]
        cells = [cell(title, [getattr(row, key) for row in some]) for title, key in COLUMNS]
        made = summary(rows)
        print(f"{name:8} {'  '.join(cells)}")
        by = "  ".join(
            f"{category} {numbers['r5']:.2f}/{numbers['r10']:.2f}/{numbers['mrr']:.2f}"
            for category, numbers in made["categories"].items()
            if numbers["n"]
        )
        print(
            f"         {by}  turns R@5 {made['turns']['r5']:.3f}"
            f"  {made['ms_per_query']:.1f} ms, {made['tokens_per_query']:.0f} tokens a query"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("file", type=Path, help="LoCoMo data, a JSON list of conversations")
    parser.add_argument("--model", choices=MODELS, default="lexical")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    opened = open_embedder(MODELS[given.model], cache_dir())
    if given.model != "lexical" and opened.embedder is None:
        sys.exit(f"{opened.reason}: run `{opened.hint}`.")
    methods: dict[str, Wanted] = {"grep": "grep", "lexical": "lexical"}
    if opened.embedder:
        methods |= {"dense": "dense", "fused": "hybrid"}
    conversations = read(given.file)
    together = measure(conversations, methods, opened)
    if given.json:
        print(json.dumps({name: summary(rows) for name, rows in together.items()}))
        return
    apart: dict[str, list[Row]] = {name: [] for name in methods}
    for made in conversations:
        for name, rows in measure([made], methods, opened).items():
            apart[name] += rows
    files = sum(len(made.files) for made in conversations)
    asked = sum(len(made.questions) for made in conversations)
    print(f"{files} sessions, {asked} questions, model {given.model}, {os.cpu_count()} cores")
    print("categories 1 to 4 with 95 % intervals; by category R@5/R@10/MRR")
    print_table("All sessions in one index", together)
    print_table("One index a conversation", apart)


if __name__ == "__main__":
    main()
