"""Write memory, fold days and sync while the server runs: a daemon for each familiar that is asked.

One that has a remote has a daemon from the start, since it also syncs when nobody asks it.

Each works in a thread with an event loop and files of its own, so that no reply waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.config.home import list_familiars
from familiar_cli.errors import FamiliarError
from familiar_cli.sync.remotes import FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_POLL_S: Final = 2.0
_PATIENCE_S: Final = 10.0  # for a pass that was told to stop between two steps


@dataclass(slots=True)
class _Worker:
    """A daemon under way."""

    thread: threading.Thread
    loop: asyncio.AbstractEventLoop | None = None
    stop: asyncio.Event | None = None
    is_told: threading.Event = field(default_factory=threading.Event)


class Background:
    """Runs the daemons.

    Args:
        home: Where the familiars live.
        tell: Told in words what a person should know; from several threads.
    """

    def __init__(self, home: Path, tell: Callable[[str], None]) -> None:
        self._home = home
        self._tell = tell
        self._workers: dict[str, _Worker] = {}

    def begin(self) -> None:
        """Begin with the familiars that sync, if there are any."""
        for familiar_id in list_familiars(self._home):
            if (self._home / familiar_id / FILE).is_file():
                self.look_after(familiar_id)

    def look_after(self, familiar_id: str) -> None:
        """Begin to do what is due for a familiar."""
        if familiar_id in self._workers:
            return
        thread = threading.Thread(
            target=self._work, args=(familiar_id,), daemon=True, name=f"familiar-{familiar_id}"
        )
        self._workers[familiar_id] = _Worker(thread)
        thread.start()

    def close(self) -> None:
        """Stop them all between two steps, and wait a little for that."""
        for worker in self._workers.values():
            worker.is_told.set()
            if worker.loop and worker.stop and not worker.loop.is_closed():
                worker.loop.call_soon_threadsafe(worker.stop.set)
        for worker in self._workers.values():
            worker.thread.join(_PATIENCE_S)

    def _work(self, familiar_id: str) -> None:
        try:
            asyncio.run(self._watch(familiar_id))
        except FamiliarError as error:
            self._tell(f"{familiar_id}: memory is not written while serving: {error}")

    async def _watch(self, familiar_id: str) -> None:
        from familiar_cli.actions.daemon import Daemon  # noqa: PLC0415
        from familiar_cli.familiar import Familiar  # noqa: PLC0415

        worker = self._workers[familiar_id]
        worker.stop, worker.loop = asyncio.Event(), asyncio.get_running_loop()
        if worker.is_told.is_set():
            return
        async with Familiar.load_from_disk(self._home, familiar_id) as familiar:
            daemon = Daemon(
                familiar,
                worker.stop,
                lambda _: None,
                lambda event: self._note(familiar_id, event.error),
            )
            await daemon.watch(_POLL_S)

    def _note(self, familiar_id: str, error: FamiliarError | None) -> None:
        if error:
            self._tell(f"{familiar_id}: {error}")
