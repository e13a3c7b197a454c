"""Write a familiar's memory, on demand or as background work after a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence  # noqa: TC003  # as the next
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.text import counted, typed
from familiar_cli.context.turn import TurnResult  # noqa: TC001  # public functions can be asked for their types
from familiar_cli.familiar import Familiar  # noqa: TC001  # public functions can be asked for their types
from familiar_cli.llm.slots import PLAN_TOKENS, ResolvedSlot, check_usable, for_plans
from familiar_cli.store.passes import PATIENCE_S, WRITING
from familiar_cli.sync.turns_outgoing import ALL, SAID_HERE, UnreadFilter, count_unread_turns
from familiar_cli.writing.review.pending import pending_ids
from familiar_cli.writing.writer.contract import WriterReport  # noqa: TC001  # public functions can be asked for their types
from familiar_cli.writing.writer.memory_writer import MemoryWriter, Mode, WriterSettings, due_turns

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace


WRITER_SLOT: Final = "memory_writer"
SOME_TURNS: Final = 2_000
"""From so many turns the cost of a long backlog is estimated before it is written."""


def memory_writer(
    familiar: Familiar, *, on_wait: Callable[[str], None] | None = None
) -> MemoryWriter:
    """Build the memory writer of a familiar.

    Raises:
        ConfigError: Something is missing to talk to its model.
    """
    slot = familiar.models.slot(WRITER_SLOT)
    check_usable(slot)
    return MemoryWriter(
        familiar.memory,
        familiar.history,
        familiar.models.open(WRITER_SLOT, on_wait=on_wait),
        familiar.counter,
        familiar.runs,
        who=familiar.who,
        settings=_writer_settings(familiar, slot),
        zone=familiar.zone,
        rules=familiar.privacy.rules,
        channel_context_lookup=familiar.channels.label,
        me=familiar.me(),
        on_answer=partial(familiar.costs.add, WRITING),
    )


def of_channels(familiar: Familiar, channels: Sequence[str]) -> UnreadFilter:
    """Return a filter for turns of these channels, or of all if none is named.

    Raises:
        NotFoundError: Nothing was said in one of them.
    """
    if not channels:
        return ALL
    known = {channel.channel_id for channel in familiar.history.channels()}
    for channel in channels:
        if channel not in known:
            raise NotFoundError(
                f"There are no turns in channel {channel!r}; nothing was written",
                hint="Run `familiar history ls`.",
            )
    return UnreadFilter(frozenset(channels))


def imported_turns(familiar: Familiar, which: UnreadFilter = ALL) -> int:
    """Count the imported turns waiting to be written."""
    here = replace(which, said_here=True)
    return count_unread_turns(familiar.history, which) - count_unread_turns(familiar.history, here)


def _writer_settings(familiar: Familiar, slot: ResolvedSlot) -> WriterSettings:
    set_to = familiar.config.memory_writer
    reply_tokens, temperature = for_plans(slot, familiar.config.llm, PLAN_TOKENS[WRITER_SLOT])
    return WriterSettings(
        batch_turns=set_to.batch_turns,
        batch_tokens=set_to.batch_tokens,
        quiet_gap_s=set_to.idle_timeout,
        reply_tokens=reply_tokens,
        temperature=temperature,
        structured=set_to.structured,
        numbering=familiar.numbering,
    )


async def write_memory(
    familiar: Familiar,
    mode: Mode = "apply",
    *,
    wait_s: float = PATIENCE_S,
    on_wait: Callable[[str], None] = lambda _: None,
    on_interrupt: Callable[[WriterReport], None] = lambda _: None,
    **which: Any,  # noqa: ANN401  # as `MemoryWriter.run` takes it
) -> WriterReport:
    """Run one pass exclusively, and return its report.

    Cancellation takes effect between two steps. A model failure is reported, not raised.

    Args:
        familiar: The familiar.
        mode: `apply`, `review` or `dry_run`.
        wait_s: Maximum wait for another process.
        on_wait: Called once with who is waited for.
        on_interrupt: Called with what was done before the pass was cancelled.
        **which: Which turns; see `MemoryWriter.run`.

    Raises:
        ConfigError: Something is missing to talk to the model.
        LockedError: Another process is still at it.
        FamiliarError: The history, the memory or the record cannot be used.
    """

    async def work() -> WriterReport:
        try:
            return await writer.run(mode, **which)
        except asyncio.CancelledError:
            on_interrupt(writer.report)
            raise
        finally:
            if (turns := writer.report.turns_covered) and mode != "dry_run":
                familiar.costs.add(WRITING, turns=turns)

    if mode == "dry_run":
        writer = memory_writer(familiar, on_wait=on_wait)
        return await work()
    writing = familiar.passes.named(WRITING)
    with writing.recording():
        familiar.instance  # noqa: B018  # what is written names the instance, made if need be
        writer = memory_writer(familiar, on_wait=on_wait)
    return await writing.run(
        work, wait_s=wait_s, on_wait=on_wait, error_in=lambda report: report.error
    )


async def write_ended(familiar: Familiar, channel_id: str) -> str:
    """Write the pending turns of an ended channel; return what was done.

    On any failure, the turns stay unread for a later pass.
    """
    which = UnreadFilter(frozenset({channel_id}), said_here=True)
    waiting = count_unread_turns(familiar.history, which)
    if not waiting:
        return ""
    try:
        report = await write_memory(familiar, which=which)
        reason = str(report.error or "")
    except FamiliarError as error:
        reason = str(error)
    left = count_unread_turns(familiar.history, which)
    done = f"{counted(waiting - left, 'turn')} of {channel_id} written into memory"
    if not left:
        return f"{done}."
    stays = f"{counted(left, 'turn')} of {channel_id} not yet in memory"
    why = f" ({reason})" if reason else ""
    return f"{done}; {stays}{why}. Run `familiar write-memory --channel {typed(channel_id)}` later."


def write_later(familiar: Familiar, *, embeds: bool = False) -> int:
    """Schedule a pass if one is due after a reply; return the number of pending turns.

    Args:
        familiar: The familiar.
        embeds: Also compute vectors of what was written.

    Raises:
        FamiliarError: The history could not be read.
    """
    if familiar.passes.named(WRITING).retry_in_s:
        return 0
    is_local = familiar.models.slot(WRITER_SLOT).preset == "local"
    waiting = due_turns(familiar.history, familiar.config.memory_writer, is_local=is_local)

    async def write() -> None:
        report = await write_memory(familiar, wait_s=0, which=SAID_HERE)
        if embeds:
            await familiar.finder.embed_changes()
        if report.error:
            raise report.error

    return waiting if waiting and familiar.jobs.add(WRITER_SLOT, write) else 0


class DueWork(Struct, frozen=True):
    """Background work that was started.

    Args:
        summarised_turns: How many turns have left the prompts and are being summarised.
        written_turns: From how many turns memory is being written.
        problems: What could not begin, a sentence each.
        plans: How many plans wait for a person.
    """

    summarised_turns: int = 0
    written_turns: int = 0
    problems: tuple[str, ...] = ()
    plans: int = 0


def begin_due_work(familiar: Familiar, result: TurnResult, *, stays: bool = True) -> DueWork:
    """Start the background work due after a turn; failures do not affect the reply.

    The work goes on in a thread of its own. `familiar.jobs.finish` waits for it, `aclose` breaks
    it off, and what was broken off is done after a later turn. An interrupted turn begins nothing.

    Args:
        familiar: Who took the turn.
        result: What came of it.
        stays: The program goes on: memory that is written gets its vectors at once. One that ends
            leaves them to a later turn, and memory is found by its words until then.
    """
    if result.interrupted:
        return DueWork()
    familiar.finder.catch_up_later(familiar.jobs)  # a second's work, which nobody need be told of
    summarised, problem = _tidy_summary(familiar, result.trace)
    written, another = _tidy_memory(familiar, stays=stays)
    familiar.jobs.start()
    problems = tuple(p for p in (problem, another) if p)
    return DueWork(summarised, written, problems, _count_plans(familiar))


def _count_plans(familiar: Familiar) -> int:
    try:
        return len(pending_ids(familiar.memory))
    except FamiliarError:
        return 0  # `doctor` says what is wrong with the memory


def leave_due_work(familiar: Familiar, result: TurnResult) -> None:
    """Leave the work due after a turn to a daemon or a later turn.

    Raises:
        FamiliarError: It could not be written down up to where a summary is wanted.
    """
    if not result.interrupted:
        familiar.summary_keeper.note(result.trace)


def _tidy_summary(familiar: Familiar, trace: Trace) -> tuple[int, str]:
    try:
        due = familiar.summary_keeper.look_back(trace)
    except FamiliarError as error:
        return 0, f"The summary of earlier turns is unchanged: {error}"
    return (due.turns if due else 0), ""


def _tidy_memory(familiar: Familiar, *, stays: bool) -> tuple[int, str]:
    try:
        return write_later(familiar, embeds=stays), ""
    except FamiliarError as error:
        return 0, f"Memory is unchanged: {error}"


def make_way(familiar: Familiar) -> None:
    """Pause background work for a new turn if the model cannot run both.

    On a server elsewhere it goes on beside the turn. What was stopped is done after a later turn.
    """
    from familiar_cli.llm.wire import is_loopback

    slot = familiar.models.slot()
    if slot.preset == "local" or is_loopback(slot.base_url):
        familiar.jobs.stop()
