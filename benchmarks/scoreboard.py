"""The scoreboard of search: by kind of question, beside plain methods.

`python -m benchmarks.scoreboard FILES… [--model minilm] [--questions N] [--out FILE]`
takes files of LoCoMo, REALTALK, LongMemEval, BEAM or PersonaMem, in any mix. Each conversation has
an index of its own. The methods, all in the same run over the same turns:

- `grep`: turns with most words of the question, newest first;
- `bm25 turns`, `bm25 pairs`: SQLite's FTS5 over single turns, and over each turn with the next;
- `dense`: cosines of the embedding model's vectors of turns;
- `words`, `search`: this program's search without a model, and with one.

R@5, R@10 and MRR are of sessions, `turns` is R@10 of single turns. `evidence` is the share of a
question's evidence turns that stand word for word in a prompt with 500, 1,000, 2,000 and 4,000
tokens of memory: for the plain methods the best turns, packed until the tokens are used; for
`words` and `search` the prompt that would be sent. Nothing here says whether a model answers well.
`--questions` takes as many of each conversation, evenly.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import prompts
from benchmarks.conversations import pages
from benchmarks.datasets import read_dataset
from benchmarks.locomo import DEPTH, FAR, MODELS, mean, share, write
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.store import fts
from familiar_cli.store.search.embedder import open_embedder
from familiar_cli.store.search.search import search_memory
from familiar_cli.store.search.types import SearchOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.conversations import Conversation, Pages, Question, Turn, TurnId
    from familiar_cli.store.search.embedder import EmbedderChoice
    from familiar_cli.store.search.types import Wanted

    Ranking = Callable[[str], list[TurnId]]

BUDGETS = (500, 1000, 2000, 4000)
LINES = 100
WINDOW = 12_288
RESULTS = Path(__file__).parent / "results"
LINE_TOKENS = 4  # of a line besides its words
CHARS_A_TOKEN = 4


@dataclass(frozen=True)
class Score:
    """The result of one question by one method; `evidence` by the tokens of the budget."""

    kind: str
    r5: float
    r10: float
    mrr: float
    turns: float
    evidence: dict[int, float]
    ms: float


@dataclass(frozen=True)
class World:
    """A familiar of one conversation, on disk and indexed."""

    home: Path
    made: Conversation
    written: Pages
    opened: EmbedderChoice
    build_s: float
    index_mb: float

    def settings(self, model: str, tokens: int) -> None:
        """Set the embedding model and the budget of memory."""
        given = argparse.Namespace(window=WINDOW, model=model)
        text = prompts.settings(self.made, given, tokens)
        (self.home / "who" / "character.toml").write_text(text, encoding="utf-8")


def make_world(home: Path, made: Conversation, model: str, opened: EmbedderChoice) -> World:
    """Write the sessions of a conversation as memory files, and index them."""
    written, memory = pages(made), home / "who" / "memory"
    memory.mkdir(parents=True)
    write(memory, written)
    world = World(home, made, written, opened, 0.0, 0.0)
    world.settings(model, 0)
    with Familiar.load_from_disk(home, "who") as familiar:
        start = time.perf_counter()
        prompts.build(familiar)
        build_s = time.perf_counter() - start
        size = familiar.index.status().size_bytes
    return World(home, made, written, opened, build_s, size / 1e6)


def turns_in(made: Conversation) -> list[Turn]:
    """Return all turns, oldest first."""
    return [turn for session in made.sessions for turn in session.turns]


def grep(turns: Sequence[Turn]) -> Ranking:
    """Rank turns by how many of the question's words they contain, the newest first."""

    def rank(question: str) -> list[TurnId]:
        words = fts.content_words(question)
        counts = [(sum(w in turn.text.lower() for w in words), n) for n, turn in enumerate(turns)]
        return [turns[n].id for count, n in sorted(counts, reverse=True) if count]

    return rank


