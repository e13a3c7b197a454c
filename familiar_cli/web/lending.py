"""The familiars that pages are about: each is opened once, and lent to one page at a time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from familiar_cli.config.home import find_familiar
from familiar_cli.familiar import Familiar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from familiar_cli.config.home import FamiliarPaths


@dataclass(slots=True)
class _Open:
    familiar: Familiar
    stamp: tuple[tuple[int, int], ...]
    lock: threading.Lock = field(default_factory=threading.Lock)


class Lending:
    """Opens familiars, and again when their settings change; from several threads.

    Args:
        home: Where they live.
        tell: Told in words what a person should know.
    """

    def __init__(self, home: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self.home = home
        self._tell = tell
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}

    @contextmanager
    def lent(self, name: str | None, *, alone: bool = False) -> Iterator[Familiar]:
        """Lend a familiar.

        Args:
            name: Its id; None: the chosen one, or the only one.
            alone: Nobody waits for whoever has it: it is opened for this page only.

        Raises:
            NotFoundError: There is no such familiar.
            UsageError: There are several, and none was chosen.
        """
        paths = find_familiar(self.home, name)
        if alone:
            with Familiar(paths, self._tell) as familiar:
                yield familiar
            return
        stamp = tuple(map(_stamp, (paths.config, paths.me)))
        with self._lock:
            known = self._open.setdefault(paths.id, _Open(self._opened(paths), stamp))
        with known.lock:
            if known.stamp != stamp:
                known.familiar.close()
                known.familiar, known.stamp = self._opened(paths), stamp
            try:
                yield known.familiar
            finally:
                if "journal" in known.familiar.__dict__:
                    known.familiar.journal.repository.close()

    def _opened(self, paths: FamiliarPaths) -> Familiar:
        from familiar_cli.memory.journal.past import Past

        opened = Familiar(paths, self._tell)
        opened.__dict__["past"] = Past(opened.memory, opened.journal, self._tell, hasty=True)
        return opened

    def close(self) -> None:
        """Let go of all of them."""
        with self._lock:
            while self._open:
                _, known = self._open.popitem()
                with known.lock:
                    known.familiar.close()


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
