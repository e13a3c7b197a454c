"""The numbers of the first page: counted beside the page when there is much to count, and kept."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError
from familiar_cli.web.live import state_of_files

if TYPE_CHECKING:
    from familiar_cli.actions.status import FamiliarStatus
    from familiar_cli.config.home import FamiliarPaths

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
