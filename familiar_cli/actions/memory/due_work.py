"""Background work that falls due after a turn."""

from __future__ import annotations

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import counted
from familiar_cli.context.trace import Trace
from familiar_cli.context.turn import TurnResult
from familiar_cli.familiar import Familiar
from familiar_cli.llm.wire import is_loopback
from familiar_cli.store.passes import WRITING
from familiar_cli.sync.turns_outgoing import SAID_HERE
from familiar_cli.writing.writer.schedule import WRITER_SLOT, due_turns


def write_later(familiar: Familiar, *, embeds: bool = False) -> int:
    """Schedule a pass if one is due after a reply; return the number of pending turns.

    Args:
        embeds: Also compute vectors of what was written.

    Raises:
        FamiliarError: The history could not be read.
    """
    if familiar.passes.named(WRITING).retry_in_s:
        return 0
    is_local = familiar.models.slot(WRITER_SLOT).preset == "local"
    waiting = due_turns(familiar.history, familiar.config.memory_writer, is_local=is_local)

    async def write() -> None:
        from familiar_cli.actions.memory.write_memory import write_memory

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
        written_turns: Number of turns that are being written to memory.
        problems: Why some of the work could not begin, one sentence each.
        plans: How many plans wait for a person.
    """

    summarised_turns: int = 0
    written_turns: int = 0
    problems: tuple[str, ...] = ()
    plans: int = 0


def begin_due_work(familiar: Familiar, result: TurnResult, *, stays: bool = True) -> DueWork:
    """Start the background work due after a turn; failures do not affect the reply.

    The work runs in its own thread. `familiar.jobs.finish` waits for it, `aclose` interrupts it,
    and interrupted work is done after a later turn. An interrupted turn begins nothing.

    Args:
        familiar: The familiar of the turn.
        result: The result of the turn.
        stays: The program keeps running: new memory gets its vectors at once. Otherwise they are
            left to a later turn, and memory is found by its words until then.
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
        return len(familiar.memory.plan_ids())
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
    slot = familiar.models.slot()
    if slot.preset == "local" or is_loopback(slot.base_url):
        familiar.jobs.stop()


def waiting_words(plans: int, turns: int = 0) -> str:
    """State how many plans are pending, with the command to type; empty if none."""
    if not plans:
        return ""
    rests = f", made from {counted(turns, 'turn')}," if turns else ""
    verb = "awaits" if plans == 1 else "await"
    return f"{counted(plans, 'plan')}{rests} {verb} review: `familiar review list`"
