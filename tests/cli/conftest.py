"""What tests of commands share."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.support.server import ChatServer
from tests.support.writing import point_at


@pytest.fixture
def serve(monkeypatch):
    """Starts a scripted server, and has the familiar's model be there."""
    with ExitStack() as running:

        def start(*script) -> ChatServer:
            server = running.enter_context(ChatServer(script))
            point_at(server, monkeypatch)
            return server

        yield start
