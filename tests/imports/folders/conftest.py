"""A persona folder and a memory to take it into."""

from __future__ import annotations

import pytest

from familiar_cli.store.memory.store.store import MemoryStore
from tests.support import pages

EXAMPLES = pages.ROOT / "examples"


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory")


@pytest.fixture
def ember():
    return EXAMPLES / "personas" / "noor" / "persona" / "ember"
