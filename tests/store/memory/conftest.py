from __future__ import annotations

import pytest

from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.folding_disk import FAKE, FOLDED, FoldingDisk


@pytest.fixture(autouse=True)
def _folded(request) -> None:
    if FOLDED == FAKE:
        FoldingDisk(request.getfixturevalue("tmp_path"), request.getfixturevalue("monkeypatch"))


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory", lock_path=tmp_path / ".lock")


@pytest.fixture
def root(store):
    """The memory directory, for what people do to it by hand."""
    store.root.mkdir()
    return store.root
