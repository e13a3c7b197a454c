from __future__ import annotations

from contextlib import closing

import pytest

from familiar_cli.store.history import HistoryStore


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db", busy_timeout_s=0.1)) as opened:
        yield opened
