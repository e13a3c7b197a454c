"""Background passes: write memory, and make days, weeks, years and digests when due.

They run in a thread with files of its own. An unreachable network is a line in `status`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

from familiar_cli.actions.health.job_schedule import run_due_jobs
from familiar_cli.actions.memory.consolidate import Consolidation, ConsolidationOptions
from familiar_cli.actions.memory.desk import fire_reminders, reminder_line
from familiar_cli.actions.memory.write_memory import memory_writer, write_memory
from familiar_cli.actions.share import sync as action
from familiar_cli.actions.share.sync import SyncReport
from familiar_cli.actions.share.sync_decisions import remotes_of
from familiar_cli.base.config.home import check_here
from familiar_cli.base.errors import ConfigError, FamiliarError, LockedError, RemoteUnreachableError
from familiar_cli.base.jobs import in_thread
from familiar_cli.base.text import counted
from familiar_cli.base.times.clock import elapsed_s, stopwatch_s
from familiar_cli.familiar import Familiar
from familiar_cli.store.passes import SYNCING, WRITING, Event, as_failure, failed, until_stopped
from familiar_cli.sync.engine import SyncOptions
from familiar_cli.sync.turns_outgoing import SAID_HERE, count_unread_turns, newest_waiting
from familiar_cli.writing.writer.contract import WriterReport
from familiar_cli.writing.writer.schedule import MemoryWriterScheduler
from familiar_cli.writing.writer.schedule import is_due as is_pass_due

LAST_S: Final = 8.0
"""The longest wait for the sync at the end; what it does not send goes the next time."""

_SOON_S: Final = 2.0  # between visits to a familiar that lacks vectors
_LOOK_S: Final = 30.0  # interval of checks for a new remote


class BackgroundSync:
    """Syncs one familiar in a long-running process.

    Args:
        tell: Called with each event.
    """

    def __init__(self, familiar: Familiar, tell: Callable[[Event], None]) -> None:
        self._familiar = familiar
        self._tell = tell
        self._told = ""

    async def watch(self) -> None:
        """Sync every `sync.interval_s` seconds, with growing pauses while it fails."""
        while True:
            wait_s = await self.sync_if_due()
            await asyncio.sleep(_LOOK_S if math.isinf(wait_s) else wait_s)

    async def sync_if_due(self) -> float:
        """Sync unless the last attempt just failed; return the seconds until the next one."""
        failures = self._familiar.passes.named(SYNCING)
        if not failures.retry_in_s:
            await self.once()
        interval_s = self._familiar.config.sync.interval_s if self._is_due else math.inf
        return max(failures.retry_in_s or interval_s, 1.0)

    async def once(self) -> None:
        """Sync with all remotes now, if there are any."""
        if not self._is_due:
            return
        try:
            report = await in_thread(self._sync)
        except LockedError:
            return  # another process is syncing
        except Exception as error:  # noqa: BLE001  # memory is written anyway
            self._failed(as_failure(error))
        else:
            self._done(report)

    async def last(self) -> None:
        """Sync at the end, if that is quick."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.sync_if_due(), LAST_S)

    @property
    def _is_due(self) -> bool:
        try:
            is_on = self._familiar.config.sync.interval_s > 0
            has_memory = any(self._familiar.paths.memory.iterdir())
            return is_on and has_memory and bool(remotes_of(self._familiar).all())
        except (OSError, FamiliarError):  # `sync` and `doctor` report the error
            return False

    def _sync(self) -> SyncReport:
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


LOOK_S: Final = 60.0
"""How often it is looked whether a period or a digest is due."""
REMIND_S: Final = 15.0
"""How often it is looked whether a reminder is due."""
_REMINDING: Final = "todo list"
_JOBS: Final = "job list"
_LOOKING: Final = "history stats"  # commands that fail for the same reason
_EMBEDDING: Final = "index build"


