"""The last failure of work that keeps memory, so that whoever looks later learns of it.

Such work mostly goes on after a reply or in a daemon, where nobody reads what it says. Each kind
has one file, `runs/failed/<work>.json`, that goes away when the work succeeds.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli import clock
from familiar_cli.errors import FamiliarError, LockedError
from familiar_cli.files import read_plain, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

WRITING: Final = "write-memory"
CONSOLIDATING: Final = "consolidate"
DISTILLING: Final = "distill {name}"
_DIGESTS: Final = tuple(DISTILLING.format(name=name) for name in ("short", "mid", "long"))
WORKS: Final = (WRITING, CONSOLIDATING, *_DIGESTS)
"""What may fail so: the words that a person types after `familiar` to do it."""


@dataclass(frozen=True, slots=True)
class Lapse:
    """One failure.

    Args:
        command: What failed, and does it again.
        at: When, ISO 8601.
        code: The error's, as `--json` shows it.
        message: What happened.
        hint: What mends it; empty when it is not known.
    """

    command: str
    at: str
    code: str
    message: str
    hint: str


class Lapses:
    """Where failures are kept.

    Args:
        directory: Of their files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def all(self) -> tuple[Lapse, ...]:
        """Return the last failure of each work that has not succeeded since."""
        return tuple(found for work in WORKS if (found := self.of(work)))

    def of(self, work: str) -> Lapse | None:
        """Return how `work` failed the last time; None: it did not, or its file is damaged."""
        try:
            told = json.loads(read_plain(self._path(work)))
            words = (str(told[key]) for key in ("at", "code", "message", "hint"))
            lapse = Lapse(f"familiar {work}", *words)
            clock.parse_iso(lapse.at)
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None
        return lapse

    def failed_at(self, work: str) -> datetime | None:
        """Return when `work` failed the last time; None: it did not."""
        found = self.of(work)
        return clock.parse_iso(found.at) if found else None

    def note(self, work: str, error: FamiliarError | None) -> None:
        """Remember how `work` failed, or forget it when it did not (None)."""
        path = self._path(work)
        with suppress(OSError):  # without it the work is only tried again sooner, and nobody told
            if error is None:
                path.unlink(missing_ok=True)
            else:
                self._directory.mkdir(parents=True, exist_ok=True)
                write_whole(path, _told(error), durable=False)

    @contextmanager
    def noting(self, work: str) -> Iterator[None]:
        """Remember an error that ends `work`, and let it go on. To have to wait is none."""
        try:
            yield
        except LockedError:
            raise
        except FamiliarError as error:
            self.note(work, error)
            raise

    def _path(self, work: str) -> Path:
        return self._directory / f"{work.replace(' ', '-')}.json"


def _told(error: FamiliarError) -> str:
    told = {
        "at": clock.iso(clock.now()),
        "code": error.code,
        "message": str(error),
        "hint": error.hint or "",
    }
    return json.dumps(told) + "\n"
