"""A memory of its own for every test."""

from __future__ import annotations

import pytest

from familiar_cli.store.memory.store.store import MemoryStore


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory")
