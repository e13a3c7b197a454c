"""Embedders for tests: words hashed into a vector, so that shared words are near."""

from __future__ import annotations

import hashlib

import numpy as np

from familiar_cli.store import fts
from familiar_cli.store.search.embedder import EmbedderChoice, Encoded, Spec
from familiar_cli.store.search.types import EmbedderError


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


class TokenWordEmbedder(WordEmbedder):
    """The same, with a vector for each content word."""

    def __init__(self, *args, width: int = 32, token_version: str = "words-1", **named) -> None:
        super().__init__(*args, **named)
        self.width = width
        self.token_version = token_version

    def read_passages(self, texts):
        return self._encoded(texts, self.passages(texts))

    def read_queries(self, texts):
        return self._encoded(texts, self.queries(texts))

    def token(self, word: str) -> np.ndarray:
        digest = hashlib.blake2b(self._same.get(word, word).encode(), digest_size=4).digest()
        row = np.random.default_rng(int.from_bytes(digest, "little")).standard_normal(self.width)
        return (row / np.linalg.norm(row)).astype(np.float32)

    def _encoded(self, texts, pooled):
        words = [fts.content_words(text) for text in texts]
        said = tuple(word for of_text in words for word in of_text)
        rows = np.array([self.token(word) for word in said], np.float32)
        counts = tuple(map(len, words))
        return Encoded(pooled, rows.reshape(len(said), self.width), counts, said)


class BrokenEmbedder(WordEmbedder):
    """Fails whenever it is used."""

    def passages(self, texts):
        raise EmbedderError("the model is broken")

    queries = passages


def opened(embedder) -> EmbedderChoice:
    return EmbedderChoice(embedder)
