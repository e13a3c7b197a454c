"""Every test has a home and a cache of its own, and no setting of the developer's leaks in."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _own_world(tmp_path_factory, monkeypatch) -> None:
    for name in list(os.environ):
        if name.startswith("FAMILIAR_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    world = tmp_path_factory.mktemp("world")
    monkeypatch.setenv("FAMILIAR_HOME", str(world / "home"))
    monkeypatch.setenv("FAMILIAR_CACHE", str(world / "cache"))
    monkeypatch.setenv("FAMILIAR_KEYS", str(world / "keys.toml"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
