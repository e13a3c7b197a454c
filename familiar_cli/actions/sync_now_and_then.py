"""`BackgroundSync`: sync at the beginning, every few minutes and at the end, in nobody's way.

It works in a thread with files of its own. A network that is not there is a line in `status`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.actions import sync as action
from familiar_cli.errors import FamiliarError, LockedError, RemoteUnreachableError
from familiar_cli.jobs import in_thread
from familiar_cli.passes.background import Event, failed
from familiar_cli.passes.failures import SYNCING, as_failure
from familiar_cli.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.actions.sync import SyncReport
    from familiar_cli.familiar import Familiar

LAST_S: Final = 8.0
"""The longest wait for the sync at the end; what it does not send goes the next time."""

_LOOK_S: Final = 30.0  # how often it is looked whether there is a remote by now


class BackgroundSync:
    """Syncs one familiar for whoever stays.

    Args:
        familiar: Which.
        tell: Told of what happened.
    """

    def __init__(self, familiar: Familiar, tell: Callable[[Event], None]) -> None:
        self._familiar = familiar
        self._tell = tell
        self._told = ""

    async def watch(self) -> None:
        """Sync every `sync.interval_s` seconds, later and later while it fails."""
        while True:
            wait_s = self._familiar.passes.named(SYNCING).retry_in_s
            if not wait_s:
                await self.once()
                wait_s = self._familiar.config.sync.interval_s if self._is_due else _LOOK_S
            await asyncio.sleep(max(wait_s, 1.0))

    async def once(self) -> None:
        """Sync with all remotes now, if there are any."""
        if not self._is_due:
            return
        try:
            report = await in_thread(self._sync)
        except LockedError:
            return  # somebody is at it
        except Exception as error:  # noqa: BLE001  # memory is written all the same
            self._failed(as_failure(error))
        else:
            self._done(report)

    async def last(self) -> None:
        """Sync at the end, as far as that is quick."""
        if not self._familiar.passes.named(SYNCING).retry_in_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.once(), LAST_S)

    @property
    def _is_due(self) -> bool:
        try:
            is_on = self._familiar.config.sync.interval_s > 0
            has_memory = any(self._familiar.paths.memory.iterdir())
            return is_on and has_memory and bool(action.remotes_of(self._familiar).all())
        except (OSError, FamiliarError):  # `sync` and `doctor` say what is wrong
            return False

    def _sync(self) -> SyncReport:
        from familiar_cli.familiar import Familiar
        from familiar_cli.sync.engine import SyncOptions

        with Familiar(self._familiar.paths, self._familiar.tell) as familiar:
            return asyncio.run(action.sync(familiar, None, SyncOptions(), wait_s=0))

    def _done(self, report: SyncReport) -> None:
        for _, error in report.failed.values():
            self._failed(error)
        if not report.failed:
            self._told = ""
        data = report.to_json()
        if data["pulled"] or data["turns_in"]:
            what = f"{counted(data['pulled'], 'commit')} and {counted(data['turns_in'], 'turn')}"
            self._tell(Event("note", f"Synced: pulled {what}"))
        if data["written"] and report.conflicts:
            what = counted(len(report.conflicts), "file")
            self._tell(Event("note", f"{what} in conflict: `familiar sync resolve`"))

    def _failed(self, error: FamiliarError) -> None:
        if isinstance(error, RemoteUnreachableError) or str(error) == self._told:
            return
        self._told = str(error)
        self._tell(failed(SYNCING, error, self._familiar.passes.named(SYNCING).retry_in_s))
