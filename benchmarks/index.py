"""Cost of the index, as ratios to the bare libraries on the same machine.

`python -m benchmarks.index [--sizes 1000,10000,100000] [--files 10000] [--model minilm] [--json]`

- build: texts per second of the program's own build, to the bare model with the same texts in the
  same order and batches (at least 0.9).
- refresh: checking unchanged files, to a bare walk with a `stat` of each (at most 3), as a process
  does it once; `again`: as one does it that watches them.
- query: one search in this process (without the refresh, which is measured above), to one numpy
  product of all vectors plus one bare FTS5 query over the same chunks (at most 4). No model reads
  the question on either side; with `--model`, `asked_ratio` is the same with one reading on both.
- process: a whole `familiar search` by words, relative to `python -c "import typer"` (at most 2).

Pairs alternate, A B A B, and medians are used, so that a drift in machine speed affects both.
`cpu` is processor time, which a busy machine changes least.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.startup import measure as measure_process
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store import fts
from familiar_cli.store.memory.store import watch
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search import schema, vectors
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.embedder import (
    AT_ONCE,
    SPECS,
    EmbedderChoice,
    Encoded,
    Encoder,
    OnnxEmbedder,
    Spec,
    open_embedder,
)
from familiar_cli.store.search.search import search_memory
from familiar_cli.store.search.types import SearchOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.store.search.embedder import Embedder, Matrix

LIMITS = {"build": 0.9, "refresh": 3.0, "query": 4.0, "process": 2.0}
DIMENSION = 384
TURNS_A_FILE = 40
TOKENS = 20  # of a line
TOKEN_WIDTH = 64
ASKED = "What did Ada say about the names of keyword arguments in a function call?"
WORDS = ("ada", "say", "names", "keyword", "arguments", "function", "call")


class Chance:
    """A free embedder: random vectors, to isolate a query's own cost; a question's are kept."""

    model = "chance"
    dimension = DIMENSION
    spec = Spec("chance", "chance", DIMENSION, 256)
    token_version = "chance"

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Return a random vector for each text."""
        rows = np.random.default_rng(0).standard_normal((len(texts), DIMENSION), np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    queries = passages

    def read_passages(self, texts: Sequence[str]) -> Encoded:
        """Return random vectors of texts, and of as many tokens as a line has."""
        return self._encoded(texts, TOKENS)

    def read_queries(self, texts: Sequence[str]) -> Encoded:
        """Return random vectors of questions, and of as many tokens as one has."""
        return _random_question(tuple(texts))

    def _encoded(self, texts: Sequence[str], tokens: int) -> Encoded:
        chance = np.random.default_rng(len(texts))
        rows = chance.standard_normal((tokens * len(texts), TOKEN_WIDTH), np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return Encoded(self.passages(texts), rows, (tokens,) * len(texts), WORDS * len(texts))


@cache
def _random_question(texts: tuple[str, ...]) -> Encoded:
    return Chance()._encoded(texts, len(WORDS))  # noqa: SLF001


def prose() -> list[str]:
    """Return English sentences from the Python manual."""
    from pydoc_data.topics import topics

    text = " ".join(" ".join(page.split()) for page in topics.values())
    return [s for s in re.split(r"(?<=[.!?]) ", text) if 40 < len(s) < 200 and s.isascii()]


def fill(root: Path, files: int, turns: int) -> None:
    """Write conversations of `turns` turns each."""
    chance, sentences = random.Random(1), prose()
    for number in range(files):
        path = root / "sessions" / f"{number // 1000:03}" / f"{number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        said = (
            f"**{'Ada' if n % 2 else 'Bo'}:** {chance.choice(sentences)}\n" for n in range(turns)
        )
        path.write_text(f"# Talk {number}\n\n" + "\n".join(said), encoding="utf-8")


def pairs(one: Callable[[], object], two: Callable[[], object], runs: int) -> dict[str, float]:
    """Return the medians of both in ms, and the median of the paired ratios."""
    one(), two()
    taken = [(*both_seconds(one), *both_seconds(two)) for _ in range(runs)]
    ours, ours_cpu, bare, bare_cpu = (
        statistics.median(column) * 1000 for column in zip(*taken, strict=True)
    )
    return {
        "ms": round(ours, 2),
        "bare_ms": round(bare, 2),
        "ratio": round(statistics.median(row[0] / row[2] for row in taken), 2),
        "cpu_ms": round(ours_cpu, 2),
        "bare_cpu_ms": round(bare_cpu, 2),
        "cpu_ratio": round(statistics.median(row[1] / row[3] for row in taken), 2),
    }


def seconds(call: Callable[[], object]) -> float:
    return both_seconds(call)[0]


def both_seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Return how long a call takes, and how much of the processor."""
    start, start_cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - start_cpu


def build(embedder: Embedder, directory: Path) -> dict[str, float]:
    """Compare our build with the bare model on the same texts."""
    fill(directory / "memory", 8, TURNS_A_FILE)
    assert isinstance(embedder, OnnxEmbedder)
    embedder.passages(["warm"])
    read: list[str] = []
    given = embedder.read_passages

    def listen(texts: Sequence[str]) -> Encoded:
        read.extend(texts)
        return given(texts)

    embedder.read_passages = listen  # type: ignore[method-assign]
    index = EmbeddingIndex(MemoryStore(directory / "memory"))
    ours = seconds(lambda: index.build_if_stale(embedder))
    embedder.read_passages = given  # type: ignore[method-assign]
    model = Encoder(embedder.spec, model_directory(embedder), optimised=True)
    batches = [read[at : at + AT_ONCE] for at in range(0, len(read), AT_ONCE)]
    bare = seconds(lambda: [model.pooled(batch) for batch in batches])
    count = len(read)
    return {
        "texts": count,
        "per_second": round(count / ours, 1),
        "bare_per_second": round(count / bare, 1),
        "ratio": round(bare / ours, 3),
    }


def refresh(directory: Path, files: int, runs: int) -> dict[str, float]:
    """Compare a refresh of unchanged files with a bare walk."""
    root = directory / "memory"
    fill(root, files, 1)
    then = time.time() - 100
    for path in root.rglob("*.md"):
        os.utime(path, (then, then))
    index = EmbeddingIndex(MemoryStore(root))
    index.refresh()
    time.sleep(2.5)  # until their times are old enough to be trusted
    index.refresh()
    assert index.refresh().unchanged == files

    def bare() -> None:
        for folder, _, names in os.walk(root):
            for name in names:
                os.stat(f"{folder}/{name}")  # noqa: PTH116  # the barest there is

    def once() -> None:
        watch.stop_watching()
        index.refresh()

    found = pairs(once, bare, runs)
    for _ in range(3):
        index.refresh()
    again = pairs(index.refresh, bare, runs)["cpu_ratio"]
    return {"files": files, **found, "again_cpu_ratio": again}


def question_s(embedder: Embedder | None, runs: int) -> float:
    """Return how much of the processor it takes to read the question; 0: no model is measured."""
    if embedder is None:
        return 0.0
    embedder.queries([ASKED])
    # A model remembers the last questions, so each is another one.
    asked = [f"{ASKED} {number}" for number in range(runs)]
    return statistics.median(both_seconds(lambda q=q: embedder.queries([q]))[1] for q in asked)


def query(directory: Path, pieces: int, runs: int, embedder: Embedder | None) -> dict[str, float]:
    """Compare one search with one product and one full-text query over as many chunks."""
    root = directory / f"memory-{pieces}"
    per_file = TURNS_A_FILE * 3 // 2
    fill(root, max(1, pieces // per_file), TURNS_A_FILE)
    index = EmbeddingIndex(MemoryStore(root))
    opened = EmbedderChoice(Chance())
    index.build_if_stale(opened.embedder)
    with sqlite3.connect(index.directory / schema.FILE) as db:
        matrix = np.concatenate(
            [part["vector"] for part in vectors.load_vectors(db, index.directory).parts]
        )
        rows = db.execute("SELECT id, heading_path, text FROM chunks").fetchall()
    db.close()
    plain = sqlite3.connect(":memory:")
    plain.execute(f'CREATE VIRTUAL TABLE t USING fts5 (title, body, tokenize = "{fts.TOKENIZER}")')
    plain.executemany("INSERT INTO t (rowid, title, body) VALUES (?, ?, ?)", rows)
    vector = Chance().queries([ASKED])[0]
    matched = "SELECT rowid, rank FROM t WHERE t MATCH ? ORDER BY rank LIMIT 200"

    def bare() -> None:
        scores = matrix @ vector
        scores.argmax()
        plain.execute(matched, (fts.match_any(ASKED),)).fetchall()

    def ours() -> None:
        search_memory(index, ASKED, SearchOptions(k=10, refresh=False, viewer=OWNER), opened)

    found = pairs(ours, bare, runs)
    plain.close()
    if embedder is not None:
        model_ms = question_s(embedder, runs) * 1000
        found["model_cpu_ms"] = round(model_ms, 2)
        asked = (found["cpu_ms"] + model_ms) / (found["bare_cpu_ms"] + model_ms)
        found["asked_ratio"] = round(asked, 2)
    return {"pieces": len(rows), **found, "peak_mb": peak_mb()}


def model_directory(embedder: Embedder) -> Path:
    assert isinstance(embedder, OnnxEmbedder)
    return embedder._directory  # noqa: SLF001


def peak_mb() -> float:
    """Return the peak memory of this process so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def process(directory: Path, runs: int) -> dict[str, float]:
    """Compare a whole search by words with `import typer`."""
    fill(directory / "ada" / "memory", 50, 4)
    env = {**os.environ, "FAMILIAR_HOME": str(directory)}
    argv = [
        sys.executable,
        "-m",
        "familiar_cli",
        "search",
        "keyword arguments",
        "--method",
        "lexical",
    ]
    return measure_process(argv, runs, env)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--sizes", default="1000,10000,100000", help="chunks in the index")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--model", choices=("minilm", "none"), default="none")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    embedder = None
    with tempfile.TemporaryDirectory() as directory:
        if given.model == "minilm":
            opened = open_embedder("minilm-l6-v2", cache_dir())
            if opened.embedder is None:
                sys.exit(f"{opened.reason}: run `{opened.hint}`.")
            # A fresh one asks: the model of a long build was optimised, and a question's is not.
            embedder = OnnxEmbedder(SPECS["minilm-l6-v2"], model_directory(opened.embedder))
            found["build"] = build(opened.embedder, Path(directory, "build"))
        found["refresh"] = refresh(Path(directory, "refresh"), given.files, given.runs)
        for size in map(int, given.sizes.split(",")):
            found[f"query {size}"] = query(Path(directory, "query"), size, given.runs, embedder)
        found["process"] = process(Path(directory, "process"), given.runs)
    if given.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        limit = LIMITS[name.split()[0]]
        bound = "at least" if name == "build" else "at most"
        print(f"{name:14} {'  '.join(f'{k} {v:,.2f}' for k, v in row.items())}  ({bound} {limit})")


if __name__ == "__main__":
    main()
