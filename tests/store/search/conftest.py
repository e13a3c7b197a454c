"""A memory directory with an index, and ways to fill and ask it."""

from __future__ import annotations

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.search import search_memory
from familiar_cli.store.search.types import SearchOptions
from tests.support.embedders import EmbedderChoice


class World:
    """A memory directory, its store and its index."""

    def __init__(self, root) -> None:
        root.mkdir()
        self.root = root
        self.store = MemoryStore(root)
        self.index = EmbeddingIndex(self.store)

    def put(self, rel_path: str, text: str | bytes) -> None:
        """Write a file by hand, past the program."""
        path = self.root / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def ask(self, query: str, embedder=None, **options):
        wanted = SearchOptions(**{"viewer": OWNER, **options})
        return search_memory(self.index, query, wanted, EmbedderChoice(embedder))

    def paths(self, query: str, embedder=None, **options) -> list[str]:
        return [hit.rel_path for hit in self.ask(query, embedder, **options).hits]

    def rows(self, statement: str, *values) -> list[tuple]:
        return self.index.use(lambda c: c.execute(statement, values).fetchall())


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path / "memory")
