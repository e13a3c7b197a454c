"""Embedders for tests: words hashed into a vector, so that shared words are near."""

from __future__ import annotations

import hashlib

import numpy as np

from familiar_cli import fts
from familiar_cli.index.embedder import EmbedderError, Opened, Spec


class WordEmbedder:
    """Near is what shares words, or words that `alike` says mean the same."""

    def __init__(self, model: str = "words", dimension: int = 1024, alike=()) -> None:
        self.model = model
        self.dimension = dimension
        self.spec = Spec(model, model, dimension, 256)
        self.read: list[str] = []
        self.asked: list[str] = []
        self._same = {word: group[0] for group in alike for word in group}

    ready = False

    def load(self, *, optimised=False):
        pass

    def passages(self, texts):
        self.read += texts
        return self._rows(texts)

    def queries(self, texts):
        self.asked += texts
        return self._rows(texts)

    def _rows(self, texts):
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[0] = 1e-3
            for word in fts.content_words(text):
                same = self._same.get(word, word)
                digest = hashlib.blake2b(same.encode(), digest_size=4).digest()
                row[int.from_bytes(digest, "little") % self.dimension] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class BrokenEmbedder(WordEmbedder):
    """Fails whenever it is used."""

    def passages(self, texts):
        raise EmbedderError("the model is broken")

    queries = passages


def opened(embedder) -> Opened:
    return Opened(embedder)