class Daemon:
    """Runs the background passes of one familiar. An error in one of them does not stop the others.

    Args:
        stop: Ends it; a pass under way is cancelled between two steps.
        on_report: Called after each pass of the memory writer.
        on_event: Called with all other events.

    Attributes:
        errors: The last error of each command that has not succeeded since.
        syncing: The part that syncs.
    """

    def __init__(
        self,
        familiar: Familiar,
        stop: asyncio.Event,
        on_report: Callable[[WriterReport], None],
        on_event: Callable[[Event], None],
    ) -> None:
        self._familiar = familiar
        self._stop = stop
        self._on_report = on_report
        self._on_event = on_event
        self._writing = familiar.passes.named(WRITING)
        self.syncing = BackgroundSync(familiar, self._tell)
        self._unprinted: OSError | None = None
        self._runs = False
        self.errors: dict[str, FamiliarError] = {}

    async def catch_up(self) -> None:
        """Do all pending and due work, and return.

        Raises:
            ConfigError: The model is not configured.
            RefusedError: The familiar was moved away.
            OSError: An event could not be printed.
        """

        async def work() -> None:
            await self.syncing.once()
            try:
                await self._write()
            except Exception as error:  # noqa: BLE001  # periods are made all the same
                self._failed(as_failure(error))
            await self._summarise()
            await self._make_periods(at_once=True)
            await self._run_jobs()
            while await self._embed_some():
                pass
            await self.syncing.once()

        await self._run(work())

    async def watch(self, poll_s: float) -> None:
        """Catch up, then work whenever something is pending or due, until stopped.

        A failed pass is retried with growing pauses; see `failures.RETRY_AFTER`.

        Args:
            poll_s: Interval at which to look for new turns.

        Raises:
            ConfigError: The model is not configured.
            RefusedError: The familiar was moved away.
            FamiliarError: The history cannot be read.
            OSError: An event could not be printed.
        """
        set_to, history = self._familiar.config.memory_writer, self._familiar.history
        seen = history.newest_id()
        scheduler = MemoryWriterScheduler(
            self._write,
            self._count_waiting,
            turn_threshold=set_to.turn_threshold,
            idle_timeout=set_to.idle_timeout,
            on_error=self._failed,
            retry_in_s=lambda: self._writing.retry_in_s,
        )

        async def work() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_turns(scheduler, seen, poll_s))
                tasks.create_task(self._watch_periods(scheduler))
                tasks.create_task(self._watch_reminders())
                tasks.create_task(self._watch_jobs())
                tasks.create_task(self._embed_missing())
                tasks.create_task(self.syncing.watch())

        self._tell(Event("started", f"Watching {self._familiar.paths.id}; press Ctrl-C to stop."))
        await self._run(work())
        await self.syncing.last()

    async def visit(self, *, is_first: bool, is_active: bool) -> float:
        """Do what is due now; return the seconds until waiting turns are due.

        For a process that visits many familiars in turn. Without a model nothing is written, but
        all other work is done.

        Args:
            is_first: Write all waiting turns, as `watch` does at its start.
            is_active: Somebody talked to it since the last visit; otherwise the first visit only
                looks for turns.

        Raises:
            FamiliarError: The history cannot be read.
        """
        waiting = self._count_waiting()
        wait_s = await self._run_jobs()
        if is_first and not (is_active or waiting):
            return wait_s
        try:
            with self._writing.recording():
                memory_writer(self._familiar, on_wait=self._note)
        except ConfigError as error:
            self._failed(error)
        else:
            wait_s = min(wait_s, await self._write_due(waiting, is_first=is_first))
            await self._summarise()
            await self._make_periods(at_once=False)
        return min(wait_s, _SOON_S) if await self._embed_some() else wait_s

    async def _write_due(self, waiting: int, *, is_first: bool) -> float:
        """Write the turns that are due; return the seconds until others are."""
        set_to, history = self._familiar.config.memory_writer, self._familiar.history
        newest = newest_waiting(history, 1)
        silence_s = elapsed_s(newest[-1].at) if newest else 0.0
        is_due = is_pass_due(
            waiting,
            silence_s,
            turn_threshold=set_to.turn_threshold,
            idle_timeout=set_to.idle_timeout,
        )
        if waiting and (is_due or is_first) and not self._writing.retry_in_s:
            try:
                await self._write()
            except Exception as error:  # noqa: BLE001  # the next visit takes place anyway
                self._failed(as_failure(error))
            waiting = self._count_waiting()
        if not waiting:
            return math.inf
        rest_s = set_to.idle_timeout - silence_s
        return max(rest_s if rest_s > 0 else LOOK_S, self._writing.retry_in_s)

    def _count_waiting(self) -> int:
        return count_unread_turns(self._familiar.history, SAID_HERE)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._runs = True
        try:
            with self._writing.recording():
                memory_writer(self._familiar, on_wait=self._note)  # otherwise it could never write
            await until_stopped(work, self._stop)
        finally:
            work.close()
        if self._unprinted:
            raise self._unprinted
        check_here(self._familiar.paths)

    async def _watch_turns(
        self, scheduler: MemoryWriterScheduler, seen: int, poll_s: float
    ) -> None:
        scheduler.watch()  # the newest exchange may be left by the first pass
        scheduler.catch_up()
        try:
            while True:
                await asyncio.sleep(poll_s)
                if self._familiar.paths.moved.exists():
                    self._stop.set()
                seen = self._notify_new_turns(scheduler, seen)
        finally:
            await scheduler.close()

    def _notify_new_turns(self, scheduler: MemoryWriterScheduler, seen: int) -> int:
        """Report new turns to the scheduler, and return the newest one."""
        try:
            newest = self._familiar.history.newest_id()
            if newest != seen:
                scheduler.notify_turn()
        except Exception as error:  # noqa: BLE001  # the history may be readable at the next look
            if _LOOKING not in self.errors:  # otherwise it would be reported each time
                self._tell(failed(_LOOKING, as_failure(error), 0))
            return seen
        self.errors.pop(_LOOKING, None)
        return newest

    async def _watch_periods(self, scheduler: MemoryWriterScheduler) -> None:
        while True:
            await scheduler.idle()
            await self._summarise()
            await self._make_periods(at_once=False)
            await asyncio.sleep(LOOK_S)

    async def _watch_jobs(self) -> None:
        while True:
            wait_s = await self._run_jobs()
            await asyncio.sleep(min(wait_s, REMIND_S))

    async def _run_jobs(self) -> float:
        """Run the due jobs; return the seconds until the next one.

        A persistent error is reported once.
        """
        events: list[Event] = []
        try:
            wait_s = await run_due_jobs(self._familiar, events.append)
        except Exception as error:  # noqa: BLE001  # other work goes on
            events.append(failed(_JOBS, as_failure(error), 0))
            wait_s = LOOK_S
        known = str(self.errors.pop(_JOBS, ""))
        for event in events:
            if event.error and str(event.error) == known:
                self.errors[_JOBS] = event.error
            else:
                self._tell(event)
        return wait_s

    async def _watch_reminders(self) -> None:
        while True:
            try:
                fired = await in_thread(partial(fire_reminders, self._familiar, "daemon"))
            except Exception as error:  # noqa: BLE001  # the file may be readable at the next look
                if _REMINDING not in self.errors:
                    self._tell(failed(_REMINDING, as_failure(error), 0))
            else:
                self.errors.pop(_REMINDING, None)
                for item in fired:
                    self._note(reminder_line(item))
            await asyncio.sleep(REMIND_S)

    async def _write(self) -> None:
        report = await write_memory(self._familiar, on_wait=self._note, which=SAID_HERE)
        if report.error is None:
            self.errors.pop(WRITING, None)
        if not self._is_moved(report.error):
            self._print(lambda: self._on_report(report))
        await self._embed()
        if report.error:
            raise report.error

    async def _summarise(self) -> None:
        """Summarise the turns that commands left; `status` reports errors, too."""
        try:
            await self._familiar.summary_keeper.catch_up()
        except Exception as error:  # noqa: BLE001  # periods are made all the same
            self._note(f"The summary of earlier turns stays as it is: {as_failure(error)}")

    async def _make_periods(self, *, at_once: bool) -> None:
        how = ConsolidationOptions(on_wait=self._note)
        done = await Consolidation(self._familiar).run_due(how, at_once=at_once)
        for command, events in done.items():
            self.errors.pop(command, None)
            for event in events:
                self._tell(event)
        await self._embed()

    async def _embed_missing(self) -> None:
        """Compute missing vectors, leaving half of the time to others."""
        while True:
            begun_s = stopwatch_s()
            done = await self._embed_some()
            await asyncio.sleep(stopwatch_s() - begun_s if done else LOOK_S)

    async def _embed_some(self) -> int:
        """Compute some of the vectors that are missing; return how many."""
        try:
            return await in_thread(self._familiar.finder.embed_some)
        except Exception as error:  # noqa: BLE001  # words are found; it is tried again
            if _EMBEDDING not in self.errors:
                self._tell(failed(_EMBEDDING, as_failure(error), 0))
            return 0

    async def _embed(self) -> None:
        try:
            await self._familiar.finder.embed_changes()
        except Exception as error:  # noqa: BLE001  # words are found without it; the next one retries
            self._tell(failed(_EMBEDDING, as_failure(error), 0))
        else:
            self.errors.pop(_EMBEDDING, None)

    def _failed(self, error: FamiliarError) -> None:
        self._tell(failed(WRITING, error, self._writing.retry_in_s))

    def _note(self, message: str) -> None:
        self._tell(Event("note", message))

    def _tell(self, event: Event) -> None:
        if self._is_moved(event.error):
            return
        if event.error:
            self.errors[event.command] = event.error
        self._print(lambda: self._on_event(event))

    def _is_moved(self, error: FamiliarError | None) -> bool:
        """Tell whether the familiar was moved away, an error that `_run` raises at the end."""
        return error is not None and self._runs and self._familiar.paths.moved.exists()

    def _print(self, call: Callable[[], None]) -> None:
        """Print an event; end if nobody can read it any more."""
        try:
            call()
        except OSError as error:
            self._unprinted = error
            self._stop.set()
