from __future__ import annotations

import pytest

from familiar_cli.memory.store.store import MemoryStore


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory", lock_path=tmp_path / ".lock")


@pytest.fixture
def root(store):
    """The memory directory, for what people do to it by hand."""
    store.root.mkdir()
    return store.root
