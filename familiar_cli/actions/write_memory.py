"""When and how a familiar's memory is written: now, after a reply, or by whoever watches."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.consolidate import tend
from familiar_cli.llm.slots import check_usable, for_plans
from familiar_cli.passes.lapses import WRITING
from familiar_cli.passes.turnstile import one_at_a_time
from familiar_cli.writer.after_reply import due_turns
from familiar_cli.writer.memory_writer import MemoryWriter, WriterSettings
from familiar_cli.writer.scheduler import MemoryWriterScheduler
from familiar_cli.writer.watch import stopped_by_signals, until, watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.errors import FamiliarError
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.writer.memory_writer import Mode
    from familiar_cli.writer.types import Report

WRITER_SLOT: Final = "memory_writer"
_PATIENCE_S: Final = 3600.0  # with another process that writes memory
_PLAN_TOKENS: Final = 4096  # of a reply that says what to remember


def memory_writer(
    familiar: Familiar, *, on_wait: Callable[[str], None] | None = None
) -> MemoryWriter:
    """Return what turns the history into memory.

    Raises:
        ConfigError: Something is missing to talk to its model.
    """
    slot = familiar.slot(WRITER_SLOT)
    check_usable(slot)
    return MemoryWriter(
        familiar.memory,
        familiar.history,
        familiar.model(WRITER_SLOT, on_wait=on_wait),
        familiar.counter,
        familiar.runs,
        who=familiar.who,
        settings=_writer_settings(familiar, slot),
        zone=familiar.zone,
        private=familiar.channels.private,
        channel_context_lookup=familiar.channel_label,
    )


def _writer_settings(familiar: Familiar, slot: ResolvedSlot) -> WriterSettings:
    set_to = familiar.config.memory_writer
    reply_tokens, temperature = for_plans(slot, familiar.config.llm, _PLAN_TOKENS)
    return WriterSettings(
        batch_turns=set_to.batch_turns,
        batch_tokens=set_to.batch_tokens,
        quiet_gap_s=set_to.idle_timeout,
        share_private=set_to.dm == "share",
        reply_tokens=reply_tokens,
        temperature=temperature,
        structured=set_to.structured,
    )


def write_now(
    familiar: Familiar,
    mode: Mode = "apply",
    *,
    on_wait: Callable[[str], None] = lambda _: None,
    **which: Any,  # noqa: ANN401  # as `MemoryWriter.run` takes it
) -> Report:
    """Make one pass and return what came of it; Ctrl-C ends it between two steps.

    Args:
        familiar: Whose memory.
        mode: `apply`, `review` or `dry_run`.
        on_wait: Told what is waited for.
        **which: Which turns; see `MemoryWriter.run`.

    Raises:
        ConfigError: Something is missing to talk to the model.
        LockedError: Another process is still at it.
        FamiliarError: The history, the memory or the record cannot be used.
    """
    with nullcontext() if mode == "dry_run" else familiar.runs.lapses.noting(WRITING):
        writer = memory_writer(familiar, on_wait=on_wait)
    making = _pass(familiar, writer, mode, wait_s=_PATIENCE_S, on_wait=on_wait, **which)
    try:
        return asyncio.run(making)
    except KeyboardInterrupt:
        if not writer.report.interrupted:
            raise
        return writer.report


def write_later(familiar: Familiar) -> int:
    """Take on a pass as a job if one is due after a reply; return how many turns wait for it.

    Raises:
        FamiliarError: The history could not be read.
    """
    set_to = familiar.config.memory_writer
    waiting = due_turns(
        familiar.history,
        turn_threshold=set_to.turn_threshold,
        idle_timeout=set_to.idle_timeout,
        switch=set_to.auto,
        is_local=familiar.slot(WRITER_SLOT).preset == "local",
        failed_at=familiar.runs.lapses.failed_at(WRITING),
    )

    async def write() -> None:
        with familiar.runs.lapses.noting(WRITING):
            writer = memory_writer(familiar)
        report = await _pass(familiar, writer)
        if report.error:
            raise report.error

    return waiting if waiting and familiar.jobs.add(WRITER_SLOT, write) else 0


def stay(
    familiar: Familiar,
    *,
    once: bool,
    poll_s: float,
    on_report: Callable[[Report], None],
    on_note: Callable[[str], None],
) -> FamiliarError | None:
    """Write memory while others talk, until a signal comes; return the last pass's failure.

    Days, weeks, months, years and digests are made, too, when they are due.

    Args:
        familiar: Whose memory.
        once: Catch up and end.
        poll_s: How often to look for new turns.
        on_report: Told of each pass.
        on_note: Told what is waited for, and what went wrong besides.

    Raises:
        ConfigError: Something is missing to talk to the model.
    """
    with familiar.runs.lapses.noting(WRITING):
        writer = memory_writer(familiar, on_wait=on_note)
    failed: list[FamiliarError | None] = [None]

    async def write() -> None:
        failed[0] = None
        report = await _pass(familiar, writer, wait_s=_PATIENCE_S, on_wait=on_note)
        on_report(report)
        if report.error:
            raise report.error

    def on_error(error: FamiliarError) -> None:
        failed[0] = error
        on_note(f"error: {error}")

    async def run() -> None:
        set_to = familiar.config.memory_writer
        scheduler = MemoryWriterScheduler(
            write,
            familiar.history.unsummarised_count,
            turn_threshold=set_to.turn_threshold,
            idle_timeout=set_to.idle_timeout,
            on_error=on_error,
        )
        stop = asyncio.Event()
        with stopped_by_signals(stop):
            if once:
                await until(stop, scheduler)
                await tend(familiar, stop, once=True, on_note=on_note)
                return
            tending = asyncio.ensure_future(
                tend(familiar, stop, is_busy=lambda: scheduler.running, on_note=on_note)
            )
            try:
                newest = familiar.history.newest_id
                await watch(scheduler, newest, stop, poll_s=poll_s, on_error=on_error)
            finally:
                tending.cancel()
                with suppress(asyncio.CancelledError):
                    await tending

    asyncio.run(run())
    return failed[0]


async def _pass(
    familiar: Familiar,
    writer: MemoryWriter,
    mode: Mode = "apply",
    *,
    wait_s: float = 0.0,
    on_wait: Callable[[str], None] = lambda _: None,
    **which: Any,  # noqa: ANN401  # as `MemoryWriter.run` takes it
) -> Report:
    """Make one pass, while no other process does."""
    if mode == "dry_run":
        return await writer.run(mode, **which)
    lapses = familiar.runs.lapses
    async with one_at_a_time(familiar.paths.writer_lock, wait_s, on_wait):
        with lapses.noting(WRITING):
            report = await writer.run(mode, **which)
        lapses.note(WRITING, report.error)
    return report
