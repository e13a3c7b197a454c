"""Write a familiar's memory, on demand or as background work after a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.text import counted, typed
from familiar_cli.context.trace import files_shown
from familiar_cli.familiar import Familiar
from familiar_cli.llm.slots import PLAN_TOKENS, ResolvedSlot, check_usable, for_plans
from familiar_cli.store.memory.layout import LORE_DIR
from familiar_cli.store.passes import PATIENCE_S, WRITING
from familiar_cli.sync.turns_outgoing import ALL, UnreadFilter, count_unread_turns
from familiar_cli.writing.writer.contract import WriterReport
from familiar_cli.writing.writer.memory_writer import MemoryWriter, Mode, WriterSettings
from familiar_cli.writing.writer.schedule import WRITER_SLOT

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
        lore_shown=partial(files_shown, familiar.paths.traces, below=f"{LORE_DIR}/"),
    )


def remember_turn(familiar: Familiar, turn_id: int) -> str:
    """Write a message to memory at once, as a quote with its turn as evidence; return the file.

    Raises:
        NotFoundError: There is no such turn.
        RefusedError: A rule refuses it, for example because memory holds it already.
        ConfigError: Something is missing to talk to the writer's model.
    """
    turn = familiar.history.turn(turn_id)
    if turn is None:
        raise NotFoundError(
            f"There is no turn {turn_id}; nothing was changed", hint="Run `familiar history show`."
        )
    return memory_writer(familiar).remember(turn)


def remember_text(familiar: Familiar, channel_id: str, text: str) -> str:
    """Write the newest message of a channel with this text to memory; see `remember_turn`."""
    turn = familiar.history.said_in(channel_id, text)
    if turn is None:
        raise NotFoundError("This message is not in the history; nothing was remembered")
    return remember_turn(familiar, turn.id)


def of_channels(familiar: Familiar, channels: Sequence[str]) -> UnreadFilter:
    """Return a filter for turns of these channels, or of all if none is named.

    Raises:
        NotFoundError: Nothing was said in one of them.
    """
    if not channels:
        return ALL
    channel_ids = {channel.channel_id for channel in familiar.history.channels()}
    for channel in channels:
        if channel not in channel_ids:
            raise NotFoundError(
                f"There are no turns in channel {channel!r}; nothing was written",
                hint="Run `familiar history list`.",
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
