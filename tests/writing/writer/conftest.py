from __future__ import annotations

import pytest

from tests.writing.writer.support import World


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.history.close()