def bm25(turns: Sequence[Turn], size: int) -> Ranking:
    """Rank turns by FTS5 over texts of `size` turns, with the tokenizer that most use."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'porter unicode61')")
    groups = [turns[at : at + size] for at in range(len(turns) - size + 1)]
    connection.executemany(
        "INSERT INTO t (x) VALUES (?)",
        [("\n".join(f"{turn.speaker}: {turn.text}" for turn in group),) for group in groups],
    )

    def rank(question: str) -> list[TurnId]:
        match = " OR ".join(f'"{word}"' for word in fts.content_words(question))
        if not match:
            return []
        select = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT ?"
        rows = connection.execute(select, (match, LINES)).fetchall()
        return list(dict.fromkeys(turn.id for (row,) in rows for turn in groups[row - 1]))

    return rank


def dense(world: World) -> Ranking:
    """Rank turns by the cosine of their vectors, which the index has already."""
    import numpy as np

    with Familiar.load_from_disk(world.home, "who") as familiar:
        index, embedder = familiar.index, world.opened.embedder
        vectors = index.use(index.vectors)
        found = index.use(
            lambda c: c.execute(
                "SELECT c.id, rel_path, char_start, char_end FROM chunks c"
                " JOIN documents d ON d.id = document_id"
            ).fetchall()
        )
    turns = {id_: turns_at(world.written, path, begin, end) for id_, path, begin, end in found}

    def rank(question: str) -> list[TurnId]:
        if embedder is None:
            return []
        near = vectors.cosines(embedder.queries([question]))
        best = near.ids[np.argsort(-near.values, kind="stable")[: 2 * LINES]].tolist()
        return list(dict.fromkeys(turn for id_ in best for turn in turns.get(id_, ())))

    return rank


def turns_at(written: Pages, path: str, begin: int, end: int) -> list[TurnId]:
    """Return the turns that stand in a part of a file."""
    held = written.places.get(path, ())
    return [turn for first, last, ids in held if first < end and begin < last for turn in ids]


def plain_scores(world: World, asked: Sequence[Question], rank: Ranking) -> list[Score]:
    """Score a plain ranking of turns; sessions come in the order of their best turns."""
    texts = {turn.id: f"{turn.speaker}: {turn.text}" for turn in turns_in(world.made)}
    scores = []
    for question in asked:
        start = time.perf_counter()
        ranked = rank(question.text)
        ms = (time.perf_counter() - start) * 1000
        sessions = list(dict.fromkeys(world.written.path_of[turn] for turn in ranked))
        evidence = {n: share(packed(ranked, texts, n), question.turns) for n in BUDGETS}
        scores.append(scored(world, question, (sessions, ranked), evidence, ms))
    return scores


def packed(ranked: Iterable[TurnId], texts: dict[TurnId, str], tokens: int) -> list[TurnId]:
    """Return the best turns that fit into a number of tokens."""
    taken = []
    for turn in ranked:
        tokens -= len(texts[turn]) // CHARS_A_TOKEN + LINE_TOKENS
        if tokens < 0:
            break
        taken.append(turn)
    return taken


def own_scores(world: World, asked: Sequence[Question], model: str) -> list[Score]:
    """Score this program's search, and the prompts that it would send."""
    method: Wanted = "lexical" if model == "lexical" else "auto"
    said = {turn.id: turn.text for turn in turns_in(world.made)}
    evidence: list[dict[int, float]] = [{} for _ in asked]
    for tokens in BUDGETS:
        world.settings(model, tokens)
        for number, question in enumerate(asked):
            wanted = {said[turn] for turn in question.turns}
            evidence[number][tokens] = prompts.ask(world.home, question.text, wanted).found
    scores = []
    with Familiar.load_from_disk(world.home, "who") as familiar:
        for question, held in zip(asked, evidence, strict=True):
            of_files = SearchOptions(k=FAR, method=method, viewer=OWNER)
            of_lines = SearchOptions(k=LINES, method=method, lines=True, viewer=OWNER)
            found = search_memory(familiar.index, question.text, of_files, world.opened)
            lines = search_memory(familiar.index, question.text, of_lines, world.opened)
            turns = (
                turn
                for hit in lines.hits
                for turn in turns_at(world.written, hit.rel_path, hit.best_start, hit.best_end)
            )
            paths = [hit.rel_path for hit in found.hits]
            ranked = list(dict.fromkeys(turns))
            scores.append(scored(world, question, (paths, ranked), held, found.elapsed_ms))
    return scores


def scored(
    world: World,
    question: Question,
    ranked: tuple[list[str], list[TurnId]],
    evidence: dict[int, float],
    ms: float,
) -> Score:
    """Compare rankings of sessions and of turns with a question's evidence."""
    sessions, turns = ranked
    files = frozenset(world.written.path_of[turn] for turn in question.turns)
    first = next((n for n, path in enumerate(sessions[:FAR]) if path in files), None)
    return Score(
        question.kind,
        share(sessions[:5], files),
        share(sessions[:DEPTH], files),
        0.0 if first is None else 1 / (first + 1),
        share(turns[:DEPTH], question.turns),
        evidence,
        ms,
    )


