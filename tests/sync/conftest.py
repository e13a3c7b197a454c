from __future__ import annotations

import pytest

from tests.support.folders import Machine
from tests.support.journals import World


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.journal.repository.close()


@pytest.fixture
def machines(tmp_path):
    """Makes machines that share one folder."""
    folder = tmp_path / "stick"
    folder.mkdir()
    return lambda instance: Machine(tmp_path / instance, instance, folder)
