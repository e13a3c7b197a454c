"""New turns and changes, told to an open page; and numbers that are counted in the background."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError
from familiar_cli.memory.store.store import state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from familiar_cli.actions.status import FamiliarStatus
    from familiar_cli.config.home import FamiliarPaths


_LOOK_S: Final = 1.0
_BEAT_LOOKS: Final = 15  # a line now and then shows that the connection lives


async def changes(paths: FamiliarPaths, ending: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield a server-sent event whenever something was said or written, until `ending` is set."""
    known, quiet = state_of_files(paths), 0
    yield b"retry: 3000\n\n"
    while not ending.is_set():
        try:
            await asyncio.wait_for(ending.wait(), _LOOK_S)
        except TimeoutError:
            found, quiet = state_of_files(paths), quiet + 1
            if found != known:
                known, quiet = found, 0
                yield b"event: change\ndata: {}\n\n"
            elif quiet >= _BEAT_LOOKS:
                quiet = 0
                yield b": nothing new\n\n"


def state_of_files(paths: FamiliarPaths) -> object:
    """Return a value that differs when something was said or written; costs three looks."""
    history = (paths.history, paths.history.with_name(f"{paths.history.name}-wal"))
    return (*map(_stamp, history), state_of(str(paths.journal)))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


_PATIENCE_S: Final = 0.06
_FIRST_PATIENCE_S: Final = 1.0
_MUCH_BYTES: Final = 20_000_000  # of a history; counting it takes longer than a page may


class Numbers:
    """How each familiar is, as last counted; from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[object, FamiliarStatus]] = {}
        self._at_work: dict[str, threading.Thread] = {}

    def of(self, paths: FamiliarPaths) -> tuple[FamiliarStatus | None, bool]:
        """Return the numbers, and whether they are those of now; None: they are being counted.

        It waits a moment for them, so those of a small familiar are always of now.
        """
        key, state = str(paths.root), state_of_files(paths)
        with self._lock:
            known = self._known.get(key)
            if known and known[0] == state:
                return known[1], True
            work = self._at_work.get(key)
            if work is None or not work.is_alive():
                work = threading.Thread(target=self._count, args=(key, paths), daemon=True)
                self._at_work[key] = work
                work.start()
        work.join(_PATIENCE_S if known or _is_much(paths) else _FIRST_PATIENCE_S)
        with self._lock:
            known = self._known.get(key)
            return (known[1], known[0] == state) if known else (None, False)

    def _count(self, key: str, paths: FamiliarPaths) -> None:
        from familiar_cli.actions.status import status_of
        from familiar_cli.familiar import Familiar

        state = state_of_files(paths)
        with suppress(FamiliarError), Familiar(paths) as familiar:
            found = status_of(familiar)
            with self._lock:
                self._known[key] = (state, found)


def _is_much(paths: FamiliarPaths) -> bool:
    try:
        return paths.history.stat().st_size > _MUCH_BYTES
    except OSError:
        return False


NUMBERS: Final = Numbers()
"""Those of all familiars that this process shows."""
