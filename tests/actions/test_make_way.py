"""A new message goes first: other work stops where one model does one thing at a time."""

from __future__ import annotations

import asyncio
import time

import pytest

from familiar_cli.actions.memory.due_work import make_way
from familiar_cli.familiar import Familiar
from tests.support.world import live


@pytest.mark.parametrize(
    ("settings", "stops"),
    [
        ("preset = 'local'", True),
        ("preset = 'ollama'", True),
        ("preset = 'custom'\nbase_url = 'http://127.0.0.1:9/v1'", True),
        ("preset = 'openrouter'", False),
        ("preset = 'custom'\nbase_url = 'https://models.example/v1'", False),
    ],
)
def test_work_stops_on_this_machine_and_goes_on_elsewhere(settings, stops) -> None:
    root = live("ada")
    (root / "character.toml").write_text(f"[llm]\n{settings}\n", encoding="utf-8")
    with Familiar.load_from_disk() as familiar:
        familiar.jobs.add("memory_writer", lambda: asyncio.sleep(30))
        familiar.jobs.start()
        make_way(familiar)
        until = time.monotonic() + (5 if stops else 0.3)
        while familiar.jobs.names and time.monotonic() < until:
            time.sleep(0.01)
        assert bool(familiar.jobs.names) is not stops
