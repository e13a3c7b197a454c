"""A memory made of texts, and the checks run over it."""

from __future__ import annotations

from datetime import date

import pytest

from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.housekeeping.lines import Options
from familiar_cli.writing.housekeeping.run import look_through

TODAY = date(2026, 6, 1)


@pytest.fixture
def look(tmp_path):
    """Return a function that writes files and returns what one check finds."""

    def run(check, files, **options):
        for rel_path, text in files.items():
            path = tmp_path / "memory" / rel_path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        store = MemoryStore(tmp_path / "memory")
        return look_through(store, Options(TODAY, **options), [check]).findings

    return run
