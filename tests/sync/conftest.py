from __future__ import annotations

import pytest

from tests.support.journals import World


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.journal.repository.close()
