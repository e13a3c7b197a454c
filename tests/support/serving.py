"""A server of ours on loopback, in a thread, for everyone's tests.

with serving() as server:
    reply = server.post(messages=[{"role": "user", "content": "Hi"}])
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from familiar_cli.servers.running import ListenOptions, serve_until
from tests.support.world import home


@dataclass(frozen=True)
class Serving:
    """Where it listens, and a client for it."""

    url: str
    client: httpx.Client

    def post(self, *, model: str = "ada", headers: Any = None, **body: Any) -> httpx.Response:
        """Ask for a reply."""
        body = {"model": model, **body}
        return self.client.post("/v1/chat/completions", json=body, headers=headers)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@contextmanager
def serving(**how: Any) -> Iterator[Serving]:
    """Run a server while the block lasts; `how` are fields of `ListenOptions`."""
    listening = ListenOptions(**{"host": "127.0.0.1", "port": 0, "background": False, **how})
    is_ready, found = threading.Event(), {}

    async def work() -> None:
        found["stop"], found["loop"] = asyncio.Event(), asyncio.get_running_loop()

        def ready(url: str) -> None:
            found["url"] = url
            is_ready.set()

        await serve_until(found["stop"], home(), listening, on_ready=ready)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    assert is_ready.wait(20)
    try:
        with httpx.Client(
            base_url=found["url"], timeout=30, trust_env=False, verify=False
        ) as client:
            yield Serving(found["url"], client)
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(20)
        assert not thread.is_alive()