def chosen(made: Conversation, count: int) -> list[Question]:
    """Return `count` questions of a conversation, evenly; all for 0."""
    questions = list(made.questions)
    step = max(1, len(questions) // count) if count else 1
    return questions[::step][: count or None]


def measure(found: Sequence[Conversation], model: str, count: int) -> dict[str, Any]:
    """Measure all methods on the conversations of one file."""
    opened = open_embedder(MODELS[model], cache_dir())
    by_method: dict[str, list[Score]] = {}
    build_s = index_mb = 0.0
    for made in found:
        asked = chosen(made, count)
        with tempfile.TemporaryDirectory() as directory:
            world = make_world(Path(directory), made, model, opened)
            build_s, index_mb = build_s + world.build_s, index_mb + world.index_mb
            turns = turns_in(made)
            plain = {
                "grep": grep(turns),
                "bm25 turns": bm25(turns, 1),
                "bm25 pairs": bm25(turns, 2),
            }
            own = {"words": "lexical"}
            if opened.embedder:
                plain["dense"] = dense(world)
                own["search"] = model
            for name, rank in plain.items():
                by_method.setdefault(name, []).extend(plain_scores(world, asked, rank))
            for name, with_model in own.items():
                by_method.setdefault(name, []).extend(own_scores(world, asked, with_model))
    return {
        "conversations": len(found),
        "sessions": sum(len(made.sessions) for made in found),
        "turns": sum(len(turns_in(made)) for made in found),
        "build_s": round(build_s, 1),
        "index_mb": round(index_mb, 1),
        "methods": {name: by_kind(scores) for name, scores in by_method.items()},
    }


def by_kind(scores: Sequence[Score]) -> dict[str, Any]:
    """Return the numbers of one method: of all questions, and by kind."""
    kinds = sorted({score.kind for score in scores})
    return {
        "all": summary([score for score in scores if score.kind != "adversarial"]),
        "kinds": {kind: summary([s for s in scores if s.kind == kind]) for kind in kinds},
    }


def summary(scores: Sequence[Score]) -> dict[str, Any]:
    """Return the means of some scores."""
    return {
        "n": len(scores),
        "r5": mean(s.r5 for s in scores),
        "r10": mean(s.r10 for s in scores),
        "mrr": mean(s.mrr for s in scores),
        "turns_r10": mean(s.turns for s in scores),
        "evidence": {str(n): mean(s.evidence[n] for s in scores) for n in BUDGETS},
        "ms_p50": round(statistics.median(s.ms for s in scores), 2) if scores else 0.0,
    }


def commit() -> str:
    """Return the commit that is measured, marked if files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            check=True,
            cwd=RESULTS.parent,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def peak_mb() -> float:
    """Return the most memory that this process had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def print_table(name: str, found: dict[str, Any]) -> None:
    """Print the numbers of one file for people."""
    print(f"\n{name}: {found['conversations']} conversations, {found['turns']} turns")
    print(
        f"{'':12} {'R@5':>6}{'R@10':>6}{'MRR':>6}{'turns':>6}" + "".join(f"{n:>6}" for n in BUDGETS)
    )
    for method, numbers in found["methods"].items():
        for kind, of_kind in {"all": numbers["all"], **numbers["kinds"]}.items():
            cells = [*(of_kind[key] for key in ("r5", "r10", "mrr", "turns_r10"))]
            cells += of_kind["evidence"].values()
            label = method if kind == "all" else f"  {kind}"
            print(f"{label[:12]:12} " + "".join(f"{cell:6.3f}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("files", type=Path, nargs="+", help="data files, in any of the formats")
    parser.add_argument("--model", choices=MODELS, default="minilm")
    parser.add_argument("--questions", type=int, default=0, help="of each conversation; 0: all")
    parser.add_argument("--out", type=Path, help="where to write the JSON; default: print it last")
    options = parser.parse_args()
    opened = open_embedder(MODELS[options.model], cache_dir())
    if options.model != "lexical" and opened.embedder is None:
        sys.exit(f"{opened.reason}: run `{opened.hint}`.")
    sets: dict[str, Any] = {}
    for path in options.files:
        name, found = read_dataset(path)
        sets[f"{name} ({path.stem})"] = measure(found, options.model, options.questions)
        print_table(name, sets[f"{name} ({path.stem})"])
    made = {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "model": options.model,
        "questions": options.questions or "all",
        "machine": {
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "system": platform.system(),
        },
        "peak_mb": peak_mb(),
        "sets": sets,
    }
    text = json.dumps(made, indent=1) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
