"""Fit the matrix that makes token vectors short.

`python -m benchmarks.fit_projection FILE [--model minilm-l6-v2] [--width 64] [--out DIRECTORY]`
takes conversations in MemoryBank's format: per person, per day, pairs of `query` and `response`.
They become session files as the program writes them, each line is read by the model, and the
matrix holds the directions in which the vectors of its tokens differ most (an uncentred principal
component analysis of L2-normalised vectors). The same data and model give the same matrix.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.times.when import day_words
from familiar_cli.llm.models.store import path_of
from familiar_cli.store.search import chunking, embedder
from familiar_cli.store.search.embedder import SPECS, Encoder
from familiar_cli.store.search.types import BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]


def lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield what the model reads of each line of the conversations."""
    for key, person in data.items():
        name = key.strip()
        for day, said in person["history"].items():
            at = date.fromisoformat(day)
            text = f"# {name} and Companion, {day_words(at)}\n"
            for pair in said:
                text += f"\n**{name}:** {' '.join(pair['query'].split())}\n"
                text += f"\n**Companion:** {' '.join(pair['response'].split())}\n"
            made = chunking.cut_text(text, f"sessions/{day}-evening.md")
            for line in made.lines:
                above = chunking.index_label(made.title, line.heading, made.day)
                yield chunking.embedding_text(above, text[line.start : line.end])


def token_vectors(encoder: Encoder, texts: list[str]) -> Matrix:
    """Return the vectors of all tokens that say something, L2-normalised."""
    found = []
    by_length = sorted(texts, key=len)
    for start in range(0, len(by_length), BATCH):
        tokens = encoder.read(by_length[start : start + BATCH]).tokens
        if tokens is None:
            sys.exit("This model gives no vectors of tokens.")
        found.append(tokens)
    rows = np.concatenate(found)
    normal: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normal


def fit(rows: Matrix, width: int) -> Matrix:
    """Return float32[d, width]: the directions in which `rows` differ most, the first one first."""
    exact = rows.astype(np.float64)
    _, directions = np.linalg.eigh(exact.T @ exact / len(exact))
    best = directions[:, ::-1][:, :width]
    largest = np.abs(best).argmax(axis=0)
    matrix: Matrix = (best * np.sign(best[largest, np.arange(width)])).astype(np.float32)
    return matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("file", type=Path, help="conversations in MemoryBank's format")
    parser.add_argument("--model", choices=SPECS, default="minilm-l6-v2")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--out", type=Path, default=embedder.PROJECTIONS_DIR)
    given = parser.parse_args()
    directory = path_of(given.model, cache_dir())
    if directory is None:
        sys.exit(f"{given.model} is not on disk: run `familiar model pull {given.model}`.")
    try:
        texts = list(lines(json.loads(given.file.read_text(encoding="utf-8"))))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        sys.exit(f"{str(given.file)!r} holds no conversations in MemoryBank's format: {error!r}")
    rows = token_vectors(Encoder(SPECS[given.model], directory, optimised=True), texts)
    matrix = fit(rows, given.width)
    given.out.mkdir(parents=True, exist_ok=True)
    np.save(given.out / f"{given.model}.npy", matrix)
    kept = float(((rows @ matrix) ** 2).sum() / len(rows))
    print(f"{len(texts)} lines, {len(rows)} tokens; {given.width} numbers keep {kept:.1%}")


if __name__ == "__main__":
    main()
