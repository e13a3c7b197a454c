"""The pages as a browser gets them: through the link, with the cookie.

with looking() as client:
    assert client.get("/turns").status_code == 200
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from familiar_cli.servers.web.site import Door
from tests.support.serving import serving

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


@contextmanager
def looking(**how: Any) -> Iterator[httpx.Client]:
    """Run a server as `familiar web` does, and go through the link."""
    door = Door()
    with serving(**{"api": False, "door": door, **how}) as server:
        assert server.client.get(door.link).status_code == 303
        yield server.client
